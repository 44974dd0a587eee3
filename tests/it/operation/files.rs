//! Lists are available as files, too: recipients and statistics as CSV, events as lines of JSON.

use serde_json::{Value, json};

use crate::contacts::UNLIMITED;
use crate::support::{Api, TestServer, eventually};

const CSV: &str = "text/csv";
const LINES: &str = "application/x-ndjson";

/// An answer that may be streamed.
pub struct File {
    pub kind: String,
    pub cached: String,
    pub text: String,
}

pub async fn file(server: &TestServer, api: &Api, path: &str, accept: &str) -> File {
    // Another test may have installed a provider already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}{path}", server.address());
    let request = client.get(url).bearer_auth(api.token()).header("Accept", accept);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let header = |name: &str| match response.headers().get(name) {
        Some(value) => value.to_str().unwrap().to_owned(),
        None => String::new(),
    };
    let (kind, cached) = (header("content-type"), header("cache-control"));
    File { kind, cached, text: response.text().await.unwrap() }
}

async fn broadcast(api: &Api, recipients: Value) -> String {
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": recipients});
    let made = api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    eventually("it is completed", || async {
        let now = api.get(&path).await.ok();
        (now["status"] == "completed").then_some(())
    })
    .await;
    path
}

#[tokio::test]
async fn recipients_are_reported_as_csv_however_many_they_are() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.demo();
    let failed = json!({"to": "+15550000007", "outcome": "failed", "times": 1});
    api.post("/v1/sandbox/outcomes", failed).await.ok();
    let phones: Vec<_> = (0..6_000).map(|it| format!("+1555{it:07}")).collect();
    let path = format!("{}/recipients", broadcast(&api, json!(phones)).await);
    let whole = file(&server, &api, &format!("{path}?page=7&limit=2"), CSV).await;
    assert_eq!((&*whole.kind, &*whole.cached), ("text/csv; charset=utf-8", "no-store"));
    let text = whole.text;
    let mut lines: Vec<_> = text.split("\r\n").collect();
    assert_eq!(lines.pop(), Some(""), "the last line has an end");
    assert_eq!(lines.remove(0), "to,message_id,status,error_reason,error_code,error_details");
    let content: Vec<_> = lines.iter().map(|line| line.split(',').next().unwrap()).collect();
    let expected: Vec<_> = phones.iter().map(String::as_str).collect();
    let mut sorted = content.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected, "each once, and none is a formula");
    let one = file(&server, &api, &format!("{path}?status=failed"), "text/csv;q=0.9").await.text;
    assert_eq!(one.lines().count(), 2, "{one}");
    assert!(one.contains("+15550000007,") && one.contains(",failed,channel_refused,"), "{one}");
    // A client that does not ask for CSV alone gets JSON.
    for accept in ["*/*", "application/json, text/csv", "text/csv;q=0", "text/html"] {
        assert_eq!(file(&server, &api, &path, accept).await.kind, "application/json", "{accept}");
    }
    let none = "/v1/messaging/broadcasts/brd_01jd3v0x5n8m7k2q4r6s8t0w2y/recipients";
    api.call("GET", none, &[("Accept", CSV)], b"").await.check(404, "NOT_FOUND");
    let bad = format!("{path}?status=x");
    api.call("GET", &bad, &[("Accept", CSV)], b"").await.check_field("status");
}

#[tokio::test]
async fn statistics_are_reported_as_csv() {
    let server = TestServer::start().await;
    let api = server.demo();
    let path = broadcast(&api, json!(["+15550123456"])).await;
    api.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let content = file(&server, &api, "/v1/analytics/campaigns", CSV).await.text;
    let (head, row) = content.split_once("\r\n").unwrap();
    assert_eq!(head, "date,broadcast_id,name,sent,delivered,read,failed,replied");
    let id = path.rsplit('/').next().unwrap();
    assert!(row.contains(&format!(",{id},Sale,1,0,0,0,0\r\n")), "{row}");
    let content = file(&server, &api, "/v1/analytics/otp", CSV).await.text;
    assert!(content.starts_with("day,sent,delivered,verified,wrong,expired,failed,refused\r\n2"));
    assert!(content.ends_with(",1,0,0,0,0,0,0\r\n"), "{content}");
    let content = file(&server, &api, "/v1/analytics/otp?group_by=country", CSV).await.text;
    assert!(content.starts_with("country,") && content.contains("\r\n1,1,"), "{content}");
    let ads = file(&server, &api, "/v1/analytics/ads", CSV).await.text;
    assert_eq!(ads, "date,source_type,source_id,headline,conversations,messages\r\n");
    api.post("/v1/sandbox/inbound", json!({"from": "+15550123456", "text": "Hi"})).await.ok();
    let content = file(&server, &api, "/v1/conversations/days", CSV).await.text;
    assert!(content.starts_with("day,received,sent,opened,resolved\r\n2"), "{content}");
    assert!(content.ends_with(",1,0,1,0\r\n"), "{content}");
    let bad = "/v1/analytics/ads?from=x";
    api.call("GET", bad, &[("Accept", CSV)], b"").await.check_field("from");
}

#[tokio::test]
async fn events_are_reported_a_line_each_from_the_cursor_to_the_end() {
    let server = TestServer::with(&UNLIMITED).await;
    let acme = server.workspace("acme").await;
    let rows: Vec<_> = (0..1000).map(|it| json!({"name": format!("C{it}")})).collect();
    for _ in 0..3 {
        acme.post("/v1/contacts/batch", json!({ "contacts": rows })).await.ok();
    }
    acme.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let read = async |query: &str| -> Vec<Value> {
        let reply = file(&server, &acme, &format!("/v1/events{query}"), LINES).await;
        assert_eq!(reply.kind, LINES);
        reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = read("?limit=1").await;
    let sequences: Vec<_> = all.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert!(all.len() > 3000);
    let mut back = read("?order=desc").await;
    back.reverse();
    assert_eq!(back, all);
    let sent = read("?type=otp.sent").await;
    assert_eq!(sent.len(), 1);
    assert_eq!(read("?about=%2B15550123456&types=otp.sent,otp.verified").await, sent);
    let first = acme.get("/v1/events?limit=10").await.ok();
    assert_eq!(first["data"], json!(all[..10]));
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(read(&format!("?cursor={cursor}")).await, all[10..]);
    assert_eq!(read(&format!("?cursor={cursor}&order=desc")).await.len(), 9);
    let beyond = "/v1/events?cursor=AX__________";
    let refused = acme.call("GET", beyond, &[("Accept", LINES)], b"").await;
    refused.check_field("cursor");
}
