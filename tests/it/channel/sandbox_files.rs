//! Files that customers of the sandbox send take the whole way of real ones.

use serde_json::{Value, json};

use crate::otp::PHONE;
use crate::support::{Api, TestServer, eventually};

const INBOUND: &str = "/v1/sandbox/inbound";

async fn upload(api: &Api, mime_type: &str, bytes: &[u8]) -> Value {
    let headers = [("Content-Type", mime_type)];
    api.call("POST", "/v1/media?filename=ours.png", &headers, bytes).await.json()["media_id"]
        .clone()
}

async fn newest(api: &Api, kind: &str) -> Value {
    let path = format!("/v1/events?limit=200&type={kind}");
    let events = api.get(&path).await.ok();
    events["data"].as_array().unwrap().last().map_or(Value::Null, |event| event["data"].clone())
}

#[tokio::test]
async fn a_picture_comes_in_is_got_and_is_answered() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let ours = upload(&api, "image/png", b"a picture").await;
    let content = json!({"media_id": ours, "filename": "theirs.png"});
    let body = json!({"from": PHONE, "type": "image", "text": "Look", "content": content});
    let came = api.post(INBOUND, &body).await.ok();
    let emitted = newest(&api, "message.received").await;
    assert_eq!((&emitted["type"], &emitted["text"]), (&json!("image"), &json!("Look")));
    let media = &emitted["media"];
    let expected = (&json!("pending"), &json!("image/png"), &json!("theirs.png"));
    assert_eq!((&media["state"], &media["mime_type"], &media["filename"]), expected);
    assert_ne!(media["media_id"], ours, "it is a file of its own");
    let path = format!("/v1/media/{}", media["media_id"].as_str().unwrap());
    let ready = async || Some(api.get(&path).await.ok()).filter(|it| it["state"] == "ready");
    let ready = eventually("the file", ready).await;
    assert_eq!((&ready["size"], &ready["message_id"]), (&json!(9), &came["message_id"]));
    assert_eq!(newest(&api, "media.ready").await["media_id"], media["media_id"]);
    let row = api.get("/v1/conversations").await.ok()["data"][0]["id"].clone();
    let row = format!("/v1/conversations/{}/messages", row.as_str().unwrap());
    assert_eq!(api.get(&row).await.ok()["data"][0]["media"]["media_id"], media["media_id"]);
    // The source is deleted, the copy stays, and both hold over a kill.
    let of_ours = format!("/v1/media/{}", ours.as_str().unwrap());
    assert_eq!(api.delete(&of_ours).await.status, 204);
    server.crash().await;
    assert_eq!(api.get(&format!("{path}/content")).await.body, b"a picture");
    let answer = json!({"to": PHONE, "type": "image", "image": {"media_id": media["media_id"]}});
    api.post("/v1/messaging/send", &answer).await.ok();
    // Somebody who hides the phone sends files too.
    let again =
        json!({"user_id": "US.17", "type": "document", "content": {"media_id": media["media_id"]}});
    api.post(INBOUND, &again).await.ok();
    let emitted = newest(&api, "message.received").await;
    assert_eq!((&emitted["user_id"], &emitted["from"]), (&json!("US.17"), &Value::Null));
    assert_eq!((&emitted["text"], &emitted["media"]["filename"]), (&json!(""), &Value::Null));
}

#[tokio::test]
async fn what_cannot_come_as_a_file_is_refused() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let other = server.workspace("other").await;
    let (ours, theirs) =
        (upload(&api, "image/png", b"abc").await, upload(&other, "image/png", b"abc").await);
    let none = json!("med_01jd3v0x5n8m7k2q4r6s8t0w2y");
    let long = "a".repeat(241);
    for (kind, content, field) in [
        ("text", json!({"media_id": ours}), "content"),
        ("location", json!("here"), "content"),
        ("location", json!({"name": "a".repeat(16 * 1024)}), "content"),
        ("image", json!({}), "content"),
        ("image", json!({"media_id": none}), "content.media_id"),
        ("image", json!({"media_id": theirs}), "content.media_id"),
        ("image", json!({"media_id": "x"}), "content.media_id"),
        ("video", json!({"media_id": ours}), "content.media_id"),
        ("sticker", json!({"media_id": ours}), "content.media_id"),
        ("image", json!({"media_id": ours, "filename": long}), "content.filename"),
    ] {
        let body = json!({"from": PHONE, "type": kind, "text": "Look", "content": content});
        api.post(INBOUND, &body).await.check_field(field);
    }
    assert_eq!(newest(&api, "message.received").await, Value::Null);
}
