//! Connections: in time and late, in order, and with nonsense.

use crate::support::{Api, Connection, TestServer, eventually};

const BODY: &[u8] = b"{\"phone\": \"+15550123456\"}";
const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn still_answers(server: &TestServer) {
    server.stranger().get("/healthz").await.ok();
}

async fn read_id(connection: &mut Connection) -> String {
    let reply = connection.reply().await.expect("an answer");
    reply.check_always("/v1");
    reply.header("x-request-id").unwrap().to_owned()
}

fn numbered(api: &Api, method: &str, path: &str, number: usize) -> Vec<u8> {
    api.request(method, path, &[("X-Request-Id", &number.to_string())], b"")
}

#[tokio::test]
async fn a_slow_head_and_an_idle_connection_are_closed() {
    let server = TestServer::with(&[("SERVER__HEAD_TIMEOUT_SECONDS", "1")]).await;
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    half.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half").await;
    let mut idle = server.connect().await;
    idle.send(server.stranger().request("GET", "/healthz", &[], b"")).await;
    assert_eq!(idle.reply().await.unwrap().status, 200);
    assert!(half.ends_refused().await, "half a head");
    assert!(idle.ends_refused().await, "idle between two requests");
    assert!(silent.ends_refused().await, "nothing at all");
    still_answers(&server).await;
}

#[tokio::test]
async fn a_slow_body_is_a_408() {
    let server = TestServer::with(&[("SERVER__BODY_TIMEOUT_SECONDS", "1")]).await;
    let demo = server.demo();
    let headers = [JSON, ("Content-Length", "25")];
    let mut drips = server.connect().await;
    drips.send(demo.request("POST", "/v1/otp/send", &headers, b"")).await;
    drips.send(&BODY[..5]).await;
    let late = drips.reply().await.expect("an answer");
    late.check_always("/v1/otp/send");
    assert_eq!(late.header("connection"), Some("close"));
    late.check(408, "REQUEST_TIMEOUT");
    assert!(drips.is_closed().await);
    // The refusal of a stranger's request does not wait for the body for ever either.
    let mut stranger = server.connect().await;
    stranger.send(server.stranger().request("POST", "/v1/otp/send", &headers, b"")).await;
    stranger.send(&BODY[..5]).await;
    stranger.reply().await.expect("an answer").check(401, "UNAUTHORIZED");
    let messages = demo.get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn a_body_that_ends_early_sends_nothing() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let mut connection = server.connect().await;
    let headers = [JSON, ("Content-Length", "100")];
    connection.send(demo.request("POST", "/v1/otp/send", &headers, b"")).await;
    connection.send(BODY).await;
    connection.finish().await;
    if let Some(reply) = connection.reply().await {
        reply.check(400, "VALIDATION_ERROR");
    }
    let messages = demo.get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn a_connection_is_used_again_after_whatever_answer() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let mut connection = server.connect().await;
    for (method, path, body, status) in [
        ("POST", "/v1/otp/send", BODY, 200),
        ("POST", "/v1/otp/send", b"{}", 400),
        ("POST", "/v1/nothing", BODY, 404),
        ("DELETE", "/v1/otp/send", BODY, 405),
        ("GET", "/v1/sandbox/clock", BODY, 200),
        ("POST", "/v1/otp/send", BODY, 200),
    ] {
        connection.send(demo.request(method, path, &[JSON], body)).await;
        let reply = connection.reply().await.expect("an answer");
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
    }
    let stranger = server.stranger();
    for _ in 0..3 {
        connection.send(stranger.request("POST", "/v1/otp/send", &[JSON], BODY)).await;
        connection.reply().await.unwrap().check(401, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let mut connection = server.connect().await;
    let paths = ["/v1/sandbox/clock", "/v1/nothing", "/v1/events", "/v1/otp/x"];
    let request = |number: usize| numbered(&demo, "GET", paths[number % 4], number);
    connection.send((0..40).flat_map(request).collect::<Vec<_>>()).await;
    for number in 0..40 {
        assert_eq!(read_id(&mut connection).await, number.to_string());
    }
}

#[tokio::test]
async fn http_1_0_and_head_are_answered() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.send("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(connection.reply().await.unwrap().status, 200);
    assert!(connection.is_closed().await, "1.0 ends with its answer");
    let demo = server.demo();
    let get = demo.get("/v1/sandbox/messages").await;
    let mut connection = server.connect().await;
    for path in ["/v1/sandbox/messages", "/healthz", "/v1/nothing"] {
        connection.send(demo.request("HEAD", path, &[], b"")).await;
        let head = connection.head_reply().await.unwrap();
        head.check_always(path);
        let expected = if path == "/v1/nothing" { 404 } else { 200 };
        assert_eq!(head.status, expected, "{path}");
        if path == "/v1/sandbox/messages" {
            assert_eq!(head.header("content-length"), get.header("content-length"));
        }
    }
    // If one of them had a body, the next would not be parsed as a head.
    connection.send(demo.request("GET", "/healthz", &[], b"")).await;
    assert_eq!(connection.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_body_is_asked_for_when_it_is_wanted_only() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let headers = [JSON, ("Expect", "100-continue"), ("Content-Length", "25")];
    let mut connection = server.connect().await;
    connection.send(demo.request("POST", "/v1/otp/send", &headers, b"")).await;
    assert_eq!(connection.reply().await.unwrap().status, 100);
    connection.send(BODY).await;
    assert_eq!(connection.reply().await.unwrap().status, 200);

    let mut connection = server.connect().await;
    connection.send(server.stranger().request("POST", "/v1/otp/send", &headers, b"")).await;
    connection.reply().await.unwrap().check(401, "UNAUTHORIZED");
    let huge = [JSON, ("Expect", "100-continue"), ("Content-Length", "99999999999")];
    let mut connection = server.connect().await;
    connection.send(demo.request("POST", "/v1/otp/send", &huge, b"")).await;
    connection.reply().await.unwrap().check(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn nonsense_does_no_harm() {
    let server = TestServer::start().await;
    let long = "x".repeat(1 << 20);
    let many: String = (0..2000).map(|number| format!("X-{number}: y\r\n")).collect();
    let nonsense: [Vec<u8>; 14] = [
        b"\r\n\r\n\r\n\r\n".to_vec(),
        b"\0\0\0\0\0\0\0\0".to_vec(),
        (0..=255).cycle().take(100_000).collect(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_vec(),
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes(),
        format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n").into_bytes(),
        format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n").into_bytes(),
    ];
    for (index, bytes) in nonsense.iter().enumerate() {
        let mut connection = server.connect().await;
        connection.send(bytes).await;
        connection.finish().await;
        assert!(connection.ends_refused().await, "nonsense {index} is taken");
        still_answers(&server).await;
    }
}

#[tokio::test]
async fn a_request_is_what_one_reader_takes_it_for() {
    let server = TestServer::start().await;
    // Two lengths that differ: a reader that uses the other one sees a second request.
    let smuggled = "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\
                    Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut connection = server.connect().await;
    connection.send(smuggled).await;
    connection.finish().await;
    connection.reply().await.expect("an answer").check(401, "UNAUTHORIZED");
    // By the chunks a second request follows, which may be answered or not. By the length the rest
    // is nonsense, and would be refused.
    while let Some(reply) = connection.reply().await {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    still_answers(&server).await;
}

#[tokio::test]
async fn requests_on_more_connections_than_may_be_are_refused() {
    let settings = [("SERVER__MAX_CONNECTIONS", "2"), ("SERVER__MAX_CONNECTIONS_PER_ADDRESS", "0")];
    let server = TestServer::with(&settings).await;
    let request = server.demo().request("GET", "/v1/sandbox/clock", &[], b"");
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for connection in [&mut first, &mut second] {
        connection.send(&request).await;
        assert_eq!(connection.reply().await.unwrap().status, 200);
    }
    let mut third = server.connect().await;
    third.send(&request).await;
    third.reply().await.unwrap().check(503, "SERVICE_UNAVAILABLE");
    assert!(third.is_closed().await);
    drop(first);
    let again = async || {
        let mut other = server.connect().await;
        other.send(&request).await;
        other.reply().await.filter(|reply| reply.status == 200)
    };
    eventually("a place", again).await;
}

/// Requests more than the system's buffers hold, and reads no answer.
async fn reads_nothing(server: &TestServer) -> Connection {
    let mut connection = server.connect().await;
    let request = server.stranger().request("GET", "/openapi.json", &[], b"");
    connection.send(request.repeat(40)).await;
    connection
}

#[tokio::test]
async fn a_client_that_does_not_read_gives_its_place_up() {
    let settings = [("SERVER__MAX_CONNECTIONS", "1"), ("SERVER__WRITE_TIMEOUT_SECONDS", "1")];
    let server = TestServer::with(&settings).await;
    let _deaf = reads_nothing(&server).await;
    let request = server.demo().request("GET", "/v1/sandbox/clock", &[], b"");
    let next = async || {
        let mut next = server.connect().await;
        next.send(&request).await;
        next.reply().await.filter(|reply| reply.status == 200)
    };
    eventually("its place", next).await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client() {
    let mut server = TestServer::with(&[("SHUTDOWN__GRACE_SECONDS", "4")]).await;
    let headers = [JSON, ("Expect", "100-continue"), ("Content-Length", "25")];
    let mut half = server.connect().await;
    half.send(server.demo().request("POST", "/v1/otp/send", &headers, b"")).await;
    assert_eq!(half.reply().await.unwrap().status, 100, "it waits for the body now");
    half.send(&BODY[..5]).await;
    let _deaf = reads_nothing(&server).await;
    eventually("an answer that nobody reads", || async {
        let metrics = server.stranger().get("/metrics").await.text();
        metrics.contains(r#"route="/openapi.json""#).then_some(())
    })
    .await;
    let watch = postrider_actors::clock::Stopwatch::start();
    // The test fails if it is not clean.
    server.stop();
    assert!(watch.elapsed().as_secs() >= 2, "nobody was left to be cut");
    half.reply().await.expect("an answer").check(503, "SERVICE_UNAVAILABLE");
    assert!(half.is_closed().await);
}
