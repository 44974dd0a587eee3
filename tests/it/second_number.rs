//! What is written to a workspace's second number is answered through it.

use serde_json::json;

use crate::cloud_api::{APP_SECRET, Rig, number};
use crate::fake::{callback, sign};
use crate::world::{eventually, millis};

#[tokio::test]
async fn a_reply_leaves_through_the_number_that_was_written_to() {
    let rig = Rig::new().await;
    let mut second = number();
    second["phone"] = json!("+15550002222");
    second["phone_number_id"] = json!("206");
    let numbers = "/admin/v1/workspaces/acme/numbers";
    let second = rig.server.admin().post(numbers, second).await.ok();
    let (_, api) = rig.server.key("acme", &["messaging:send", "contacts:read"], json!({})).await;
    let clock = rig.server.admin().get("/admin/v1/workspaces/acme").await;
    let now = millis(clock.json()["created_at"].as_str().unwrap()) / 1000;
    let body = callback(
        "206",
        json!({"messages": [{
            "from": "16505551234", "id": "wamid.in", "timestamp": now.to_string(),
            "type": "text", "text": {"body": "Is there a table?"},
        }]}),
    )
    .to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let headers =
        [("X-Hub-Signature-256", signature.as_str()), ("Content-Type", "application/json")];
    let path = second["callback_path"].as_str().unwrap();
    let taken = rig.server.stranger().call("POST", path, &headers, body.as_bytes()).await;
    assert_eq!(taken.status, 200);
    let conversations = api.get("/v1/conversations?status=open").await.ok();
    let path =
        format!("/v1/conversations/{}/messages", conversations["data"][0]["id"].as_str().unwrap());
    let text = json!({"type": "text", "text": "At eight."});
    let sent = api.post(&path, text).await.ok();
    let id = sent["message_id"].as_str().unwrap();
    eventually("the reply", async || (rig.fake.accepted_of(id) == 1).then_some(())).await;
    let paths: Vec<_> = rig.fake.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v24.0/206/messages"]);
    // Once it is gone, nothing was written to a number that could answer.
    let number = format!("{numbers}/{}", second["id"].as_str().unwrap());
    assert_eq!(rig.server.admin().delete(&number).await.status, 204);
    let text = json!({"type": "text", "text": "Are you coming?"});
    let refused = api.post(&path, text).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    assert!(refused["message"].as_str().unwrap().contains("connected number"), "{refused}");
}
