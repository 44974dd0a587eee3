//! An endpoint that receives deliveries, and that can behave as badly as any.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::document::check_event;
use super::eventually;

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With this status and these header lines.
    Status(u16, &'static str),
    /// With this status, as soon as it is released.
    Held(watch::Receiver<bool>, u16),
    /// Never.
    Hang,
    /// With `200` and a body that never ends.
    Drip,
    /// By closing the connection.
    Reset,
    /// With `200` and a body of a gigabyte.
    Gigabyte,
    /// With this number of interim answers, and then with `200`.
    Interim(usize),
    /// With a head that never ends.
    EndlessHead,
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// The answers to the requests of one path.
#[derive(Default)]
struct Script {
    /// The answers to the next requests.
    next: VecDeque<Answer>,
    /// The answer to those after them; `200` by default.
    then: Option<Answer>,
}

#[derive(Default)]
struct Inner {
    received: Mutex<Vec<Received>>,
    scripts: Mutex<HashMap<String, Script>>,
    connections: AtomicUsize,
    /// The number of bytes of large bodies that were written.
    sent: AtomicUsize,
}

/// A server on a port of its own, on a thread of its own.
pub struct Sink {
    address: SocketAddr,
    inner: Arc<Inner>,
    runtime: Option<Runtime>,
}

impl Sink {
    pub fn start() -> Self {
        Self::at("127.0.0.1")
    }

    /// Starts a server at one of this machine's addresses.
    pub fn at(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sink")
            .enable_all()
            .build()
            .unwrap();
        let inner = Arc::new(Inner::default());
        let listener = std::net::TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Arc::clone(&inner);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let inner = Arc::clone(&serving);
                tokio::spawn(async move { inner.serve(stream).await });
            }
        });
        Self { address, inner, runtime: Some(runtime) }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the answers to the next requests of a path, one after the other.
    pub fn next(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut scripts = self.inner.scripts.lock().unwrap();
        scripts.entry(path.to_owned()).or_default().next.extend(answers);
    }

    /// Sets the answer to all other requests of that path.
    pub fn then(&self, path: &str, answer: Answer) {
        let mut scripts = self.inner.scripts.lock().unwrap();
        scripts.entry(path.to_owned()).or_default().then = Some(answer);
    }

    /// Returns the number of connections that were made.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of large bodies that were written.
    pub fn sent(&self) -> usize {
        self.inner.sent.load(Ordering::Relaxed)
    }

    /// Returns the requests that have come to a path.
    pub fn received(&self, path: &str) -> Vec<Received> {
        let received = self.inner.received.lock().unwrap();
        received.iter().filter(|it| it.path == path).cloned().collect()
    }

    /// Waits until this number of requests have come to a path.
    pub async fn wait(&self, path: &str, count: usize) -> Vec<Received> {
        let come = async || {
            let received = self.received(path);
            (received.len() >= count).then_some(received)
        };
        eventually(&format!("{count} requests to {path}"), come).await
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(received) = read(&mut stream, &mut buffer).await {
            if !received.id().is_empty() {
                match received.json() {
                    Value::Array(events) => events.iter().for_each(check_event),
                    // The body of a request to an SMS gateway.
                    other if other["type"] == "otp" => {}
                    event => check_event(&event),
                }
            }
            let answer = self.answer(&received.path);
            self.received.lock().unwrap().push(received);
            if !self.give(&mut stream, answer).await {
                return;
            }
        }
    }

    fn answer(&self, path: &str) -> Answer {
        let mut scripts = self.scripts.lock().unwrap();
        let script = scripts.entry(path.to_owned()).or_default();
        let next = script.next.pop_front().or_else(|| script.then.clone());
        next.unwrap_or(Answer::Status(200, ""))
    }

    /// Answers; returns whether the connection can be used again.
    async fn give(&self, stream: &mut TcpStream, answer: Answer) -> bool {
        match answer {
            Answer::Status(status, headers) => answer_status(stream, status, headers).await,
            Answer::Held(mut held, status) => {
                held.wait_for(|let_go| *let_go).await.unwrap();
                answer_status(stream, status, "").await
            }
            Answer::Hang => std::future::pending().await,
            Answer::Drip => {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
                let mut rest = stream.write_all(head.as_bytes()).await;
                while rest.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    rest = stream.write_all(b".").await;
                }
                false
            }
            Answer::Reset => {
                drop(socket_reset(stream));
                false
            }
            Answer::Gigabyte => {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n";
                let sent = stream.write_all(head.as_bytes()).await;
                if sent.is_ok() {
                    self.repeat(stream, &[b'x'; 64 * 1024], 16 * 1024).await;
                }
                false
            }
            Answer::Interim(count) => {
                let sent = self.repeat(stream, b"HTTP/1.1 103 Early Hints\r\n\r\n", count).await;
                sent && answer_status(stream, 200, "").await
            }
            Answer::EndlessHead => {
                let head = "HTTP/1.1 200 OK\r\nx: ";
                let sent = stream.write_all(head.as_bytes()).await;
                sent.is_ok() && self.repeat(stream, &[b'x'; 1024], usize::MAX).await
            }
        }
    }
}

impl Inner {
    /// Writes the same part again and again; returns whether the client took all of it.
    async fn repeat(&self, stream: &mut TcpStream, part: &[u8], count: usize) -> bool {
        for _ in 0..count {
            if stream.write_all(part).await.is_err() {
                return false;
            }
            self.sent.fetch_add(part.len(), Ordering::Relaxed);
        }
        true
    }
}

async fn answer_status(stream: &mut TcpStream, status: u16, headers: &str) -> bool {
    // A gateway whose answer cannot be read may have sent nothing.
    let body = r#"{"says": "thank you"}"#;
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} So\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.is_ok()
}

fn socket_reset(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_zero_linger()
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        receive(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: HashMap<_, _> = lines.map_while(header).collect();
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    while buffer.len() < length {
        receive(stream, buffer).await?;
    }
    let body = buffer.drain(..length).collect();
    Some(Received { path, headers, body })
}

async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let count = stream.read_buf(buffer).await.ok()?;
    (count > 0).then_some(())
}
