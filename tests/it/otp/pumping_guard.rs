//! Where one-time passwords may go, and how many that nobody verifies.

use serde_json::{Value, json};

use crate::otp::verify;
use crate::support::{Api, Reply, TestServer, millis};

const DESTINATIONS: &str = "/admin/v1/workspaces/acme/destinations";
const GERMAN: &str = "+4915112345678";
const AMERICAN: &str = "+15550123456";

async fn send(api: &Api, phone: &str) -> Reply {
    api.post("/v1/otp/send", json!({"phone": phone})).await
}

#[track_caller]
fn blocked(reply: &Reply) {
    assert_eq!(reply.check(422, "UNPROCESSABLE")["reason"], "destination_blocked");
}

async fn credits(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
}

async fn suspected(api: &Api) -> Vec<Value> {
    let events = api.get("/v1/events?type=otp.pumping_suspected").await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Moves to the beginning of an hour, so that none ends in the middle of a test.
async fn begin_hour(server: &TestServer) {
    let clock = server.demo().get("/v1/sandbox/clock").await.ok();
    let seconds = millis(clock["now"].as_str().unwrap()) / 1000;
    server.advance(3600 - seconds % 3600).await;
}

/// How many lines of the log warn of unverified codes.
fn warnings(server: &TestServer) -> usize {
    server.log().matches("suspiciously many codes are not submitted").count()
}

#[tokio::test]
async fn only_what_is_allowed_and_not_denied_is_sent() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let admin = server.admin();
    let all = json!({"allow": [], "deny": []});
    assert_eq!(admin.get(DESTINATIONS).await.ok(), all);
    let request = send(&api, AMERICAN).await.ok();
    let german_only = json!({"allow": ["49"], "deny": []});
    assert_eq!(admin.put(DESTINATIONS, &german_only).await.ok(), german_only);
    blocked(&send(&api, AMERICAN).await);
    blocked(&api.post("/v1/otp/resend", json!({"request_id": request["request_id"]})).await);
    send(&api, GERMAN).await.ok();
    assert_eq!(credits(&server).await, 99_998, "a refusal costs nothing");
    server.restart().await;
    blocked(&send(&api, AMERICAN).await);
    assert_eq!(admin.get(DESTINATIONS).await.ok(), german_only);
    let not_mobile = json!({"allow": ["49", "1"], "deny": ["49151"]});
    admin.put(DESTINATIONS, &not_mobile).await.ok();
    blocked(&send(&api, GERMAN).await);
    send(&api, AMERICAN).await.ok();
    assert_eq!(admin.put(DESTINATIONS, json!({})).await.ok(), all);
    send(&api, GERMAN).await.ok();
    let other = server.workspace("acme-2").await;
    send(&other, AMERICAN).await.ok();
}

#[tokio::test]
async fn bad_destinations_are_named() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    for (body, field) in [
        (json!({"allow": ["+49"]}), "allow[0]"),
        (json!({"allow": ["49", ""]}), "allow[1]"),
        (json!({"deny": ["012"]}), "deny[0]"),
        (json!({"deny": ["12345678"]}), "deny[0]"),
        (json!({"deny": [49]}), "deny[0]"),
        (json!({"deny": "49"}), "deny"),
        (json!({"allow": vec!["1"; 1001]}), "allow"),
    ] {
        admin.put(DESTINATIONS, &body).await.check_field(field);
    }
    let nobody = "/admin/v1/workspaces/nobody/destinations";
    admin.put(nobody, json!({})).await.check(404, "NOT_FOUND");
    admin.get(nobody).await.check(404, "NOT_FOUND");
}

const GUARD: (&str, &str) = ("GUARD__UNVERIFIED_PER_PREFIX_HOUR", "3");

#[tokio::test]
async fn many_that_nobody_verifies_are_told_of_once() {
    let mut server = TestServer::with(&[GUARD]).await;
    let api = server.workspace("acme").await;
    begin_hour(&server).await;
    for last in 0..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    assert!(suspected(&api).await.is_empty());
    for last in 3..6 {
        send(&api, &format!("+491511234567{last}")).await.ok();
        send(&api, &format!("+1555012345{last}")).await.ok();
        server.crash().await;
    }
    let told = suspected(&api).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["calling_code"], &told[0]["unverified"]), (&json!("49"), &json!(3)));
    assert_eq!(told[0]["refused"], false);
    assert_eq!(warnings(&server), 1);
    let metrics = server.stranger().get("/metrics").await.text();
    assert!(metrics.contains("postrider_otp_pumping_suspected_total"), "{metrics}");
    server.advance(3600).await;
    for last in 0..4 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    assert_eq!(suspected(&api).await.len(), 2, "the next hour is counted by itself");
}

#[tokio::test]
async fn many_that_nobody_verifies_are_refused() {
    let mut server = TestServer::with(&[GUARD, ("GUARD__MODE", "refuse")]).await;
    let api = server.workspace("acme").await;
    begin_hour(&server).await;
    let first = send(&api, "+4915112345670").await.ok()["request_id"].clone();
    let code = server.code(&api, "+4915112345670").await;
    for last in 1..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    for _ in 0..2 {
        blocked(&send(&api, GERMAN).await);
        server.crash().await;
    }
    send(&api, AMERICAN).await.ok();
    assert_eq!(credits(&server).await, 99_996);
    let told = suspected(&api).await;
    assert_eq!((told.len(), &told[0]["refused"]), (1, &json!(true)));
    assert_eq!(verify(&api, first.as_str().unwrap(), &code).await.ok()["verified"], true);
    send(&api, GERMAN).await.ok();
    blocked(&send(&api, GERMAN).await);
    assert_eq!(suspected(&api).await.len(), 1);
    server.advance(3600).await;
    send(&api, GERMAN).await.ok();
}
