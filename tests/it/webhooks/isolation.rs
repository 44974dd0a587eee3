//! Endpoints that behave badly beside others, which still get everything.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Answer, Api, Received, Sink, TestServer, eventually};
use crate::webhooks::{deliveries, events, register};

/// The number of events of a test; an endpoint's faults come with the first of them.
const EVENTS: usize = 25;

/// Starts a server with few places for requests: an endpoint gets four and a workspace eight. Only
/// sinks at 127.0.0.2 may receive deliveries.
async fn server() -> TestServer {
    let settings = [
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
        ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
        ("WEBHOOKS__REQUESTS_MAX", "16"),
        // Endpoints that hang or drip do so to the end of the test.
        ("WEBHOOKS__TIMEOUT_SECONDS", "3600"),
        ("SHUTDOWN__GRACE_SECONDS", "2"),
        ("WEBHOOKS__ALLOWED_SUBNETS", "127.0.0.2/32"),
    ];
    TestServer::with(&settings).await
}

fn ids(received: &[Received]) -> Vec<String> {
    received.iter().map(|it| it.id().to_owned()).collect()
}

/// Checks that every event has come to a path, each once.
async fn all_came(sink: &Sink, path: &str, sent: &[String]) {
    let received = sink.wait(path, sent.len()).await;
    let distinct: HashSet<_> = ids(&received).into_iter().collect();
    assert_eq!((received.len(), distinct.len()), (sent.len(), sent.len()), "{path}");
    let text: String = received.iter().map(|it| it.json().to_string()).collect();
    assert!(sent.iter().all(|id| text.contains(id)), "{path}");
}

/// Registers a bad endpoint and nine good ones in a workspace of their own. Makes events, and
/// checks that the nine get them all.
async fn nine_beside(server: &TestServer, name: &str, url: &str) -> (Api, String) {
    let (api, sink) = (server.workspace(name).await, Sink::at("127.0.0.2"));
    let (bad, _) = register(&api, url, json!({})).await;
    for nth in 0..9 {
        register(&api, &sink.url(&format!("/{nth}")), json!({"events": ["otp.sent"]})).await;
    }
    let sent = events(&api, EVENTS).await;
    for nth in 0..9 {
        all_came(&sink, &format!("/{nth}"), &sent).await;
    }
    (api, bad)
}

/// The bad endpoints of one workspace continue to misbehave while the next is tested.
#[tokio::test]
async fn nine_get_everything_beside_one_that_misbehaves() {
    let server = server().await;
    let (sink, home) = (Sink::at("127.0.0.2"), Sink::start());
    let elsewhere = format!("Location: {}\r\n", home.url("/"));
    let faults = [
        ("hangs", Answer::Hang, None),
        ("drips", Answer::Drip, None),
        ("resets", Answer::Reset, Some("connection_lost")),
        ("fails", Answer::Status(500, ""), Some("status")),
        ("is-busy", Answer::Status(429, "Retry-After: 3600\r\n"), Some("status")),
        ("is-gone", Answer::Status(410, ""), Some("status")),
        ("redirects", Answer::Status(307, elsewhere.leak()), Some("redirect")),
    ];
    for (name, answer, error) in faults {
        let path = format!("/{name}");
        sink.then(&path, answer);
        let (api, bad) = nine_beside(&server, name, &sink.url(&path)).await;
        sink.wait(&path, 1).await;
        match error {
            Some(error) => assert_eq!(deliveries(&api, &bad, 1).await[0]["error"], error, "{name}"),
            // The endpoint has its first request, which has not ended.
            None => assert_eq!(sink.received(&path).len(), 1, "{name}"),
        }
    }
    assert_eq!(home.connections(), 0, "a redirect is not followed");
}

#[tokio::test]
async fn nine_get_everything_beside_one_that_answers_a_gigabyte() {
    let (server, sink) = (server().await, Sink::at("127.0.0.2"));
    sink.then("/", Answer::Gigabyte);
    let (api, bad) = nine_beside(&server, "acme", &sink.url("/")).await;
    for row in deliveries(&api, &bad, EVENTS).await {
        assert_eq!((&row["status"], &row["error"]), (&json!(200), &Value::Null));
    }
    let each = sink.sent() / sink.received("/").len();
    assert!(each < 16 << 20, "{each} bytes of each answer were taken");
}

#[tokio::test]
async fn nine_get_everything_beside_one_whose_name_leads_home() {
    let (server, home) = (server().await, Sink::start());
    let url = format!("http://localhost:{}/", home.port());
    let (api, bad) = nine_beside(&server, "acme", &url).await;
    assert_eq!(deliveries(&api, &bad, 1).await[0]["error"], "blocked_address");
    assert_eq!(home.connections(), 0);
}

/// Ten hanging endpoints could take ten of the sixteen places, but they get half of them.
#[tokio::test]
async fn a_workspace_whose_endpoints_all_hang_stops_no_other() {
    let (server, sink) = (server().await, Sink::at("127.0.0.2"));
    let bad = server.workspace("bad").await;
    for nth in 0..10 {
        let path = format!("/hang/{nth}");
        sink.then(&path, Answer::Hang);
        register(&bad, &sink.url(&path), json!({})).await;
    }
    events(&bad, 2).await;
    let hanging = || (0..10).map(|nth| sink.received(&format!("/hang/{nth}")).len()).sum::<usize>();
    eventually("all that may hang", async || (hanging() >= 8).then_some(())).await;
    let good = server.workspace("good").await;
    register(&good, &sink.url("/good"), json!({})).await;
    let sent = events(&good, EVENTS).await;
    all_came(&sink, "/good", &sent).await;
    assert_eq!(hanging(), 8);
}
