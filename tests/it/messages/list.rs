//! The list of single messages.

use serde_json::{Value, json};

use super::{send_waiting, text, write};
use crate::support::{Api, TestServer};

const LIST: &str = "/v1/messaging/messages";
const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";
const BROADCASTS: &str = "/v1/messaging/broadcasts";

async fn list(api: &Api, query: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{LIST}?limit={limit}{query}{cursor}")).await.ok();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= limit);
        rows.extend(data.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

#[tokio::test]
async fn messages_are_listed_newest_first_with_filters() {
    let mut server = TestServer::start().await;
    let (api, other) = (server.demo(), server.workspace("other").await);
    assert_eq!(list(&api, "", 50).await, Vec::<Value>::new());
    for phone in [ANA, BO] {
        write(&api, phone).await;
    }
    api.post("/v1/sandbox/outcomes", json!({"to": BO, "outcome": "failed", "times": 1})).await.ok();
    let order = json!({"name": "order_update", "language": "en", "components": [
        {"type": "body", "parameters": [{"type": "text", "text": "7"}, {"type": "text", "text": "8"}]}
    ]});
    let template = json!({"to": ANA, "type": "template", "template": order});
    let mut sent = Vec::new();
    for body in [text(ANA), text(BO), text(ANA), template] {
        let reply = send_waiting(&api, &body, &[]).await.ok();
        sent.insert(0, reply["message_id"].as_str().unwrap().to_owned());
        // Two messages of one millisecond have no order.
        server.advance(1).await;
    }
    let rows = list(&api, "", 50).await;
    let ids: Vec<_> = rows.iter().map(|row| row["message_id"].as_str().unwrap()).collect();
    assert_eq!(ids, sent);
    for row in &rows {
        let path = format!("{LIST}/{}", row["message_id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.ok(), *row);
    }
    for limit in [1, 2, 3] {
        assert_eq!(list(&api, "", limit).await, rows, "{limit}");
    }
    assert_eq!(list(&api, "&to=%2B15550123457", 1).await, rows[2..3]);
    assert_eq!(list(&api, "&status=failed&to=+15550123457", 1).await, rows[2..3]);
    assert_eq!(list(&api, "&status=failed&to=+15550123456", 1).await.len(), 0);
    assert_eq!(list(&api, "&template=order_update", 1).await, rows[..1]);
    assert_eq!(list(&api, "&template=welcome", 1).await.len(), 0);
    let made = rows[1]["created_at"].as_str().unwrap();
    assert_eq!(list(&api, &format!("&since={made}"), 1).await, rows[..2]);
    assert_eq!(list(&api, &format!("&until={made}"), 1).await, rows[2..]);
    assert_eq!(list(&other, "", 50).await, Vec::<Value>::new());
    server.restart().await;
    assert_eq!(list(&server.demo(), "", 50).await, rows);
    for bad in ["status=done", "to=5", "since=x", "until=1", "cursor=AQ", "limit=201"] {
        api.get(&format!("{LIST}?{bad}")).await.check(400, "VALIDATION_ERROR");
    }
    let long = format!("{LIST}?template={}", "x".repeat(513));
    api.get(&long).await.check(400, "VALIDATION_ERROR");
}

/// Returns bodies with a wrong `reference` or `metadata`, and the field that the refusal names.
fn wrong_notes() -> Vec<(Value, &'static str)> {
    let many: serde_json::Map<_, _> =
        (0..17).map(|number| (number.to_string(), json!(""))).collect();
    vec![
        (json!({"reference": ""}), "reference"),
        (json!({"reference": "x".repeat(129)}), "reference"),
        (json!({"reference": "a\nb"}), "reference"),
        (json!({"reference": 5}), "reference"),
        (json!({"metadata": many}), "metadata"),
        (json!({"metadata": {"k".repeat(41): "v"}}), "metadata"),
        (json!({"metadata": {"shop": "v".repeat(257)}}), "metadata.shop"),
        (json!({"metadata": {"shop": 1}}), "metadata.shop"),
        (json!({"metadata": []}), "metadata"),
    ]
}

fn with(body: &Value, more: &Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn sale() -> Value {
    json!({"name": "Sale", "template_name": "welcome", "recipients": [BO, ANA]})
}

fn answer() -> Value {
    json!({"type": "text", "text": "On its way."})
}

/// Checks that wrong notes are refused wherever they are possible.
async fn check_refusals(api: &Api, reply: &str) {
    let all = [("/v1/messaging/send", text(ANA)), (reply, answer()), (BROADCASTS, sale())];
    for (notes, field) in wrong_notes() {
        for (path, body) in &all {
            let refused = api.post(path, with(body, &notes)).await.check(400, "VALIDATION_ERROR");
            assert!(refused["message"].as_str().unwrap().contains(field), "{path} {refused}");
        }
    }
}

/// Checks that every event about a message or a broadcast of the workspace has its notes.
async fn check_events(api: &Api) {
    let rows = api.get("/v1/events?limit=200").await.ok();
    let is_listed = |row: &&Value| {
        let kind = row["type"].as_str().unwrap();
        kind.starts_with("broadcast.") || kind.starts_with("message.") && kind != "message.received"
    };
    let listed: Vec<_> = rows["data"].as_array().unwrap().iter().filter(is_listed).collect();
    assert!(listed.len() >= 6, "{listed:?}");
    for row in listed {
        let data = &row["data"];
        assert!(data["reference"].is_string() && data["metadata"]["shop"] == "nörd", "{row}");
    }
}

#[tokio::test]
async fn what_a_sender_notes_is_in_every_row_and_event() {
    let mut server = TestServer::start().await;
    let api = server.demo();
    write(&api, ANA).await;
    let conversations = api.get("/v1/conversations").await.ok();
    let reply =
        format!("/v1/conversations/{}/messages", conversations["data"][0]["id"].as_str().unwrap());
    check_refusals(&api, &reply).await;
    let (broadcasts, sale, answer) = (BROADCASTS, sale(), answer());
    let notes = |name: &str| json!({"reference": name, "metadata": {"shop": "nörd", "": ""}});
    let single = send_waiting(&api, &with(&text(ANA), &notes("order 1")), &[]).await.ok();
    let replied = api.post(&reply, with(&answer, &notes("order 1"))).await.ok();
    let made = api.post(broadcasts, with(&sale, &notes("spring"))).await.ok();
    let made = format!("{broadcasts}/{}", made["broadcast_id"].as_str().unwrap());
    crate::support::eventually("the broadcast is over", async || {
        let found = api.get(&made).await.ok();
        assert_eq!(
            (&found["reference"], &found["metadata"]["shop"]),
            (&json!("spring"), &json!("nörd"))
        );
        (found["status"] == "completed").then_some(())
    })
    .await;
    let reference =
        |rows: &[Value]| rows.iter().map(|row| row["reference"].clone()).collect::<Vec<_>>();
    for _ in 0..2 {
        let api = server.demo();
        let found = list(&api, "&reference=order%201", 1).await;
        let ids: Vec<_> = found.iter().map(|row| &row["message_id"]).collect();
        assert_eq!(ids, [&replied["message_id"], &single["message_id"]]);
        assert_eq!(found[0]["metadata"], json!({"shop": "nörd", "": ""}));
        assert_eq!(list(&api, "&reference=order", 1).await.len(), 0);
        let written = api.get(&reply).await.ok();
        let written = written["data"].as_array().unwrap();
        assert_eq!(reference(written), [json!("order 1"), json!("order 1"), Value::Null]);
        let of_ana = list(&api, "&to=%2B15550123456", 2).await;
        assert_eq!(reference(&of_ana), [json!("spring"), json!("order 1"), json!("order 1")]);
        assert_eq!(of_ana[1]["broadcast_id"], Value::Null);
        let id = of_ana[0]["broadcast_id"].as_str().unwrap();
        let of_broadcast = list(&api, &format!("&broadcast_id={id}"), 1).await;
        assert_eq!(reference(&of_broadcast), [json!("spring"), json!("spring")]);
        assert_eq!(list(&api, &format!("&broadcast_id={id}&to=%2B15550123457"), 5).await.len(), 1);
        assert_eq!(list(&api, "", 50).await.len(), 2, "single ones only");
        server.crash().await;
        server.restart().await;
    }
    check_events(&server.demo()).await;
}

#[tokio::test]
async fn filters_of_messages_combine() {
    let server = TestServer::start().await;
    let api = server.demo();
    write(&api, ANA).await;
    let person = json!({"user_id": "US.7", "text": "Hello"});
    api.post("/v1/sandbox/inbound", person).await.ok();
    send_waiting(&api, &text(ANA), &[]).await.ok();
    let to_person = json!({"recipient": "US.7", "type": "text", "text": "Hi"});
    send_waiting(&api, &to_person, &[]).await.ok();
    let welcome = json!({"to": ANA, "type": "template", "template": {"name": "welcome"}});
    send_waiting(&api, &welcome, &[]).await.ok();
    let rows = list(&api, "", 50).await;
    assert_eq!(rows.len(), 3);
    let number = rows[0]["number_id"].as_str().unwrap();
    for (query, expected) in [
        ("&recipient=US.7".to_owned(), 1),
        ("&to=US.7".to_owned(), 1),
        ("&type=template".to_owned(), 1),
        ("&type=text&to=%2B15550123456".to_owned(), 1),
        (format!("&number_id={number}&status=sent"), 3),
        ("&number_id=num_01jd3v0x5n8m7k2q4r6s8t0w2y".to_owned(), 0),
        ("&broadcast_id=brd_01jd3v0x5n8m7k2q4r6s8t0w2y".to_owned(), 0),
    ] {
        assert_eq!(list(&api, &query, 2).await.len(), expected, "{query}");
    }
    for (bad, field) in [
        ("recipient=5", "recipient"),
        ("to=US.7&recipient=US.7", "recipient"),
        ("type=email", "type"),
        ("number_id=5", "number_id"),
        ("broadcast_id=num_01jd3v0x5n8m7k2q4r6s8t0w2y", "broadcast_id"),
        ("since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z", "until"),
    ] {
        let refused = api.get(&format!("{LIST}?{bad}")).await.check(400, "VALIDATION_ERROR");
        assert!(refused["message"].as_str().unwrap().contains(field), "{bad} {refused}");
    }
}
