//! The sandbox: the messages that its number delivered, its clock, and its channel's next outcomes.

use serde_json::{Value, json};

use crate::otp::{PHONE, send, verify};
use crate::support::{Api, TestServer, eventually, millis};

const OUTCOMES: &str = "/v1/sandbox/outcomes";
const CLOCK: &str = "/v1/sandbox/clock";

async fn send_id(api: &Api, phone: &str) -> String {
    let sent = api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    sent["request_id"].as_str().unwrap().to_owned()
}

async fn delivered(api: &Api, query: &str) -> Vec<Value> {
    let messages = api.get(&format!("/v1/sandbox/messages{query}")).await.ok();
    messages["data"].as_array().unwrap().clone()
}

/// Waits until the message of a request has this `delivery_status`.
async fn await_delivery(api: &Api, id: &str, status: &str) {
    let path = format!("/v1/otp/{id}");
    let seen = async || (api.get(&path).await.ok()["delivery_status"] == status).then_some(());
    eventually(status, seen).await;
}

async fn credits(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
}

#[tokio::test]
async fn messages_are_listed_newest_first() {
    let server = TestServer::with(&[("SANDBOX__MESSAGES_KEPT", "4")]).await;
    let api = server.workspace("acme").await;
    for last in 0..6 {
        let phone = format!("+1555012345{}", last % 2);
        let id = send_id(&api, &phone).await;
        await_delivery(&api, &id, "sent").await;
    }
    let all = delivered(&api, "").await;
    assert_eq!(all.len(), 4, "the oldest go first");
    let to: Vec<_> = all.iter().map(|message| message["to"].as_str().unwrap()).collect();
    assert_eq!(to, ["+15550123451", "+15550123450", "+15550123451", "+15550123450"]);
    for message in &all {
        assert!(message["message_id"].as_str().unwrap().starts_with("msg_"));
        assert_eq!(message["kind"], "otp");
        let code = message["code"].as_str().unwrap();
        assert!(message["text"].as_str().unwrap().contains(code));
        millis(message["at"].as_str().unwrap());
    }
    assert_eq!(delivered(&api, "?limit=1").await, all[..1]);
    assert_eq!(delivered(&api, "?limit=1000").await, all);
    assert_eq!(delivered(&api, "?to=%2B15550123450").await.len(), 2);
    assert_eq!(delivered(&api, "?to=+15550123450&limit=1").await, [all[1].clone()]);
    assert_eq!(delivered(&api, "?to=%2B15550999999").await.len(), 0);
    for bad in ["0", "1001", "-1", "x", "", "1.0"] {
        let refused = api.get(&format!("/v1/sandbox/messages?limit={bad}")).await;
        refused.check_field("limit");
    }
    for bad in ["", "x", "15550123450"] {
        api.get(&format!("/v1/sandbox/messages?to={bad}")).await.check_field("to");
    }
    api.get("/v1/sandbox/messages?limit=1&limit=2").await.check_field("limit");
}

#[tokio::test]
async fn the_clock_only_grows_and_outlives_a_restart() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let clock = async || {
        let clock = demo.get(CLOCK).await.ok();
        (millis(clock["now"].as_str().unwrap()), clock["offset_seconds"].as_u64().unwrap())
    };
    let (start, offset) = clock().await;
    assert_eq!(offset, 0);
    let moved = demo.post(CLOCK, json!({"advance_seconds": 3600})).await.ok();
    assert_eq!(moved["offset_seconds"], 3600);
    assert!(millis(moved["now"].as_str().unwrap()) >= start + 3_600_000);
    assert_eq!(demo.post(CLOCK, json!({"advance_seconds": 0})).await.ok()["offset_seconds"], 3600);
    for bad in [
        json!({"advance_seconds": -1}),
        json!({"advance_seconds": 1.5}),
        json!({"advance_seconds": "60"}),
        json!({"advance_seconds": null}),
        json!({"advance_seconds": 31_536_001}),
        json!({}),
    ] {
        demo.post(CLOCK, &bad).await.check_field("advance_seconds");
    }
    assert_eq!(clock().await.1, 3600);
    server.restart().await;
    assert_eq!(clock().await.1, 3600);
    demo.post(CLOCK, json!({"advance_seconds": 10})).await.ok();
    server.crash().await;
    let (now, offset) = clock().await;
    assert!(offset == 3610 && now >= start + 3_610_000);
}

#[tokio::test]
async fn the_clock_has_an_end() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let end = millis("2500-01-01T00:00:00.000Z");
    let year = json!({"advance_seconds": 31_536_000});
    let now = loop {
        let reply = demo.post(CLOCK, &year).await;
        if reply.status == 400 {
            reply.check_field("advance_seconds");
            break millis(demo.get(CLOCK).await.ok()["now"].as_str().unwrap());
        }
        reply.ok();
    };
    assert!(now <= end && end - now < 31_536_000_000, "{now}");
    demo.post(CLOCK, json!({"advance_seconds": 60})).await.ok();
}

#[tokio::test]
async fn without_a_sandbox_there_is_none() {
    let server = TestServer::with(&[("SANDBOX__ENABLED", "false")]).await;
    assert!(!server.data_dir().join("demo.key").exists());
    let workspaces = server.admin().get("/admin/v1/workspaces").await.ok();
    assert_eq!(workspaces["data"], json!([]));
    let api = server.workspace("acme").await;
    for path in ["/v1/sandbox/messages", CLOCK] {
        api.get(path).await.check(404, "NOT_FOUND");
    }
    for path in [CLOCK, OUTCOMES, "/v1/sandbox/inbound"] {
        api.post(path, json!({"advance_seconds": 1})).await.check(404, "NOT_FOUND");
        server.stranger().post(path, json!({})).await.check(401, "UNAUTHORIZED");
    }
    let number = json!({"kind": "sandbox"});
    let refused = server.admin().post("/admin/v1/workspaces/acme/numbers", number).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "not_a_sandbox");
    let document = server.stranger().get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/otp/send"));
    assert!(!paths.keys().any(|path| path.contains("/sandbox/")));
}

#[tokio::test]
async fn a_sandbox_describes_its_routes() {
    let server = TestServer::start().await;
    let document = server.stranger().get("/openapi.json").await.ok();
    assert!(document["paths"][CLOCK].is_object());
}

#[tokio::test]
async fn a_script_must_make_sense() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for (body, field) in [
        (json!({"outcome": "sent"}), "to"),
        (json!({"to": "x", "outcome": "sent"}), "to"),
        (json!({"to": "**", "outcome": "sent"}), "to"),
        (json!({"to": 7, "outcome": "sent"}), "to"),
        (json!({"to": "*"}), "outcome"),
        (json!({"to": "*", "outcome": "lucky"}), "outcome"),
        (json!({"to": "*", "outcome": "Failed"}), "outcome"),
        (json!({"to": "*", "outcome": "failed", "error_code": "x"}), "error_code"),
        (json!({"to": "*", "outcome": "failed", "error_code": -1}), "error_code"),
        (json!({"to": "*", "outcome": "sent", "error_code": 1}), "error_code"),
        (json!({"to": "*", "outcome": "sent", "times": 0}), "times"),
        (json!({"to": "*", "outcome": "sent", "times": -1}), "times"),
        (json!({"to": "*", "outcome": "sent", "times": 1.5}), "times"),
    ] {
        demo.post(OUTCOMES, &body).await.check_field(field);
    }
    let kept = demo.post(OUTCOMES, json!({"to": "*", "outcome": "failed"})).await.ok();
    let script =
        json!({"to": "*", "outcome": "failed", "error_code": 131_026, "channel": "messaging"});
    assert_eq!(kept, script);
}

#[tokio::test]
async fn what_failed_is_paid_back() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for (script, error_code) in [
        (json!({"to": PHONE, "outcome": "failed"}), 131_026),
        (json!({"to": "*", "outcome": "failed", "error_code": 4711}), 4711),
    ] {
        api.post(OUTCOMES, script).await.ok();
        let phone = if error_code == 4711 { "+15550123457" } else { PHONE };
        let id = send_id(&api, phone).await;
        await_delivery(&api, &id, "failed").await;
        let events = api.get("/v1/events?type=otp.failed").await.ok();
        let last = events["data"].as_array().unwrap().last().unwrap()["data"].clone();
        assert_eq!((&last["request_id"], &last["error_code"]), (&json!(id), &json!(error_code)));
        assert_eq!(last["reason"], "channel_refused");
        assert_eq!(credits(&server).await, 100_000);
    }
    assert_eq!(delivered(&api, "").await.len(), 0);
}

#[tokio::test]
async fn a_script_holds_for_its_times_and_a_phones_own_goes_first() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let script = async |to: &str, outcome: &str, times: Value| {
        api.post(OUTCOMES, json!({"to": to, "outcome": outcome, "times": times})).await.ok();
    };
    let deliver = async |phone: &str, expected: &str| {
        let id = send_id(&api, phone).await;
        await_delivery(&api, &id, expected).await;
    };
    script("*", "failed", json!(2)).await;
    deliver(PHONE, "failed").await;
    deliver("+15550123457", "failed").await;
    deliver(PHONE, "sent").await;
    script("*", "failed", Value::Null).await;
    script(PHONE, "sent", json!(1)).await;
    deliver(PHONE, "sent").await;
    deliver(PHONE, "failed").await;
    script("*", "sent", Value::Null).await;
    deliver(PHONE, "sent").await;
    // Nothing was scripted for another workspace.
    script("*", "failed", Value::Null).await;
    let other = server.workspace("other").await;
    let id = send_id(&other, PHONE).await;
    await_delivery(&other, &id, "sent").await;
}

#[tokio::test]
async fn what_is_lost_is_unknown_and_not_paid_back() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    api.post(OUTCOMES, json!({"to": "*", "outcome": "lost"})).await.ok();
    let (id, code) = send(&server, &api, json!({})).await;
    await_delivery(&api, &id, "unknown").await;
    assert_eq!(credits(&server).await, 99_999);
    assert_eq!(verify(&api, &id, &code).await.ok()["verified"], true, "it arrived after all");
}

#[tokio::test]
async fn a_slow_channel_takes_five_seconds_of_engine_time() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    api.post(OUTCOMES, json!({"to": PHONE, "outcome": "slow", "times": 1})).await.ok();
    let id = send_id(&api, PHONE).await;
    let other = send_id(&api, "+15550123457").await;
    await_delivery(&api, &other, "sent").await;
    await_delivery(&api, &id, "queued").await;
    assert_eq!(delivered(&api, "").await.len(), 1, "the slow one holds up no other");
    server.advance(5).await;
    await_delivery(&api, &id, "sent").await;
    assert_eq!(delivered(&api, "").await.len(), 2);
}

#[tokio::test]
async fn an_unreachable_provider_opens_the_breaker_and_comes_back() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    api.post(OUTCOMES, json!({"to": "*", "outcome": "unavailable"})).await.ok();
    let mut waiting = Vec::new();
    let refused = loop {
        let phone = format!("+1555012345{}", waiting.len());
        let reply = api.post("/v1/otp/send", json!({"phone": phone})).await;
        if reply.status != 200 {
            break reply;
        }
        let id = reply.json()["request_id"].as_str().unwrap().to_owned();
        await_delivery(&api, &id, "queued").await;
        waiting.push(id);
        assert!(waiting.len() < 10, "the breaker stays closed");
    };
    let wait = refused.number("retry-after");
    assert!((1..=5).contains(&wait), "{wait}");
    refused.check(503, "SERVICE_UNAVAILABLE");
    let spent = credits(&server).await;
    assert_eq!(spent, 100_000 - waiting.len(), "what was refused is not paid for");
    let resend = api.post("/v1/otp/resend", json!({"request_id": waiting[0]})).await;
    resend.check(503, "SERVICE_UNAVAILABLE");
    // Another workspace's number is separate, and a code that was sent can be verified.
    let other = server.workspace("other").await;
    send_id(&other, PHONE).await;
    assert_eq!(verify(&api, &waiting[0], "x").await.ok()["attempts_remaining"], 4);

    api.post(OUTCOMES, json!({"to": "*", "outcome": "sent"})).await.ok();
    server.advance(10).await;
    for id in &waiting {
        await_delivery(&api, id, "sent").await;
    }
    assert_eq!(delivered(&api, "").await.len(), waiting.len(), "each once");
    send_id(&api, PHONE).await;
}

#[tokio::test]
async fn what_cannot_be_sent_in_its_time_is_paid_back() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    api.post(OUTCOMES, json!({"to": PHONE, "outcome": "unavailable"})).await.ok();
    let id = send_id(&api, PHONE).await;
    assert_eq!(credits(&server).await, 99_999);
    server.advance(300).await;
    await_delivery(&api, &id, "failed").await;
    assert_eq!(credits(&server).await, 100_000);
    let events = api.get("/v1/events?type=otp.failed").await.ok();
    assert_eq!(events["data"][0]["data"]["reason"], "not_sent_in_time");
    assert_eq!(delivered(&api, "").await.len(), 0);
}

#[tokio::test]
async fn what_was_not_sent_goes_out_after_a_restart() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    api.post(OUTCOMES, json!({"to": "*", "outcome": "unavailable"})).await.ok();
    let id = send_id(&api, PHONE).await;
    await_delivery(&api, &id, "queued").await;
    server.restart().await;
    // A restart removes the script.
    await_delivery(&api, &id, "sent").await;
    let code = server.code(&api, PHONE).await;
    assert_eq!(verify(&api, &id, &code).await.ok()["verified"], true);
}
