//! Single messages are sent and read.

use serde_json::{Value, json};

use crate::otp::PHONE;
use crate::support::{Api, Reply, TestServer, eventually, millis};

const SEND: &str = "/v1/messaging/send";
const OUTCOMES: &str = "/v1/sandbox/outcomes";

/// Returns a text to `to`.
pub fn text(to: &str) -> Value {
    json!({"to": to, "type": "text", "text": "Your table is ready."})
}

/// Has a customer write, so that the window to them is open.
pub async fn write(api: &Api, from: &str) {
    api.post("/v1/sandbox/inbound", json!({"from": from, "text": "Hello"})).await.ok();
}

pub async fn send_waiting(api: &Api, body: &Value, headers: &[(&str, &str)]) -> Reply {
    let mut all = vec![("Content-Type", "application/json"), ("Prefer", "wait=30")];
    all.extend_from_slice(headers);
    api.call("POST", SEND, &all, body.to_string().as_bytes()).await
}

async fn read(api: &Api, sent: &Value) -> Value {
    let id = sent["message_id"].as_str().unwrap();
    api.get(&format!("/v1/messaging/messages/{id}")).await.ok()
}

async fn await_status(api: &Api, sent: &Value, status: &str) -> Value {
    let seen = async || Some(read(api, sent).await).filter(|message| message["status"] == status);
    eventually(status, seen).await
}

async fn script(api: &Api, outcome: Value) {
    api.post(OUTCOMES, outcome).await.ok();
}

/// Sends until the breaker is open. All messages were then tried in vain, and that is durable.
/// After a crash, those that were not being tried are unsent, and the others may have been
/// accepted.
async fn await_failed_attempts(api: &Api, message: Value) {
    for _ in 0..2 {
        let refused = async || (api.post(SEND, message.clone()).await.status == 503).then_some(());
        eventually("the breaker is open", refused).await;
    }
}

async fn credits(server: &TestServer) -> u64 {
    let info = server.admin().get("/admin/v1/workspaces/acme").await.ok();
    info["credits"].as_u64().unwrap()
}

/// Returns the types and statuses of the message events so far.
async fn events(api: &Api) -> Vec<String> {
    let events = api.get("/v1/events?limit=200").await.ok();
    let rows = events["data"].as_array().unwrap().iter();
    let kinds = rows.map(|row| row["type"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with("message.")).collect()
}

#[tokio::test]
async fn a_text_is_queued_then_sent() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let sent = api.post(SEND, text(PHONE)).await.ok();
    assert!(sent["message_id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(sent["status"], "queued");
    let message = await_status(&api, &sent, "sent").await;
    assert_eq!((&message["to"], &message["type"]), (&json!(PHONE), &json!("text")));
    assert_eq!((&message["price"], &message["error"]), (&json!(1), &Value::Null));
    let created = millis(message["created_at"].as_str().unwrap());
    assert!(millis(message["sent_at"].as_str().unwrap()) >= created);
    for never in ["delivered_at", "read_at", "failed_at"] {
        assert_eq!(message[never], Value::Null);
    }
    let shown = api.get("/v1/sandbox/messages").await.ok()["data"][0].clone();
    assert_eq!(shown["message_id"], sent["message_id"]);
    assert_eq!((&shown["kind"], &shown["text"]), (&json!("text"), &json!("Your table is ready.")));
    assert_eq!(credits(&server).await, 99_999);
    assert_eq!(events(&api).await, ["message.received", "message.queued", "message.sent"]);
    let emitted = api.get("/v1/events?type=message.sent").await.ok()["data"][0]["data"].clone();
    let expected = json!({
        "message_id": sent["message_id"], "to": PHONE, "type": "text", "status": "sent",
        "number_id": message["number_id"],
    });
    assert!(message["number_id"].as_str().unwrap().starts_with("num_"), "{message}");
    assert_eq!(emitted, expected);
}

#[tokio::test]
async fn who_waits_is_answered_what_the_channel_made_of_it() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    assert_eq!(send_waiting(&api, &text(PHONE), &[]).await.ok()["status"], "sent");
    script(&api, json!({"to": PHONE, "outcome": "failed", "error_code": 131_047})).await;
    let failed = send_waiting(&api, &text(PHONE), &[]).await.ok();
    assert_eq!(failed["status"], "failed");
    let message = read(&api, &failed).await;
    assert_eq!(message["status"], "failed");
    let error = json!({"reason": "channel_refused", "code": 131_047, "details": ""});
    assert_eq!(message["error"], error);
    millis(message["failed_at"].as_str().unwrap());
    assert_eq!(credits(&server).await, 99_999, "what failed is paid back");
    script(&api, json!({"to": PHONE, "outcome": "lost"})).await;
    let unknown = send_waiting(&api, &text(PHONE), &[]).await.ok();
    assert_eq!(unknown["status"], "queued", "nothing else is known of it");
    assert_eq!(read(&api, &unknown).await["status"], "unknown");
    assert_eq!(credits(&server).await, 99_998);
    let emitted = events(&api).await;
    assert_eq!(emitted[3..], ["message.queued", "message.failed", "message.queued"]);
}

#[tokio::test]
async fn who_waits_too_short_is_answered_queued() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": PHONE, "outcome": "slow"})).await;
    let body = text(PHONE).to_string();
    let headers = [("Content-Type", "application/json"), ("Prefer", "respond-async, wait=1")];
    let sent = api.call("POST", SEND, &headers, body.as_bytes()).await.ok();
    assert_eq!(sent["status"], "queued");
    server.advance(5).await;
    await_status(&api, &sent, "sent").await;
}

#[tokio::test]
async fn a_number_that_comes_back_sends_what_waited() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": "*", "outcome": "unavailable", "times": 3})).await;
    let sent = api.post(SEND, text(PHONE)).await.ok();
    for _ in 0..4 {
        server.advance(40).await;
    }
    await_status(&api, &sent, "sent").await;
    let shown = api.get("/v1/sandbox/messages").await.ok();
    assert_eq!(shown["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_failing_number_refuses_and_what_waits_too_long_fails() {
    let server = TestServer::with(&[("MESSAGES__GIVE_UP_SECONDS", "600")]).await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": "*", "outcome": "unavailable"})).await;
    let mut sent = Vec::new();
    let refused = loop {
        let reply = api.post(SEND, text(PHONE)).await;
        if reply.status != 200 {
            break reply;
        }
        sent.push(reply.ok());
        assert!(sent.len() < 50, "the breaker never opened");
    };
    refused.check(503, "SERVICE_UNAVAILABLE");
    assert!(refused.number("retry-after") >= 1);
    server.advance(601).await;
    for message in &sent {
        let message = await_status(&api, message, "failed").await;
        assert_eq!(message["error"]["reason"], "not_sent_in_time");
    }
    assert_eq!(credits(&server).await, 100_000);
}

#[tokio::test]
async fn what_is_unsent_goes_out_after_a_crash() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": "*", "outcome": "unavailable"})).await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(api.post(SEND, text(PHONE)).await.ok());
    }
    await_failed_attempts(&api, text(PHONE)).await;
    server.crash().await;
    for message in &sent {
        let message = await_status(&api, message, "sent").await;
        assert_eq!(message["error"], Value::Null);
    }
    let shown = api.get("/v1/sandbox/messages").await.ok();
    let shown = shown["data"].as_array().unwrap().len();
    assert!(shown >= 5, "{shown}");
    assert_eq!(credits(&server).await, 100_000 - shown as u64);
    server.restart().await;
    assert_eq!(read(&api, &sent[0]).await["status"], "sent");
    let shown = api.get("/v1/sandbox/messages").await.ok();
    assert_eq!(shown["data"].as_array().unwrap().len(), 0, "nothing goes out twice");
}

#[tokio::test]
async fn a_disconnected_number_fails_what_it_has() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": "*", "outcome": "unavailable"})).await;
    let sent = api.post(SEND, text(PHONE)).await.ok();
    let number = read(&api, &sent).await["number_id"].as_str().unwrap().to_owned();
    let path = format!("/admin/v1/workspaces/acme/numbers/{number}");
    server.admin().delete(&path).await.ok();
    await_status(&api, &sent, "failed").await;
    assert_eq!(credits(&server).await, 100_000);
    api.post(SEND, text(PHONE)).await.check(422, "MESSAGING_NOT_CONNECTED");
}

#[tokio::test]
async fn bad_bodies_are_named() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for (body, field) in [
        (json!({"type": "text", "text": "x"}), "to"),
        (json!({"to": "15550123456", "type": "text", "text": "x"}), "to"),
        (json!({"to": PHONE, "text": "x"}), "type"),
        (json!({"to": PHONE, "type": "poll", "text": "x"}), "type"),
        (json!({"to": PHONE, "type": 1, "text": "x"}), "type"),
        (json!({"to": PHONE, "type": "text"}), "text"),
        (json!({"to": PHONE, "type": "text", "text": null}), "text"),
        (json!({"to": PHONE, "type": "text", "text": ""}), "text"),
        (json!({"to": PHONE, "type": "text", "text": 5}), "text"),
        (json!({"to": PHONE, "type": "text", "text": "é".repeat(4097)}), "text"),
    ] {
        api.post(SEND, &body).await.check_field(field);
    }
    assert!(events(&api).await.is_empty());
    assert_eq!(credits(&server).await, 100_000);
    for missing in ["msg_01jd3v0x5n8m7k2q4r6s8t0w2y", "msg_x", "otp_01jd3v0x5n8m7k2q4r6s8t0w2y"] {
        api.get(&format!("/v1/messaging/messages/{missing}")).await.check(404, "NOT_FOUND");
    }
    let (_, other) = server.key("acme", &["contacts:read"], json!({})).await;
    other.post(SEND, text(PHONE)).await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn another_workspaces_message_does_not_exist() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let sent = send_waiting(&api, &text(PHONE), &[]).await.ok();
    let other = server.workspace("acme-2").await;
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    other.get(&path).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn credits_never_go_below_zero() {
    let server = TestServer::with(&[("PRICES__TEXT", "3")]).await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let set = json!({"credits": 7});
    server.admin().put("/admin/v1/workspaces/acme/credits", set).await.ok();
    for _ in 0..2 {
        send_waiting(&api, &text(PHONE), &[]).await.ok();
    }
    api.post(SEND, text(PHONE)).await.check(422, "INSUFFICIENT_CREDITS");
    assert_eq!(credits(&server).await, 1);
}

#[tokio::test]
async fn an_idempotency_key_sends_once() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let key = [("Idempotency-Key", "k")];
    let first = send_waiting(&api, &text(PHONE), &key).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(first.ok()["status"], "sent");
    for _ in 0..2 {
        let again = send_waiting(&api, &text(PHONE), &key).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.ok(), first.ok(), "what was answered, and not what was known at first");
        server.restart().await;
    }
    let other = json!({"to": PHONE, "type": "text", "text": "other"});
    let refused = send_waiting(&api, &other, &key).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "idempotency_mismatch");
    assert_eq!(credits(&server).await, 99_999);
}

#[tokio::test]
async fn a_key_is_taken_while_its_request_waits() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    script(&api, json!({"to": PHONE, "outcome": "slow"})).await;
    let key = [("Idempotency-Key", "k")];
    let waiting = {
        let api = api.clone();
        tokio::spawn(async move { send_waiting(&api, &text(PHONE), &key).await })
    };
    let queued = async || (events(&api).await.len() == 2).then_some(());
    eventually("message.queued", queued).await;
    send_waiting(&api, &text(PHONE), &key).await.check(409, "CONFLICT");
    server.advance(5).await;
    let first = waiting.await.unwrap().ok();
    assert_eq!(first["status"], "sent");
    assert_eq!(send_waiting(&api, &text(PHONE), &key).await.ok(), first);
    let mut short = vec![("Content-Type", "application/json"), ("Prefer", "wait=1")];
    short.push(("Idempotency-Key", "short"));
    let body = text(PHONE).to_string();
    let queued = api.call("POST", SEND, &short, body.as_bytes()).await.ok();
    assert_eq!(queued["status"], "queued");
    server.advance(5).await;
    await_status(&api, &queued, "sent").await;
    let again = api.call("POST", SEND, &short, body.as_bytes()).await.ok();
    assert_eq!(again, queued, "who gave up was answered so");
}

/// Returns a template with these texts in its body.
fn template(to: &str, name: &str, texts: &[&str]) -> Value {
    let parameters: Vec<_> =
        texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let components = json!([{"type": "body", "parameters": parameters}]);
    let components = if texts.is_empty() { json!([]) } else { components };
    let template = json!({"name": name, "language": "en", "components": components});
    json!({"to": to, "type": "template", "template": template})
}

#[tokio::test]
async fn a_template_needs_no_window() {
    let server = TestServer::with(&[("PRICES__TEMPLATE_UTILITY", "2")]).await;
    let demo = server.demo();
    let sent = send_waiting(&demo, &template(PHONE, "order_update", &["Ada", "1234"]), &[]).await;
    let sent = sent.ok();
    assert_eq!(sent["status"], "sent");
    let message = read(&demo, &sent).await;
    assert_eq!((&message["type"], &message["price"]), (&json!("template"), &json!(2)));
    assert_eq!(message["template"], json!({"name": "order_update", "language": "en"}));
    let shown = demo.get("/v1/sandbox/messages").await.ok()["data"][0].clone();
    assert_eq!((&shown["kind"], &shown["message_id"]), (&json!("template"), &sent["message_id"]));
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("Ada") && text.contains("1234") && !text.contains("{{"), "{text}");
    let emitted = demo.get("/v1/events?type=message.queued").await.ok()["data"][0]["data"].clone();
    assert_eq!(emitted["template"], message["template"]);
    let left_out = json!({"to": PHONE, "type": "template", "template": {"name": "welcome"}});
    assert_eq!(send_waiting(&demo, &left_out, &[]).await.ok()["status"], "sent");
    let marketing = template(PHONE, "spring_sale", &[]);
    assert_eq!(send_waiting(&demo, &marketing, &[]).await.ok()["status"], "sent");
}

#[tokio::test]
async fn templates_that_cannot_be_sent_are_refused() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for name in ["promo_pending", "promo_rejected"] {
        demo.post(SEND, template(PHONE, name, &[])).await.check(422, "TEMPLATE_NOT_APPROVED");
    }
    demo.post(SEND, template(PHONE, "nobody_has_it", &[])).await.check(422, "UNPROCESSABLE");
    let mut other_language = template(PHONE, "welcome", &[]);
    other_language["template"]["language"] = json!("de");
    demo.post(SEND, &other_language).await.check(422, "UNPROCESSABLE");
    for (body, named) in [
        (template(PHONE, "order_update", &[]), "template.components"),
        (template(PHONE, "order_update", &["Ada"]), "template.components[0].parameters"),
        (template(PHONE, "welcome", &["Ada"]), "template.components[0].parameters"),
        (json!({"to": PHONE, "type": "template"}), "template"),
        (json!({"to": PHONE, "type": "template", "template": null}), "template"),
        (json!({"to": PHONE, "type": "template", "template": "x"}), "template"),
        (json!({"to": PHONE, "type": "template", "template": ["welcome", "en", []]}), "template"),
        (json!({"to": PHONE, "type": "template", "template": {"name": 1}}), "template.name"),
    ] {
        demo.post(SEND, &body).await.check_field(named);
    }
    let nameless = json!({"to": PHONE, "type": "template", "template": {}});
    let refused = demo.post(SEND, &nameless).await.check(400, "VALIDATION_ERROR");
    assert!(refused["message"].as_str().unwrap().contains("name"));
    let broken = json!({"to": PHONE, "type": "template",
        "template": {"name": "welcome", "language": "en", "components": {}}});
    demo.post(SEND, &broken).await.check_field("template.components");
    assert!(events(&demo).await.is_empty());
}

#[tokio::test]
async fn an_unsent_template_goes_out_after_a_crash_as_it_was() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    script(&demo, json!({"to": "*", "outcome": "unavailable"})).await;
    let sent = demo.post(SEND, template(PHONE, "order_update", &["Ada", "1234"])).await.ok();
    await_failed_attempts(&demo, template(PHONE, "order_update", &["Ada", "5678"])).await;
    let path = "/admin/v1/workspaces/demo/templates/order_update/en";
    let paused = json!({"status": "paused"});
    server.admin().send_json("PATCH", path, &paused).await.ok();
    server.crash().await;
    await_status(&demo, &sent, "sent").await;
    let shown = demo.get("/v1/sandbox/messages").await.ok();
    let mut shown = shown["data"].as_array().unwrap().iter();
    let shown = shown.find(|shown| shown["message_id"] == sent["message_id"]).unwrap();
    assert_eq!(shown["kind"], "template");
    assert!(shown["text"].as_str().unwrap().contains("1234"));
}
