//! Single messages are listed.

use serde_json::{Value, json};

use super::{send_waiting, text, write};
use crate::support::{Api, TestServer};

const LIST: &str = "/v1/messaging/messages";
const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";

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
        // Of two messages of one millisecond the newer is first only if it is a new one.
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
