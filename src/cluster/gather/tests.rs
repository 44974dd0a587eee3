//! Tests of incomplete answers of other nodes, and of the headers that are sent to them.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::channel::Channel;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cluster::peers::Peers;
use crate::settings::Settings;

const WITHIN: Duration = Duration::from_secs(60);

/// Returns the body of a node that answers one request with these bytes.
///
/// Its connection stays open as long as the returned stream.
async fn body_of(bytes: &'static [u8]) -> (Body, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(bytes).await.unwrap();
        stream
    };
    let peers = Peers::new("ab".to_owned(), &Settings::default().cluster).unwrap();
    let asked = peers.forward(&address, 1, None, Request::new(Body::empty()));
    let (answer, stream) = tokio::join!(asked, node);
    (Body::new(answer.unwrap().into_body()), stream)
}

#[tokio::test]
async fn an_answer_that_does_not_come_whole_is_none() {
    let (whole, _node) =
        body_of(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"data\":[]}").await;
    assert_eq!(object_of(whole, WITHIN).await, Some(json!({"data": []})));
    for half in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"data\":[]}"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{\"data\":[]}\r\n",
    ] {
        let (half, node) = body_of(half).await;
        drop(node);
        assert_eq!(object_of(half, WITHIN).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_in_its_middle_is_waited_for_no_longer_than_any() {
    let (mut node, body) = Channel::<Bytes, std::io::Error>::new(1);
    node.send_data(Bytes::from_static(b"{\"data\":")).await.unwrap();
    assert_eq!(object_of(Body::new(body), WITHIN).await, None);
    assert!(node.send_data(Bytes::new()).await.is_err(), "it was given up");
}

#[tokio::test]
async fn only_an_object_is_an_answer() {
    for none in ["", "null", "[]", "{\"data\":"] {
        assert_eq!(object_of(Body::from(none), WITHIN).await, None, "{none}");
    }
    let long = format!("{{\"data\":\"{}\"}}", "x".repeat(PAGE_BYTES_MAX));
    assert_eq!(object_of(Body::from(long), WITHIN).await, None);
}

#[test]
fn a_part_is_asked_for_as_the_client_whom_a_proxy_names() {
    let mut request = Request::new(());
    let client: SocketAddr = "10.0.0.1:7".parse().unwrap();
    request.extensions_mut().insert(Peer(client));
    for (name, value) in
        [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "10.0.0.2"), ("accept", "*/*")]
    {
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    let (parts, ()) = request.into_parts();
    let part = part_request("/admin/v1/audit?limit=1", &parts, false);
    let trusted = ["10.0.0.0/8".parse().unwrap()];
    let (part, _) = part.into_parts();
    assert_eq!(crate::http::client_address(&part, &trusted).to_string(), "198.51.100.1");
    assert!(part.headers.contains_key(COUNTED) && !part.headers.contains_key("accept"));
    assert_eq!(part.uri, "/admin/v1/audit?limit=1");
}
