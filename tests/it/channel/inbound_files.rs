//! Files that contacts send: fetched from the channel, checked, kept and served.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{Scripted, callback};
use crate::messages::send_waiting;
use crate::support::{Api, clustered, eventually};

const FROM: &str = "+16505551234";
const DIGITS: &str = "16505551234";

/// Reports a message with a file; returns the file's part of the event.
async fn sent(rig: &Rig, kind: &str, file: Value) -> Value {
    let now = postrider_actors::Clock::system().now().as_secs();
    let message = json!({
        "from": DIGITS, "id": format!("wamid.{}", file["id"].as_str().unwrap()),
        "timestamp": now.to_string(), "type": kind, kind: file,
    });
    assert_eq!(post(rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
    let events = rig.api.get("/v1/events?limit=200&type=message.received").await.ok();
    events["data"].as_array().unwrap().last().unwrap()["data"]["media"].clone()
}

fn file(id: &str, content: &[u8]) -> Value {
    let sha256 = STANDARD.encode(Sha256::digest(content));
    json!({"id": id, "mime_type": "image/jpeg; x=y", "sha256": sha256, "caption": "Look"})
}

/// Returns a client with a key that may read and send.
async fn agent(rig: &Rig) -> Api {
    let scopes = ["messaging:send", "contacts:read", "contacts:write"];
    rig.server.key("acme", &scopes, json!({})).await.1
}

fn path_of(media: &Value) -> String {
    format!("/v1/media/{}", media["media_id"].as_str().unwrap())
}

/// Waits until a file is in this state; returns its description.
async fn becomes(api: &Api, media: &Value, state: &str) -> Value {
    let path = path_of(media);
    let seen = async || Some(api.get(&path).await.ok()).filter(|media| media["state"] == state);
    eventually(state, seen).await
}

#[tokio::test]
async fn what_came_in_is_got_served_and_can_be_sent_on() {
    let rig = Rig::with(&[], number()).await;
    let api = agent(&rig).await;
    let content: Vec<u8> = (0..300_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    rig.fake.offer("801", None, &content);
    let emitted = sent(&rig, "image", file("801", &content)).await;
    assert_eq!(
        (&emitted["mime_type"], &emitted["state"]),
        (&json!("image/jpeg"), &json!("pending"))
    );
    let media = becomes(&api, &emitted, "ready").await;
    assert_eq!((&media["size"], &media["error"]), (&json!(300_000), &Value::Null));
    let got = api.get(&format!("{}/content", path_of(&media))).await;
    assert_eq!((got.status, got.header("content-type")), (200, Some("image/jpeg")));
    assert!(got.body == content, "the content is another one");
    assert_eq!(got.header("content-disposition"), Some("attachment"));
    assert_eq!(got.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    let event = rig.api.get("/v1/events?type=media.ready").await.ok()["data"][0]["data"].clone();
    for same in ["media_id", "message_id", "mime_type", "size", "sha256"] {
        assert_eq!(event[same], media[same], "{same}");
    }
    // The conversation shows it, and another message can have it.
    let list = api.get("/v1/conversations").await.ok();
    let path = format!("/v1/conversations/{}/messages", list["data"][0]["id"].as_str().unwrap());
    let row = api.get(&path).await.ok()["data"][0].clone();
    assert_eq!((&row["type"], &row["text"]), (&json!("image"), &json!("Look")));
    assert_eq!(row["media"]["media_id"], media["media_id"]);
    let body = json!({"to": FROM, "type": "image", "image": {"media_id": media["media_id"]}});
    assert_eq!(send_waiting(&rig.api, &body, &[]).await.ok()["status"], "sent");
    assert_eq!(rig.fake.files().len(), 1);
    let row = api.get(&path).await.ok()["data"][0].clone();
    assert_eq!(
        (&row["direction"], &row["media"]["mime_type"]),
        (&json!("out"), &json!("image/jpeg"))
    );
}

#[tokio::test]
async fn what_is_not_as_it_was_reported_is_not_kept() {
    let rig = Rig::with(&[("MEDIA__KEPT_BYTES_MAX", "10")], number()).await;
    let api = agent(&rig).await;
    rig.fake.offer("801", None, b"abd");
    rig.fake.offer("802", Some("http://127.0.0.2:9/files/802"), b"abc");
    rig.fake.offer("803", None, b"abc");
    rig.fake.offer("804", None, b"more than ten bytes");
    for (id, content, error) in [
        ("801", &b"abc"[..], "altered"),
        ("802", b"abc", "untrusted_host"),
        ("803", b"abc", "refused"),
        ("804", b"more than ten bytes", "media_full"),
    ] {
        if error == "refused" {
            rig.fake.script(Some("file"), Scripted::Error { status: 400, code: 100 }, Some(1));
        }
        let emitted = sent(&rig, "image", file(id, content)).await;
        let failed = becomes(&api, &emitted, "failed").await;
        assert_eq!((&failed["error"], &failed["size"]), (&json!(error), &Value::Null), "{id}");
        api.get(&format!("{}/content", path_of(&emitted))).await.check(404, "NOT_FOUND");
        let events = rig.api.get("/v1/events?limit=200&type=media.failed").await.ok();
        let last = &events["data"].as_array().unwrap().last().unwrap()["data"];
        assert_eq!((&last["media_id"], &last["error"]), (&emitted["media_id"], &json!(error)));
        let body = json!({"to": FROM, "type": "image", "image": {"media_id": emitted["media_id"]}});
        rig.api.post("/v1/messaging/send", body).await.check_field("image.media_id");
    }
    let left = |dir: std::path::PathBuf| {
        let folders = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
        folders.map(|folder| std::fs::read_dir(folder).unwrap().count()).sum::<usize>()
    };
    assert_eq!(left(rig.server.data_dir().join("media")), 0, "nothing is left on the disk");
    // A type that no header can have is dropped, and a file without a good id is no file.
    rig.fake.offer("805", None, b"abc");
    let odd = json!({"id": "805", "mime_type": "text/html\r\nX: y", "filename": "a\u{202e}b"});
    let emitted = sent(&rig, "document", odd).await;
    assert_eq!(emitted["mime_type"], "application/octet-stream");
    becomes(&api, &emitted, "ready").await;
    assert_eq!(sent(&rig, "image", json!({"id": "../106"})).await, Value::Null);
}

#[tokio::test]
async fn what_could_not_be_got_is_got_after_a_kill_or_when_somebody_asks() {
    let mut rig = Rig::with(&[], number()).await;
    let api = agent(&rig).await;
    for id in ["801", "802"] {
        rig.fake.offer(id, None, b"abc");
    }
    rig.fake.script(Some("file"), Scripted::Error { status: 500, code: 131_000 }, None);
    let one = sent(&rig, "video", file("801", b"abc")).await;
    let two = sent(&rig, "video", file("802", b"abc")).await;
    let refused = api.get(&format!("{}/content", path_of(&one))).await;
    refused.check(409, "CONFLICT");
    assert_eq!(api.get(&path_of(&one)).await.ok()["state"], "pending");
    rig.fake.heal();
    let got = api.get(&format!("{}/content", path_of(&one))).await;
    assert_eq!((got.status, &got.body[..]), (200, &b"abc"[..]));
    assert_eq!(api.get(&path_of(&two)).await.ok()["state"], "pending");
    rig.server.crash().await;
    becomes(&api, &two, "ready").await;
    let ready = rig.api.get("/v1/events?type=media.ready").await.ok();
    assert_eq!(ready["data"].as_array().unwrap().len(), 2, "each is emitted once");
}

#[tokio::test]
async fn what_a_deleted_contact_has_sent_goes() {
    let rig = Rig::with(&[("MEDIA__KEPT_BYTES_MAX", "10")], number()).await;
    let api = agent(&rig).await;
    rig.fake.offer("801", None, b"abcdefgh");
    let emitted = sent(&rig, "image", file("801", b"abcdefgh")).await;
    let media = becomes(&api, &emitted, "ready").await;
    let sha256 = media["sha256"].as_str().unwrap();
    let place = rig.server.data_dir().join("media").join(&sha256[..2]).join(sha256);
    assert!(place.exists());
    let upload =
        async || api.call("POST", "/v1/media", &[("Content-Type", "image/png")], b"abc").await;
    upload().await.check(422, "UNPROCESSABLE");
    let contact = api.get("/v1/contacts").await.ok()["data"][0]["id"].clone();
    let deleted = api.delete(&format!("/v1/contacts/{}", contact.as_str().unwrap())).await;
    assert_eq!(deleted.status, 204);
    let removed = async || (api.get(&path_of(&media)).await.status == 404).then_some(());
    eventually("its record goes", removed).await;
    eventually("its content goes", async || {
        rig.server.advance(3601).await;
        (!place.exists()).then_some(())
    })
    .await;
    eventually("its bytes do not count", async || (upload().await.status == 201).then_some(()))
        .await;
}

#[tokio::test]
async fn what_the_channel_says_of_a_file_must_be_so() {
    let rig = Rig::with(&[], number()).await;
    let api = agent(&rig).await;
    let (hash, other) = (Sha256::digest(b"abc"), Sha256::digest(b"abd"));
    let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (id, said, error) in [
        ("801", json!({"file_size": 4}), Some("altered")),
        ("802", json!({"file_size": 200 << 20}), Some("too_large")),
        ("803", json!({"sha256": hex(&other)}), Some("altered")),
        ("804", json!({"mime_type": "image/png"}), Some("altered")),
        ("805", json!({"file_size": 3, "sha256": hex(&hash), "mime_type": "image/jpeg"}), None),
        ("806", json!({"file_size": -3}), Some("altered")),
        ("807", json!({"file_size": "three"}), Some("altered")),
        ("808", json!({"sha256": "abc"}), Some("altered")),
        ("809", json!({"sha256": STANDARD.encode(hash), "file_size": "3"}), None),
    ] {
        rig.fake.offer(id, None, b"abc");
        let mut said = said;
        said["url"] = json!(format!("{}/files/{id}", rig.fake.base_url()));
        let body = said.to_string();
        rig.fake.script(Some("file"), Scripted::Raw { status: 200, body }, Some(1));
        let emitted = sent(&rig, "image", file(id, b"abc")).await;
        let state = if error.is_some() { "failed" } else { "ready" };
        let media = becomes(&api, &emitted, state).await;
        assert_eq!(media["error"].as_str(), error, "{said}");
    }
}

#[tokio::test]
async fn on_demand_a_content_is_got_when_somebody_asks_for_it_first() {
    let rig = Rig::with(&[("MEDIA__FETCH", "on_demand")], number()).await;
    let api = agent(&rig).await;
    for id in ["801", "802"] {
        rig.fake.offer(id, None, b"abc");
    }
    let asked = sent(&rig, "image", file("801", b"abc")).await;
    let unasked = sent(&rig, "image", file("802", b"abc")).await;
    for _ in 0..3 {
        rig.server.advance(60).await;
    }
    for media in [&asked, &unasked] {
        assert_eq!(api.get(&path_of(media)).await.ok()["state"], "pending");
    }
    let got = api.get(&format!("{}/content", path_of(&asked))).await;
    assert_eq!((got.status, &got.body[..]), (200, &b"abc"[..]));
    assert_eq!(api.get(&path_of(&asked)).await.ok()["state"], "ready");
    eventually("its bytes are counted", async || {
        rig.server.advance(60).await;
        let metrics = rig.server.stranger().get("/metrics").await.text();
        (clustered::figure(&metrics, "postrider_media_bytes") == Some(3.0)).then_some(())
    })
    .await;
    assert_eq!(api.get(&path_of(&unasked)).await.ok()["state"], "pending");
    // The channel keeps a file for seven days.
    rig.server.advance(7 * 24 * 3600).await;
    let failed = eventually("it is given up", async || {
        rig.server.advance(60).await;
        let events = rig.api.get("/v1/events?type=media.failed").await.ok();
        events["data"].as_array().unwrap().first().map(|event| event["data"].clone())
    });
    let failed = failed.await;
    assert_eq!((&failed["media_id"], &failed["error"]), (&unasked["media_id"], &json!("expired")));
}
