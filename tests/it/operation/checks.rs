//! The checks of every request, their order, and the headers of every answer.

use serde_json::json;

use crate::support::{Api, Reply, TestServer};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

async fn method(api: &Api, method: &str, path: &str) -> Reply {
    api.call(method, path, &[], b"").await
}

#[tokio::test]
async fn without_a_good_key_there_is_nothing_to_see() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0")]).await;
    let good = server.demo().token().to_owned();
    let admin = server.admin().token().to_owned();
    let paths = [
        ("POST", "/v1/otp/send"),
        ("GET", "/v1/otp/otp_01jd3v0x5n8m7k2q4r6s8t0w2y"),
        ("DELETE", "/v1/otp/send"),
        ("GET", "/v1/nothing/here"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/sandbox/messages"),
    ];
    for (verb, path) in paths {
        let refused = method(&server.stranger(), verb, path).await;
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{path}");
        refused.check(401, "UNAUTHORIZED");
        for value in [
            "",
            "Bearer",
            "Bearer ",
            &good,
            &format!("Basic {good}"),
            &format!("Bearer {good}x"),
            &format!("Bearer {}", &good[..good.len() - 1]),
            &format!("Bearer {}", good.to_uppercase()),
            &format!("Bearer {HEX}"),
            &format!("Bearer {admin}"),
        ] {
            let headers = [("Authorization", value)];
            let refused = server.stranger().call(verb, path, &headers, b"").await;
            assert_eq!(refused.status, 401, "{verb} {path} {value}");
        }
    }
    for value in [format!("bearer {good}"), format!("BEARER   {good}")] {
        let headers = [("Authorization", value.as_str())];
        server.stranger().call("GET", "/v1/sandbox/clock", &headers, b"").await.ok();
    }
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_have_the_error_shape() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for path in [
        "/v1",
        "/v1/",
        "/v1/otps",
        "/v1/otp/",
        "/v1/otp/send/",
        "/v1/otp/send/x",
        "/v1//otp/send",
        "/v1/nothing?x=1",
        "/v1/OTP/send",
    ] {
        let missing = method(&demo, "GET", path).await;
        assert_eq!(missing.status, 404, "{path}: {}", missing.text());
        missing.check(404, "NOT_FOUND");
        assert!(missing.header("x-ratelimit-limit").is_some(), "{path}");
    }
    for path in ["/nothing", "/v2/otp/send", "/v1x", "/healthz/x", "/docs/nothing"] {
        method(&server.stranger(), "GET", path).await.check(404, "NOT_FOUND");
    }
    for (verb, path, allowed) in [
        ("GET", "/v1/otp/verify", "POST"),
        ("PUT", "/v1/otp/send", "POST"),
        ("DELETE", "/v1/otp/send", "POST"),
        ("PATCH", "/v1/messaging/otp/resend", "POST"),
        ("OPTIONS", "/v1/otp/send", "POST"),
        ("POST", "/v1/otp/otp_01jd3v0x5n8m7k2q4r6s8t0w2y", "GET"),
        ("POST", "/v1/events", "GET"),
        ("DELETE", "/v1/sandbox/clock", "GET POST"),
        ("BREW", "/v1/sandbox/clock", "GET POST"),
    ] {
        let refused = method(&demo, verb, path).await;
        assert_eq!(refused.status, 405, "{verb} {path}: {}", refused.text());
        refused.check(405, "METHOD_NOT_ALLOWED");
        assert!(refused.header("x-ratelimit-limit").is_some(), "{path}");
        let allow = refused.header("allow").unwrap_or_else(|| panic!("{verb} {path}: no Allow"));
        for allowed in allowed.split(' ') {
            assert!(allow.contains(allowed), "{verb} {path}: {allow}");
        }
        assert!(!allow.contains(verb), "{verb} {path}: {allow}");
    }
    let refused = method(&server.admin(), "DELETE", "/admin/v1/workspaces").await;
    assert!(refused.header("allow").is_some());
    refused.check(405, "METHOD_NOT_ALLOWED");
    let refused = method(&server.stranger(), "POST", "/healthz").await;
    assert!(refused.header("allow").is_some_and(|allow| allow.contains("GET")));
    refused.check(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let long = "x".repeat(128);
    for sane in ["a", "7f3c-abc_DEF.1:2", "01JD3V0X5N8M7K2Q4R6S8T0W2Y", &long] {
        for path in ["/v1/sandbox/clock", "/v1/nothing", "/healthz", "/admin/v1/workspaces"] {
            let reply = demo.call("GET", path, &[("X-Request-Id", sane)], b"").await;
            assert_eq!(reply.header("x-request-id"), Some(sane), "{path}");
        }
    }
    let too_long = "x".repeat(129);
    for insane in ["", "a b", "<script>", "a\"b", "a,b", "é", &too_long] {
        let reply = demo.call("GET", "/v1/nothing", &[("X-Request-Id", insane)], b"").await;
        let id = reply.header("x-request-id").unwrap();
        assert!(id.starts_with("req_"), "{insane}: {id}");
    }
    let first = demo.get("/v1/sandbox/clock").await;
    let second = demo.get("/v1/sandbox/clock").await;
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

/// The order is 401, then 429, then 403, then 415, 413 and 400, then the rules.
#[tokio::test]
async fn checks_come_in_their_order() {
    let server = TestServer::with(&[("SERVER__MAX_BODY_BYTES", "1024")]).await;
    server.workspace("acme").await;
    let large = "x".repeat(2000);
    let text = [("Content-Type", "text/plain")];
    let json_type = [("Content-Type", "application/json")];
    let path = "/v1/otp/send";

    let stranger = server.stranger();
    stranger.call("POST", path, &text, large.as_bytes()).await.check(401, "UNAUTHORIZED");

    let limits = json!({"key_requests_per_hour": 2});
    let (_, weak) = server.key("acme", &["contacts:read"], limits).await;
    let refused = weak.call("POST", path, &text, large.as_bytes()).await.check(403, "FORBIDDEN");
    assert!(refused["message"].as_str().unwrap().contains("messaging:send"), "{refused}");
    weak.get("/v1/events").await.check(403, "FORBIDDEN");
    weak.call("POST", path, &text, large.as_bytes()).await.check(429, "RATE_LIMITED");
    weak.get("/v1/nothing").await.check(429, "RATE_LIMITED");
    method(&weak, "DELETE", path).await.check(429, "RATE_LIMITED");

    let (_, able) = server.key("acme", &["messaging:send"], json!({})).await;
    let refused = able.call("POST", path, &text, large.as_bytes()).await;
    refused.check(415, "UNSUPPORTED_MEDIA_TYPE");
    let refused = able.call("POST", path, &json_type, large.as_bytes()).await;
    refused.check(413, "PAYLOAD_TOO_LARGE");
    let admin = server.admin();
    admin.put("/admin/v1/workspaces/acme/credits", json!({"credits": 0})).await.ok();
    able.post(path, json!({"phone": "no"})).await.check_field("phone");
    let good = json!({"phone": "+15550123456"});
    able.post(path, good).await.check(422, "INSUFFICIENT_CREDITS");
    let missing = json!({"request_id": "otp_01jd3v0x5n8m7k2q4r6s8t0w2y", "otp": ""});
    able.post("/v1/otp/verify", missing).await.check_field("otp");
}

#[tokio::test]
async fn each_operation_needs_its_scope() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let scopes =
        ["messaging:send", "contacts:write", "contacts:read", "webhooks:manage", "analytics:read"];
    let id = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y";
    for scope in scopes {
        let (_, api) = server.key("acme", &[scope], json!({})).await;
        let read = format!("/v1/otp/{id}");
        for (verb, path, needed) in [
            ("POST", "/v1/otp/send", "messaging:send"),
            ("POST", "/v1/otp/verify", "messaging:send"),
            ("POST", "/v1/otp/resend", "messaging:send"),
            ("GET", read.as_str(), "messaging:send"),
            ("POST", "/v1/messaging/otp/send", "messaging:send"),
            ("GET", "/v1/events", "webhooks:manage"),
        ] {
            let reply = method(&api, verb, path).await;
            if scope == needed {
                assert_ne!(reply.status, 403, "{scope} {verb} {path}");
            } else {
                let refused = reply.check(403, "FORBIDDEN");
                assert!(refused["message"].as_str().unwrap().contains(needed), "{refused}");
            }
        }
    }
}

#[tokio::test]
async fn a_workspace_does_not_see_another_ones() {
    let server = TestServer::start().await;
    let (acme, other) = (server.workspace("acme").await, server.workspace("other").await);
    let phone = json!({"phone": "+15550123456"});
    let sent = acme.post("/v1/otp/send", phone).await.ok();
    let id = sent["request_id"].as_str().unwrap();
    let code = server.code(&acme, "+15550123456").await;
    other.get(&format!("/v1/otp/{id}")).await.check(404, "NOT_FOUND");
    let verify = json!({"request_id": id, "otp": code});
    other.post("/v1/otp/verify", &verify).await.check(404, "NOT_FOUND");
    other.post("/v1/otp/resend", json!({"request_id": id})).await.check(404, "NOT_FOUND");
    assert_eq!(other.get("/v1/sandbox/messages").await.ok()["data"], json!([]));
    assert_eq!(other.get("/v1/events").await.ok()["data"], json!([]));
    assert_eq!(acme.post("/v1/otp/verify", verify).await.ok()["verified"], true);
}
