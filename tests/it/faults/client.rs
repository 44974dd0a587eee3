//! A client that treats a lost connection as such.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The maximum wait for an answer: nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with one connection, which it keeps.
pub struct Client {
    address: SocketAddr,
    token: String,
    stream: Option<TcpStream>,
    received: Vec<u8>,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    Answered(Answer),
    /// It was sent, wholly or in part, and not answered: it may have had its effect.
    Lost,
    /// It was not sent.
    Refused,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<u64>,
    pub body: Value,
}

impl Client {
    pub fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned(), stream: None, received: Vec::new() }
    }

    /// Returns another client of the same server.
    pub fn another(&self) -> Self {
        Self::new(self.address, &self.token)
    }

    /// Closes the connection: the next request takes a new one.
    pub fn close(&mut self) {
        self.stream = None;
        self.received.clear();
    }

    pub async fn get(&mut self, path: &str) -> Outcome {
        self.call(self.request("GET", path, "")).await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Outcome {
        self.call(self.request("POST", path, &body.to_string())).await
    }

    /// Returns the body of an answer that must be a success.
    pub async fn fetch(&mut self, path: &str) -> Value {
        match self.get(path).await {
            Outcome::Answered(answer) if answer.status == 200 => answer.body,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let Self { address, token, .. } = self;
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    /// Returns whether the server has closed the connection while no request was under way.
    fn is_closed(&self) -> bool {
        // No answer is due: a read can only return the end, or the reason for it.
        let ends = |stream: &TcpStream| stream.try_read(&mut [0]).is_ok();
        self.stream.as_ref().is_some_and(ends)
    }

    async fn call(&mut self, request: String) -> Outcome {
        let exchange = async {
            if self.is_closed() {
                self.close();
            }
            if self.stream.is_none() {
                let Ok(stream) = TcpStream::connect(self.address).await else {
                    return Outcome::Refused;
                };
                stream.set_nodelay(true).ok();
                self.stream = Some(stream);
            }
            let answer = self.exchange(request.as_bytes()).await;
            if answer.is_none() {
                self.close();
            }
            answer.map_or(Outcome::Lost, Outcome::Answered)
        };
        let outcome = tokio::time::timeout(PATIENCE, exchange).await;
        outcome.unwrap_or_else(|_| panic!("no answer within {PATIENCE:?}: {request}"))
    }

    async fn exchange(&mut self, request: &[u8]) -> Option<Answer> {
        let stream = self.stream.as_mut()?;
        stream.write_all(request).await.ok()?;
        let head_end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            receive(stream, &mut self.received).await?;
        };
        let head = String::from_utf8(self.received[..head_end].to_vec()).unwrap();
        let head = head.to_ascii_lowercase();
        let header = |name: &str| {
            let value = |line: &str| Some(line.strip_prefix(name)?.trim().to_owned());
            head.lines().find_map(value)
        };
        let length: usize = header("content-length:").map_or(0, |length| length.parse().unwrap());
        while self.received.len() < head_end + length {
            receive(stream, &mut self.received).await?;
        }
        let body = serde_json::from_slice(&self.received[head_end..head_end + length]);
        self.received.drain(..head_end + length);
        let answer = Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            retry_after: header("retry-after:").map(|seconds| seconds.parse().unwrap()),
            body: body.unwrap_or(Value::Null),
        };
        if header("connection:").is_some_and(|value| value == "close") {
            self.close();
        }
        Some(answer)
    }
}

async fn receive(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(received).await {
        Ok(length) if length > 0 => Some(()),
        _ => None,
    }
}
