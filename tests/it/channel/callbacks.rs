//! The callbacks of the chat-app channel.

use std::time::Duration;

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, VERIFY_TOKEN, number};
use crate::fake::{Callbacks, Scripted, callback, sign};
use crate::support::{Reply, eventually, millis};

pub fn path(rig: &Rig) -> String {
    rig.number["callback_path"].as_str().unwrap().to_owned()
}

async fn post_signed(rig: &Rig, signature: &str, body: &[u8]) -> Reply {
    let headers = [("X-Hub-Signature-256", signature), ("Content-Type", "application/json")];
    rig.server.stranger().call("POST", &path(rig), &headers, body).await
}

pub async fn post(rig: &Rig, body: &Value) -> Reply {
    post_raw(rig, body.to_string().as_bytes()).await
}

/// Posts these very bytes, signed.
pub async fn post_raw(rig: &Rig, body: &[u8]) -> Reply {
    post_signed(rig, &sign(APP_SECRET, body), body).await
}

fn report(id: &str, status: &str) -> Value {
    let errors = json!([{"code": 131_026, "title": "Message undeliverable"}]);
    let errors = if status == "failed" { errors } else { Value::Null };
    callback(
        "106",
        json!({"statuses": [{
            "id": "wamid.1", "status": status, "timestamp": "1750857384", "recipient_id": "1",
            "biz_opaque_callback_data": id, "errors": errors,
        }]}),
    )
}

impl Rig {
    /// Returns the number of times that the fake took the first message of a one-time password.
    pub fn taken(&self, request_id: &str) -> u32 {
        self.fake.accepted_of(&format!("{request_id}:1"))
    }

    pub async fn credits(&self) -> Value {
        self.server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
    }
}

#[tokio::test]
async fn the_address_is_verified_by_its_token() {
    let rig = Rig::new().await;
    let stranger = rig.server.stranger();
    let ask = async |mode: &str, token: &str| {
        let query = format!("hub.mode={mode}&hub.verify_token={token}&hub.challenge=1158201444");
        stranger.get(&format!("{}?{query}", path(&rig))).await
    };
    let verified = ask("subscribe", VERIFY_TOKEN).await;
    assert_eq!((verified.status, verified.text().as_str()), (200, "1158201444"));
    assert!(verified.header("content-type").unwrap().starts_with("text/plain"));
    ask("subscribe", "another").await.check(403, "FORBIDDEN");
    ask("subscribe", "").await.check(403, "FORBIDDEN");
    ask("unsubscribe", VERIFY_TOKEN).await.check(403, "FORBIDDEN");
    stranger.get(&path(&rig)).await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn what_is_not_signed_changes_nothing() {
    let rig = Rig::new().await;
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "sent").await;
    let body = report(&format!("{id}:1"), "failed").to_string();
    let good = sign(APP_SECRET, body.as_bytes());
    for bad in ["", "sha256=", &good[7..], &good.replace("sha256", "sha1"), &sign("x", b"y")] {
        let refused = post_signed(&rig, bad, body.as_bytes()).await;
        assert_eq!(refused.header("www-authenticate"), None, "no key is asked for");
        refused.check(401, "UNAUTHORIZED");
    }
    // The signature is of the exact bytes, not of their meaning.
    let spaced = format!("{body} ");
    post_signed(&rig, &good, spaced.as_bytes()).await.check(401, "UNAUTHORIZED");
    rig.becomes(&id, "sent").await;
    assert_eq!(post_signed(&rig, &good, body.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn guessing_is_stopped_and_what_is_signed_rightly_is_not() {
    let rig = Rig::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "6")], number()).await;
    let stranger = rig.server.stranger();
    let ask = async |token: &str| {
        let query = format!("hub.mode=subscribe&hub.verify_token={token}&hub.challenge=1");
        stranger.get(&format!("{}?{query}", path(&rig))).await
    };
    let body = json!({"entry": []}).to_string();
    let (good, wrong) = (sign(APP_SECRET, body.as_bytes()), sign("x", body.as_bytes()));
    let unknown = "/channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y";
    ask("another").await.check(403, "FORBIDDEN");
    ask("another").await.check(403, "FORBIDDEN");
    post_signed(&rig, &wrong, body.as_bytes()).await.check(401, "UNAUTHORIZED");
    post_signed(&rig, "", body.as_bytes()).await.check(401, "UNAUTHORIZED");
    stranger.post(unknown, json!({})).await.check(404, "NOT_FOUND");
    stranger.post("/channels/email/nobody", json!({})).await.check(401, "UNAUTHORIZED");
    ask("another").await.check(429, "RATE_LIMITED");
    post_signed(&rig, &wrong, body.as_bytes()).await.check(429, "RATE_LIMITED");
    post_signed(&rig, "", body.as_bytes()).await.check(429, "RATE_LIMITED");
    stranger.post(unknown, json!({})).await.check(429, "RATE_LIMITED");
    stranger.post("/channels/email/nobody", json!({})).await.check(429, "RATE_LIMITED");
    // A correct request is never refused because of its address.
    assert_eq!(post_signed(&rig, &good, body.as_bytes()).await.status, 200);
    assert_eq!(ask(VERIFY_TOKEN).await.status, 200);
}

#[tokio::test]
async fn a_target_that_is_not_there_is_reported_before_the_body() {
    let rig = Rig::new().await;
    let stranger = rig.server.stranger();
    let signature = sign("x", b"y");
    for (path, header, status, code) in [
        ("/channels/cloud-api/x", "", 404, "NOT_FOUND"),
        ("/channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y", &*signature, 404, "NOT_FOUND"),
        (&*path(&rig), "sha256=1", 401, "UNAUTHORIZED"),
    ] {
        let headers = [("X-Hub-Signature-256", header), ("Content-Length", "3000000")];
        let mut connection = rig.server.connect().await;
        connection.send(stranger.request("POST", path, &headers, b"")).await;
        let refused = connection.reply().await.unwrap();
        assert_eq!(refused.header("connection"), Some("close"));
        refused.check(status, code);
    }
}

#[tokio::test]
async fn only_numbers_of_a_provider_have_an_address() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    let numbers = "/admin/v1/workspaces/acme/numbers";
    let sandbox = admin.post(numbers, json!({"kind": "sandbox"})).await.ok();
    let stranger = rig.server.stranger();
    let unknown = ["num_01jd3v0x5n8m7k2q4r6s8t0w2y", "x", sandbox["id"].as_str().unwrap()];
    for number in unknown {
        let path = format!("/channels/cloud-api/{number}");
        stranger.get(&path).await.check(404, "NOT_FOUND");
        stranger.post(&path, json!({})).await.check(404, "NOT_FOUND");
    }
    let id = rig.number["id"].as_str().unwrap();
    admin.delete(&format!("{numbers}/{id}")).await.ok();
    post(&rig, &json!({})).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_callback_may_be_large_and_odd_but_not_without_end() {
    let rig = Rig::new().await;
    let large = json!({"entry": [], "filler": "x".repeat(2 << 20)});
    assert_eq!(post(&rig, &large).await.status, 200);
    let larger = json!({"entry": [], "filler": "x".repeat(3 << 20)});
    post(&rig, &larger).await.check(413, "PAYLOAD_TOO_LARGE");
    for odd in [json!([]), json!({"entry": 7}), report("otp_01jd3v0x5n8m7k2q4r6s8t0w2y:1", "read")]
    {
        assert_eq!(post(&rig, &odd).await.status, 200, "{odd}");
    }
    post_signed(&rig, &sign(APP_SECRET, b"{"), b"{").await.check(400, "VALIDATION_ERROR");
}

/// Has the fake report these statuses of every message.
pub fn report_always(rig: &Rig, statuses: &[&str], times: u32) {
    rig.fake.call_back(Some(Callbacks {
        server: rig.server.address(),
        path: path(rig),
        app_secret: APP_SECRET.to_owned(),
        statuses: statuses.iter().map(|&status| status.to_owned()).collect(),
        delay: Duration::from_millis(1),
        times,
    }));
}

#[tokio::test]
async fn reports_may_come_out_of_order_and_twice() {
    let rig = Rig::new().await;
    report_always(&rig, &["delivered", "sent", "read", "failed"], 2);
    let id = rig.send("+15551234567").await;
    let answered = async || (rig.fake.callback_answers().len() == 8).then_some(());
    eventually("eight answers", answered).await;
    assert_eq!(rig.fake.callback_answers(), [200; 8]);
    rig.becomes(&id, "read").await;
    assert_eq!(rig.taken(&id), 1);
    assert_eq!(rig.credits().await, 999);
}

#[tokio::test]
async fn a_report_settles_what_was_unknown() {
    let rig = Rig::new().await;
    rig.fake.script(None, Scripted::Lost, Some(1));
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "unknown").await;
    assert_eq!(post(&rig, &report(&format!("{id}:1"), "delivered")).await.status, 200);
    rig.becomes(&id, "delivered").await;
    rig.server.advance(60).await;
    assert_eq!(rig.taken(&id), 1, "it is not sent again");
}

#[tokio::test]
async fn a_report_on_the_first_message_is_not_on_the_resend() {
    let rig = Rig::new().await;
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "sent").await;
    let failed = report(&format!("{id}:1"), "failed");
    assert_eq!(post(&rig, &failed).await.status, 200);
    rig.becomes(&id, "failed").await;
    assert_eq!(rig.credits().await, 1000);
    rig.api.post("/v1/otp/resend", json!({"request_id": id})).await.ok();
    rig.becomes(&id, "sent").await;
    assert_eq!(post(&rig, &failed).await.status, 200);
    rig.becomes(&id, "sent").await;
    assert_eq!(rig.credits().await, 999);
    let sent = rig.fake.accepted();
    let names: Vec<_> = sent.iter().map(|it| it.opaque.clone()).collect();
    assert_eq!(names, [format!("{id}:1"), format!("{id}:2")]);
    assert_eq!(post(&rig, &report(&names[1], "delivered")).await.status, 200);
    rig.becomes(&id, "delivered").await;
    let emitted = rig.api.get("/v1/events?type=otp.failed").await.ok();
    assert_eq!(emitted["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_contact_writes_opens_the_window_to_them() {
    let rig = Rig::new().await;
    let text = json!({"to": "+16505551234", "type": "text", "text": "Hello \"you\""});
    let refused = rig.api.post("/v1/messaging/send", &text).await;
    refused.check(422, "UNPROCESSABLE");
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let seconds = millis(now.as_str().unwrap()) / 1000;
    let written = callback(
        "106",
        json!({
            "contacts": [{"profile": {"name": "Sheena"}, "wa_id": "16505551234"}],
            "messages": [{
                "from": "16505551234", "id": "wamid.in", "timestamp": seconds.to_string(),
                "type": "text", "text": {"body": "Hi"},
            }],
        }),
    );
    for _ in 0..2 {
        assert_eq!(post(&rig, &written).await.status, 200);
    }
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    assert_eq!(received["data"].as_array().unwrap().len(), 1, "it is reported once");
    report_always(&rig, &["sent", "delivered", "read"], 1);
    let sent = rig.api.post("/v1/messaging/send", &text).await.ok();
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    let seen = async || (rig.api.get(&path).await.ok()["status"] == "read").then_some(());
    eventually("read", seen).await;
    let body = rig.fake.accepted().pop().unwrap().body;
    let expected = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual", "to": "16505551234",
        "type": "text", "text": {"preview_url": false, "body": "Hello \"you\""},
        "biz_opaque_callback_data": sent["message_id"],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_templates_status_follows_the_channel() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    let templates = "/admin/v1/workspaces/acme/templates";
    let template = json!({
        "name": "spring_sale", "language": "en", "category": "marketing",
        "components": [{"type": "BODY", "text": "Hello"}],
    });
    admin.post(templates, template).await.ok();
    let update = json!({"entry": [{"id": "107", "changes": [{
        "field": "message_template_status_update",
        "value": {
            "event": "PAUSED", "message_template_name": "spring_sale",
            "message_template_language": "en",
        },
    }]}]});
    assert_eq!(post(&rig, &update).await.status, 200);
    assert_eq!(admin.get(templates).await.ok()["data"][0]["status"], "paused");
}

/// Returns a callback of a text to a number that was written just now. A message is known for some
/// days of its own time.
pub fn wrote(phone_number_id: &str, from: &str, id: &str, text: &str) -> Value {
    let now = postrider_actors::Clock::system().now().as_secs();
    callback(
        phone_number_id,
        json!({"messages": [{
            "from": from, "id": id, "timestamp": now.to_string(), "type": "text",
            "text": {"body": text},
        }]}),
    )
}

#[tokio::test]
async fn what_is_about_another_number_of_the_app_is_taken_for_that_one() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    admin.post("/admin/v1/workspaces", json!({"id": "beta", "name": "Beta"})).await.ok();
    admin.post("/admin/v1/workspaces", json!({"id": "gamma", "name": "Gamma"})).await.ok();
    let mut other = crate::channel::cloud_api::number();
    for (workspace, id, app_secret) in
        [("acme", "777", APP_SECRET), ("beta", "888", APP_SECRET), ("gamma", "999", "another")]
    {
        (other["phone_number_id"], other["app_secret"]) = (id.into(), app_secret.into());
        other["phone"] = format!("+15550000{id}").into();
        admin.post(&format!("/admin/v1/workspaces/{workspace}/numbers"), &other).await.ok();
    }
    let mut notice = wrote("777", "16505551234", "a", "to the other one");
    for (number, id) in [("888", "b"), ("999", "c"), ("1000", "d"), ("106", "e")] {
        let entry = wrote(number, "16505551234", id, "Hi")["entry"][0].clone();
        notice["entry"].as_array_mut().unwrap().push(entry);
    }
    for _ in 0..2 {
        assert_eq!(post(&rig, &notice).await.status, 200);
    }
    for (workspace, expected) in [("acme", 2), ("beta", 1), ("gamma", 0)] {
        let (_, api) = rig.server.key(workspace, &["webhooks:manage"], json!({})).await;
        let received = api.get("/v1/events?type=message.received").await.ok();
        assert_eq!(received["data"].as_array().unwrap().len(), expected, "{workspace}");
    }
}

#[tokio::test]
async fn who_opts_out_from_another_number_than_was_written_to_gets_no_marketing() {
    let rig = Rig::new().await;
    let id = rig.send("+2290197123456").await;
    rig.becomes(&id, "sent").await;
    let mut delivered = report(&format!("{id}:1"), "delivered");
    delivered["entry"][0]["changes"][0]["value"]["statuses"][0]["recipient_id"] =
        "22997123456".into();
    assert_eq!(post(&rig, &delivered).await.status, 200);
    assert_eq!(post(&rig, &wrote("106", "22997123456", "s", "STOP")).await.status, 200);
    let template = json!({
        "name": "sale", "language": "en", "category": "marketing",
        "components": [{"type": "BODY", "text": "Hello"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", template).await.ok();
    let sale = json!({
        "to": "+2290197123456", "type": "template",
        "template": {"name": "sale", "language": "en"},
    });
    rig.api.post("/v1/messaging/send", &sale).await.check(422, "UNPROCESSABLE");
}

#[tokio::test]
async fn long_messages_from_strangers_cost_nobody_anything() {
    let rig = Rig::new().await;
    let mut notice = wrote("106", "16505551230", "a", &"\u{1f600}".repeat(65_536));
    let changes = notice["entry"][0]["changes"].as_array_mut().unwrap();
    let messages = changes[0]["value"]["messages"].as_array_mut().unwrap();
    let mut odd = messages[0].clone();
    (odd["id"], odd["type"]) = ("b".into(), "k".repeat(300_000).into());
    let ordinary = wrote("106", "16505551231", "c", "Hi");
    messages.push(odd);
    messages.push(ordinary["entry"][0]["changes"][0]["value"]["messages"][0].clone());
    // A cut emoji is no text; the rest of the callback is good.
    let body = notice.to_string().replace(
        "\"messages\":[",
        r#""messages":[{"from":"1650","id":"x","text":{"body":"\ud83d"}},"#,
    );
    for _ in 0..2 {
        let signature = sign(APP_SECRET, body.as_bytes());
        assert_eq!(post_signed(&rig, &signature, body.as_bytes()).await.status, 200);
    }
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    let rows = received["data"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let data = &row["data"];
        assert!(data["text"].as_str().unwrap().chars().count() <= 4096);
        assert!(data["contact_id"].is_string() && data["conversation_id"].is_string(), "{data}");
    }
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "sent").await;
}
