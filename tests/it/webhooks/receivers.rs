//! Receivers that would cost the server more than a delivery is worth, or send it too much.

use serde_json::{Value, json};

use crate::support::{Answer, Sink, TestServer};
use crate::webhooks::{deliveries, events, register};

#[tokio::test]
async fn a_head_without_an_end_is_not_read() {
    let settings = [("WEBHOOKS__TIMEOUT_SECONDS", "3600"), ("SHUTDOWN__GRACE_SECONDS", "2")];
    let server = TestServer::with(&settings).await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    for (path, answer) in [
        ("/interim", Answer::Interim(usize::MAX)),
        ("/nine", Answer::Interim(9)),
        ("/head", Answer::EndlessHead),
    ] {
        sink.next(path, [answer]);
        let (id, _) = register(&api, &sink.url(path), json!({"events": ["otp.sent"]})).await;
        events(&api, 1).await;
        let row = &deliveries(&api, &id, 1).await[0];
        assert_eq!((&row["error"], &row["status"]), (&json!("response_too_large"), &Value::Null));
        assert!(row["next_retry_at"].is_string(), "{row}");
        api.delete(&format!("/v1/webhooks/{id}")).await.ok();
    }
    assert!(sink.sent() < 64 << 20, "{} bytes were taken", sink.sent());
}

#[tokio::test]
async fn a_few_interim_answers_are_passed_over() {
    let server = TestServer::start().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    sink.next("/", [Answer::Interim(8)]);
    let (id, _) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    events(&api, 1).await;
    let row = &deliveries(&api, &id, 1).await[0];
    assert_eq!((&row["error"], &row["status"]), (&Value::Null, &json!(200)));
}

#[tokio::test]
async fn what_a_private_address_answers_is_not_shown() {
    let server = TestServer::start().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, _) = register(&api, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    events(&api, 1).await;
    let row = &deliveries(&api, &id, 1).await[0];
    assert_eq!((&row["status"], &row["response"]), (&json!(200), &Value::Null), "{row}");
}

#[tokio::test]
async fn only_a_server_on_loopback_posts_to_this_machine_by_default() {
    let hook = |sink: &Sink| json!({"url": sink.url("/")});
    let sink = Sink::start();
    let server = TestServer::start_at("0.0.0.0", &[]).await;
    server.workspace("acme").await.post("/v1/webhooks", hook(&sink)).await.check_field("url");
    let allowed = [("WEBHOOKS__ALLOWED_SUBNETS", "127.0.0.0/8")];
    let server = TestServer::start_at("0.0.0.0", &allowed).await;
    server.workspace("acme").await.post("/v1/webhooks", hook(&sink)).await.ok();
}
