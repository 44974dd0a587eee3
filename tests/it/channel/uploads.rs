//! Files of messages on their way to the channel.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{Scripted, callback};
use crate::messages::send_waiting;
use crate::support::eventually;

const TO: &str = "+16505551234";
const DIGITS: &str = "16505551234";
const DAY: u64 = 24 * 3600;

async fn open(rig: &Rig) {
    let now = postrider_actors::Clock::system().now().as_secs();
    let message = json!({
        "from": DIGITS, "id": format!("wamid.{now}"), "timestamp": now.to_string(),
        "type": "text", "text": {"body": "Hi"},
    });
    assert_eq!(post(rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
}

async fn upload(rig: &Rig, bytes: &[u8]) -> Value {
    let headers = [("Content-Type", "application/pdf")];
    let reply = rig.api.call("POST", "/v1/media?filename=a.pdf", &headers, bytes).await;
    assert_eq!(reply.status, 201);
    reply.json()["media_id"].clone()
}

async fn send(rig: &Rig, media: &Value) -> Value {
    let document = json!({"media_id": media, "filename": "a.pdf"});
    let body = json!({"to": TO, "type": "document", "document": document});
    send_waiting(&rig.api, &body, &[]).await.ok()
}

#[tokio::test]
async fn a_file_is_uploaded_once_and_its_id_is_used_for_29_days() {
    let rig = Rig::with(&[], number()).await;
    open(&rig).await;
    let bytes: Vec<u8> = (0..700_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let media = upload(&rig, &bytes).await;
    assert!(rig.fake.files().is_empty(), "nobody needs it yet");
    for _ in 0..2 {
        assert_eq!(send(&rig, &media).await["status"], "sent");
        let taken = rig.fake.newest_to(DIGITS).unwrap().body;
        assert_eq!(taken["document"], json!({"id": "file1", "filename": "a.pdf"}));
    }
    let [(to, kind, form)] = &rig.fake.files()[..] else { panic!("it is uploaded once") };
    assert_eq!(to, "106");
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let field = |head: &str| format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n");
    let before = [
        field("name=\"messaging_product\""),
        "\r\nwhatsapp\r\n".to_owned(),
        field("name=\"type\""),
        "\r\napplication/pdf\r\n".to_owned(),
        field("name=\"file\"; filename=\"file\""),
        "Content-Type: application/pdf\r\n\r\n".to_owned(),
    ];
    let after = format!("\r\n--{boundary}--\r\n");
    let expected = [before.concat().as_bytes(), &bytes[..], after.as_bytes()].concat();
    assert!(*form == expected, "the form is another one");
    rig.server.advance(29 * DAY + 1).await;
    open_at(&rig, 29 * DAY).await;
    assert_eq!(send(&rig, &media).await["status"], "sent");
    assert_eq!(rig.fake.files().len(), 2, "the channel forgets its id after 30 days");
}

/// Opens the window again, by the server's clock, which is ahead.
async fn open_at(rig: &Rig, ahead: u64) {
    let now = postrider_actors::Clock::system().now().as_secs() + ahead;
    let message = json!({
        "from": DIGITS, "id": "wamid.later", "timestamp": now.to_string(),
        "type": "text", "text": {"body": "Hi"},
    });
    assert_eq!(post(rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
}

#[tokio::test]
async fn a_refused_file_fails_its_message_and_one_that_is_not_taken_does_not() {
    let rig = Rig::with(&[], number()).await;
    open(&rig).await;
    let media = upload(&rig, b"abc").await;
    rig.fake.script(Some("media"), Scripted::Error { status: 400, code: 131_053 }, Some(1));
    let failed = send(&rig, &media).await;
    assert_eq!(failed["status"], "failed");
    let path = format!("/v1/messaging/messages/{}", failed["message_id"].as_str().unwrap());
    let row = rig.api.get(&path).await.ok();
    assert_eq!((&row["status"], &row["error"]["code"]), (&json!("failed"), &json!(131_053)));
    assert_eq!((rig.credits().await, rig.fake.requests().len()), (json!(1000), 0));
    rig.fake.script(Some("media"), Scripted::Error { status: 500, code: 131_000 }, Some(1));
    let body = json!({"to": TO, "type": "document", "document": {"media_id": media}});
    let later = rig.api.post("/v1/messaging/send", &body).await;
    later.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!(send(&rig, &media).await["status"], "sent");
    assert_eq!((rig.credits().await, rig.fake.files().len()), (json!(999), 1));
}

#[tokio::test]
async fn what_the_channel_has_forgotten_is_uploaded_again() {
    let rig = Rig::with(&[], number()).await;
    open(&rig).await;
    let media = upload(&rig, b"abc").await;
    assert_eq!(send(&rig, &media).await["status"], "sent");
    for (code, files) in [(131_026, 1), (131_053, 2)] {
        rig.fake.script(Some(DIGITS), Scripted::Error { status: 400, code }, Some(1));
        assert_eq!(send(&rig, &media).await["status"], "failed");
        assert_eq!(send(&rig, &media).await["status"], "sent");
        assert_eq!(rig.fake.files().len(), files, "{code}");
    }
}

/// Sends a message with a file; the channel reports its failure later.
async fn fails_later(rig: &Rig, media: &Value, code: u32) {
    let sent = send(rig, media).await;
    assert_eq!(sent["status"], "sent");
    let taken = rig.fake.newest_to(DIGITS).unwrap();
    let now = postrider_actors::Clock::system().now().as_secs() + 1;
    let report = json!({"statuses": [{
        "id": taken.id, "status": "failed", "timestamp": now.to_string(),
        "recipient_id": DIGITS, "biz_opaque_callback_data": taken.opaque,
        "errors": [{"code": code, "title": "no", "error_data": {"details": "no"}}],
    }]});
    assert_eq!(post(rig, &callback("106", report)).await.status, 200);
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    let failed = async || (rig.api.get(&path).await.ok()["status"] == "failed").then_some(());
    eventually("the failure", failed).await;
}

#[tokio::test]
async fn what_the_channel_has_forgotten_is_reported_by_a_callback_too() {
    let rig = Rig::with(&[], number()).await;
    open(&rig).await;
    let media = upload(&rig, b"abc").await;
    // A failure that concerns the recipient does not affect the file.
    for (code, files) in [(131_026, 1), (131_053, 1), (131_053, 2), (131_053, 2)] {
        fails_later(&rig, &media, code).await;
        assert_eq!(rig.fake.files().len(), files, "{code}: a renewed one that fails is the file");
    }
    // A day later the channel may have lost the file once more.
    rig.server.advance(DAY + 1).await;
    open_at(&rig, DAY).await;
    fails_later(&rig, &media, 131_053).await;
    assert_eq!(rig.fake.files().len(), 2);
    assert_eq!(send(&rig, &media).await["status"], "sent");
    assert_eq!(rig.fake.files().len(), 3);
}
