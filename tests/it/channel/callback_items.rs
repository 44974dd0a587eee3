//! Counts of the items of callbacks.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::counts;
use crate::channel::pool::{hello, rig};
use crate::fake::callback;
use crate::support::eventually;

async fn take(rig: &Rig, body: &Value) {
    assert_eq!(post(rig, body).await.status, 200);
}

fn report(id: &str, status: &str) -> Value {
    callback(
        "106",
        json!({"statuses": [{
            "id": "wamid.1", "status": status, "timestamp": "1750857384", "recipient_id": "1",
            "biz_opaque_callback_data": id,
        }]}),
    )
}

#[tokio::test]
async fn an_item_that_brings_nothing_new_is_counted_as_repeated() {
    let rig = rig().await;
    let sent = rig.api.post("/v1/messaging/send", hello("+15551230001")).await.ok();
    let id = sent["message_id"].as_str().unwrap();
    let path = format!("/v1/messaging/messages/{id}");
    let is = async |status: &str| {
        let seen = async || (rig.api.get(&path).await.ok()["status"] == status).then_some(());
        eventually(status, seen).await;
    };
    is("sent").await;
    for status in ["sent", "delivered", "delivered", "played", "played", "delivered"] {
        take(&rig, &report(id, status)).await;
    }
    // A voice message that was played has been opened.
    is("read").await;
    counts(&rig, "messages", "taken", 3).await;
    counts(&rig, "messages", "repeated", 3).await;
    counts(&rig, "messages", "unknown", 0).await;
    let written = json!({"messages": [{"from": "15551230001", "id": "wamid.a",
        "timestamp": "1750857384", "type": "text", "text": {"body": "Hi"}}]});
    for _ in 0..3 {
        take(&rig, &callback("106", written.clone())).await;
    }
    counts(&rig, "messages", "taken", 4).await;
    counts(&rig, "messages", "repeated", 5).await;
    let paused = json!({"field": "message_template_status_update", "value": {"event": "PAUSED",
        "message_template_name": "hello", "message_template_language": "en"}});
    for _ in 0..2 {
        take(&rig, &json!({"entry": [{"id": "107", "changes": [paused]}]})).await;
    }
    counts(&rig, "message_template_status_update", "taken", 1).await;
    counts(&rig, "message_template_status_update", "repeated", 1).await;
    let ignored = rig.api.get("/v1/events?type=channel.ignored").await.ok();
    assert_eq!(ignored["data"], json!([]));
    // An item about an unknown number is counted as ignored.
    take(&rig, &callback("999", written)).await;
    counts(&rig, "messages", "ignored", 1).await;
    counts(&rig, "messages", "taken", 4).await;
}
