//! Refusals of a send: windows, credits, a number.

use serde_json::{Value, json};

use crate::otp::{PHONE, send, verify};
use crate::support::{Api, Reply, TestServer, millis};

async fn send_to(api: &Api, phone: &str) -> Reply {
    api.post("/v1/otp/send", json!({"phone": phone})).await
}

async fn now(api: &Api) -> u64 {
    millis(api.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap())
}

async fn credits(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
}

/// Checks that a send is refused with the exact wait until `free_ms`, and accepted then.
async fn check_wait(server: &TestServer, api: &Api, phone: &str, code: &str, free_ms: u64) {
    let before = now(api).await;
    let refused = send_to(api, phone).await;
    let after = now(api).await;
    let body = refused.check(429, code);
    let wait = body["retry_after"].as_u64().unwrap();
    let exact = (free_ms - after).div_ceil(1000)..=(free_ms - before).div_ceil(1000);
    assert!(exact.contains(&wait), "{wait} is not in {exact:?}");
    // As near as the clock's steps of a second allow, with a margin for slow machines.
    server.advance((free_ms - after) / 1000 - 5).await;
    send_to(api, phone).await.check(429, code);
    let wait = (free_ms - now(api).await).div_ceil(1000);
    server.advance(wait).await;
    send_to(api, phone).await.ok();
    send_to(api, phone).await.check(429, code);
}

#[tokio::test]
async fn the_sixth_send_to_a_phone_waits_for_the_first_to_be_ten_minutes_old() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let mut first_ms = None;
    for _ in 0..5 {
        let sent = send_to(&api, PHONE).await.ok();
        let sent_ms = millis(sent["expires_at"].as_str().unwrap()) - 300_000;
        first_ms.get_or_insert(sent_ms);
        server.advance(60).await;
    }
    check_wait(&server, &api, PHONE, "OTP_RATE_LIMITED", first_ms.unwrap() + 600_000).await;
    send_to(&api, "+15550123457").await.ok();
    // Another workspace has another window.
    let other = server.workspace("other").await;
    send_to(&other, PHONE).await.ok();
}

#[tokio::test]
async fn a_workspace_has_its_sends_of_any_hour() {
    let server = TestServer::with(&[("LIMITS__OTP_PER_WORKSPACE_HOUR", "3")]).await;
    let api = server.workspace("acme").await;
    let mut first_ms = None;
    for last in 0..3 {
        let sent = send_to(&api, &format!("+1555012345{last}")).await.ok();
        let sent_ms = millis(sent["expires_at"].as_str().unwrap()) - 300_000;
        first_ms.get_or_insert(sent_ms);
        server.advance(600).await;
    }
    let free_ms = first_ms.unwrap() + 3_600_000;
    check_wait(&server, &api, PHONE, "OTP_WORKSPACE_LIMIT", free_ms).await;
    let other = server.workspace("other").await;
    send_to(&other, PHONE).await.ok();
}

#[tokio::test]
async fn a_phone_may_have_a_limit_by_the_hour_too() {
    let server = TestServer::with(&[("LIMITS__OTP_PER_PHONE_HOUR", "6")]).await;
    let api = server.workspace("acme").await;
    let first = send_to(&api, PHONE).await.ok();
    let first_ms = millis(first["expires_at"].as_str().unwrap()) - 300_000;
    server.advance(1200).await;
    for _ in 0..5 {
        send_to(&api, PHONE).await.ok();
    }
    // The new five block it for ten minutes, and the first one for longer.
    check_wait(&server, &api, PHONE, "OTP_RATE_LIMITED", first_ms + 3_600_000).await;
}

#[tokio::test]
async fn a_refused_send_consumes_nothing() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for _ in 0..5 {
        send(&server, &api, json!({})).await;
    }
    let spent = credits(&server).await;
    assert_eq!(spent, 100_000 - 5);
    for _ in 0..20 {
        send_to(&api, PHONE).await.check(429, "OTP_RATE_LIMITED");
        send_to(&api, "1").await.check_field("phone");
    }
    assert_eq!(credits(&server).await, spent);
    let messages = api.get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 5);
    let events = api.get("/v1/events").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 5);
    // All five places are free again: the refused requests took none.
    server.advance(600).await;
    for _ in 0..5 {
        send_to(&api, PHONE).await.ok();
    }
    send_to(&api, PHONE).await.check(429, "OTP_RATE_LIMITED");
}

#[tokio::test]
async fn a_limit_of_zero_is_none() {
    let settings = [
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
        ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ];
    let server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    for _ in 0..30 {
        send_to(&api, PHONE).await.ok();
    }
}

#[tokio::test]
async fn every_send_is_paid_for() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let admin = server.admin();
    let path = "/admin/v1/workspaces/acme/credits";
    admin.put(path, json!({"credits": 2})).await.ok();
    let (id, code) = send(&server, &api, json!({})).await;
    api.post("/v1/otp/resend", json!({"request_id": id})).await.ok();
    assert_eq!(credits(&server).await, 0);
    send_to(&api, PHONE).await.check(422, "INSUFFICIENT_CREDITS");
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(422, "INSUFFICIENT_CREDITS");
    verify(&api, &id, &code).await.ok();
    assert_eq!(admin.post(path, json!({"add": 1})).await.ok()["credits"], 1);
    send_to(&api, PHONE).await.ok();
    send_to(&api, PHONE).await.check(422, "INSUFFICIENT_CREDITS");
}

#[tokio::test]
async fn the_price_is_a_setting() {
    let server = TestServer::with(&[("PRICES__OTP", "7")]).await;
    let api = server.workspace("acme").await;
    server.admin().put("/admin/v1/workspaces/acme/credits", json!({"credits": 13})).await.ok();
    send_to(&api, PHONE).await.ok();
    assert_eq!(credits(&server).await, 6);
    send_to(&api, PHONE).await.check(422, "INSUFFICIENT_CREDITS");
}

#[tokio::test]
async fn without_a_number_nothing_is_sent() {
    let server = TestServer::start().await;
    let admin = server.admin();
    admin.post("/admin/v1/workspaces", json!({"id": "acme", "name": "Acme"})).await.ok();
    let (_, api) = server.key("acme", &["messaging:send"], json!({})).await;
    send_to(&api, PHONE).await.check(422, "MESSAGING_NOT_CONNECTED");
    let numbers = "/admin/v1/workspaces/acme/numbers";
    let number = admin.post(numbers, json!({"kind": "sandbox"})).await.ok();
    send_to(&api, PHONE).await.check(422, "INSUFFICIENT_CREDITS");
    admin.put("/admin/v1/workspaces/acme/credits", json!({"credits": 5})).await.ok();
    let (id, code) = send(&server, &api, json!({})).await;
    admin.delete(&format!("{numbers}/{}", number["id"].as_str().unwrap())).await.ok();
    send_to(&api, PHONE).await.check(422, "MESSAGING_NOT_CONNECTED");
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(422, "MESSAGING_NOT_CONNECTED");
    verify(&api, &id, &code).await.ok();
    assert_eq!(credits(&server).await, 4);
}
