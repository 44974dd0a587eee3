//! Fuzz targets: no body and no query of a stranger makes the server fail.

use std::panic::AssertUnwindSafe;

use postrider_actors::domain::fuzz::{SCRIPT_BYTES_MAX, edited};
use tokio::runtime::Runtime;

use super::edges::ordinary_bodies;
use crate::support::{Api, TestServer};

/// Lists, exports and reports with all parameters of their queries.
const QUERIES: [(&str, &str); 14] = [
    ("/v1/contacts", "page=2&limit=10&search=ana&tag=vip"),
    ("/v1/contacts/export", "after=con_01jd3v0x5n8m7k2q4r6s8t0w2y&limit=5"),
    ("/v1/conversations", "status=open&assigned_to=Ana&search=ana&page=1&limit=20"),
    ("/v1/events", "cursor=AQAAAAAAAAAA&types=otp.sent&about=%2B15550123456&order=desc&limit=3"),
    ("/v1/otp", "phone=%2B15550123456&status=active&from=2026-01-01T00:00:00Z&limit=3"),
    ("/v1/otp/decisions", "prefix=49151&decision=refused&since=2026-01-01T00:00:00Z&limit=3"),
    (
        "/v1/messaging/messages",
        "to=%2B15550123456&status=sent&template=a&until=2099-01-01T00:00:00Z",
    ),
    ("/v1/analytics/otp", "from=2026-01-01&to=2026-01-31&group_by=country"),
    ("/v1/suppressions", "page=1&limit=100"),
    ("/v1/analytics/campaigns", "from=2026-01-01&to=2026-01-31&group_by=day"),
    ("/v1/analytics/ads", "from=2026-01-01&to=2026-01-31&page=1&limit=50"),
    ("/v1/conversations/days", "from=2026-01-01&to=2026-01-31"),
    ("/v1/sandbox/messages", "to=%2B15550123456&limit=10"),
    ("/admin/v1/workspaces", "page=1&limit=20"),
];

/// A server without limits, and clients of each part of its interface.
struct Target {
    runtime: Runtime,
    server: TestServer,
    clients: [Api; 3],
}

impl Target {
    fn start() -> AssertUnwindSafe<Self> {
        let runtime = Runtime::new().unwrap();
        let (server, clients) = runtime.block_on(async {
            let settings = [
                ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
                ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0"),
                ("LIMITS__CONTACTS_PER_MINUTE", "0"),
            ];
            let server = TestServer::with(&settings).await;
            let key = server.workspace("fuzzed").await;
            server.workspace("changed").await;
            let clients = [key, server.admin(), server.stranger()];
            (server, clients)
        });
        AssertUnwindSafe(Self { runtime, server, clients })
    }

    /// Sends a request, and checks its answer against the OpenAPI document.
    fn send(&self, method: &str, path: &str, body: &[u8]) {
        let client = match path.split('/').nth(1) {
            Some("v1") => &self.clients[0],
            Some("admin") => &self.clients[1],
            _ => &self.clients[2],
        };
        let json = [("Content-Type", "application/json")];
        let reply = self.runtime.block_on(client.call(method, path, &json, body));
        assert_ne!(reply.status, 500, "{method} {path}: {}", reply.text());
    }

    /// Stops the server, which fails if one of its threads has panicked.
    fn stop(mut self) {
        self.server.stop();
    }
}

#[test]
fn fuzz_bodies() {
    let target = Target::start();
    let mut requests = ordinary_bodies();
    // This operation would move the time of all later ones.
    requests.retain(|(_, path, _)| path != "/v1/sandbox/clock");
    assert!(requests.len() > 30, "{} operations take a body", requests.len());
    let fuzzer = bolero::check!().with_iterations(1_000);
    fuzzer.for_each(|script: &[u8]| {
        let target = &target;
        let script = &script[..script.len().min(1 + SCRIPT_BYTES_MAX)];
        let Some((which, script)) = script.split_first() else { return };
        let (method, path, body) = &requests[usize::from(*which) % requests.len()];
        target.send(method, path, &edited(&[body], script));
    });
    target.0.stop();
}

#[test]
fn fuzz_queries() {
    let target = Target::start();
    let fuzzer = bolero::check!().with_iterations(500);
    fuzzer.for_each(|script: &[u8]| {
        let target = &target;
        let script = &script[..script.len().min(1 + SCRIPT_BYTES_MAX)];
        let Some((which, script)) = script.split_first() else { return };
        let (path, query) = QUERIES[usize::from(*which) % QUERIES.len()];
        let query: String = edited(&[query.as_bytes()], script).into_iter().map(plain).collect();
        target.send("GET", &format!("{path}?{query}"), b"");
    });
    target.0.stop();
}

/// Returns a byte as it may occur in the target of a request. A `%` stays, so that the characters
/// after it may be no number.
fn plain(byte: u8) -> String {
    match byte {
        b'!' | b'$'..=b';' | b'=' | b'?'..=b'_' | b'a'..=b'z' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    }
}
