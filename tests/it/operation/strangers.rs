//! The server's limits for strangers: connections, memory, guesses.

use serde_json::json;

use crate::support::{Connection, TestServer};

const CLOCK: &str = "/v1/sandbox/clock";
/// An address of this machine that the other clients do not have.
const STRANGER: [u8; 4] = [127, 0, 0, 2];

/// Opens requests of one address whose heads never end.
async fn half_open(server: &TestServer, count: usize) -> Vec<Connection> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open_from(STRANGER, server.address()).await;
        connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half").await;
        open.push(connection);
    }
    open
}

#[tokio::test]
async fn one_address_locks_nobody_out() {
    let settings = [("SERVER__MAX_CONNECTIONS", "20"), ("SERVER__HEAD_TIMEOUT_SECONDS", "3600")];
    let server = TestServer::with(&settings).await;
    let open = half_open(&server, 20).await;
    server.stranger().get("/healthz").await.ok();
    server.demo().get(CLOCK).await.ok();
    // This holds for any number of connections, even if they fill the reserve.
    let more = half_open(&server, 200).await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.stranger().get(path).await.status, 200, "{path}");
    }
    server.demo().get(CLOCK).await.ok();
    server.admin().get("/admin/v1/workspaces").await.ok();
    // The address itself gets in too: its oldest connections, which send nothing, are closed.
    let mut busy = Vec::new();
    for _ in 0..10 {
        let mut one = Connection::open_from(STRANGER, server.address()).await;
        one.send(server.demo().request("GET", CLOCK, &[], b"")).await;
        one.reply().await.unwrap().ok();
        busy.push(one);
    }
    // Once all of its places are at work it may read the server's health, and nothing else.
    let mut health = Connection::open_from(STRANGER, server.address()).await;
    health.send(server.stranger().request("GET", "/healthz", &[], b"")).await;
    assert_eq!(health.reply().await.unwrap().status, 200);
    let mut other = Connection::open_from(STRANGER, server.address()).await;
    other.send(server.demo().request("GET", CLOCK, &[], b"")).await;
    let refused = other.reply().await.unwrap();
    refused.check_always(CLOCK);
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(refused.check(503, "SERVICE_UNAVAILABLE")["reason"], "overloaded");
    assert!(other.is_closed().await);
    // When they end, other connections get their places.
    drop((open, more, busy));
    let again = async || {
        let mut one = Connection::open_from(STRANGER, server.address()).await;
        one.send(server.demo().request("GET", CLOCK, &[], b"")).await;
        one.reply().await.filter(|reply| reply.status == 200)
    };
    crate::support::eventually("a place", again).await;
}

/// Sends a request as it is. Returns the status and code of the answer, and whether the connection
/// ends with it.
async fn answer_to(server: &TestServer, request: &str) -> (u16, String) {
    let mut connection = server.connect().await;
    connection.send(request).await;
    let reply = connection.reply().await.expect("an answer");
    reply.check_always("/v1");
    let code = reply.json()["code"].as_str().unwrap_or_default().to_owned();
    if code != "UNAUTHORIZED" && reply.status >= 400 {
        assert_eq!(reply.header("connection"), Some("close"), "{request}");
        assert!(connection.is_closed().await, "{request}");
    }
    (reply.status, code)
}

#[tokio::test]
async fn a_request_names_one_host() {
    let mut server = TestServer::start().await;
    let bad = (400, "VALIDATION_ERROR".to_owned());
    for head in [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        assert_eq!(answer_to(&server, head).await, bad, "{head}");
    }
    for head in ["GET /healthz HTTP/1.0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        assert_eq!(answer_to(&server, head).await.0, 200, "{head}");
    }
    server.set("SERVER__HOSTS", "api.example.com, localhost");
    server.restart().await;
    for (host, status) in [
        ("api.example.com", 200),
        ("API.example.com:8443", 200),
        ("localhost", 200),
        ("example.com", 421),
        ("api.example.com.evil", 421),
        ("", 421),
    ] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(answer_to(&server, &head).await.0, status, "{host}");
    }
}

#[tokio::test]
async fn what_two_readers_could_take_for_different_things_is_refused() {
    let server = TestServer::start().await;
    let token = server.demo().token().to_owned();
    let post =
        format!("POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
    let json = "Content-Type: application/json\r\n";
    for (rest, status, code) in [
        ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "NOT_IMPLEMENTED"),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 501, "NOT_IMPLEMENTED"),
        ("Authorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}", 400, "VALIDATION_ERROR"),
    ] {
        let request = format!("{post}{json}{rest}");
        assert_eq!(answer_to(&server, &request).await, (status, code.to_owned()), "{rest}");
    }
    let messages = server.demo().get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"], json!([]), "nothing was sent");
}
