//! Questions to JetStream over a bare connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// Sends a request to JetStream and returns its answer.
pub fn jetstream(address: &str, what: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(address.strip_prefix("nats://").unwrap()).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
         PUB $JS.API.{what} answer {length}\r\n{body}\r\n"
    )
    .unwrap();
    let (mut text, mut chunk) = (String::new(), [0; 64 << 10]);
    loop {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "{what}: {text}");
        text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
        let message = text.split_once("MSG answer 1 ").and_then(|(_, it)| it.split_once("\r\n"));
        let Some((length, rest)) = message else { continue };
        let length: usize = length.split(' ').next_back().unwrap().parse().unwrap();
        if rest.len() >= length {
            let answer: Value = serde_json::from_str(&rest[..length]).unwrap();
            assert!(answer["error"].is_null(), "{what}: {answer}");
            return answer;
        }
    }
}

/// Publishes a message, and waits until it is stored.
pub fn publish(address: &str, subject: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address.strip_prefix("nats://").unwrap()).unwrap();
    let length = bytes.len();
    let connect = "CONNECT {\"verbose\":false}\r\nSUB answer 1\r\n";
    write!(stream, "{connect}PUB {subject} answer {length}\r\n").unwrap();
    stream.write_all(bytes).unwrap();
    stream.write_all(b"\r\n").unwrap();
    let (mut text, mut chunk) = (String::new(), [0; 4 << 10]);
    while !text.contains("\"seq\"") {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0 && !text.contains("\"error\""), "{subject}: {text}");
        text.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
}
