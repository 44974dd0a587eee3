//! Messages and other contents of conversations end after the days in the settings.

use serde_json::json;

use crate::support::{TestServer, eventually};

const DAY_SECONDS: u64 = 24 * 3600;

#[tokio::test]
async fn messages_and_what_was_written_end_after_their_days() {
    let settings = [("MESSAGES__KEPT_DAYS", "2"), ("CONVERSATIONS__KEPT_DAYS", "4")];
    let server = TestServer::with(&settings).await;
    let demo = server.demo();
    let wrote = json!({"from": "+15550123456", "text": "Hello"});
    demo.post("/v1/sandbox/inbound", &wrote).await.ok();
    let send = json!({"to": "+15550123456", "type": "text", "text": "Good morning"});
    let sent = demo.post("/v1/messaging/send", &send).await.ok();
    let message = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    let is_sent = async || (demo.get(&message).await.ok()["status"] == "sent").then_some(());
    eventually("the message is sent", is_sent).await;
    let conversations = "/v1/conversations";
    let of_ada = demo.get(conversations).await.ok()["data"][0]["id"].as_str().unwrap().to_owned();
    let written = format!("{conversations}/{of_ada}/messages");
    let count = async || demo.get(&written).await.ok()["data"].as_array().unwrap().len();
    assert_eq!(count().await, 2);

    server.advance(DAY_SECONDS).await;
    demo.get(&message).await.ok();
    server.advance(DAY_SECONDS + 3_600).await;
    let is_missing = async || (demo.get(&message).await.status == 404).then_some(());
    eventually("the end of the message", is_missing).await;
    demo.get(&message).await.check(404, "NOT_FOUND");
    assert_eq!(count().await, 2, "what was written is kept for longer");

    server.advance(2 * DAY_SECONDS).await;
    let is_short = async || (count().await == 0).then_some(());
    eventually("a shorter page", is_short).await;
    let listed = demo.get(conversations).await.ok();
    assert_eq!(listed["data"][0]["id"], of_ada, "the conversation itself stays");
    let contacts = demo.get("/v1/contacts").await.ok();
    assert_eq!(contacts["data"].as_array().unwrap().len(), 1, "its contact does too");
}
