//! The event log.

use serde_json::{Value, json};

use crate::otp::{PHONE, send, verify};
use crate::support::{Api, TestServer, millis};

async fn list(api: &Api, query: &str) -> (Vec<Value>, String) {
    let page = api.get(&format!("/v1/events?{query}")).await.ok();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    (page["data"].as_array().unwrap().clone(), cursor)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_happens_is_reported_in_order_and_without_codes() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let eight = json!({"length": 8});
    let (verified, verified_code) = send(&server, &api, eight.clone()).await;
    let (failed, failed_code) = send(&server, &api, eight.clone()).await;
    let (expired, expired_code) = send(&server, &api, eight).await;
    verify(&api, &verified, &verified_code).await.ok();
    for _ in 0..5 {
        verify(&api, &failed, "x").await;
    }
    api.post("/v1/otp/resend", json!({"request_id": expired})).await.ok();
    server.advance(301).await;
    let (events, _) = list(&api, "").await;
    assert_eq!(
        kinds(&events),
        [
            "otp.sent",
            "otp.sent",
            "otp.sent",
            "otp.verified",
            "otp.failed",
            "otp.sent",
            "otp.expired"
        ]
    );
    let about = [&verified, &failed, &expired, &verified, &failed, &expired, &expired];
    let mut last = 0;
    for (index, (event, request)) in events.iter().zip(about).enumerate() {
        assert_eq!(event["data"]["request_id"], **request);
        assert_eq!(event["data"]["phone"], PHONE);
        assert_eq!(event["sequence"], index + 1);
        let id = event["id"].as_str().unwrap();
        assert_eq!((&id[..4], id.len()), ("evt_", 30));
        let at = millis(event["timestamp"].as_str().unwrap());
        assert!(at >= last);
        last = at;
    }
    assert_eq!(events[4]["data"]["reason"], "max_attempts");
    assert_eq!(
        (&events[0]["data"]["resend"], &events[5]["data"]["resend"]),
        (&json!(false), &json!(true))
    );
    let text = api.get("/v1/events").await.text();
    for code in [verified_code, failed_code, expired_code] {
        assert!(!text.contains(&code), "a code is in the event log");
        assert!(!server.log().contains(&code), "a code is in the log");
    }
    server.restart().await;
    assert_eq!(list(&api, "").await.0, events, "ids and all are the same after a restart");
    server.crash().await;
    assert_eq!(list(&api, "").await.0, events);
}

#[tokio::test]
async fn a_cursor_goes_on_where_the_part_before_ended() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({})).await;
    verify(&api, &id, &code).await.ok();
    for _ in 0..3 {
        send(&server, &api, json!({})).await;
    }
    let (all, end) = list(&api, "").await;
    assert_eq!(all.len(), 5);
    let (mut parts, mut cursor) = list(&api, "limit=2").await;
    while parts.len() < 5 {
        let (part, next) = list(&api, &format!("limit=2&cursor={cursor}")).await;
        assert!((1..=2).contains(&part.len()));
        parts.extend(part);
        cursor = next;
    }
    assert_eq!((&parts, &cursor), (&all, &end));
    assert_eq!(list(&api, &format!("cursor={end}")).await, (vec![], end.clone()));
    let (only, after) = list(&api, "type=otp.verified").await;
    assert_eq!(only, all[1..2]);
    let sent = send(&server, &api, json!({})).await;
    assert_eq!(list(&api, &format!("type=otp.verified&cursor={after}")).await.0, [] as [Value; 0]);
    let (fresh, _) = list(&api, &format!("cursor={end}")).await;
    assert_eq!(fresh[0]["data"]["request_id"], sent.0);
    assert_eq!(list(&api, "type=otp.sent&limit=1").await.0, all[..1]);
    assert_eq!(list(&api, "type=otp.expired").await.0.len(), 0);
    for (bad, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("cursor=", "cursor"),
        ("cursor=1", "cursor"),
        ("cursor=%00", "cursor"),
        // A thousand million events ahead.
        ("cursor=AQAAAAA7msoA", "cursor"),
        ("type=", "type"),
        ("type=otp", "type"),
    ] {
        api.get(&format!("/v1/events?{bad}")).await.check_field(field);
    }
    assert_eq!(list(&api, "limit=200&unknown=1").await.0.len(), 6);
}

#[tokio::test]
async fn keys_and_codes_are_in_no_log() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({"length": 8})).await;
    verify(&api, &id, "87654321x").await.ok();
    verify(&api, &id, &code).await.ok();
    api.get("/v1/nothing").await.check(404, "NOT_FOUND");
    server.api("pr_a-wrong-key").get("/v1/events").await.check(401, "UNAUTHORIZED");
    let log = server.log();
    assert!(log.contains("/v1/otp/verify"), "requests are logged at debug: {log}");
    for secret in [&code, "87654321x", "pr_a-wrong-key", api.token(), server.admin().token()] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    let hidden = [code.as_bytes(), api.token().as_bytes()];
    for file in files_below(&server.data_dir()) {
        // Files of the store have room to grow: blocks of zeros are not searched.
        let bytes = std::fs::read(&file).unwrap();
        let used = bytes.chunks(4096).filter(|block| **block != [0; 4096][..block.len()]);
        let bytes = used.collect::<Vec<_>>().concat();
        for secret in hidden {
            let found = bytes.windows(secret.len()).any(|part| part == secret);
            assert!(!found, "a secret is in {}", file.display());
        }
    }
}

fn files_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
