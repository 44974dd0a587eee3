//! The event log as a stream, and the retention of the log.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::{Api, Sink, TestServer, eventually, millis};
use crate::webhooks::events;

/// A stream that is being read.
pub struct Stream {
    response: reqwest::Response,
    /// The bytes that came at once.
    opening: String,
    text: String,
}

impl Stream {
    async fn open(server: &TestServer, api: &Api, last: Option<&str>) -> Self {
        Self::at(server.address(), api.token(), last).await
    }

    /// Opens the stream of the workspace of a key.
    pub async fn at(address: SocketAddr, key: &str, last: Option<&str>) -> Self {
        // Another test may have installed a provider already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{address}/v1/events/stream");
        let mut request = client.get(url).bearer_auth(key);
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Self { response, opening: String::new(), text: String::new() };
        stream.opening = stream.any_message().await.unwrap();
        assert!(stream.opening.starts_with(": here"), "it begins at once");
        let ping = stream.any_message().await.unwrap();
        let clock = ping.strip_prefix("event: ping\ndata: ").expect("the clock is sent at once");
        let clock: Value = serde_json::from_str(clock).unwrap();
        assert!(clock["now"].is_string() && clock["offset_seconds"].is_u64(), "{clock}");
        stream
    }

    /// Returns the next message that is no ping, or `None` at the end.
    pub async fn message(&mut self) -> Option<String> {
        loop {
            let message = self.any_message().await?;
            if !message.starts_with("event: ping\n") {
                return Some(message);
            }
        }
    }

    /// Returns the next message, or `None` at the end.
    async fn any_message(&mut self) -> Option<String> {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let message = message.to_owned();
                self.text = rest.to_owned();
                return Some(message);
            }
            let chunk = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns the id, type and object of the next event.
    pub async fn event(&mut self) -> (String, String, Value) {
        loop {
            let message = self.message().await.expect("the stream goes on");
            let field = |name: &str| {
                let line = message.lines().find_map(|line| line.strip_prefix(name));
                line.map(str::to_owned)
            };
            // A position without an event comes first.
            if let (Some(id), Some(kind), Some(data)) =
                (field("id: "), field("event: "), field("data: "))
            {
                return (id, kind, serde_json::from_str(&data).unwrap());
            }
        }
    }
}

async fn log(api: &Api) -> Vec<Value> {
    api.get("/v1/events?limit=200").await.ok()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_stream_shows_what_comes_and_can_be_taken_up_again() {
    let mut server = crate::webhooks::server().await;
    let api = server.workspace("acme").await;
    events(&api, 2).await;
    let mut stream = Stream::open(&server, &api, None).await;
    assert_eq!(stream.opening, ": here\nid: 2", "its place, before any event");
    events(&api, 2).await;
    let (first, second) = (stream.event().await, stream.event().await);
    let all = log(&api).await;
    assert_eq!((&first.2, &second.2), (&all[2], &all[3]), "as the log shows them");
    assert_eq!(
        (&first.0, first.1.as_str()),
        (&all[2]["id"].as_str().unwrap().to_owned(), "otp.sent")
    );
    for last in [all[0]["id"].as_str().unwrap(), "1"] {
        let mut again = Stream::open(&server, &api, Some(last)).await;
        assert_eq!(again.opening, ": here", "the client has a place already");
        for expected in &all[1..4] {
            assert_eq!(again.event().await.2, *expected);
        }
    }
    let other = server.workspace("other").await;
    events(&other, 1).await;
    events(&api, 1).await;
    assert_eq!(stream.event().await.2["sequence"], 5, "another workspace's are not shown");
    let bad = [("Last-Event-ID", "evt_x")];
    api.call("GET", "/v1/events/stream", &bad, b"").await.check_field("Last-Event-ID");
    // A stop ends it, and does not wait for its client.
    server.stop();
    assert_eq!(stream.message().await, None);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let server = crate::webhooks::server().await;
    let api = server.workspace("acme").await;
    let (key, follower) = server.key("acme", &["webhooks:manage"], json!({})).await;
    let mut stream = Stream::open(&server, &follower, None).await;
    let path = format!("/admin/v1/workspaces/acme/keys/{key}");
    server.admin().delete(&path).await;
    events(&api, 1).await;
    assert_eq!(stream.message().await, None);
    let (_, sender) = server.key("acme", &["messaging:send"], json!({})).await;
    sender.get("/v1/events/stream").await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let server = crate::webhooks::server().await;
    server.workspace("acme").await;
    let now = server.demo().get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap().to_owned();
    let end = jiff::Timestamp::from_millisecond(millis(&now) as i64 + 3_600_000).unwrap();
    let body = json!({"name": "k", "scopes": ["webhooks:manage"], "expires_at": end.to_string()});
    let made = server.admin().post("/admin/v1/workspaces/acme/keys", body).await.ok();
    let follower = server.api(made["key"].as_str().unwrap());
    let mut stream = Stream::open(&server, &follower, None).await;
    server.advance(3_601).await;
    // It waits neither for an event nor for the next heartbeat.
    assert_eq!(stream.message().await, None);
}

#[tokio::test]
async fn a_place_that_the_log_does_not_know_is_refused() {
    let server = crate::webhooks::server().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    events(&api, 3).await;
    events(&other, 3).await;
    let of_other = log(&other).await[1]["id"].as_str().unwrap().to_owned();
    let path = "/v1/events/stream";
    for id in ["99999999", "18446744073709551615", "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz", &of_other] {
        let refused = api.call("GET", path, &[("Last-Event-ID", id)], b"").await;
        refused.check_field("Last-Event-ID");
    }
    api.get(&format!("{path}?cursor=AQAAAAA7msoA")).await.check_field("cursor");
    // A client that has seen nothing starts with the next event.
    let mut stream = Stream::open(&server, &api, Some("")).await;
    events(&api, 1).await;
    assert_eq!(stream.event().await.2["sequence"], 4);
}

#[tokio::test]
async fn old_events_go_and_sequences_go_on() {
    let mut server = TestServer::with(&[("EVENTS__KEPT_DAYS", "2")]).await;
    let api = server.workspace("acme").await;
    events(&api, 2).await;
    server.advance(3 * 24 * 3600).await;
    events(&api, 1).await;
    // The newest part stays until there is a newer one; the check runs once a minute.
    server.advance(61).await;
    let oldest = async || {
        let log = log(&api).await;
        let first = log[0]["sequence"].as_u64().unwrap();
        (first > 2).then_some(log)
    };
    let before = eventually("the end of what is old", oldest).await;
    server.restart().await;
    events(&api, 1).await;
    let after = log(&api).await;
    assert_eq!(after[..before.len()], before);
    let sequences: Vec<_> = after.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
    // A cursor before the start continues at the oldest.
    let mut stream = Stream::open(&server, &api, Some("1")).await;
    assert_eq!(stream.event().await.2, after[0]);
    let sink = Sink::start();
    let (id, _) = crate::webhooks::register(&api, &sink.url("/"), json!({})).await;
    let replay = json!({"since": "2020-01-01T00:00:00Z"});
    let queued = api.post(&format!("/v1/webhooks/{id}/replay"), replay).await.ok();
    assert_eq!(queued["queued"], after.len());
    sink.wait("/", after.len()).await;
}

#[tokio::test]
async fn a_workspace_that_rests_forgets_too_and_is_not_woken() {
    let mut server = TestServer::with(&[("EVENTS__KEPT_DAYS", "2")]).await;
    let api = server.workspace("acme").await;
    for name in ["Ana", "Ben", "Eva"] {
        api.post("/v1/contacts", json!({"name": name})).await.ok();
    }
    server.advance(2 * 24 * 3600 - 300).await;
    // The workspace has no work of its own, and none is woken in the first ten minutes.
    server.restart().await;
    let newest = log(&api).await.pop().unwrap();
    server.advance(400).await;
    let forgotten = async || {
        let log = log(&api).await;
        (log.len() == 1).then_some(log)
    };
    let kept = eventually("the end of what is old", forgotten).await;
    assert_eq!(kept, [newest], "the newest stays");
    let acme = server.admin().get("/admin/v1/workspaces/acme").await.ok();
    assert_eq!(acme["state"], "idle");
}

#[tokio::test]
async fn too_large_a_log_loses_its_oldest() {
    let mut server = TestServer::with(&[("EVENTS__KEPT_BYTES_MAX", "65536")]).await;
    let api = server.workspace("acme").await;
    let mut made = Vec::new();
    let make = async |count: usize, made: &mut Vec<Value>| {
        for _ in 0..count {
            let fields = json!({"notes": "x".repeat(10_000)});
            let body = json!({"name": "Ana", "custom_fields": fields});
            made.push(api.post("/v1/contacts", body).await.ok()["id"].clone());
        }
    };
    make(4, &mut made).await;
    // The size of the log is known after a crash too.
    server.crash().await;
    make(8, &mut made).await;
    server.advance(61).await;
    // A check in real time may have cut it before.
    let cut = async || Some(log(&api).await).filter(|log| log.len() <= 6);
    let kept = eventually("the end of what is too large", cut).await;
    let kept: Vec<_> = kept.iter().map(|event| &event["data"]["contact_id"]).collect();
    assert_eq!(kept, made[6..].iter().collect::<Vec<_>>(), "six of ten thousand bytes fit");
}

#[tokio::test]
async fn too_many_events_go_oldest_first() {
    let settings = [
        ("EVENTS__KEPT_EVENTS_MAX", "1000"),
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
        ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ];
    let server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    events(&api, 1020).await;
    server.advance(61).await;
    let oldest = async || {
        let first = api.get("/v1/events?limit=1").await.ok()["data"][0]["sequence"].as_u64();
        first.filter(|first| (20..=25).contains(first))
    };
    eventually("the end of what is too much", oldest).await;
}
