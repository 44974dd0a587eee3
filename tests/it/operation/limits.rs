//! Request limits of keys and of client addresses, and the headers that report them.

use serde_json::{Value, json};

use crate::support::{Api, Reply, TestServer, eventually};

const CLOCK: &str = "/v1/sandbox/clock";

/// Returns the limit, the remaining requests and the draft's policy.
fn shown(reply: &Reply) -> (u64, u64, String) {
    let (limit, remaining) =
        (reply.number("x-ratelimit-limit"), reply.number("x-ratelimit-remaining"));
    let state = reply.header("ratelimit").unwrap();
    assert!(state.contains(&format!("r={remaining};")), "{state}");
    (limit, remaining, reply.header("ratelimit-policy").unwrap().to_owned())
}

async fn limited_key(server: &TestServer, limits: Value) -> Api {
    server.workspace("acme").await;
    server.key("acme", &["messaging:send"], limits).await.1
}

async fn commits(server: &TestServer) -> u64 {
    let metrics = server.stranger().get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("postrider_commits_total "));
    line.unwrap().parse().unwrap()
}

async fn engine_seconds(api: &Api) -> u64 {
    let now = api.get(CLOCK).await.ok()["now"].as_str().unwrap().to_owned();
    crate::support::millis(&now) / 1000
}

#[tokio::test]
async fn a_key_has_a_thousand_requests_an_hour_by_default() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let before = engine_seconds(&server.demo()).await;
    let first = acme.get(CLOCK).await;
    assert_eq!(shown(&first), (1000, 999, "\"hour\";q=1000;w=3600".to_owned()));
    let reset = first.number("x-ratelimit-reset");
    assert!((before + 3..=before + 60).contains(&reset), "3.6 s for one request: {before} {reset}");
    // A token of this key takes minutes to come back, however slow the machine is.
    let limits = json!({"key_requests_per_hour": 20});
    let (_, small) = server.key("acme", &["messaging:send"], limits).await;
    assert_eq!(shown(&small.get(CLOCK).await).1, 19);
    assert_eq!(shown(&small.get("/v1/nothing").await).1, 18);
    assert_eq!(shown(&small.post("/v1/otp/send", json!({})).await).1, 17);
    assert_eq!(shown(&small.call("DELETE", CLOCK, &[], b"").await).1, 16);
    assert_eq!(shown(&small.get("/v1/events").await).1, 15, "a refusal for its scope counts");
}

#[tokio::test]
async fn an_exhausted_key_waits_for_as_long_as_it_is_answered() {
    let server = TestServer::start().await;
    let key = limited_key(&server, json!({"key_requests_per_hour": 3})).await;
    for remaining in [2, 1, 0] {
        assert_eq!(shown(&key.get(CLOCK).await).1, remaining);
    }
    let refused = key.get(CLOCK).await;
    assert_eq!(shown(&refused).1, 0);
    let wait = refused.number("retry-after");
    assert!((1190..=1200).contains(&wait), "one token of three an hour is 1200 s: {wait}");
    refused.check(429, "RATE_LIMITED");
    server.advance(wait - 30).await;
    let refused = key.get(CLOCK).await;
    refused.check(429, "RATE_LIMITED");
    server.advance(refused.number("retry-after")).await;
    key.get(CLOCK).await.ok();
    key.get(CLOCK).await.check(429, "RATE_LIMITED");
    server.advance(3600).await;
    assert_eq!(shown(&key.get(CLOCK).await).1, 2, "it is full again, and no fuller");
}

#[tokio::test]
async fn of_several_buckets_the_emptier_is_reported() {
    let server = TestServer::start().await;
    let limits = json!({"key_requests_per_hour": 1000, "key_requests_per_minute": 2});
    let key = limited_key(&server, limits).await;
    assert_eq!(shown(&key.get(CLOCK).await), (2, 1, "\"minute\";q=2;w=60".to_owned()));
    key.get(CLOCK).await.ok();
    let refused = key.get(CLOCK).await;
    assert!(refused.number("retry-after") <= 30);
    refused.check(429, "RATE_LIMITED");
    server.advance(60).await;
    let reply = key.get(CLOCK).await;
    assert_eq!(shown(&reply).0, 2);
}

#[tokio::test]
async fn without_a_limit_there_are_no_headers() {
    let settings = [("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
    let server = TestServer::with(&settings).await;
    let reply = server.demo().get(CLOCK).await;
    reply.ok();
    for name in ["x-ratelimit-limit", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"] {
        assert_eq!(reply.header(name), None);
    }
    let limited = limited_key(&server, json!({"key_requests_per_hour": 1})).await;
    assert_eq!(shown(&limited.get(CLOCK).await).0, 1);
}

#[tokio::test]
async fn keys_do_not_share_a_bucket() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let limits = json!({"key_requests_per_hour": 1});
    let (_, first) = server.key("acme", &["messaging:send"], limits.clone()).await;
    let (_, second) = server.key("acme", &["messaging:send"], limits).await;
    first.get(CLOCK).await.ok();
    first.get(CLOCK).await.check(429, "RATE_LIMITED");
    second.get(CLOCK).await.ok();
}

#[tokio::test]
async fn new_limits_hold_from_the_next_request_on() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let (_, own) =
        server.key("acme", &["messaging:send"], json!({"key_requests_per_hour": 7})).await;
    assert_eq!(shown(&acme.get(CLOCK).await).0, 1000);
    let path = "/admin/v1/workspaces/acme/limits";
    let set = server.admin().put(path, json!({"key_requests_per_hour": 5})).await.ok();
    assert_eq!(set["key_requests_per_hour"], 5);
    assert_eq!(set["otp_per_phone_10m"], 5, "the others stay");
    assert_eq!(shown(&acme.get(CLOCK).await).0, 5);
    assert_eq!(shown(&own.get(CLOCK).await).0, 7, "a key's own go first");
    assert_eq!(shown(&server.demo().get(CLOCK).await).0, 1000, "another workspace's stay");
    server.admin().put(path, json!({"key_requests_per_hour": 0})).await.ok();
    assert_eq!(acme.get(CLOCK).await.header("x-ratelimit-limit"), None);
    server.admin().put(path, json!({"otp_per_phone_10m": 1})).await.ok();
    let phone = json!({"phone": "+15550123456"});
    acme.post("/v1/otp/send", &phone).await.ok();
    acme.post("/v1/otp/send", &phone).await.check(429, "OTP_RATE_LIMITED");
}

#[tokio::test]
async fn a_restart_fills_no_bucket_and_forgets_no_window() {
    let mut server = TestServer::start().await;
    let key = limited_key(&server, json!({"key_requests_per_hour": 12})).await;
    let other = server.workspace("other").await;
    let path = "/admin/v1/workspaces/acme/limits";
    server.admin().put(path, json!({"otp_per_phone_hour": 6})).await.ok();
    let phone = json!({"phone": "+15550123456"});
    for _ in 0..5 {
        key.post("/v1/otp/send", &phone).await.ok();
    }
    server.restart().await;
    assert_eq!(shown(&key.get(CLOCK).await), (12, 6, "\"hour\";q=12;w=3600".to_owned()));
    key.post("/v1/otp/send", &phone).await.check(429, "OTP_RATE_LIMITED");
    other.post("/v1/otp/send", &phone).await.ok();
    let limits = server.admin().get("/admin/v1/workspaces/acme").await.ok();
    assert_eq!(limits["limits"]["otp_per_phone_hour"], 6);
    server.crash().await;
    key.post("/v1/otp/send", &phone).await.check(429, "OTP_RATE_LIMITED");
    server.advance(600).await;
    // Ten minutes add two tokens.
    key.post("/v1/otp/send", &phone).await.ok();
    key.post("/v1/otp/send", &phone).await.check(429, "OTP_RATE_LIMITED");
}

#[tokio::test]
async fn a_crash_gives_back_no_more_than_the_last_second_of_use() {
    let mut server = TestServer::start().await;
    let key = limited_key(&server, json!({"key_requests_per_hour": 10})).await;
    for _ in 0..5 {
        key.get(CLOCK).await.ok();
    }
    // Buckets are saved each second. The second of two saves started after all five requests.
    for _ in 0..2 {
        let before = commits(&server).await;
        server.demo().get(CLOCK).await.ok();
        eventually("a save", async || (commits(&server).await > before).then_some(())).await;
    }
    key.get(CLOCK).await.ok();
    server.crash().await;
    let (_, remaining, _) = shown(&key.get(CLOCK).await);
    assert!((3..=4).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn guessing_keys_is_stopped_and_a_good_key_is_not() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "4")]).await;
    let (demo, admin) = (server.demo(), server.admin());
    let guess = server.api("pr_guess");
    for remaining in [3, 2, 1] {
        let refused = guess.get(CLOCK).await;
        assert_eq!(shown(&refused), (4, remaining, "\"minute\";q=4;w=60".to_owned()));
        refused.check(401, "UNAUTHORIZED");
    }
    // Guesses at the administration use the same bucket.
    guess.get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
    for path in [CLOCK, "/v1/nothing", "/admin/v1/workspaces"] {
        let refused = guess.get(path).await;
        assert!((1..=15).contains(&refused.number("retry-after")));
        refused.check(429, "RATE_LIMITED");
        server.stranger().get(path).await.check(429, "RATE_LIMITED");
    }
    demo.get(CLOCK).await.ok();
    admin.get("/admin/v1/workspaces").await.ok();
    server.stranger().get("/healthz").await.ok();
    server.advance(15).await;
    guess.get(CLOCK).await.check(401, "UNAUTHORIZED");
    guess.get(CLOCK).await.check(429, "RATE_LIMITED");
}
