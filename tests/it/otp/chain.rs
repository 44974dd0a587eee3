//! Codes over several channels: refusals, silence, receipts, crashes.

use postrider_actors::Clock;
use serde_json::{Value, json};

use crate::otp::{PHONE, verify};
use crate::support::{Answer, Api, Reply, Sink, TestServer, eventually};

const SMS: &str = "/admin/v1/workspaces/acme/sms";
const CHAIN: [&str; 3] = ["messaging", "sms", "email"];

async fn tries(api: &Api, id: &str) -> Vec<(String, String)> {
    let row = api.get(&format!("/v1/otp/{id}")).await.ok();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    let tries = row["tries"].as_array().unwrap().iter();
    tries.map(|it| (text(it, "channel"), text(it, "status"))).collect()
}

async fn until(api: &Api, id: &str, expected: &[(&str, &str)]) {
    let is = async || {
        let tries = tries(api, id).await;
        let tries = tries.iter().map(|(channel, status)| (channel.as_str(), status.as_str()));
        tries.eq(expected.iter().copied()).then_some(())
    };
    eventually(&format!("{expected:?}"), is).await;
}

async fn send(api: &Api, channels: &[&str]) -> String {
    let body = json!({"phone": PHONE, "channels": channels, "email": "ada@example.com"});
    api.post("/v1/otp/send", body).await.ok()["request_id"].as_str().unwrap().to_owned()
}

async fn script(api: &Api, channel: &str, outcome: &str) {
    let body = json!({"to": "*", "channel": channel, "outcome": outcome});
    api.post("/v1/sandbox/outcomes", body).await.ok();
}

#[tokio::test]
async fn a_code_arrives_over_the_next_channel() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let refused = api.post("/v1/otp/send", json!({"phone": PHONE, "channels": ["sms"]})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "channel_not_configured");
    let set = admin.put(SMS, json!({"kind": "sandbox", "sender": "Acme"})).await.ok();
    assert_eq!(
        (&set["kind"], &set["callback_path"]),
        (&json!("sandbox"), &json!("/channels/sms/acme"))
    );
    let id = send(&api, &CHAIN).await;
    until(&api, &id, &[("messaging", "delivered")]).await;
    script(&api, "messaging", "failed").await;
    let id = send(&api, &CHAIN).await;
    until(&api, &id, &[("messaging", "failed"), ("sms", "delivered")]).await;
    let newest = api.get("/v1/sandbox/messages?limit=1").await.ok()["data"][0].clone();
    assert_eq!((&newest["channel"], &newest["kind"]), (&json!("sms"), &json!("otp")));
    let row = api.get(&format!("/v1/otp/{id}")).await.ok();
    assert_eq!((&row["channel"], &row["delivery_status"]), (&json!("sms"), &json!("delivered")));
    let code = newest["code"].as_str().unwrap();
    assert_eq!(verify(&api, &id, code).await.ok()["verified"], true);

    script(&api, "sms", "silent").await;
    let id = send(&api, &CHAIN).await;
    until(&api, &id, &[("messaging", "failed"), ("sms", "sent")]).await;
    server.advance(31).await;
    until(&api, &id, &[("messaging", "failed"), ("sms", "sent"), ("email", "sent")]).await;
    let newest = api.get("/v1/sandbox/messages?limit=1").await.ok()["data"][0].clone();
    assert_eq!(
        (&newest["channel"], &newest["email"]),
        (&json!("email"), &json!("ada@example.com"))
    );
    let events = api.get("/v1/events?type=otp.try_ended&limit=200").await.ok();
    let last = events["data"].as_array().unwrap().last().unwrap()["data"].clone();
    assert_eq!(
        (&last["channel"], &last["status"], &last["next"]),
        (&json!("email"), &json!("sent"), &Value::Null)
    );
}

#[tokio::test]
async fn a_workspace_has_a_chain_of_its_own() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let path = "/admin/v1/workspaces/acme/otp-channels";
    let alone = json!({"channels": [{"channel": "messaging", "timeout_seconds": 30}]});
    assert_eq!(admin.get(path).await.ok(), alone);
    admin.put(SMS, json!({"kind": "sandbox"})).await.ok();
    let chain = json!({"channels": [{"channel": "sms", "timeout_seconds": 10}, "messaging"]});
    let set = admin.put(path, chain).await.ok();
    assert_eq!(set["channels"][0], json!({"channel": "sms", "timeout_seconds": 10}));
    let sent = api.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    until(&api, sent["request_id"].as_str().unwrap(), &[("sms", "delivered")]).await;
    for (channels, field) in [
        (json!([]), "channels"),
        (json!(["fax"]), "channels[0]"),
        (json!(["sms", "sms"]), "channels[1]"),
        (json!([{"channel": "sms", "timeout_seconds": 9}]), "channels[0].timeout_seconds"),
        (json!(["email"]), "email"),
    ] {
        let body = json!({"phone": PHONE, "channels": channels});
        let message = api.post("/v1/otp/send", body).await.check(400, "VALIDATION_ERROR");
        assert!(message["message"].to_string().contains(field), "{message}");
    }
}

/// Posts a receipt, signed with this secret, with half a sign in a field that the server ignores.
async fn receipt(server: &TestServer, id: &str, status: &str, secret: &str) -> Reply {
    let body = json!({"id": id, "status": status, "error_code": 30007, "note": "HALF"});
    let body = body.to_string().replace("HALF", r"\ud83d");
    let verifier = standardwebhooks::Webhook::new(secret).unwrap();
    let at = Clock::system().real().as_secs();
    let signature = verifier.sign("r1", i64::try_from(at).unwrap(), body.as_bytes()).unwrap();
    let headers = [
        ("webhook-id", "r1"),
        ("webhook-timestamp", &*at.to_string()),
        ("webhook-signature", &signature),
        ("Content-Type", "application/json"),
    ];
    server.stranger().call("POST", "/channels/sms/acme", &headers, body.as_bytes()).await
}

#[tokio::test]
async fn a_gateway_is_posted_signed_and_its_receipts_count() {
    let server = TestServer::start().await;
    let (api, admin, sink) = (server.workspace("acme").await, server.admin(), Sink::start());
    let body = json!({"kind": "http", "url": sink.url("/sms"), "sender": "Acme"});
    let set = admin.put(SMS, body).await.ok();
    let secret = set["secret"].as_str().unwrap();
    assert!(admin.get(SMS).await.ok()["secret"].is_null());
    // The gateway refuses twice, then accepts: that is one try.
    let busy = Answer::Status(503, "Retry-After: 1\r\n");
    sink.next("/sms", [busy.clone(), busy, Answer::Status(200, "")]);
    let id = send(&api, &["sms", "email"]).await;
    for count in 1..=3 {
        let received = sink.wait("/sms", count).await.pop().unwrap();
        assert_eq!(received.id(), format!("{id}:1"));
        let verifier = standardwebhooks::Webhook::new(secret).unwrap();
        let headers = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let headers = headers.map(|name| (name, received.header(name)));
        let mut map = axum::http::HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, value.parse().unwrap());
        }
        verifier.verify(&received.body, &map).unwrap();
        let posted = received.json();
        assert_eq!(
            (&posted["type"], &posted["to"], &posted["from"]),
            (&json!("otp"), &json!(PHONE), &json!("Acme"))
        );
        server.advance(2).await;
    }
    until(&api, &id, &[("sms", "sent")]).await;
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    receipt(&server, &format!("{id}:1"), "delivered", other).await.check(401, "UNAUTHORIZED");
    receipt(&server, "otp_01jd3v0x5n8m7k2q4r6s8t0w2y:1", "delivered", secret).await.ok();
    receipt(&server, &format!("{id}:1"), "delivered", secret).await.ok();
    assert_eq!(tries(&api, &id).await, [("sms".to_owned(), "delivered".to_owned())]);

    // One is refused, one is lost, and a receipt reports one as failed.
    sink.next("/sms", [Answer::Status(400, ""), Answer::Reset, Answer::Status(200, "")]);
    let id = send(&api, &["sms", "email"]).await;
    until(&api, &id, &[("sms", "failed"), ("email", "sent")]).await;
    let id = send(&api, &["sms", "email"]).await;
    until(&api, &id, &[("sms", "unknown")]).await;
    server.advance(31).await;
    until(&api, &id, &[("sms", "unknown"), ("email", "sent")]).await;
    let id = send(&api, &["sms", "email"]).await;
    until(&api, &id, &[("sms", "sent")]).await;
    receipt(&server, &format!("{id}:1"), "failed", secret).await.ok();
    until(&api, &id, &[("sms", "failed"), ("email", "sent")]).await;
    assert_eq!(sink.received("/sms").len(), 6, "none is posted twice");
    admin.delete(SMS).await.ok();
    admin.get(SMS).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_crash_calls_no_gateway_twice_and_the_chain_goes_on() {
    let mut server = TestServer::start().await;
    let (api, admin, sink) = (server.workspace("acme").await, server.admin(), Sink::start());
    admin.put(SMS, json!({"kind": "http", "url": sink.url("/sms")})).await.ok();
    sink.then("/sms", Answer::Hang);
    let id = send(&api, &["sms", "messaging"]).await;
    sink.wait("/sms", 1).await;
    server.crash().await;
    until(&api, &id, &[("sms", "unknown")]).await;
    server.advance(31).await;
    until(&api, &id, &[("sms", "unknown"), ("messaging", "delivered")]).await;
    assert_eq!(sink.received("/sms").len(), 1);
}

#[tokio::test]
async fn a_code_is_written_in_the_language_that_is_asked_for() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let (path, template) = ("/admin/v1/workspaces/acme", |status: &str| {
        json!({"name": "otp_code", "language": "pt", "category": "authentication",
            "status": status, "components": [{"type": "BODY", "text": "{{1}}"}]})
    });
    admin.put(SMS, json!({"kind": "sandbox"})).await.ok();
    let text = json!({"sms": "{code} vale por {minutes} min", "email_subject": "Código",
        "email_text": "{code}"});
    let set = admin.put(&format!("{path}/otp-texts"), json!({"pt_BR": text})).await.ok();
    assert_eq!((&set["pt_BR"], &set["en"]["email_subject"]), (&text, &json!("Your code")));
    assert_eq!(admin.get(&format!("{path}/otp-texts")).await.ok(), set);
    let send = async |language: &str, channels: &[&str]| {
        let body = json!({"phone": PHONE, "language": language, "channels": channels});
        let sent = api.post("/v1/otp/send", body).await.ok();
        let row = api.get(&format!("/v1/otp/{}", sent["request_id"].as_str().unwrap())).await.ok();
        assert_eq!(sent["language"], row["language"]);
        row["language"].as_str().unwrap().to_owned()
    };
    assert_eq!(send("pt_BR", &["sms"]).await, "pt_BR");
    let newest = async || {
        let newest = api.get("/v1/sandbox/messages?limit=1").await.ok()["data"][0].clone();
        newest["code"].as_str().map(|code| (code.to_owned(), newest["text"].clone()))
    };
    let (code, text_sent) = eventually("the message", newest).await;
    assert_eq!(text_sent, format!("{code} vale por 5 min"));
    assert_eq!(send("fr", &["sms"]).await, "en");
    assert_eq!(send("pt_BR", &["messaging"]).await, "en", "no template in it");
    admin.post(&format!("{path}/templates"), template("approved")).await.ok();
    assert_eq!(send("pt_BR", &["messaging"]).await, "pt", "that of its base");
    let row = json!({"status": "paused"});
    admin.send_json("PATCH", &format!("{path}/templates/otp_code/pt"), &row).await.ok();
    server.advance(3600).await;
    assert_eq!(send("pt_BR", &["messaging"]).await, "en", "it may not be sent");
    let wrong = api.post("/v1/otp/send", json!({"phone": PHONE, "language": "pt-BR"})).await;
    assert!(wrong.check(400, "VALIDATION_ERROR")["message"].to_string().contains("language"));
    for (language, text, field) in [
        ("pt", json!({"sms": "code", "email_subject": "s", "email_text": "{code}"}), "pt.sms"),
        ("p", text.clone(), "`p` must"),
    ] {
        let refused = admin.put(&format!("{path}/otp-texts"), json!({language: text})).await;
        let message = refused.check(400, "VALIDATION_ERROR")["message"].to_string();
        assert!(message.contains(field), "{message}");
    }
}

#[tokio::test]
async fn ended_codes_are_found_by_reference_and_channel() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    admin.put(SMS, json!({"kind": "sandbox"})).await.ok();
    for (reference, channels) in [("a", ["messaging"]), ("b", ["sms"])] {
        let body = json!({"phone": PHONE, "reference": reference, "channels": channels});
        let sent = api.post("/v1/otp/send", body).await.ok();
        let id = sent["request_id"].as_str().unwrap();
        let status = if channels == ["sms"] { "delivered" } else { "sent" };
        until(&api, id, &[(channels[0], status)]).await;
    }
    for seconds in [0, 2 * 3600] {
        server.advance(seconds).await;
        for (query, expected) in [
            ("reference=a", vec!["a"]),
            ("reference=b&channel=sms", vec!["b"]),
            ("reference=a&channel=sms", vec![]),
            ("channel=messaging", vec!["a"]),
            ("channel=email", vec![]),
        ] {
            let rows = api.get(&format!("/v1/otp?{query}")).await.ok();
            let rows = rows["data"].as_array().unwrap().iter();
            let found: Vec<_> = rows.map(|row| row["reference"].as_str().unwrap()).collect();
            assert_eq!(found, expected, "{query} after {seconds}");
        }
    }
    let rows = api.get("/v1/otp?reference=b").await.ok();
    let id = rows["data"][0]["request_id"].as_str().unwrap().to_owned();
    let ended = async || {
        let row = api.get(&format!("/v1/otp/{id}")).await.ok();
        (row["status"] == "expired").then_some(row)
    };
    let row = eventually("its end", ended).await;
    assert_eq!(row["tries"][0]["channel"], "sms");
    assert_eq!(row["tries"][0]["status"], "delivered");
}

#[tokio::test]
async fn a_code_is_resent_over_one_channel() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    admin.put(SMS, json!({"kind": "sandbox"})).await.ok();
    let sent = api.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    let id = sent["request_id"].as_str().unwrap();
    let again = json!({"request_id": id, "channel": "sms"});
    let resent = api.post("/v1/otp/resend", again).await.ok();
    assert_eq!(resent["expires_at"], sent["expires_at"]);
    assert!(resent["number_id"].is_null() && sent["number_id"].is_string(), "{resent}");
    until(&api, id, &[("messaging", "sent"), ("sms", "delivered")]).await;
    let codes = api.get("/v1/sandbox/messages?limit=2").await.ok();
    assert_eq!(codes["data"][0]["code"], codes["data"][1]["code"]);
    let by_mail = json!({"request_id": id, "channel": "email"});
    let refused = api.post("/v1/otp/resend", by_mail).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "channel_not_configured");
    let wrong = json!({"request_id": id, "channel": "fax"});
    let message = api.post("/v1/otp/resend", wrong).await.check(400, "VALIDATION_ERROR");
    assert!(message["message"].to_string().contains("channel"), "{message}");
}
