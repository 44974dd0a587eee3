//! Traced requests: their spans reach a collector, and no request waits for it.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;

use crate::otp::PHONE;
use crate::support::{Answer, Reply, Sink, TestServer, eventually};
use crate::webhooks::{events, register};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const COLLECTOR: &str = "/v1/traces";

async fn server(sink: &Sink, one_in: &str) -> TestServer {
    let endpoint = sink.url(COLLECTOR);
    let settings = [
        ("TRACES__ENDPOINT", endpoint.as_str()),
        ("TRACES__SAMPLE_ONE_IN", one_in),
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
    ];
    TestServer::with(&settings).await
}

/// Sends a code for a caller that traces the request, or does not.
async fn send(server: &TestServer, flags: &str) -> Reply {
    let parent = format!("00-{TRACE}-{PARENT}-{flags}");
    let headers = [("Content-Type", "application/json"), ("traceparent", parent.as_str())];
    let body = json!({"phone": PHONE}).to_string();
    server.demo().call("POST", "/v1/otp/send", &headers, body.as_bytes()).await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the spans that the collector has received.
fn spans(sink: &Sink) -> Vec<Span> {
    let mut all = Vec::new();
    for received in sink.received(COLLECTOR) {
        assert_eq!(received.header("content-type"), "application/x-protobuf");
        let request = ExportTraceServiceRequest::decode(received.body.as_slice()).unwrap();
        for resource in request.resource_spans {
            let of = attributes(&resource.resource.clone().unwrap().attributes);
            assert_eq!(of["service.name"], "postrider");
            all.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    all
}

fn attributes(all: &[opentelemetry_proto::tonic::common::v1::KeyValue]) -> HashMap<String, String> {
    let text = |value: Any| match value {
        Any::StringValue(text) => text,
        Any::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value = |it: &opentelemetry_proto::tonic::common::v1::KeyValue| it.value.clone()?.value;
    all.iter().map(|it| (it.key.clone(), value(it).map(text).unwrap_or_default())).collect()
}

async fn wait_for(sink: &Sink, names: &[&str]) -> HashMap<String, Span> {
    let come = async || {
        let named: HashMap<_, _> =
            spans(sink).into_iter().map(|span| (span.name.clone(), span)).collect();
        names.iter().all(|name| named.contains_key(*name)).then_some(named)
    };
    eventually(&format!("the spans {names:?}"), come).await
}

#[tokio::test]
async fn a_followed_code_is_seen_from_request_to_webhook() {
    let sink = Sink::start();
    let server = server(&sink, "0").await;
    register(&server.demo(), &sink.url("/hook"), json!({"events": ["otp.sent"]})).await;
    send(&server, "01").await.ok();
    let of = wait_for(&sink, &["POST /v1/otp/send", "commit", "hand-over", "webhook"]).await;
    assert!(of.values().all(|span| hex(&span.trace_id) == TRACE), "{of:?}");
    let request = &of["POST /v1/otp/send"];
    assert_eq!(hex(&request.parent_span_id), PARENT);
    let known = attributes(&request.attributes);
    assert_eq!(known["http.response.status_code"], "200");
    assert_eq!(known["postrider.workspace"], "demo");
    assert!(!known["postrider.request_id"].is_empty());
    for name in ["commit", "hand-over", "webhook"] {
        let span = &of[name];
        assert_eq!(span.parent_span_id, request.span_id, "{name}");
        assert!(span.start_time_unix_nano >= request.start_time_unix_nano, "{name}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{name}");
    }
    assert!(of["commit"].end_time_unix_nano <= request.end_time_unix_nano);
    assert_eq!(attributes(&of["hand-over"].attributes)["postrider.outcome"], "sent");
    assert_eq!(attributes(&of["webhook"].attributes)["http.response.status_code"], "200");
    let shown = format!("{of:?}");
    assert!(!shown.contains(PHONE) && !shown.contains(server.demo().token()));
    let hook = sink.wait("/hook", 1).await;
    let parent = hook[0].header("traceparent").to_owned();
    assert_eq!(parent, format!("00-{TRACE}-{}-01", hex(&of["webhook"].span_id)));
}

#[tokio::test]
async fn who_is_followed_is_decided_by_chance_and_by_known_callers() {
    let sink = Sink::start();
    let server = server(&sink, "0").await;
    register(&server.demo(), &sink.url("/hook"), json!({"events": ["otp.sent"]})).await;
    events(&server.demo(), 1).await;
    send(&server, "00").await.ok();
    let header = format!("00-{TRACE}-{PARENT}-01");
    let strangers = [("traceparent", header.as_str())];
    server.stranger().call("GET", "/healthz", &strangers, b"").await.ok();
    server.stranger().call("GET", "/v1/me", &strangers, b"").await.check(401, "UNAUTHORIZED");
    let plain = sink.wait("/hook", 2).await;
    assert!(plain.iter().all(|it| it.header("traceparent").is_empty()));
    let nonsense = [("Content-Type", "application/json"), ("traceparent", "nonsense")];
    server.demo().call("GET", "/v1/me", &nonsense, b"").await.ok();
    // Spans are sent in the order in which they end, so all earlier ones would be here.
    send(&server, "01").await.ok();
    let of = wait_for(&sink, &["POST /v1/otp/send"]).await;
    assert!(of.values().all(|span| hex(&span.trace_id) == TRACE), "{of:?}");
    assert!(!of.contains_key("GET /healthz") && !of.contains_key("GET /v1/me"), "{of:?}");
    let requests = spans(&sink).into_iter().filter(|span| span.name == "POST /v1/otp/send");
    assert_eq!(requests.count(), 1);
}

#[tokio::test]
async fn every_request_can_be_followed() {
    let sink = Sink::start();
    let server = server(&sink, "1").await;
    server.stranger().get("/healthz").await.ok();
    server.demo().post("/v1/otp/send", json!({"phone": "nonsense"})).await.check_field("phone");
    let of = wait_for(&sink, &["GET /healthz", "POST /v1/otp/send"]).await;
    assert_ne!(of["GET /healthz"].trace_id, of["POST /v1/otp/send"].trace_id);
    assert!(of["GET /healthz"].parent_span_id.is_empty());
    assert!(!of.contains_key("commit"), "a refused command commits nothing");
}

#[tokio::test]
async fn a_collector_that_takes_nothing_is_in_nobodys_way() {
    let sink = Sink::start();
    sink.then(COLLECTOR, Answer::Status(500, ""));
    let server = server(&sink, "1").await;
    events(&server.demo(), 3).await;
    let failed = async || {
        let text = server.stranger().get("/metrics").await.text();
        let line = "postrider_trace_spans_total{outcome=\"failed\"} ";
        let count = text.lines().find_map(|it| it.strip_prefix(line)?.parse::<u64>().ok())?;
        (count > 0).then_some(())
    };
    eventually("failed spans", failed).await;
}
