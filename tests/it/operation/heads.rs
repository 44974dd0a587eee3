//! Heads that another reader of HTTP may understand as another request.

use serde_json::json;

use crate::support::{Connection, TestServer};

const GET: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn a_head_that_can_be_read_in_two_ways_is_a_400() {
    let server = TestServer::start().await;
    for bad in [
        "GET /healthz HTTP/1.1\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\n",
        "GET /healthz HTTP/1.1\nHost: x\n\n",
        "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\
         Content-Length: 2\r\n\r\n{}",
        "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}",
        "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\
         Content-Length: 3\r\n\r\n{}",
    ] {
        for before in [0, 2] {
            let mut connection = server.connect().await;
            connection.send(GET.repeat(before) + bad).await;
            for _ in 0..before {
                assert_eq!(connection.reply().await.unwrap().status, 200);
            }
            let refused = connection.reply().await;
            assert_eq!(refused.map(|reply| reply.status), Some(400), "{bad:?}");
            assert!(connection.is_closed().await, "{bad:?}");
        }
        // The head comes in pieces, and the last piece contains its end.
        let mut connection = server.connect().await;
        let (first, last) = bad.split_at(bad.len() - 1);
        connection.send(first).await;
        server.stranger().get("/healthz").await.ok();
        connection.send(last).await;
        assert_eq!(connection.reply().await.map(|reply| reply.status), Some(400), "{bad:?}");
    }
}

#[tokio::test]
async fn what_a_body_holds_is_no_head() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let text = "POST / HTTP/1.1\n\nContent-Length: 1\r\nContent-Length: 1\n\n";
    let body = json!({"name": "Ada", "phone": "+15550123456", "custom_fields": {"note": text}});
    // The format gives the JSON itself line feeds too.
    let body = format!("{body:#}");
    let mut connection = Connection::open(server.address()).await;
    let json = ("Content-Type", "application/json");
    connection.send(demo.request("POST", "/v1/contacts", &[json], body.as_bytes())).await;
    let made = connection.reply().await.unwrap().ok();
    assert_eq!(made["custom_fields"]["note"], text);
    let chunked = [json, ("Transfer-Encoding", "chunked")];
    let mut request = demo.request("POST", "/v1/otp/send", &chunked, b"");
    for piece in ["{\n\n\"phone\":\n", "\"+15550123456\"\n}\n\n"] {
        request.extend(format!("{:x};a=b\r\n{piece}\r\n", piece.len()).bytes());
    }
    request.extend(b"0\r\nX-End: x\r\n\r\n");
    for piece in request.chunks(7) {
        connection.send(piece).await;
    }
    connection.reply().await.unwrap().ok();
    connection.send(GET).await;
    assert_eq!(connection.reply().await.unwrap().status, 200, "the connection goes on");
}
