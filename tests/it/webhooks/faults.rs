//! Endpoints that behave badly, and the rest that is not harmed by them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Answer, Api, Received, Sink, clustered, eventually};
use crate::webhooks::{deliveries, events, register, server, verify};

fn ids(received: &[Received]) -> Vec<String> {
    received.iter().map(|it| it.id().to_owned()).collect()
}

async fn read(api: &Api, id: &str) -> Value {
    api.get(&format!("/v1/webhooks/{id}")).await.ok()
}

#[tokio::test]
async fn a_failure_is_tried_again_under_the_same_id() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next(
        "/",
        [Answer::Status(500, ""), Answer::Reset, Answer::Status(302, "Location: /x\r\n")],
    );
    let (id, secret) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    events(&api, 1).await;
    for (tries, seconds) in [(1, 7), (2, 361), (3, 2161)] {
        let rows = deliveries(&api, &id, tries).await;
        assert_eq!(rows[0]["attempt"], tries);
        let at = crate::support::millis(rows[0]["at"].as_str().unwrap());
        let next = crate::support::millis(rows[0]["next_retry_at"].as_str().unwrap());
        let most = seconds * 1000;
        assert!((most / 2..=most).contains(&(next - at)), "{tries}: {}", next - at);
        assert_eq!(sink.received("/").len(), tries);
        server.advance(seconds).await;
    }
    let rows = deliveries(&api, &id, 4).await;
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("attempt"), [4, 3, 2, 1].map(Value::from));
    assert_eq!(of("status"), [json!(200), json!(302), Value::Null, json!(500)]);
    assert_eq!(
        of("error"),
        [Value::Null, json!("redirect"), json!("connection_lost"), json!("status")]
    );
    let received = sink.received("/");
    assert_eq!(received.len(), 4);
    let distinct: HashSet<_> = ids(&received).into_iter().collect();
    assert_eq!(distinct.len(), 1);
    let stamps: HashSet<_> = received.iter().map(|it| it.header("webhook-timestamp")).collect();
    assert!(!stamps.is_empty());
    received.iter().for_each(|it| verify(&secret, it));
    assert_eq!(sink.received("/x").len(), 0, "a redirect is not followed");
}

#[tokio::test]
async fn what_fails_for_three_days_is_given_up_and_can_be_had_again() {
    let mut server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", (0..10).map(|_| Answer::Status(500, "")));
    let (id, _) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    events(&api, 1).await;
    // 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, and a fifth more.
    let waits = [6, 360, 2160, 8640, 21_600, 43_200, 60_480, 86_400, 103_680];
    for (before, wait) in waits.into_iter().enumerate() {
        deliveries(&api, &id, before + 1).await;
        server.advance(wait).await;
    }
    let rows = deliveries(&api, &id, 10).await;
    assert_eq!((&rows[0]["attempt"], &rows[0]["next_retry_at"]), (&json!(10), &Value::Null));
    server.advance(30 * 3600).await;
    server.restart().await;
    assert_eq!(sink.received("/").len(), 10);
    let path = format!("/v1/webhooks/{id}/replay");
    let again =
        async || (api.post(&path, json!({"failed": true})).await.ok()["queued"] == 1).then_some(());
    eventually("a replay", again).await;
    let received = sink.wait("/", 11).await;
    assert_eq!(received[10].id(), received[0].id());
}

#[tokio::test]
async fn a_gone_endpoint_stays_disabled_until_it_is_enabled() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(410, "")]);
    let (id, _) = register(&api, &sink.url("/"), json!({})).await;
    events(&api, 1).await;
    let disabled = async || (read(&api, &id).await["enabled"] == false).then_some(());
    eventually("the end of the endpoint", disabled).await;
    assert_eq!(read(&api, &id).await["disabled_reason"], "gone");
    let log = api.get("/v1/events?type=webhook.disabled").await.ok();
    assert_eq!(log["data"][0]["data"], json!({"webhook_id": id, "reason": "gone"}));
    let missed = events(&api, 2).await;
    server.advance(3600).await;
    assert_eq!(sink.received("/").len(), 1);
    let path = format!("/v1/webhooks/{id}");
    let enabled = api.send_json("PATCH", &path, &json!({"enabled": true})).await.ok();
    assert!(enabled["disabled_reason"].is_null());
    // The refused event, the event that reports it, and all events since then.
    let received = sink.wait("/", 5).await;
    let text = received.iter().map(|it| it.json().to_string()).collect::<String>();
    assert!(missed.iter().all(|id| text.contains(id)));
}

#[tokio::test]
async fn what_the_old_address_answers_late_is_not_held_against_the_new_one() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (release, held) = tokio::sync::watch::channel(false);
    sink.then("/old", Answer::Held(held, 410));
    let (id, _) = register(&api, &sink.url("/old"), json!({"events": ["otp.sent"]})).await;
    events(&api, 1).await;
    sink.wait("/old", 1).await;
    let url = json!({"url": sink.url("/new")});
    api.send_json("PATCH", &format!("/v1/webhooks/{id}"), &url).await.ok();
    release.send_replace(true);
    let rows = deliveries(&api, &id, 2).await;
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!((of("status"), of("attempt")), (vec![json!(200), json!(410)], vec![json!(1); 2]));
    assert_eq!(sink.received("/new").len(), 1);
    assert_eq!(read(&api, &id).await["enabled"], true);
}

#[tokio::test]
async fn five_days_of_failures_disable_it_and_old_ones_are_forgiven() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.then("/", Answer::Status(500, ""));
    let (id, _) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    for day in 0..5 {
        events(&api, 1).await;
        deliveries(&api, &id, day + 1).await;
        assert_eq!(read(&api, &id).await["enabled"], true);
        server.advance(24 * 3600).await;
    }
    let disabled = async || (read(&api, &id).await["enabled"] == false).then_some(());
    eventually("the end of the endpoint", disabled).await;
    assert_eq!(read(&api, &id).await["disabled_reason"], "failing");
    let path = format!("/v1/webhooks/{id}");
    api.send_json("PATCH", &path, &json!({"enabled": true})).await.ok();
    let before = sink.received("/").len();
    events(&api, 1).await;
    sink.wait("/", before + 1).await;
    deliveries(&api, &id, before + 1).await;
    assert_eq!(read(&api, &id).await["enabled"], true, "what failed before does not count");
}

#[tokio::test]
async fn an_endpoint_that_asks_for_it_is_left_alone() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(429, "Retry-After: 3600\r\n")]);
    let (id, _) = register(&api, &sink.url("/"), json!({})).await;
    events(&api, 1).await;
    let rows = deliveries(&api, &id, 1).await;
    assert_eq!(rows[0]["status"], 429);
    let millis = |name: &str| crate::support::millis(rows[0][name].as_str().unwrap());
    assert!(millis("next_retry_at") - millis("at") >= 3_600_000);
    events(&api, 3).await;
    server.advance(3500).await;
    events(&api, 1).await;
    assert_eq!(sink.received("/").len(), 1, "nothing at all goes there");
    server.advance(110).await;
    sink.wait("/", 6).await;
}

#[tokio::test]
async fn large_and_endless_answers_are_not_read_to_their_end() {
    let off = [("WEBHOOKS__TIMEOUT_SECONDS", "1"), ("LIMITS__OTP_PER_PHONE_10M", "0")];
    let server = crate::support::TestServer::with(&off).await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Gigabyte, Answer::Drip, Answer::Hang]);
    let (id, _) = register(&api, &sink.url("/"), json!({"ordered": true})).await;
    events(&api, 3).await;
    let mut rows = deliveries(&api, &id, 3).await;
    rows.reverse();
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("status"), [json!(200), json!(200), Value::Null]);
    assert_eq!(of("error"), [Value::Null, Value::Null, json!("timeout")]);
    assert!(sink.sent() < 64 << 20, "{} bytes were taken", sink.sent());
    // An event that was answered with success is delivered, and does not come again.
    server.advance(7).await;
    let received = sink.wait("/", 4).await;
    assert_eq!(received[3].id(), received[2].id());
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    register(&api, &sink.url("/"), json!({"ordered": true})).await;
    let sent = events(&api, 30).await;
    let received = sink.wait("/", 30).await;
    let id = |it: &Received| it.json()["data"]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(received.iter().map(id).collect::<Vec<_>>(), sent, "in order");
    assert!(sink.connections() <= 2, "{}", sink.connections());
}

#[tokio::test]
async fn strict_order_waits_for_what_failed() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(200, ""), Answer::Status(500, "")]);
    let (id, _) = register(&api, &sink.url("/"), json!({"ordered": true})).await;
    events(&api, 5).await;
    deliveries(&api, &id, 2).await;
    assert_eq!(sink.received("/").len(), 2);
    server.advance(7).await;
    let received = sink.wait("/", 6).await;
    let sequence = |it: &Received| it.json()["sequence"].as_u64().unwrap();
    assert_eq!(received.iter().map(sequence).collect::<Vec<_>>(), [1, 2, 2, 3, 4, 5]);
}

#[tokio::test]
async fn strict_order_holds_back_one_contact_only() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(500, "")]);
    let settings = json!({"ordered": true, "events": ["otp.sent"]});
    let (id, _) = register(&api, &sink.url("/"), settings).await;
    let send = async |phone: &str| {
        api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    };
    send("+14155550101").await;
    deliveries(&api, &id, 1).await;
    for phone in ["+14155550101", "+14155550102", "+14155550101", "+14155550103"] {
        send(phone).await;
    }
    let phone = |it: &Received| it.json()["data"]["phone"].as_str().unwrap()[9..].to_owned();
    let phones = |received: &[Received]| received.iter().map(phone).collect::<Vec<_>>();
    let mut others = phones(&sink.wait("/", 3).await);
    others[1..].sort();
    assert_eq!(others, ["101", "102", "103"]);
    server.advance(7).await;
    let received = sink.wait("/", 6).await;
    assert_eq!(phones(&received[3..]), ["101"; 3]);
    let sequence = |it: &Received| it.json()["sequence"].as_u64().unwrap();
    assert_eq!(received[3..].iter().map(sequence).collect::<Vec<_>>(), [1, 2, 4]);
}

#[tokio::test]
async fn a_batch_that_a_crash_repeats_is_the_same() {
    let mut server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.then("/", Answer::Hang);
    register(&api, &sink.url("/"), json!({"batch": true})).await;
    events(&api, 3).await;
    let first = sink.wait("/", 1).await.remove(0);
    events(&api, 3).await;
    server.crash().await;
    sink.then("/", Answer::Status(200, ""));
    let received = sink.wait("/", 2).await;
    assert_eq!((received[1].id(), &received[1].body), (first.id(), &first.body));
}

#[tokio::test]
async fn names_and_redirects_do_not_lead_home() {
    let settings = [("WEBHOOKS__ALLOWED_SUBNETS", "")];
    let server = crate::support::TestServer::with(&settings).await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let refused = api.post("/v1/webhooks", json!({"url": sink.url("/")})).await;
    refused.check_field("url");
    let url = format!("http://localhost:{}/", sink.port());
    let (id, _) = register(&api, &url, json!({})).await;
    events(&api, 1).await;
    let rows = deliveries(&api, &id, 1).await;
    assert_eq!((&rows[0]["status"], &rows[0]["error"]), (&Value::Null, &json!("blocked_address")));
    assert!(rows[0]["next_retry_at"].is_string());
    assert_eq!(sink.connections(), 0);
}

/// Waits until the value of a figure satisfies a condition.
async fn figure(server: &crate::support::TestServer, name: &str, is_so: impl Fn(f64) -> bool) {
    let read = async || {
        let text = server.stranger().get("/metrics").await.text();
        clustered::figure(&text, name).is_some_and(&is_so).then_some(())
    };
    eventually(name, read).await;
}

#[tokio::test]
async fn what_is_held_back_is_due_all_the_same() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(429, "Retry-After: 7200\r\n")]);
    register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    let oldest = "postrider_webhook_oldest_due_seconds";
    figure(&server, oldest, |seconds| seconds == 0.0).await;
    events(&api, 1).await;
    sink.wait("/", 1).await;
    events(&api, 1).await;
    server.advance(3600).await;
    figure(&server, oldest, |seconds| (3600.0..3700.0).contains(&seconds)).await;
    server.advance(3700).await;
    sink.wait("/", 3).await;
    figure(&server, oldest, |seconds| seconds == 0.0).await;
}

#[tokio::test]
async fn a_rate_is_kept() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({"rate_limit_per_second": 2})).await;
    events(&api, 6).await;
    let rows = deliveries(&api, &id, 6).await;
    let at = |row: &Value| crate::support::millis(row["at"].as_str().unwrap());
    // Six deliveries with half a second between them take two and a half seconds.
    assert!(at(&rows[0]) - at(&rows[5]) >= 2_000, "{rows:?}");
}

#[tokio::test]
async fn nothing_is_lost_and_only_what_was_under_way_comes_twice() {
    let mut server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Status(200, ""), Answer::Status(500, "")]);
    let (id, secret) = register(&api, &sink.url("/"), json!({})).await;
    let mut sent = events(&api, 10).await;
    deliveries(&api, &id, 10).await;
    sink.then("/", Answer::Hang);
    sent.extend(events(&api, 3).await);
    sink.wait("/", 11).await;
    server.crash().await;
    sink.then("/", Answer::Status(200, ""));
    sent.extend(events(&api, 3).await);
    server.advance(7).await;
    let all = async || {
        let received = sink.received("/");
        let text: String = received.iter().map(|it| it.json().to_string()).collect();
        sent.iter().all(|id| text.contains(id)).then_some(received)
    };
    let received = eventually("every event", all).await;
    let distinct: HashSet<_> = ids(&received).into_iter().collect();
    assert_eq!(distinct.len(), sent.len());
    // One was refused, and the hanging ones were under way.
    assert!(received.len() <= sent.len() + 1 + 4, "{} requests", received.len());
    received.iter().for_each(|it| verify(&secret, it));
    let before = sink.received("/").len();
    server.restart().await;
    events(&api, 1).await;
    sink.wait("/", before + 1).await;
    assert_eq!(sink.received("/").len(), before + 1, "a restart delivers nothing twice");
}
