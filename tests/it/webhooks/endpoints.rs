//! Webhooks: endpoints, and deliveries as they should be.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::otp::PHONE;
use crate::support::{Answer, Api, Received, Sink, TestServer, eventually};

pub const WEBHOOKS: &str = "/v1/webhooks";

/// Starts a server whose limits do not interfere.
pub async fn server() -> TestServer {
    let off = [
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
        ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ];
    TestServer::with(&off).await
}

/// Registers an endpoint; returns its id and its secret.
pub async fn register(api: &Api, url: &str, more: Value) -> (String, String) {
    let mut body = json!({"url": url});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = api.post(WEBHOOKS, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Makes so many events of type `otp.sent`; returns their requests' ids.
pub async fn events(api: &Api, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let sent = api.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
        ids.push(sent["request_id"].as_str().unwrap().to_owned());
    }
    ids
}

/// Returns the tries of an endpoint, newest first, as soon as there are so many.
pub async fn deliveries(api: &Api, id: &str, count: usize) -> Vec<Value> {
    let path = format!("{WEBHOOKS}/{id}/deliveries?limit=200");
    let rows = async || {
        let rows = api.get(&path).await.ok()["data"].as_array().unwrap().clone();
        (rows.len() >= count).then_some(rows)
    };
    eventually(&format!("{count} deliveries"), rows).await
}

/// Checks a request's signature with a third-party implementation.
pub fn verify(secret: &str, received: &Received) {
    let mut headers = HeaderMap::new();
    for (name, value) in &received.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let verifier = standardwebhooks::Webhook::new(secret).unwrap();
    verifier.verify(&received.body, &headers).unwrap();
}

/// Returns the ids of the codes in these deliveries.
pub fn request_ids(received: &[Received]) -> Vec<String> {
    let id = |it: &Received| it.json()["data"]["request_id"].as_str().unwrap().to_owned();
    received.iter().map(id).collect()
}

#[tokio::test]
async fn an_endpoint_is_made_changed_and_deleted() {
    let server = server().await;
    let api = server.workspace("acme").await;
    let url = "https://example.com/hooks?a=b";
    let made = api.post(WEBHOOKS, json!({"url": url})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!((&made["url"], &made["events"]), (&json!(url), &json!([])));
    let of = |name: &str| made[name].clone();
    assert_eq!([of("enabled"), of("ordered"), of("batch")], [true, false, false].map(Value::from));
    let path = format!("{WEBHOOKS}/{}", made["id"].as_str().unwrap());
    let mut read = api.get(&path).await.ok();
    assert!(read["secret"].is_null(), "it is shown once");
    let change = json!({"events": ["otp.sent", "otp.failed", "otp.sent"], "description": "mine",
        "enabled": false, "rate_limit_per_second": 7, "ordered": true, "batch": true});
    let changed = api.send_json("PATCH", &path, &change).await.ok();
    assert_eq!(changed["events"], json!(["otp.failed", "otp.sent"]));
    for name in ["description", "enabled", "rate_limit_per_second", "ordered", "batch"] {
        assert_eq!(changed[name], change[name], "{name}");
    }
    assert_eq!(changed["url"], url);
    let nulls = json!({"description": null, "rate_limit_per_second": null});
    let cleared = api.send_json("PATCH", &path, &nulls).await.ok();
    assert!(cleared["description"].is_null() && cleared["rate_limit_per_second"].is_null());
    assert_eq!(cleared["ordered"], true);
    let list = api.get(WEBHOOKS).await.ok();
    assert_eq!((&list["total"], &list["data"][0]), (&json!(1), &cleared));
    read["updated_at"] = cleared["updated_at"].clone();
    assert_eq!(read["created_at"], cleared["created_at"]);
    let other = server.workspace("other").await;
    other.get(&path).await.check(404, "NOT_FOUND");
    other.delete(&path).await.check(404, "NOT_FOUND");
    assert_eq!(api.delete(&path).await.status, 204);
    for method in ["GET", "DELETE"] {
        api.call(method, &path, &[], b"").await.check(404, "NOT_FOUND");
    }
    api.send_json("PATCH", &path, &change).await.check(404, "NOT_FOUND");
    for action in ["test", "rotate-secret", "replay"] {
        let refused = api.post(&format!("{path}/{action}"), json!({"failed": true})).await;
        refused.check(404, "NOT_FOUND");
    }
    let (_, reader) = server.key("acme", &["messaging:send"], json!({})).await;
    reader.get(WEBHOOKS).await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn what_makes_no_endpoint_is_refused() {
    let server = server().await;
    let api = server.workspace("acme").await;
    let url = "https://example.com/";
    for (body, field) in [
        (json!({}), "url"),
        (json!({"url": 7}), "url"),
        (json!({"url": ""}), "url"),
        (json!({"url": "example.com"}), "url"),
        (json!({"url": "ftp://example.com"}), "url"),
        (json!({"url": "https://user:pass@example.com"}), "url"),
        (json!({"url": "http://10.0.0.1/"}), "url"),
        (json!({"url": "http://169.254.169.254/latest/meta-data"}), "url"),
        (json!({"url": "https://0xa9fea9fe/"}), "url"),
        (json!({"url": "https://[::ffff:10.0.0.1]/"}), "url"),
        (json!({"url": "https://example.com:0/"}), "url"),
        (json!({"url": url, "events": ["otp.sent", "otp.lost"]}), "events"),
        (json!({"url": url, "events": "otp.sent"}), "events"),
        (json!({"url": url, "description": "x".repeat(501)}), "description"),
        (json!({"url": url, "rate_limit_per_second": 0}), "rate_limit_per_second"),
        (json!({"url": url, "rate_limit_per_second": 1.5}), "rate_limit_per_second"),
        (json!({"url": url, "enabled": "yes"}), "enabled"),
    ] {
        api.post(WEBHOOKS, &body).await.check_field(field);
    }
    let (id, _) = register(&api, url, json!({})).await;
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"url": "http://10.0.0.1"})).await.check_field("url");
    for body in [json!({}), json!({"failed": true, "since": "2026-01-31T09:25:00Z"})] {
        api.post(&format!("{path}/replay"), body).await.check(400, "VALIDATION_ERROR");
    }
    for since in ["today", "2026-01-01T00:00:00+25:00"] {
        api.post(&format!("{path}/replay"), json!({"since": since})).await.check_field("since");
    }
    api.post(&format!("{path}/replay"), json!({"failed": false})).await.check_field("failed");
    api.post(&format!("{path}/replay"), json!({"event_id": "x"})).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn ten_are_the_most_however_many_ask_at_once() {
    let server = server().await;
    let api = server.workspace("acme").await;
    let tasks: Vec<_> = (0..25)
        .map(|_| {
            let api = api.clone();
            let body = json!({"url": "https://example.com/"});
            tokio::spawn(async move { api.post(WEBHOOKS, body).await })
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        let reply = task.await.unwrap();
        match reply.status {
            201 => made.push(reply.json()["id"].as_str().unwrap().to_owned()),
            _ => assert_eq!(reply.check(422, "UNPROCESSABLE")["reason"], "webhook_limit"),
        }
    }
    assert_eq!(made.len(), 10);
    assert_eq!(api.delete(&format!("{WEBHOOKS}/{}", made[3])).await.status, 204);
    register(&api, "https://example.com/", json!({})).await;
    register(&server.workspace("other").await, "https://example.com/", json!({})).await;
}

#[tokio::test]
async fn events_arrive_signed_and_as_the_log_shows_them() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    events(&api, 1).await;
    let (id, secret) = register(&api, &sink.url("/a"), json!({})).await;
    let (_, other) = register(&api, &sink.url("/b"), json!({"events": ["otp.verified"]})).await;
    events(&api, 2).await;
    // The phone is new, so its newest message is surely this one's.
    let phone = "+14155550142";
    let sent = api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    let code = server.code(&api, phone).await;
    crate::otp::verify(&api, sent["request_id"].as_str().unwrap(), &code).await.ok();
    let received = sink.wait("/a", 4).await;
    let mut log = api.get("/v1/events").await.ok()["data"].as_array().unwrap().clone();
    log.remove(0);
    let mut bodies: Vec<_> = received.iter().map(Received::json).collect();
    bodies.sort_by_key(|body| body["sequence"].as_u64());
    assert_eq!(bodies, log, "what came before it was registered is not delivered");
    for it in &received {
        verify(&secret, it);
        assert_eq!(it.id(), it.json()["id"]);
        assert_eq!(it.header("content-type"), "application/json");
    }
    let only = sink.wait("/b", 1).await;
    verify(&other, &only[0]);
    assert_eq!(only[0].json()["type"], "otp.verified");
    let rows = deliveries(&api, &id, 4).await;
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((&row["status"], &row["attempt"]), (&json!(200), &json!(1)));
        assert!(row["error"].is_null() && row["next_retry_at"].is_null());
        assert_eq!(row["event_ids"], json!([row["event_id"]]));
    }
    let log = server.log();
    assert!(!log.contains(&secret) && !log.contains(&other));
    for it in &received {
        assert!(!it.json().to_string().contains(&code), "a code is in no event");
    }
    let mut tampered = received[0].clone();
    tampered.body.push(b' ');
    assert!(std::panic::catch_unwind(|| verify(&secret, &tampered)).is_err());
}

#[tokio::test]
async fn a_secret_that_was_replaced_signs_for_a_day() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, old) = register(&api, &sink.url("/"), json!({})).await;
    let rotated = api.post(&format!("{WEBHOOKS}/{id}/rotate-secret"), json!({})).await.ok();
    let new = rotated["secret"].as_str().unwrap();
    assert_ne!(new, old);
    events(&api, 1).await;
    let both = sink.wait("/", 1).await.remove(0);
    assert_eq!(both.header("webhook-signature").split(' ').count(), 2);
    verify(&old, &both);
    verify(new, &both);
    // A second rotation ends no secret early.
    let rotated = api.post(&format!("{WEBHOOKS}/{id}/rotate-secret"), json!({})).await.ok();
    let newest = rotated["secret"].as_str().unwrap();
    events(&api, 1).await;
    let all = sink.wait("/", 2).await.remove(1);
    [old.as_str(), new, newest].into_iter().for_each(|secret| verify(secret, &all));
    server.advance(24 * 3600).await;
    // The clock has moved, and a receiver still accepts the timestamp.
    let count = sink.received("/").len();
    events(&api, 1).await;
    let one = sink.wait("/", count + 1).await.pop().unwrap();
    assert_eq!(one.header("webhook-signature").split(' ').count(), 1);
    verify(newest, &one);
}

#[tokio::test]
async fn a_test_goes_to_its_endpoint_alone() {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, secret) = register(&api, &sink.url("/a"), json!({"events": ["otp.failed"]})).await;
    register(&api, &sink.url("/b"), json!({})).await;
    let reply = api.post(&format!("{WEBHOOKS}/{id}/test"), json!({})).await;
    assert_eq!(reply.status, 202);
    let received = sink.wait("/a", 1).await.remove(0);
    verify(&secret, &received);
    assert_eq!(received.json()["type"], "webhook.test");
    assert_eq!(received.id(), reply.json()["event_id"]);
    assert_eq!(received.json()["data"]["webhook_id"], id);
    events(&api, 1).await;
    assert_eq!(sink.wait("/b", 1).await[0].json()["type"], "otp.sent");
    let path = format!("{WEBHOOKS}/{id}");
    api.send_json("PATCH", &path, &json!({"enabled": false})).await.ok();
    let refused = api.post(&format!("{path}/test"), json!({})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "webhook_disabled");
}

#[tokio::test]
async fn a_try_is_read_with_its_request_and_its_answer() {
    let mut server = server().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let sink = Sink::start();
    sink.next("/", [Answer::Status(500, "x-trace: 7\r\n")]);
    let only = json!({"events": ["otp.sent"], "batch": true});
    let (id, secret) = register(&api, &sink.url("/"), only).await;
    events(&api, 1).await;
    let row = deliveries(&api, &id, 1).await.remove(0);
    let received = sink.wait("/", 1).await.remove(0);
    let path = format!("{WEBHOOKS}/{id}/deliveries/{}", row["id"].as_str().unwrap());
    let reply = api.get(&path).await;
    assert!(!reply.text().contains(&secret));
    let detail = reply.ok();
    for (name, value) in row.as_object().unwrap() {
        assert!(name == "response" || detail[name] == *value, "{name}: {detail}");
    }
    let headers = detail["request"]["headers"].as_object().unwrap();
    assert_eq!(headers.len(), 6, "{detail}");
    for (name, value) in headers {
        assert_eq!(received.header(name), value, "{name}");
    }
    assert_eq!(detail["request"]["body"].as_str().unwrap().as_bytes(), received.body);
    // Answers of services on this machine stay private.
    assert_eq!(detail["response"], json!({"headers": {}, "body": null}));
    other.get(&path).await.check(404, "NOT_FOUND");
    let one = |id: &str, delivery: &str| format!("{WEBHOOKS}/{id}/deliveries/{delivery}");
    for bad in ["dlv_99_0", "dlv_0_99", "dlv_00_0", "dlv_x", "evt_1", "0"] {
        api.get(&one(&id, bad)).await.check(404, "NOT_FOUND");
    }
    let nobody = one("whk_01jd3v0x5n8m7k2q4r6s8t0w2y", row["id"].as_str().unwrap());
    api.get(&nobody).await.check(404, "NOT_FOUND");
    sink.next("/", [Answer::Reset]);
    events(&api, 1).await;
    let rows = deliveries(&api, &id, 2).await;
    let lost = rows.iter().find(|row| row["status"].is_null()).unwrap()["id"].as_str().unwrap();
    let lost = api.get(&one(&id, lost)).await.ok();
    assert_eq!((&lost["response"], lost["request"]["body"].is_string()), (&Value::Null, true));
    server.restart().await;
    let later = api.get(&path).await.ok();
    assert_eq!(later["request"]["body"], detail["request"]["body"]);
    assert_eq!(later["request"]["headers"]["webhook-signature"], Value::Null);
    assert_eq!(later["request"]["headers"]["webhook-id"], received.id());
}

#[tokio::test]
async fn an_endpoint_reports_how_it_does() {
    let server = server().await;
    let api = server.workspace("acme").await;
    let sink = Sink::start();
    let only = json!({"events": ["otp.sent"]});
    let (id, _) = register(&api, &sink.url("/"), only).await;
    let path = format!("{WEBHOOKS}/{id}");
    let fresh = api.get(&path).await.ok();
    let nothing = json!({"success_24h": null, "p95_ms": null, "waiting": 0, "oldest_seconds": 0,
        "breaker_open": false});
    assert_eq!(fresh["health"], nothing);
    assert_eq!(fresh["previous_secret_ends_at"], Value::Null);
    let rotated = api.post(&format!("{path}/rotate-secret"), json!({})).await.ok();
    assert!(rotated["previous_secret_ends_at"].is_string());
    events(&api, 2).await;
    let rows = deliveries(&api, &id, 2).await;
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("dlv_")), "{ids:?}");
    let healthy = api.get(WEBHOOKS).await.ok()["data"][0]["health"].clone();
    assert_eq!((&healthy["success_24h"], &healthy["waiting"]), (&json!(1.0), &json!(0)));
    assert!(healthy["p95_ms"].is_u64());
    let count = async |query: &str| {
        api.get(&format!("{path}/deliveries?{query}")).await.ok()["total"].as_u64().unwrap()
    };
    assert_eq!((count("status=ok").await, count("status=failed").await), (2, 0));
    assert_eq!((count("type=otp.sent").await, count("type=batch").await), (2, 0));
    let later = "since=2999-01-01T00:00:00Z";
    assert_eq!((count(later).await, count("since=2020-01-01T00:00:00Z").await), (0, 2));
    for (query, field) in [("status=bad", "status"), ("since=yesterday", "since")] {
        api.get(&format!("{path}/deliveries?{query}")).await.check_field(field);
    }
    server.advance(25 * 3600).await;
    let after = api.get(&path).await.ok();
    assert_eq!(after["previous_secret_ends_at"], Value::Null);
    assert_eq!(after["health"]["success_24h"], Value::Null, "a day ago is not lately");
}
