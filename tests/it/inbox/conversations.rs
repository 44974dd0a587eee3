//! Conversations: the inbox.

use serde_json::{Value, json};

use crate::contacts::{CONTACTS, UNLIMITED, make, path};
use crate::support::{Api, TestServer, eventually};

const CONVERSATIONS: &str = "/v1/conversations";
const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";

async fn write(api: &Api, from: &str, text: &str) {
    let body = json!({"from": from, "text": text, "name": "Ana on the phone"});
    api.post("/v1/sandbox/inbound", body).await.ok();
}

async fn list(api: &Api, query: &str) -> Vec<Value> {
    let listed = api.get(&format!("{CONVERSATIONS}{query}")).await.ok();
    let rows = listed["data"].as_array().unwrap().clone();
    assert_eq!(listed["total"], rows.len());
    rows
}

fn at(conversation: &Value) -> String {
    format!("{CONVERSATIONS}/{}", conversation["id"].as_str().unwrap())
}

async fn messages(api: &Api, conversation: &Value) -> Vec<(String, String, String)> {
    let listed = api.get(&format!("{}/messages", at(conversation))).await.ok();
    let rows = listed["data"].as_array().unwrap();
    assert_eq!(listed["total"], rows.len());
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (text(row, "direction"), text(row, "text"), text(row, "status")))
        .collect()
}

async fn kinds(api: &Api) -> Vec<String> {
    let events = api.get("/v1/events?limit=200").await.ok();
    let rows = events["data"].as_array().unwrap().iter();
    let kinds = rows.map(|event| event["type"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with("con")).collect()
}

#[tokio::test]
async fn who_writes_first_becomes_a_contact_with_a_conversation() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    write(&api, ANA, "hello").await;
    api.post("/v1/sandbox/inbound", json!({"from": BO, "text": "no name"})).await.ok();
    let all = list(&api, "").await;
    let [bo, ana] = &all[..] else { panic!("{all:?}") };
    assert!(ana["id"].as_str().unwrap().starts_with("cnv_"));
    assert_eq!(
        (&ana["contact"]["name"], &ana["contact"]["phone"]),
        (&json!("Ana on the phone"), &json!(ANA))
    );
    assert_eq!((&ana["status"], &ana["channel"]), (&json!("open"), &json!("messaging")));
    assert_eq!((&ana["assigned_to"], &ana["last_message"]), (&Value::Null, &json!("hello")));
    assert_eq!(bo["contact"]["name"], BO, "a phone is a name where there is none");
    assert_eq!(ana.as_object().unwrap().len(), 13);
    let contact = api.get(&path(&ana["contact"])).await.ok();
    assert_eq!(ana["contact"], contact);
    assert_eq!(list(&other, "").await, Vec::<Value>::new());
    server.restart().await;
    assert_eq!(list(&api, "").await, all);
    assert_eq!(api.get(&at(ana)).await.ok(), *ana);
    write(&api, ANA, "hello again").await;
    let again = list(&api, "").await;
    assert_eq!((again.len(), &again[0]["id"]), (2, &ana["id"]), "newest activity first");
    assert_eq!(again[0]["last_message"], "hello again");
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 2);
    let seen = messages(&api, ana).await;
    let texts: Vec<_> = seen.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(texts, ["hello again", "hello"]);
    assert!(seen.iter().all(|(direction, _, status)| direction == "in" && status == "received"));
    assert_eq!(
        kinds(&api).await,
        ["contact.created", "conversation.opened", "contact.created", "conversation.opened",]
    );
}

#[tokio::test]
async fn a_known_contact_keeps_its_name() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let made = make(&api, json!({"name": "Ana Souza", "phone": ANA, "tags": ["vip"]})).await;
    assert_eq!(list(&api, "").await, Vec::<Value>::new(), "nothing was written yet");
    write(&api, ANA, "hello").await;
    assert_eq!(list(&api, "").await[0]["contact"], made);
    let change = json!({"name": "Ana Maria"});
    api.send_json("PATCH", &path(&made), &change).await.ok();
    assert_eq!(list(&api, "").await[0]["contact"]["name"], "Ana Maria");
}

#[tokio::test]
async fn a_reply_makes_it_pending_and_a_message_opens_it_again() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    write(&api, ANA, "hello").await;
    let conversation = list(&api, "").await.remove(0);
    let messages_at = format!("{}/messages", at(&conversation));
    let sent = api.post(&messages_at, json!({"type": "text", "text": "hi there"})).await.ok();
    assert!(sent["message_id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(sent["status"], "queued");
    let now = api.get(&at(&conversation)).await.ok();
    assert_eq!((&now["status"], &now["last_message"]), (&json!("pending"), &json!("hi there")));
    let settled = async || {
        let seen = messages(&api, &conversation).await;
        (seen[0].2 != "queued").then_some(seen)
    };
    let seen = eventually("what became of the reply", settled).await;
    assert_eq!((seen[0].0.as_str(), seen[0].1.as_str()), ("out", "hi there"));
    assert_eq!(seen.len(), 2);
    assert_eq!(api.get(&messages_at).await.ok()["data"][0]["id"], sent["message_id"]);
    for status in ["pending", "resolved"] {
        api.send_json("PATCH", &at(&conversation), &json!({"status": status})).await.ok();
        write(&api, ANA, "one more thing").await;
        assert_eq!(api.get(&at(&conversation)).await.ok()["status"], "open");
    }
    // A message from outside of the inbox is recorded, and the status stays.
    let body = json!({"to": ANA, "type": "text", "text": "by the API"});
    api.post("/v1/messaging/send", body).await.ok();
    let now = api.get(&at(&conversation)).await.ok();
    assert_eq!((&now["status"], &now["last_message"]), (&json!("open"), &json!("by the API")));
    assert_eq!(messages(&api, &conversation).await.len(), 5);
    assert_eq!(
        kinds(&api).await,
        [
            "contact.created",
            "conversation.opened",
            "conversation.updated",
            "conversation.opened",
            "conversation.updated",
            "conversation.opened",
        ]
    );
}

#[tokio::test]
async fn free_text_needs_the_window_and_a_template_does_not() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.demo();
    write(&api, ANA, "hello").await;
    let conversation = list(&api, "").await.remove(0);
    let messages_at = format!("{}/messages", at(&conversation));
    for (field, bad) in [
        ("type", json!({"text": "x"})),
        ("type", json!({"type": "poll", "text": "x"})),
        ("text", json!({"type": "text"})),
        ("text", json!({"type": "text", "text": ""})),
        ("template", json!({"type": "template", "text": "x"})),
    ] {
        api.post(&messages_at, bad).await.check_field(field);
    }
    server.advance(24 * 3600 + 1).await;
    let text = json!({"type": "text", "text": "too late"});
    let refused = api.post(&messages_at, text).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    assert_eq!(api.get(&at(&conversation)).await.ok()["status"], "open");
    let template = json!({"type": "template", "template": {"name": "welcome", "language": "en"}});
    api.post(&messages_at, template).await.ok();
    assert_eq!(api.get(&at(&conversation)).await.ok()["status"], "pending");
    let pending = json!({"type": "template", "template": {"name": "promo_pending"}});
    api.post(&messages_at, pending).await.check(422, "TEMPLATE_NOT_APPROVED");
    let contact = path(&conversation["contact"]);
    api.send_json("PATCH", &contact, &json!({"name": "x", "phone": null})).await.ok();
    let text = json!({"type": "text", "text": "x"});
    api.post(&messages_at, text).await.check(422, "UNPROCESSABLE");
    assert_eq!(messages(&api, &conversation).await.len(), 2);
}

#[tokio::test]
async fn agents_take_conversations_and_find_their_own() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    for (number, text) in ["a", "b", "c"].iter().enumerate() {
        write(&api, &format!("+1555000000{number}"), text).await;
    }
    let all = list(&api, "").await;
    let change = async |at: &str, body: Value| api.send_json("PATCH", at, &body).await.ok();
    let taken = change(&at(&all[0]), json!({"assigned_to": "agent-7"})).await;
    assert_eq!((&taken["assigned_to"], &taken["status"]), (&json!("agent-7"), &json!("open")));
    change(&at(&all[1]), json!({"assigned_to": "agent-7", "status": "resolved"})).await;
    assert_eq!(list(&api, "").await.len(), 3);
    for (query, expected) in [
        ("?status=open", vec![0, 2]),
        ("?status=resolved", vec![1]),
        ("?status=pending", vec![]),
        ("?assigned_to=agent-7", vec![0, 1]),
        ("?assigned_to=agent-7&status=open", vec![0]),
        ("?assigned_to=agent", vec![]),
    ] {
        let found: Vec<_> = list(&api, query).await.iter().map(|it| it["id"].clone()).collect();
        let expected: Vec<_> =
            expected.into_iter().map(|at: usize| all[at]["id"].clone()).collect();
        assert_eq!(found, expected, "{query}");
    }
    let kept = change(&at(&all[1]), json!({"status": "pending"})).await;
    assert_eq!(kept["assigned_to"], "agent-7");
    let cleared = change(&at(&all[1]), json!({"assigned_to": null, "status": null})).await;
    assert_eq!((&cleared["assigned_to"], &cleared["status"]), (&Value::Null, &json!("pending")));
    let second = api.get(&format!("{CONVERSATIONS}?limit=1&page=2")).await.ok();
    assert_eq!((&second["data"][0]["id"], &second["total"]), (&all[1]["id"], &json!(3)));
    for (field, bad) in [
        ("status", json!({"status": "closed"})),
        ("status", json!({"status": 1})),
        ("assigned_to", json!({"assigned_to": ""})),
        ("assigned_to", json!({"assigned_to": "x".repeat(101)})),
    ] {
        api.send_json("PATCH", &at(&all[0]), &bad).await.check_field(field);
    }
    api.get(&format!("{CONVERSATIONS}?status=closed")).await.check_field("status");
    api.get(&format!("{CONVERSATIONS}?assigned_to=")).await.check_field("assigned_to");
    api.get(&format!("{CONVERSATIONS}?limit=0")).await.check_field("limit");
}

#[tokio::test]
async fn a_reply_under_a_key_is_sent_once() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    write(&api, ANA, "hello").await;
    write(&api, "+15550000009", "hi").await;
    let [other, ana] = &list(&api, "").await[..] else { panic!("two conversations") };
    let reply = async |to: &Value, text: &str| {
        let body = json!({"type": "text", "text": text}).to_string();
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k-1")];
        api.call("POST", &format!("{}/messages", at(to)), &headers, body.as_bytes()).await
    };
    let first = reply(ana, "At eight.").await;
    let again = reply(ana, "At eight.").await;
    assert!(again.headers.contains(&("idempotency-replayed".to_owned(), "true".to_owned())));
    assert_eq!(first.ok(), again.ok());
    let written = api.get(&format!("{}/messages", at(ana))).await.ok();
    assert_eq!(written["total"], 2);
    for (to, text) in [(ana, "At nine."), (other, "At eight.")] {
        let refused = reply(to, text).await.check(422, "UNPROCESSABLE");
        assert_eq!(refused["reason"], "idempotency_mismatch");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_scopes_are_needed() {
    let server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    write(&api, ANA, "hello").await;
    let conversation = list(&api, "").await.remove(0);
    let theirs = at(&conversation);
    let text = json!({"type": "text", "text": "x"});
    let status = json!({"status": "open"});
    for (api, missing) in [
        (&other, theirs.clone()),
        (&api, format!("{CONVERSATIONS}/cnv_00000000000000000000000000")),
        (&api, format!("{CONVERSATIONS}/x")),
    ] {
        api.get(&missing).await.check(404, "NOT_FOUND");
        api.get(&format!("{missing}/messages")).await.check(404, "NOT_FOUND");
        api.send_json("PATCH", &missing, &status).await.check(404, "NOT_FOUND");
        api.post(&format!("{missing}/messages"), &text).await.check(404, "NOT_FOUND");
    }
    let (_, reader) = server.key("acme", &["contacts:read"], json!({})).await;
    let (_, writer) = server.key("acme", &["contacts:write"], json!({})).await;
    reader.get(&theirs).await.ok();
    writer.get(&theirs).await.check(403, "FORBIDDEN");
    reader.send_json("PATCH", &theirs, &status).await.check(403, "FORBIDDEN");
    writer.send_json("PATCH", &theirs, &status).await.ok();
    writer.post(&format!("{theirs}/messages"), &text).await.check(403, "FORBIDDEN");
    // The conversation is deleted with its contact; a new message starts another one.
    api.delete(&path(&conversation["contact"])).await.ok();
    api.get(&theirs).await.check(404, "NOT_FOUND");
    api.get(&format!("{theirs}/messages")).await.check(404, "NOT_FOUND");
    assert_eq!(list(&api, "").await, Vec::<Value>::new());
    write(&api, ANA, "it is me again").await;
    let new = list(&api, "").await.remove(0);
    assert_ne!(new["id"], conversation["id"]);
    assert_eq!(messages(&api, &new).await.len(), 1);
}

#[tokio::test]
async fn a_broadcast_opens_no_conversation_and_its_answer_does() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.demo();
    make(&api, json!({"name": "Ana", "phone": ANA})).await;
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": [ANA, BO]});
    let sale = api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", sale["broadcast_id"].as_str().unwrap());
    let done = async || (api.get(&path).await.ok()["status"] == "completed").then_some(());
    eventually("the end of the broadcast", done).await;
    assert_eq!(list(&api, "").await, Vec::<Value>::new());
    write(&api, ANA, "Which sizes?").await;
    let conversation = list(&api, "").await.remove(0);
    assert_eq!(
        (&conversation["status"], &conversation["contact"]["name"]),
        (&json!("open"), &json!("Ana"))
    );
    assert_eq!(messages(&api, &conversation).await.len(), 1);
}
