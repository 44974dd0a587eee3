//! Agents' view of conversations: unread messages, assignees, and the time left for an answer.

use serde_json::{Value, json};

use crate::contacts::UNLIMITED;
use crate::support::{Api, TestServer, eventually};

const CONVERSATIONS: &str = "/v1/conversations";
const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";

async fn write(api: &Api, from: &str, text: &str, name: &str) {
    api.post("/v1/sandbox/inbound", json!({"from": from, "text": text, "name": name})).await.ok();
}

async fn one(api: &Api, query: &str) -> Value {
    let mut rows = list(api, query).await;
    assert_eq!(rows.len(), 1, "{query}: {rows:?}");
    rows.remove(0)
}

async fn list(api: &Api, query: &str) -> Vec<Value> {
    let listed = api.get(&format!("{CONVERSATIONS}{query}")).await.ok();
    let rows = listed["data"].as_array().unwrap().clone();
    assert_eq!(listed["total"], rows.len(), "{query}");
    rows
}

fn at(conversation: &Value) -> String {
    format!("{CONVERSATIONS}/{}", conversation["id"].as_str().unwrap())
}

#[tokio::test]
async fn what_a_contact_writes_is_unread_until_somebody_reads_or_answers() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let counts = async || api.get(&format!("{CONVERSATIONS}/counts")).await.ok();
    let none = json!({"open": 0, "pending": 0, "resolved": 0, "mine": 0, "unassigned": 0,
        "unread": 0});
    assert_eq!(counts().await, none);
    write(&api, ANA, "hello", "Ana").await;
    write(&api, ANA, "are you there?", "Ana").await;
    write(&api, BO, "hi", "Bo").await;
    let ana = one(&api, "?search=ANA").await;
    assert_eq!((&ana["unread"], &ana["assignee"]), (&json!(2), &Value::Null));
    assert_eq!(ana["last_inbound_at"], ana["last_message_at"]);
    let two = json!({"open": 2, "pending": 0, "resolved": 0, "mine": 0, "unassigned": 2,
        "unread": 2});
    assert_eq!(counts().await, two);
    let read = format!("{}/read", at(&ana));
    for _ in 0..2 {
        assert_eq!(api.post(&read, json!({})).await.ok(), json!({"read": true}));
    }
    let seen = api.get(&at(&ana)).await.ok();
    assert_eq!((&seen["unread"], &seen["status"]), (&json!(0), &json!("open")));
    assert_eq!(counts().await["unread"], 1);
    let bo = one(&api, "?search=hi").await;
    let text = json!({"type": "text", "text": "Hello Bo"});
    api.post(&format!("{}/messages", at(&bo)), text).await.ok();
    let seen = api.get(&at(&bo)).await.ok();
    assert_eq!((&seen["unread"], &seen["status"]), (&json!(0), &json!("pending")));
    api.send_json("PATCH", &at(&bo), &json!({"assigned_to": "agent-7"})).await.ok();
    let now = json!({"open": 1, "pending": 1, "resolved": 0, "mine": 0, "unassigned": 1,
        "unread": 0});
    assert_eq!(counts().await, now);
    // A message of the interface is no reply.
    write(&api, BO, "thanks", "Bo").await;
    let text = json!({"to": BO, "type": "text", "text": "Your parcel is on its way"});
    api.post("/v1/messaging/send", text).await.ok();
    assert_eq!(api.get(&at(&bo)).await.ok()["unread"], 1);
    let nobody = format!("{CONVERSATIONS}/cnv_01jd3v0x5n8m7k2q4r6s8t0w2y/read");
    api.post(&nobody, json!({})).await.check(404, "NOT_FOUND");
    let other = server.workspace("other").await;
    other.post(&read, json!({})).await.check(404, "NOT_FOUND");
    assert_eq!(other.get(&format!("{CONVERSATIONS}/counts")).await.ok(), none);
}

#[tokio::test]
async fn the_reply_window_says_whether_free_text_is_taken() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    write(&api, ANA, "hello", "Ana").await;
    let ana = one(&api, "").await;
    let window = async || api.get(&at(&ana)).await.ok()["reply_window"].clone();
    let closes_at = window().await["closes_at"].clone();
    assert_eq!(window().await, json!({"open": true, "closes_at": closes_at}));
    let written: Vec<_> = ["last_inbound_at", "created_at"].map(|it| ana[it].clone()).into();
    assert!(written[0].as_str() < closes_at.as_str(), "{written:?} {closes_at}");
    api.post("/v1/sandbox/clock", json!({"advance_seconds": 24 * 3600 + 1})).await.ok();
    assert_eq!(window().await, json!({"open": false, "closes_at": closes_at}));
    let text = json!({"type": "text", "text": "?"});
    let refused = api.post(&format!("{}/messages", at(&ana)), text).await;
    let refused = refused.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    write(&api, ANA, "still here", "Ana").await;
    assert_eq!(window().await["open"], true);
    assert_eq!(one(&api, "").await["reply_window"], window().await);
}

#[tokio::test]
async fn a_user_sees_their_own_conversations_and_their_name() {
    let server = TestServer::start().await;
    let (key, mut agent) = (server.demo(), server.browser());
    let email = "ada@example.com";
    let link = json!({"email": email, "workspace": "demo", "role": "agent"});
    let made: Value = server.admin().post("/admin/v1/users/link", link).await.ok();
    let me = agent.follow(made["url"].as_str().unwrap()).await.ok()["principal"].clone();
    write(&key, ANA, "hello", "Ana").await;
    write(&key, BO, "hello", "Bo").await;
    let ana = one(&key, "?search=Ana").await;

    let same = [("Sec-Fetch-Site", "same-origin")];
    let mine = json!({"assigned_to": "me"});
    let row = agent.send("PATCH", &at(&ana), &same, Some(&mine)).await.ok();
    assert_eq!(row["assignee"], json!({"id": me["id"], "name": me["name"]}));
    assert_eq!(row["assigned_to"], me["id"]);
    let listed = agent.get(&format!("{CONVERSATIONS}?assigned_to=me")).await.ok();
    assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&json!(1), &ana["id"]));
    let counts = agent.get(&format!("{CONVERSATIONS}/counts")).await.ok();
    assert_eq!((&counts["mine"], &counts["unassigned"]), (&json!(1), &json!(1)));
    assert_eq!(one(&key, "?assigned_to=none").await["contact"]["name"], "Bo");
    assert_eq!(one(&key, &format!("?assigned_to={}", me["id"].as_str().unwrap())).await, row);
    // A key is no user.
    assert_eq!(list(&key, "?assigned_to=me").await, Vec::<Value>::new());
    for name in ["me", "none"] {
        let refused = key.send_json("PATCH", &at(&ana), &json!({"assigned_to": name})).await;
        refused.check(400, "VALIDATION_ERROR");
    }
    // Another name is an assignee too.
    let row = key.send_json("PATCH", &at(&ana), &json!({"assigned_to": "bot"})).await.ok();
    assert_eq!(row["assignee"], json!({"id": "bot", "name": "bot"}));
}

#[tokio::test]
async fn conversations_are_searched_by_contact_and_last_message() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    write(&api, ANA, "Where is my ÖRDER?", "Ana Souza").await;
    write(&api, BO, "thanks", "Bo").await;
    for found in ["souza", "%C3%B6rder", "555012345%36", "%2B15550123456"] {
        let row = one(&api, &format!("?search={found}")).await;
        assert_eq!(row["contact"]["name"], "Ana Souza", "{found}");
    }
    assert_eq!(list(&api, "?search=+").await.len(), 2, "blank is none");
    assert_eq!(list(&api, "?search=nobody").await.len(), 0);
    let listed = api.get(&format!("{CONVERSATIONS}?search=5550123&limit=1&page=2")).await.ok();
    assert_eq!((&listed["total"], listed["data"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(list(&api, "?search=ana&status=pending").await.len(), 0);
    let long = "x".repeat(201);
    api.get(&format!("{CONVERSATIONS}?search={long}")).await.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_reply_that_failed_says_why() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    write(&api, ANA, "hello", "Ana").await;
    let ana = one(&api, "").await;
    let outcome = json!({"to": ANA, "outcome": "failed", "times": 1});
    api.post("/v1/sandbox/outcomes", outcome).await.ok();
    let messages = format!("{}/messages", at(&ana));
    api.post(&messages, json!({"type": "text", "text": "hi"})).await.ok();
    let failed = async || {
        let row = api.get(&messages).await.ok()["data"][0].clone();
        (row["status"] == "failed").then_some(row)
    };
    let row = eventually("it fails", failed).await;
    assert!(row["error"]["message"].is_string(), "{row}");
    assert!(row["error"].as_object().unwrap().contains_key("code"), "{row}");
    assert_eq!(api.get(&messages).await.ok()["data"][1]["error"], Value::Null);
}

#[tokio::test]
async fn what_happens_in_conversations_is_counted_by_day() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.demo();
    const DAYS: &str = "/v1/conversations/days";
    let counts = |row: &Value| {
        ["received", "sent", "opened", "resolved"].map(|name| row[name].as_u64().unwrap())
    };
    assert_eq!(api.get(DAYS).await.ok()["data"], json!([]));
    write(&api, ANA, "hello", "Ana").await;
    write(&api, ANA, "are you there?", "Ana").await;
    write(&api, BO, "hi", "Bo").await;
    let ana = one(&api, "?search=ANA").await;
    let text = json!({"type": "text", "text": "Hello Ana"});
    api.post(&format!("{}/messages", at(&ana)), text).await.ok();
    for _ in 0..2 {
        api.send_json("PATCH", &at(&ana), &json!({"status": "resolved"})).await.ok();
    }
    let first = api.get(DAYS).await.ok();
    assert_eq!([&first["data"][0], &first["totals"]].map(counts), [[3, 1, 2, 1]; 2], "{first}");
    // A crash counts nothing twice; a new day has its own row.
    server.crash().await;
    server.advance(24 * 3600).await;
    let api = server.demo();
    write(&api, ANA, "again", "Ana").await;
    let both = api.get(DAYS).await.ok();
    let rows: Vec<_> = both["data"].as_array().unwrap().iter().map(counts).collect();
    assert_eq!(rows, [[3, 1, 2, 1], [1, 0, 1, 0]], "{both}");
    assert_eq!(counts(&both["totals"]), [4, 1, 3, 1]);
    let day = both["data"][0]["day"].as_str().unwrap();
    let only = api.get(&format!("{DAYS}?from={day}&to={day}")).await.ok();
    assert_eq!(
        (only["data"].as_array().unwrap().len(), counts(&only["totals"])),
        (1, [3, 1, 2, 1])
    );
}
