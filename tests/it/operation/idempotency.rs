//! Idempotency keys make repeated requests safe.

use serde_json::{Value, json};

use crate::otp::PHONE;
use crate::support::{Api, Reply, TestServer};

async fn send(api: &Api, key: &str, body: &Value) -> Reply {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    api.call("POST", "/v1/otp/send", &headers, body.to_string().as_bytes()).await
}

fn is_replayed(reply: &Reply) -> bool {
    let header = ("idempotency-replayed".to_owned(), "true".to_owned());
    reply.headers.contains(&header)
}

#[tokio::test]
async fn the_same_key_and_body_answer_the_same_and_do_nothing() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"phone": PHONE});
    let first = send(&api, "k-1", &body).await;
    assert!(!is_replayed(&first));
    let first = first.ok();
    for key in ["k-1", "\"k-1\""] {
        let again = send(&api, key, &body).await;
        assert!(is_replayed(&again));
        assert_eq!(again.ok(), first);
    }
    server.restart().await;
    let again = send(&api, "k-1", &body).await;
    assert!(is_replayed(&again), "a restart keeps it");
    assert_eq!(again.ok(), first);
    let other_form = api
        .call(
            "POST",
            "/v1/messaging/otp/send",
            &[("Content-Type", "application/json"), ("Idempotency-Key", "k-1")],
            body.to_string().as_bytes(),
        )
        .await;
    assert_eq!(other_form.ok(), first, "both forms are one route");
    let other = send(&api, "k-2", &body).await.ok();
    assert_ne!(other["request_id"], first["request_id"]);
    let events = api.get("/v1/events?type=otp.sent").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn another_body_is_refused_and_a_refusal_is_not_kept() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let wrong = json!({"phone": "0123"});
    send(&api, "k", &wrong).await.check(400, "VALIDATION_ERROR");
    send(&api, "k", &json!({"phone": PHONE})).await.ok();
    let refused = send(&api, "k", &json!({"phone": PHONE, "length": 8})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "idempotency_mismatch");
}

#[tokio::test]
async fn a_key_holds_for_a_day() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"phone": PHONE});
    let first = send(&api, "k", &body).await.ok();
    server.advance(86_399).await;
    assert_eq!(send(&api, "k", &body).await.ok(), first);
    server.advance(2).await;
    let later = send(&api, "k", &body).await;
    assert!(!is_replayed(&later));
    assert_ne!(later.ok(), first);
}

#[tokio::test]
async fn of_many_at_once_one_is_carried_out() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"phone": PHONE});
    let sends = (0..20).map(|_| send(&api, "k", &body));
    let replies = futures_join(sends).await;
    let mut ids: Vec<_> = Vec::new();
    for reply in replies {
        match reply.status {
            200 => ids.push(reply.ok()["request_id"].clone()),
            _ => assert_eq!(reply.check(409, "CONFLICT")["reason"], "idempotency_under_way"),
        }
    }
    assert!(!ids.is_empty());
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let events = api.get("/v1/events?type=otp.sent").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_has_its_bounds() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"phone": PHONE});
    for key in ["", "\"\"", &"k".repeat(256)] {
        let refused = send(&api, key, &body).await.check(400, "VALIDATION_ERROR");
        assert!(refused["message"].as_str().unwrap().contains("Idempotency-Key"));
    }
    send(&api, &"k".repeat(255), &body).await.ok();
}

/// Returns the answers to calls that are all under way at once.
pub async fn futures_join<F: Future<Output = Reply>>(
    futures: impl Iterator<Item = F>,
) -> Vec<Reply> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut replies = Vec::new();
    // Each is polled in turn, so that all are under way at once.
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(reply) => {
                replies.push(reply);
                false
            }
            std::task::Poll::Pending => true,
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    replies
}
