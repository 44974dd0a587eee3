//! Files: uploaded, downloaded, deleted, and kept for a time.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::messages::{send_waiting, write};
use crate::otp::PHONE;
use crate::support::{Api, Reply, TestServer, eventually};

const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const DAY: u64 = 24 * 3600;

async fn upload(api: &Api, mime_type: &str, query: &str, bytes: &[u8]) -> Reply {
    let path = format!("/v1/media{query}");
    api.call("POST", &path, &[("Content-Type", mime_type)], bytes).await
}

fn path_of(media: &Value) -> String {
    format!("/v1/media/{}", media["media_id"].as_str().unwrap())
}

async fn content(api: &Api, media: &Value, range: Option<&str>) -> Reply {
    let path = format!("{}/content", path_of(media));
    let range = range.map(|range| ("Range", range));
    api.call("GET", &path, range.as_slice(), b"").await
}

/// Returns the place of a file's content on the disk.
fn place(dir: &Path, sha256: &str) -> PathBuf {
    dir.join("media").join(&sha256[..2]).join(sha256)
}

#[tokio::test]
async fn what_was_uploaded_is_there_after_a_kill() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let other = server.workspace("other").await;
    let media = upload(&api, "image/png", "?filename=a%20b.png", b"abc").await;
    assert_eq!(media.status, 201);
    let media = media.json();
    assert_eq!((&media["mime_type"], &media["size"]), (&json!("image/png"), &json!(3)));
    assert_eq!((&media["sha256"], &media["state"]), (&json!(SHA256_OF_ABC), &json!("ready")));
    assert_eq!(media["filename"], "a b.png");
    server.crash().await;
    assert_eq!(api.get(&path_of(&media)).await.ok(), media);
    let whole = content(&api, &media, None).await;
    assert_eq!((whole.status, &whole.body[..]), (200, &b"abc"[..]));
    assert_eq!(whole.header("content-type"), Some("image/png"));
    let disposition = whole.header("content-disposition");
    assert_eq!(disposition, Some("attachment; filename*=UTF-8''a%20b.png"));
    let part = content(&api, &media, Some("bytes=1-1")).await;
    assert_eq!((part.status, &part.body[..]), (206, &b"b"[..]));
    assert_eq!(part.header("content-range"), Some("bytes 1-1/3"));
    let behind = content(&api, &media, Some("bytes=3-")).await;
    assert_eq!((behind.status, behind.header("content-range")), (416, Some("bytes */3")));
    // Another workspace cannot read it.
    for path in [path_of(&media), format!("{}/content", path_of(&media))] {
        other.get(&path).await.check(404, "NOT_FOUND");
    }
    other.delete(&path_of(&media)).await.check(404, "NOT_FOUND");
    for unknown in ["/v1/media/med_01jd3v0x5n8m7k2q4r6s8t0w2y", "/v1/media/x"] {
        api.get(unknown).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn the_same_content_is_kept_once_and_goes_with_its_last_file() {
    let mut server = TestServer::start().await;
    let (one, two) = (server.workspace("acme").await, server.workspace("other").await);
    let of_one = upload(&one, "image/png", "", b"abc").await.json();
    let of_two = upload(&two, "text/plain; charset=utf-8", "", b"abc").await.json();
    assert_eq!((&of_two["mime_type"], &of_one["filename"]), (&json!("text/plain"), &Value::Null));
    let file = place(&server.data_dir(), SHA256_OF_ABC);
    assert_eq!(std::fs::read(&file).unwrap(), b"abc");
    assert_eq!(one.delete(&path_of(&of_one)).await.status, 204);
    one.delete(&path_of(&of_one)).await.check(404, "NOT_FOUND");
    content(&one, &of_one, None).await.check(404, "NOT_FOUND");
    assert_eq!(content(&two, &of_two, None).await.body, b"abc");
    // Content without a record is removed at a start.
    let unnamed = place(&server.data_dir(), &SHA256_OF_ABC.replace('b', "c"));
    server.stop();
    std::fs::create_dir_all(unnamed.parent().unwrap()).unwrap();
    std::fs::write(&unnamed, b"left over").unwrap();
    server.restart().await;
    eventually("it is gone", async || (!unnamed.exists()).then_some(())).await;
    assert!(file.exists(), "it is still named");
    assert_eq!(two.delete(&path_of(&of_two)).await.status, 204);
    assert!(!file.exists());
}

#[tokio::test]
async fn only_files_that_the_channel_takes_are_taken() {
    let server = TestServer::with(&[("MEDIA__KEPT_BYTES_MAX", "10600000")]).await;
    let api = server.workspace("acme").await;
    for bad in ["image/svg+xml", "text/html", "application/json", ""] {
        upload(&api, bad, "", b"abc").await.check(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    let empty = upload(&api, "image/png", "", b"").await.check(400, "VALIDATION_ERROR");
    assert!(empty["message"].as_str().unwrap().contains("empty"), "{empty}");
    upload(&api, "image/png", "?filename=a%2Fb", b"abc").await.check_field("filename");
    upload(&api, "image/png", "?filename=", b"abc").await.check_field("filename");
    let most = vec![7; 5 << 20];
    assert_eq!(upload(&api, "image/png", "", &most).await.status, 201);
    let more = [&most[..], &[7]].concat();
    upload(&api, "image/png", "", &more).await.check(413, "PAYLOAD_TOO_LARGE");
    // Without a length it is refused during the upload.
    let mut chunks = Vec::new();
    for part in more.chunks(64 << 10) {
        chunks.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunks.extend_from_slice(part);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(b"0\r\n\r\n");
    let headers = [("Content-Type", "image/png"), ("Transfer-Encoding", "chunked")];
    let streamed = api.call("POST", "/v1/media", &headers, &chunks).await;
    streamed.check(413, "PAYLOAD_TOO_LARGE");
    // Above the quota of a workspace, nothing is accepted until files are deleted.
    let larger = vec![7; 6 << 20];
    let full = upload(&api, "application/pdf", "", &larger).await.check(422, "UNPROCESSABLE");
    assert_eq!(full["reason"], "media_full");
    let unfinished = server.data_dir().join("media").join("tmp");
    assert_eq!(std::fs::read_dir(unfinished).unwrap().count(), 0, "refused ones leave nothing");
    let (_, reader) = server.key("acme", &["contacts:read"], json!({})).await;
    upload(&reader, "image/png", "", b"abc").await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn what_is_on_its_way_counts_while_it_comes() {
    const QUOTA: u64 = 2_100_000;
    let server = TestServer::with(&[("MEDIA__KEPT_BYTES_MAX", "2100000")]).await;
    let api = server.workspace("acme").await;
    let headers = [("Content-Type", "application/pdf"), ("Transfer-Encoding", "chunked")];
    let head = api.request("POST", "/v1/media", &headers, b"");
    let part = vec![7; 500_000];
    // None of these uploads ends.
    let mut open = Vec::new();
    for _ in 0..6 {
        let mut connection = server.connect().await;
        connection.send(&head).await;
        connection.send(format!("{:x}\r\n", 2 * part.len())).await;
        connection.send(&part).await;
        open.push(connection);
    }
    let unfinished = server.data_dir().join("media").join("tmp");
    let staged = || -> u64 {
        let files = std::fs::read_dir(&unfinished).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|it| it.len()).sum()
    };
    let mut refused = 0;
    for mut connection in open {
        connection.send(&part).await;
        assert!(staged() <= QUOTA, "{} bytes", staged());
        connection.send(b"\r\n0\r\n\r\n").await;
        let reply = connection.reply().await.unwrap();
        if reply.status != 201 {
            assert_eq!(reply.check(422, "UNPROCESSABLE")["reason"], "media_full");
            refused += 1;
        }
    }
    assert!((4..=6).contains(&refused), "{refused} of 6 refused");
    assert_eq!(staged(), 0, "refused ones leave nothing");
    // An abandoned upload does not count any more.
    let mut left = server.connect().await;
    left.send(&head).await;
    left.send(format!("{:x}\r\n", 2 * part.len())).await;
    left.send(&part).await;
    drop(left);
    let small = async || {
        let taken = upload(&api, "image/png", "", b"abc").await;
        (taken.status == 201).then_some(())
    };
    eventually("a small file is taken again", small).await;
}

#[tokio::test]
async fn files_are_kept_for_a_time() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let media = upload(&api, "image/png", "", b"abc").await.json();
    let file = place(&server.data_dir(), SHA256_OF_ABC);
    server.advance(29 * DAY).await;
    api.get(&path_of(&media)).await.ok();
    server.advance(DAY + 1).await;
    api.get(&path_of(&media)).await.check(404, "NOT_FOUND");
    eventually("its content goes", async || {
        server.advance(601).await;
        (!file.exists()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_message_is_sent_with_a_file() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let media = upload(&api, "image/png", "", b"abc").await.json();
    let body =
        |kind: &str| json!({"to": PHONE, "type": kind, kind: {"media_id": media["media_id"]}});
    for kind in ["image", "document"] {
        assert_eq!(send_waiting(&api, &body(kind), &[]).await.ok()["status"], "sent");
    }
    for kind in ["video", "audio", "sticker"] {
        let refused = api.post("/v1/messaging/send", body(kind)).await;
        refused.check_field(&format!("{kind}.media_id"));
    }
    assert_eq!(api.delete(&path_of(&media)).await.status, 204);
    api.post("/v1/messaging/send", body("image")).await.check_field("image.media_id");
}
