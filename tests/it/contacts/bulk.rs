//! Many contacts are changed at once; the tags and the timeline of one are reported.

use serde_json::{Value, json};

use crate::contacts::UNLIMITED;
use crate::people;
use crate::support::{Api, TestServer, eventually};

const BULK: &str = "/v1/contacts/bulk";
const MANY: usize = 2_000;

async fn make(api: &Api, count: usize, tags: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for first in (0..count).step_by(1000) {
        let some = first..(first + 1000).min(count);
        let rows: Vec<_> = some.map(|it| json!({"name": format!("C{it}"), "tags": tags})).collect();
        let made = api.post("/v1/contacts/batch", json!({ "contacts": rows })).await.ok();
        let rows = made["data"].as_array().unwrap();
        ids.extend(rows.iter().map(|row| row["contact"]["id"].as_str().unwrap().to_owned()));
    }
    ids
}

async fn total(api: &Api, query: &str) -> u64 {
    api.get(&format!("/v1/contacts?limit=1&{query}")).await.ok()["total"].as_u64().unwrap()
}

async fn tagged(api: &Api, query: &str, count: usize) {
    eventually(query, || async { (total(api, query).await == count as u64).then_some(()) }).await;
}

async fn change(api: &Api, body: Value) -> u64 {
    let answer = api.post(BULK, body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["contacts"].as_u64().unwrap()
}

#[tokio::test]
async fn contacts_are_tagged_and_deleted_by_ids_and_by_filter() {
    let server = TestServer::with(&UNLIMITED).await;
    let acme = server.workspace("acme").await;
    let ids = make(&acme, 5, &["old"]).await;
    make(&acme, 3, &["vip", "old"]).await;
    let two = json!({"ids": [ids[0], ids[1], ids[1], "con_01jd3v0x5n8m7k2q4r6s8t0w2y"],
        "add_tags": ["new", "old"], "remove_tags": ["none"]});
    assert_eq!(change(&acme, two).await, 2);
    tagged(&acme, "tags_any=new", 2).await;
    let one = acme.get(&format!("/v1/contacts/{}", ids[0])).await.ok();
    assert_eq!(one["tags"], json!(["old", "new"]));
    let vips = json!({"filter": {"tags_any": ["vip"]}, "remove_tags": ["vip", "old"],
        "add_tags": ["gold"]});
    assert_eq!(change(&acme, vips).await, 3);
    tagged(&acme, "tags_all=gold&tags_none=vip,old", 3).await;
    let listed = acme.get("/v1/contacts/tags").await.ok();
    let rows = json!([{"tag": "old", "contacts": 5}, {"tag": "gold", "contacts": 3},
        {"tag": "new", "contacts": 2}]);
    assert_eq!(listed["data"], rows);
    assert_eq!(change(&acme, json!({"filter": {"tags_any": ["new"]}, "delete": true})).await, 2);
    tagged(&acme, "", 6).await;
    acme.get(&format!("/v1/contacts/{}", ids[0])).await.check(404, "NOT_FOUND");
    assert_eq!(change(&acme, json!({"filter": {"search": "nobody"}, "delete": true})).await, 0);
    // An event reports each change.
    let emitted = acme.get("/v1/events?types=contact.deleted,contact.updated&limit=200").await.ok();
    assert_eq!(emitted["data"].as_array().unwrap().len(), 2 + 3 + 2);
}

#[tokio::test]
async fn what_is_not_well_formed_is_refused_by_its_field() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let id = make(&acme, 1, &[]).await.remove(0);
    let many = vec![id.clone(); 1001];
    for (body, field) in [
        (json!({"add_tags": ["x"]}), "ids"),
        (json!({"ids": [], "add_tags": ["x"]}), "ids"),
        (json!({"ids": many, "add_tags": ["x"]}), "ids"),
        (json!({"ids": ["x"], "add_tags": ["x"]}), "ids"),
        (json!({"ids": [id], "filter": {}, "add_tags": ["x"]}), "ids"),
        (json!({"ids": [id]}), "add_tags"),
        (json!({"ids": [id], "add_tags": [" "]}), "add_tags"),
        (json!({"ids": [id], "remove_tags": ["a\nb"]}), "remove_tags"),
        (json!({"ids": [id], "add_tags": ["x"], "delete": true}), "delete"),
        (json!({"filter": {"search": "x".repeat(201)}, "delete": true}), "filter.search"),
    ] {
        acme.post(BULK, body).await.check_field(field);
    }
    let (_, reads) = server.key("acme", &["contacts:read"], json!({})).await;
    let body = json!({"filter": {}, "delete": true});
    reads.post(BULK, body).await.check(403, "FORBIDDEN");
    assert_eq!(total(&acme, "").await, 1);
}

/// The server is killed while the change is under way.
#[tokio::test]
async fn a_change_goes_on_after_a_crash_in_the_order_in_which_it_was_asked_for() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let acme = server.workspace("acme").await;
    make(&acme, MANY, &["old"]).await;
    let all = json!({"filter": {}, "add_tags": ["first", "kept"]});
    assert_eq!(change(&acme, all).await, MANY as u64);
    let some = json!({"filter": {"tags_any": ["old"]}, "remove_tags": ["first"]});
    assert_eq!(change(&acme, some).await, MANY as u64);
    server.crash().await;
    let acme = server.api(acme.token());
    assert!(total(&acme, "tags_all=kept&tags_none=first").await < MANY as u64, "it was too fast");
    tagged(&acme, "tags_all=kept&tags_none=first", MANY).await;
    let deleted = json!({"filter": {}, "delete": true});
    assert_eq!(change(&acme, deleted).await, MANY as u64);
    server.crash().await;
    tagged(&server.api(acme.token()), "", 0).await;
}

#[tokio::test]
async fn a_timeline_shows_what_its_reader_may_know() {
    let server = TestServer::with(&UNLIMITED).await;
    let acme = server.workspace("acme").await;
    let phone = "+15550123456";
    let made = acme.post("/v1/contacts", json!({"name": "Ana", "phone": phone})).await.json();
    acme.post("/v1/contacts", json!({"name": "Bo", "phone": "+15550123457"})).await;
    acme.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    let wrote = json!({"from": phone, "text": "hello", "name": "Ana"});
    acme.post("/v1/sandbox/inbound", wrote).await.ok();
    acme.post("/v1/sandbox/inbound", json!({"from": "+15550123457", "text": "no"})).await.ok();
    let path = format!("/v1/contacts/{}/timeline", made["id"].as_str().unwrap());
    let kinds = |answer: &Value| -> Vec<String> {
        let rows = answer["data"].as_array().unwrap().iter();
        rows.map(|row| row["type"].as_str().unwrap().to_owned()).collect()
    };
    let all = kinds(&acme.get(&path).await.ok());
    assert_eq!(all.last().map(String::as_str), Some("contact.created"));
    for kind in ["otp.sent", "message.received", "conversation.opened"] {
        assert_eq!(all.iter().filter(|it| *it == kind).count(), 1, "{kind}: {all:?}");
    }
    let mut parts = Vec::new();
    let mut next = String::new();
    loop {
        let part = acme.get(&format!("{path}?limit=2{next}")).await.ok();
        parts.extend(kinds(&part));
        let Some(cursor) = part["next_cursor"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(parts, all);
    // A member who may not see codes sees none.
    let agent = people::member(&server, "acme", "agent").await;
    let seen = kinds(&agent.get(&path).await.ok());
    assert!(seen.iter().all(|kind| !kind.starts_with("otp.")) && seen.len() > 2, "{seen:?}");
    let (_, reads) = server.key("acme", &["contacts:read"], json!({})).await;
    assert_eq!(kinds(&reads.get(&path).await.ok()), seen);
    acme.get(&format!("{path}?cursor=x")).await.check_field("cursor");
    server.demo().get(&path).await.check(404, "NOT_FOUND");
}
