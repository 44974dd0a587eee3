//! HTTP/1.1 by hand: requests that a well-behaved client would not send, and the server's reaction.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::Reply;

/// The maximum wait for anything: a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a server.
pub struct Connection {
    stream: TcpStream,
    /// Bytes that were received and are not part of a reply yet.
    received: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Opens a connection from another address of this machine.
    pub async fn open_from(from: impl Into<IpAddr>, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        let stream = socket.connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends bytes as they are. If the server has closed its end, only a read shows it.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.ok();
    }

    /// Closes the sending side.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.ok();
    }

    /// Returns the next reply, of a request that was not `HEAD`; `None` if the server closed
    /// instead.
    pub async fn reply(&mut self) -> Option<Reply> {
        self.read(true).await
    }

    /// Returns the next reply, of a `HEAD` request.
    pub async fn head_reply(&mut self) -> Option<Reply> {
        self.read(false).await
    }

    async fn read(&mut self, has_body: bool) -> Option<Reply> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.receive().await {
                assert!(self.received.is_empty(), "half a head: {:?}", self.received);
                return None;
            }
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let mut reply = parse_head(&head);
        if has_body && reply.status >= 200 && reply.status != 204 {
            let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            while self.received.len() < length {
                assert!(self.receive().await, "the body of {reply:?} ended early");
            }
            reply.body = self.received.drain(..length).collect();
        }
        Some(reply)
    }

    /// Receives until this text has come; returns everything up to it. Later calls continue behind
    /// it.
    pub async fn read_until(&mut self, text: &str) -> String {
        loop {
            let all = &self.received;
            if let Some(at) = all.windows(text.len()).position(|part| part == text.as_bytes()) {
                let seen = self.received.drain(..at + text.len()).collect();
                return String::from_utf8(seen).unwrap();
            }
            let so_far = String::from_utf8_lossy(&self.received).into_owned();
            assert!(self.receive().await, "{text} did not come: {so_far}");
        }
    }

    /// Receives until the server closes.
    pub async fn read_to_end(&mut self) {
        while self.receive().await {}
    }

    /// Returns everything that comes until the server closes.
    pub async fn rest(mut self) -> String {
        self.read_to_end().await;
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Returns whether the server closes without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.received.is_empty() && !self.receive().await
    }

    /// Returns whether the server closes, with nothing before it but refusals.
    pub async fn ends_refused(&mut self) -> bool {
        while let Some(reply) = self.reply().await {
            if reply.status < 400 {
                return false;
            }
        }
        true
    }

    /// Returns whether the server closes, with no HTTP before it.
    pub async fn ends_without_answer(&mut self) -> bool {
        while self.receive().await {}
        !self.received.starts_with(b"HTTP/")
    }

    /// Receives something; returns `false` at the end.
    async fn receive(&mut self) -> bool {
        let mut bytes = vec![0; 16 << 10];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut bytes));
        // A reset is an end too.
        let length = read.await.expect("the server neither answered nor closed").unwrap_or(0);
        self.received.extend_from_slice(&bytes[..length]);
        length > 0
    }
}

fn parse_head(head: &str) -> Reply {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers = lines.take_while(|line| !line.is_empty()).map(header).collect();
    Reply { status, headers, body: Vec::new() }
}
