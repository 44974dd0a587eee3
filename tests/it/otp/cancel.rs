//! Requests that are cancelled, test phones, limits by caller, and the callers' notes.

use serde_json::json;

use crate::otp::{PHONE, send, verify};
use crate::support::{TestServer, eventually};

#[tokio::test]
async fn a_cancelled_code_is_withdrawn_paid_back_and_verifies_nothing() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let credits =
        async || server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone();
    let (id, code) = send(&server, &api, json!({})).await;
    let before = credits().await;
    for form in ["/v1/otp", "/v1/messaging/otp"] {
        let cancelled = api.post(&format!("{form}/cancel"), json!({"request_id": id})).await.ok();
        assert_eq!(cancelled, json!({"request_id": id, "status": "cancelled"}));
    }
    assert_eq!(verify(&api, &id, &code).await.check(422, "UNPROCESSABLE")["reason"], "cancelled");
    let resent = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    assert_eq!(resent.check(422, "UNPROCESSABLE")["reason"], "cancelled");
    assert_eq!(api.get(&format!("/v1/otp/{id}")).await.ok()["status"], "cancelled");
    assert_eq!(credits().await, before, "it was sent");
    let listed = api.get("/v1/otp?status=cancelled").await.ok();
    assert_eq!(listed["data"][0]["request_id"], id.as_str());
    let unknown = json!({"request_id": "otp_01jd3v0x5n8m7k2q4r6s8t0w2y"});
    api.post("/v1/otp/cancel", unknown).await.check(404, "NOT_FOUND");

    // A cancelled code that the channel does not have yet is not handed over.
    let script = json!({"to": "*", "outcome": "unavailable"});
    api.post("/v1/sandbox/outcomes", script).await.ok();
    let sent = api.post("/v1/otp/send", json!({"phone": "+15550123459"})).await.ok();
    let waiting = sent["request_id"].as_str().unwrap();
    api.post("/v1/otp/cancel", json!({"request_id": waiting})).await.ok();
    let paid_back = async || (credits().await == before).then_some(());
    eventually("the price comes back", paid_back).await;
    let events = api.get("/v1/events?type=otp.failed").await.ok();
    assert_eq!(events["data"], json!([]), "it did not fail");
    let events = api.get("/v1/events?type=otp.cancelled").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_test_phone_takes_the_code_that_was_set_for_it() {
    let server = TestServer::with(&[("LIMITS__OTP_PER_PHONE_10M", "1")]).await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let path = "/admin/v1/workspaces/acme/test-phones";
    assert_eq!(admin.get(path).await.ok(), json!({"phones": []}));
    let set = admin.put(path, json!({"phones": {"+15550100001": "0042"}})).await.ok();
    assert_eq!(set, json!({"phones": ["+15550100001"]}));
    assert_eq!(admin.get(path).await.ok(), set);
    let credits = admin.get("/admin/v1/workspaces/acme").await.ok()["credits"].clone();
    for _ in 0..3 {
        let sent = api.post("/v1/otp/send", json!({"phone": "+15550100001"})).await.ok();
        let id = sent["request_id"].as_str().unwrap();
        assert_eq!(verify(&api, id, "0043").await.ok()["verified"], false);
        assert_eq!(verify(&api, id, "0042").await.ok()["verified"], true);
    }
    assert_eq!(admin.get("/admin/v1/workspaces/acme").await.ok()["credits"], credits);
    assert_eq!(api.get("/v1/sandbox/messages").await.ok()["data"], json!([]));
    let events = api.get("/v1/events").await.ok();
    let all = events["data"].as_array().unwrap();
    assert!(all.len() == 6 && all.iter().all(|event| event["data"]["test"] == true), "{all:?}");
    for (phones, field) in [
        (json!({"+15550100001": "123"}), "phones.+15550100001"),
        (json!({"15550100001": "1234"}), "phones.15550100001"),
    ] {
        let refused = admin.put(path, json!({ "phones": phones })).await;
        let message = refused.check(400, "VALIDATION_ERROR")["message"].to_string();
        assert!(message.contains(field), "{message}");
    }
    admin.put(path, json!({"phones": {}})).await.ok();
    api.post("/v1/otp/send", json!({"phone": "+15550100001"})).await.ok();
    assert_eq!(server.code(&api, "+15550100001").await.len(), 6, "it is a phone as any again");
}

#[tokio::test]
async fn an_address_and_a_session_have_their_limits() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let limits = json!({"otp_per_ip_10m": 1, "otp_per_session_hour": 1});
    server.admin().put("/admin/v1/workspaces/acme/limits", limits).await.ok();
    let send = async |phone: &str, context| {
        api.post("/v1/otp/send", json!({"phone": phone, "context": context})).await
    };
    send(PHONE, json!({"ip": "192.0.2.7", "session": "s1"})).await.ok();
    let refused = send("+15550123451", json!({"ip": "192.0.2.7"})).await;
    let body = refused.check(429, "OTP_RATE_LIMITED");
    assert_eq!(body["reason"], "ip");
    assert!(body["retry_after"].as_u64().unwrap() <= 600);
    let refused = send("+15550123451", json!({"session": "s1"})).await;
    assert_eq!(refused.check(429, "OTP_RATE_LIMITED")["reason"], "session");
    send("+15550123451", json!({"ip": "192.0.2.8"})).await.ok();
    let bad = send(PHONE, json!({"ip": "192.0.2"})).await;
    let message = bad.check(400, "VALIDATION_ERROR")["message"].to_string();
    assert!(message.contains("context.ip"), "{message}");
    send(PHONE, json!({"session": ""})).await.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn what_a_caller_notes_stands_in_rows_and_events() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let notes = json!({"reference": "order 7", "metadata": {"flow": "sign-in"}});
    let (id, code) = send(&server, &api, notes).await;
    verify(&api, &id, &code).await.ok();
    let row = api.get(&format!("/v1/otp/{id}")).await.ok();
    let listed = api.get("/v1/otp").await.ok()["data"][0].clone();
    let events = api.get("/v1/events").await.ok();
    let events = events["data"].as_array().unwrap().iter().map(|event| event["data"].clone());
    for of in events.chain([row, listed]) {
        assert_eq!(of["reference"], "order 7", "{of}");
        assert_eq!(of["metadata"], json!({"flow": "sign-in"}), "{of}");
    }
    server.advance(2 * 3600).await;
    let listed = api.get("/v1/otp").await.ok()["data"][0].clone();
    assert_eq!(listed["reference"], "order 7", "also when only its record is left");
    for (body, field) in [
        (json!({"phone": PHONE, "reference": ""}), "reference"),
        (json!({"phone": PHONE, "reference": "a\nb"}), "reference"),
        (json!({"phone": PHONE, "metadata": {"k": "v".repeat(257)}}), "metadata.k"),
        (json!({"phone": PHONE, "metadata": {"k": 1}}), "metadata"),
    ] {
        let refused = api.post("/v1/otp/send", body).await;
        let message = refused.check(400, "VALIDATION_ERROR")["message"].to_string();
        assert!(message.contains(field), "{message}");
    }
}
