//! The 24-hour window for free text.

use serde_json::json;

use crate::messages::{send_waiting, text, write};
use crate::otp::PHONE;
use crate::support::{Api, TestServer};

const INBOUND: &str = "/v1/sandbox/inbound";
const OTHER: &str = "+15550123457";

async fn is_open(api: &Api, to: &str) -> bool {
    let reply = send_waiting(api, &text(to), &[]).await;
    if reply.status == 200 {
        return true;
    }
    let refused = reply.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    false
}

#[tokio::test]
async fn it_opens_when_the_customer_writes_and_for_a_day() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    assert!(!is_open(&api, PHONE).await);
    write(&api, PHONE).await;
    assert!(is_open(&api, PHONE).await);
    assert!(!is_open(&api, OTHER).await, "each customer has their own");
    server.advance(86_000).await;
    server.crash().await;
    assert!(is_open(&api, PHONE).await, "a crash does not close it");
    server.advance(401).await;
    assert!(!is_open(&api, PHONE).await);
    write(&api, PHONE).await;
    assert!(is_open(&api, PHONE).await);
    let other = server.workspace("acme-2").await;
    assert!(!is_open(&other, PHONE).await, "each workspace has its own");
}

#[tokio::test]
async fn what_a_customer_writes_is_an_event() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"from": PHONE, "text": "Is it \"open\"?", "name": "Ada"});
    let received = api.post(INBOUND, body).await.ok();
    let events = api.get("/v1/events?type=message.received").await.ok();
    let event = &events["data"][0];
    assert_eq!(event["type"], "message.received");
    let data = &event["data"];
    assert_eq!(data["message_id"], received["message_id"]);
    assert_eq!((&data["from"], &data["type"]), (&json!(PHONE), &json!("text")));
    assert_eq!((&data["text"], &data["name"]), (&json!("Is it \"open\"?"), &json!("Ada")));
    assert_eq!(data["at"], received["at"]);
}

#[tokio::test]
async fn bad_inbound_messages_are_named() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for (body, field) in [
        (json!({"text": "x"}), "from"),
        (json!({"from": "x", "text": "x"}), "from"),
        (json!({"from": PHONE}), "text"),
        (json!({"from": PHONE, "text": ""}), "text"),
        (json!({"from": PHONE, "text": "x", "name": ""}), "name"),
        (json!({"from": PHONE, "text": "x", "name": 5}), "name"),
    ] {
        api.post(INBOUND, body).await.check_field(field);
    }
    let admin = server.admin();
    admin.post("/admin/v1/workspaces", json!({"id": "bare", "name": "bare"})).await.ok();
    let (_, bare) = server.key("bare", &["messaging:send"], json!({})).await;
    let refused = bare.post(INBOUND, json!({"from": PHONE, "text": "x"})).await;
    refused.check(422, "MESSAGING_NOT_CONNECTED");
}
