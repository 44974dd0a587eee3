//! Deliveries: their list, and their replay.

use serde_json::{Value, json};

use crate::support::{Sink, TestServer, eventually};
use crate::webhooks::{WEBHOOKS, events, register, request_ids, server};

#[tokio::test]
async fn what_was_delivered_can_be_had_again() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let early = events(&api, 2).await;
    server.advance(60).await;
    let clock = api.get("/v1/sandbox/clock").await.ok()["now"].clone();
    let (id, _) = register(&api, &sink.url("/"), json!({})).await;
    let path = format!("{WEBHOOKS}/{id}/replay");
    let mut late = events(&api, 2).await;
    late.sort();
    sink.wait("/", 2).await;
    let reply = api.post(&path, json!({"since": clock})).await;
    assert_eq!((reply.status, reply.ok()), (202, json!({"queued": 2})));
    let four = sink.wait("/", 4).await;
    let (mut first, mut again) = (request_ids(&four[..2]), request_ids(&four[2..]));
    first.sort();
    again.sort();
    assert_eq!((&first, &again), (&late, &late));
    let log = api.get("/v1/events").await.ok();
    let event = log["data"][0]["id"].clone();
    assert_eq!(api.post(&path, json!({"event_id": event})).await.ok(), json!({"queued": 1}));
    let fifth = sink.wait("/", 5).await.remove(4);
    assert_eq!(
        (fifth.id(), &request_ids(std::slice::from_ref(&fifth))[0]),
        (event.as_str().unwrap(), &early[0])
    );
    assert_eq!(api.post(&path, json!({"failed": true})).await.ok(), json!({"queued": 0}));
    let unknown = "evt_01jd3v0x5n8m7k2q4r6s8t0w2y";
    api.post(&path, json!({"event_id": unknown})).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn what_is_had_again_lets_new_events_go_first() {
    let mut server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({})).await;
    let mut old = events(&api, 30).await;
    sink.wait("/", 30).await;
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"rate_limit_per_second": 4})).await.ok();
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    let queued = api.post(&format!("{path}/replay"), since).await.ok();
    assert_eq!(queued["queued"], 30);
    let new = events(&api, 1).await.remove(0);
    let came = async || {
        let ids = request_ids(&sink.received("/")[30..]);
        ids.contains(&new).then_some(ids)
    };
    let came = eventually("the new event", came).await;
    assert!(came.len() < 20, "{} of 30 went before it", came.len() - 1);
    // The rest of the replay survives a crash.
    server.crash().await;
    api.send_json("PATCH", &path, &json!({"rate_limit_per_second": null})).await.ok();
    old.sort();
    let all = async || {
        let mut again = request_ids(&sink.received("/")[30..]);
        again.retain(|id| *id != new);
        again.sort();
        again.dedup();
        (again == old).then_some(())
    };
    eventually("all of the old ones once more", all).await;
}

#[tokio::test]
async fn a_disabled_endpoint_keeps_what_is_asked_for() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({})).await;
    let mut old = events(&api, 3).await;
    sink.wait("/", 3).await;
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"enabled": false})).await.ok();
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    let reply = api.post(&format!("{path}/replay"), since).await;
    assert_eq!((reply.status, reply.ok()), (202, json!({"queued": 3})));
    server.advance(60).await;
    assert_eq!(sink.received("/").len(), 3);
    api.send_json("PATCH", &path, &json!({"enabled": true})).await.ok();
    let mut again = request_ids(&sink.wait("/", 6).await[3..]);
    again.sort();
    old.sort();
    assert_eq!(again, old);
}

#[tokio::test]
async fn the_list_of_tries_is_as_long_as_it_is_set_up() {
    let settings =
        [("WEBHOOKS__DELIVERIES_KEPT_MAX", "2"), ("WEBHOOKS__DELIVERIES_KEPT_DAYS", "1")];
    let server = TestServer::with(&settings).await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    let path = format!("{WEBHOOKS}/{id}/deliveries");
    let mut rows = Value::Null;
    for sent in 1..=4 {
        events(&api, 1).await;
        let newest = sink.wait("/", sent).await.remove(sent - 1).id().to_owned();
        let listed = async || {
            let rows = api.get(&path).await.ok();
            (rows["data"][0]["event_id"] == newest.as_str()).then_some(rows)
        };
        rows = eventually("the newest row", listed).await;
    }
    assert_eq!((&rows["total"], rows["data"].as_array().unwrap().len()), (&json!(2), 2));
    server.advance(24 * 3600 + 1).await;
    assert_eq!(api.get(&path).await.ok()["total"], 0);
}
