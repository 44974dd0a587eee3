//! Deliveries that carry several events, and how large one may be.

use serde_json::{Value, json};

use crate::support::{Answer, Sink};
use crate::webhooks::{WEBHOOKS, deliveries, events, register, server, verify};

/// More bytes than any event has.
const EVENT_BYTES_MAX: usize = 70_000;

#[tokio::test]
async fn a_batch_is_an_array() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(500, "")]);
    let (id, secret) = register(&api, &sink.url("/"), json!({"batch": true})).await;
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"enabled": false})).await.ok();
    let mut sent = events(&api, 130).await;
    // The first of several events of one millisecond is not always the smaller.
    sent.sort();
    api.send_json("PATCH", &path, &json!({"enabled": true})).await.ok();
    let first = sink.wait("/", 1).await.remove(0);
    server.advance(7).await;
    let received = sink.wait("/", 3).await;
    let again = received[1..].iter().find(|it| it.id() == first.id()).unwrap();
    assert_eq!(again.body, first.body, "the same batch, under the same id");
    verify(&secret, again);
    let mut all = Vec::new();
    for it in &received[1..] {
        let batch = it.json();
        let batch = batch.as_array().unwrap();
        assert!(batch.len() <= 100);
        let id = |event: &Value| event["data"]["request_id"].as_str().unwrap().to_owned();
        all.extend(batch.iter().map(id));
    }
    all.sort();
    assert_eq!(all, sent);
    // The list contains the events of each try, and each of them can be replayed.
    let rows = deliveries(&api, &id, 3).await;
    for it in &received {
        let batch: Vec<_> =
            it.json().as_array().unwrap().iter().map(|event| event["id"].clone()).collect();
        let row = rows.iter().find(|row| row["event_id"] == it.id()).unwrap();
        assert_eq!((&row["type"], &row["event_ids"]), (&json!("batch"), &json!(batch)));
    }
    let one = rows[0]["event_ids"][0].clone();
    let again = api.post(&format!("{path}/replay"), json!({ "event_id": one })).await.ok();
    assert_eq!(again["queued"], 1);
    let fourth = sink.wait("/", 4).await.remove(3);
    assert_eq!(fourth.json()[0]["id"], one, "an array of one");
}

#[tokio::test]
async fn a_batch_that_was_tried_stays_what_it_is() {
    let mut server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(500, "")]);
    let types = json!({"batch": true, "events": ["otp.sent", "webhook.disabled"]});
    let (id, _) = register(&api, &sink.url("/"), types).await;
    let path = format!("{WEBHOOKS}/{id}");
    events(&api, 1).await;
    deliveries(&api, &id, 1).await;
    for change in [json!({"events": ["otp.failed"]}), json!({"batch": false, "events": []})] {
        api.send_json("PATCH", &path, &change).await.ok();
    }
    let single = events(&api, 1).await;
    server.restart().await;
    server.advance(7).await;
    let received = sink.wait("/", 3).await;
    let first = &received[0];
    let again = received[1..].iter().find(|it| it.id() == first.id()).unwrap();
    assert_eq!(again.body, first.body);
    let new = received[1..].iter().find(|it| it.id() != first.id()).unwrap();
    assert_eq!(new.json()["data"]["request_id"], single[0], "what is new is as it is asked for");
}

#[tokio::test]
async fn large_events_end_a_batch_early() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({"batch": true, "enabled": false})).await;
    // The largest contact, in characters of four bytes; as JSON its fields are longer.
    let tag = |number: usize| format!("{}{number:02}", "😀".repeat(62));
    let contacts: Vec<_> = (0..20)
        .map(|_| {
            let fields = json!({"notes": "\u{1}".repeat(2_700)});
            let tags: Vec<_> = (0..50).map(tag).collect();
            json!({"name": "😀".repeat(200), "tags": tags, "custom_fields": fields})
        })
        .collect();
    let made = api.post("/v1/contacts/batch", json!({ "contacts": contacts })).await.ok();
    assert_eq!(made["data"][0]["status"], 201, "{made}");
    let inbound = json!({"from": "+14155550123", "text": "\u{1}".repeat(4_096)});
    api.post("/v1/sandbox/inbound", inbound).await.ok();
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"enabled": true})).await.ok();
    let received = sink.wait("/", 3).await;
    let mut largest = 0;
    for it in &received {
        let batch = it.json();
        let sizes: Vec<_> =
            batch.as_array().unwrap().iter().map(|event| event.to_string().len()).collect();
        largest = largest.max(*sizes.iter().max().unwrap());
        assert!(it.body.len() < 256 * 1024 + EVENT_BYTES_MAX, "{} bytes", it.body.len());
    }
    assert!((29_000..EVENT_BYTES_MAX).contains(&largest), "{largest} bytes");
    let counts = received.iter().map(|it| it.json().as_array().unwrap().len());
    assert!(counts.max().unwrap() < 20, "none of them has all of the contacts");
}
