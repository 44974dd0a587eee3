//! What strangers may send: requests that every reader takes for the same.

use serde_json::json;

use crate::support::TestServer;

/// The status and code of the answer to a request that is sent as it is, and whether the connection
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
