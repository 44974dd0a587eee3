//! The endpoints for operators and developers: health, metrics, the document and its page.

use serde_json::{Map, Value, json};

use crate::support::{Api, Reply, TestServer};

const ID: &str = "01jd3v0x5n8m7k2q4r6s8t0w2y";

#[tokio::test]
async fn health_needs_no_key_and_has_no_limit() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "1")]).await;
    let anyone = server.stranger();
    for _ in 0..5 {
        assert_eq!(anyone.get("/healthz").await.ok()["status"], "ok");
        assert_eq!(anyone.get("/readyz").await.ok()["status"], "ready");
        for path in ["/metrics", "/openapi.json"] {
            let reply = anyone.get(path).await;
            assert_eq!(reply.status, 200, "{path}");
            assert_eq!(reply.header("x-ratelimit-limit"), None, "{path}");
        }
    }
    let head = anyone.call("HEAD", "/healthz", &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn metrics_count_requests_by_route_and_show_no_secret() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for _ in 0..3 {
        demo.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    }
    demo.get("/v1/otp/otp_x").await.check(404, "NOT_FOUND");
    demo.get("/v1/some-path-that-is-not-there").await.check(404, "NOT_FOUND");
    let metrics = server.stranger().get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    let text = metrics.text();
    let sent = text.lines().find(|line| {
        line.starts_with("postrider_http_requests_total{")
            && ["\"/v1/otp/send\"", "\"2xx\""].iter().all(|label| line.contains(label))
    });
    assert!(sent.is_some_and(|line| line.ends_with(" 3")), "{sent:?}");
    assert!(text.contains("/v1/otp/{request_id}"));
    for hidden in ["some-path", "otp_x", "15550123456", demo.token()] {
        assert!(!text.contains(hidden), "{hidden} is in the metrics");
    }
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn the_address_of_the_documents_page_leads_to_the_dashboard() {
    let server = TestServer::start().await;
    let anyone = server.stranger();
    let page = anyone.get("/docs").await;
    assert_eq!((page.status, page.header("location")), (307, Some("/ui/explorer")));
    for path in ["/docs/../Cargo.toml", "/docs/..%2fCargo.toml", "/docs/", "/docs/%00"] {
        anyone.get(path).await.check(404, "NOT_FOUND");
    }
}

/// Follows a reference within the document.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).expect(reference),
        None => value,
    }
}

/// Returns the body that the document shows for a schema.
fn example(document: &Value, schema: &Value) -> Value {
    let schema = resolve(document, schema);
    if !schema["example"].is_null() {
        return schema["example"].clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return example(document, &parts[0]);
    }
    let mut body = Map::new();
    for (name, property) in schema["properties"].as_object().unwrap() {
        let property = resolve(document, property);
        let shown = [&property["example"], &property["default"]];
        let shown = shown.into_iter().find(|value| !value.is_null());
        let required = schema["required"].as_array();
        let required = required.is_some_and(|names| names.contains(&json!(name)));
        assert!(shown.is_some() || !required, "no example of {name} in {schema}");
        body.extend(shown.map(|value| (name.clone(), value.clone())));
    }
    body.into()
}

/// Checks that the schema names every field of an answer.
fn check_documented(document: &Value, operation: &Value, reply: &Reply) {
    let status = reply.status.to_string();
    let response = &operation["responses"][&status];
    let id = &operation["operationId"];
    assert!(response.is_object(), "{id} does not tell of {status}: {}", reply.text());
    for name in response["headers"].as_object().unwrap().keys() {
        let name = name.to_lowercase();
        // Not every answer has these headers.
        let sometimes = name.contains("ratelimit") || name == "idempotency-replayed";
        assert!(sometimes || reply.header(&name).is_some(), "{id} {status} has no {name}");
    }
    let schema = resolve(document, &response["content"]["application/json"]["schema"]);
    let mut names = Vec::new();
    let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    for part in &parts {
        let part = resolve(document, part);
        names.extend(part["properties"].as_object().into_iter().flatten().map(|(name, _)| name));
    }
    if let (false, Some(body)) = (names.is_empty(), reply.json().as_object()) {
        for name in body.keys() {
            assert!(names.contains(&name), "{id} {status} does not tell of {name}");
        }
    }
}

/// Returns a path with a value of the right shape in each of its places.
fn filled(path: &str) -> String {
    let place = |name: &str| match name {
        "workspace" => "acme".to_owned(),
        "name" => "order_update".to_owned(),
        "language" => "en".to_owned(),
        "phone" | "party" => "+15550123456".to_owned(),
        "request_id" => format!("otp_{ID}"),
        "message_id" => format!("msg_{ID}"),
        "broadcast_id" => format!("brd_{ID}"),
        "media_id" => format!("med_{ID}"),
        "sha256" => "a7".repeat(32),
        "contact_id" => format!("con_{ID}"),
        "conversation_id" => format!("cnv_{ID}"),
        "quick_reply_id" => format!("qrp_{ID}"),
        "segment_id" => format!("seg_{ID}"),
        "delivery_id" => "dlv_17_0".to_owned(),
        "webhook_id" => format!("whk_{ID}"),
        "key_id" => format!("key_{ID}"),
        "number_id" => format!("num_{ID}"),
        "portfolio_id" => "107".to_owned(),
        "token_id" => format!("tok_{ID}"),
        "user_id" => format!("usr_{ID}"),
        "invite_id" => format!("inv_{ID}"),
        "event_id" => format!("evt_{ID}"),
        "node" => "pr-9".to_owned(),
        "shard" => "0".to_owned(),
        other => panic!("{path} has {other}"),
    };
    let segments = path.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        name.map_or_else(|| segment.to_owned(), place)
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Checks that a key without the permission is refused, as in the document.
async fn check_forbidden(document: &Value, operation: &Value, api: &Api, method: &str, path: &str) {
    let refused = api.call(method, path, &[], b"").await;
    refused.check(403, "FORBIDDEN");
    check_documented(document, operation, &refused);
}

/// Returns the answer to an ordinary request for an operation.
async fn ordinary(
    document: &Value,
    operation: &Value,
    api: &Api,
    method: &str,
    path: &str,
) -> Reply {
    let content = &operation["requestBody"]["content"];
    let body = &content["application/json"]["schema"];
    if !content["application/octet-stream"].is_null() {
        return api.call(method, path, &[("Content-Type", "image/png")], b"abc").await;
    }
    match body {
        Value::Null => api.call(method, path, &[], b"").await,
        body => api.send_json(method, path, &example(document, body)).await,
    }
}

#[tokio::test]
async fn the_document_is_true_of_the_server() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0")]).await;
    server.workspace("acme").await;
    let (_, weak) = server.key("acme", &["analytics:read"], json!({})).await;
    let reply = server.stranger().get("/openapi.json").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let document = reply.ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    for (path, item) in document["paths"].as_object().unwrap() {
        if path.starts_with("/channels/") || path.starts_with("/ui/") {
            // These are signed by the provider, or for pages; the tests of callbacks and people try
            // them.
            continue;
        }
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_uppercase();
            if method == "DELETE" && path == "/admin/v1/workspaces/{workspace}" {
                // It ends the workspace that all others are tried in; a test of its own tries it.
                continue;
            }
            let path = filled(path);
            assert!(!path.contains('{'), "{path}");
            let api = match operation["security"][0].as_object().map(|it| it.keys().next()) {
                Some(Some(scheme)) if scheme == "apiKey" => server.demo(),
                Some(Some(scheme)) if scheme == "adminToken" => server.admin(),
                Some(Some(scheme)) if scheme == "session" => {
                    // The tests of people try it with a session.
                    check_forbidden(&document, operation, &server.demo(), &method, &path).await;
                    continue;
                }
                _ => server.stranger(),
            };
            let reply = ordinary(&document, operation, &api, &method, &path).await;
            assert!(
                ![400, 401, 403, 405, 415, 500].contains(&reply.status),
                "{method} {path}: {}",
                reply.text()
            );
            if path != "/metrics" && !reply.body.is_empty() {
                check_documented(&document, operation, &reply);
            }
            if path.starts_with("/v1/") || path.starts_with("/admin/") {
                let refused = server.stranger().call(&method, &path, &[], b"").await;
                refused.check(401, "UNAUTHORIZED");
                check_documented(&document, operation, &refused);
            }
            let needs_scope =
                !path.contains("/analytics") && !["/v1/me", "/v1/workspace"].contains(&&*path);
            if path.starts_with("/v1/") && needs_scope {
                check_forbidden(&document, operation, &weak, &method, &path).await;
            }
        }
    }
}

#[tokio::test]
async fn an_administrator_reads_the_clock_and_has_it_follow_the_machine() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let demo = server.demo();
    demo.post("/v1/sandbox/clock", json!({"advance_seconds": 3600})).await.ok();
    let clock = admin.get("/admin/v1/clock").await.ok();
    assert_eq!((&clock["step"], &clock["ahead_seconds"]), (&json!(false), &json!(0.0)));
    let times = ["engine", "real"].map(|name| clock[name].as_str().unwrap().to_owned());
    assert!(times[0] > times[1], "the sandbox moves engine time only: {times:?}");
    let followed = admin.post("/admin/v1/clock/follow", json!({})).await.ok();
    assert!(followed["engine"].as_str().unwrap() >= times[0].as_str(), "time never goes back");
    assert_eq!(server.stranger().get("/readyz").await.ok()["warnings"], Value::Null);
    demo.get("/admin/v1/clock").await.check(401, "UNAUTHORIZED");
}
