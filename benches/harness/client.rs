//! A lean HTTP/1.1 client renders each request once and then patches it in place.
//!
//! It reads only the status, the length and the body of an answer.
//!
//! It has one thread with its own runtime, and the servers have theirs. A server then schedules its
//! tasks as in production, where the load comes from another process, and its worker threads never
//! run the client's tasks. Both sides of a row are driven by the same client in the same way. Its
//! cost is part of both, which flatters the slower side; so it is kept small.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::cpu::CpuTime;
use crate::measure::{Latencies, Measured, Stopwatch, write_digits};
use crate::{Error, Result};

/// The requests of one connection, in order.
pub(crate) trait Script: Send + 'static {
    /// The bytes of the next request; `None` when there is nothing left to ask.
    fn next(&mut self) -> Option<&[u8]>;

    /// Checks an answer. Returns an error, or whether its time counts.
    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool>;

    /// Returns the rest of the connection before the next request, if there is one.
    fn rest(&self) -> Option<Rest> {
        None
    }
}

/// The rest of a connection between two requests.
pub(crate) struct Rest {
    /// The duration of the rest.
    pub(crate) time: Duration,
    /// Set if the connection is reopened then: the server may have closed it after its answer.
    pub(crate) reconnects: bool,
}

/// A request's bytes with places that are overwritten before each sending.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Request {
    /// Makes a POST of a JSON body.
    ///
    /// Each of `marks` occurs once in the body and becomes a place, in the order of the marks.
    pub(crate) fn post(path: &str, token: &str, body: &str, marks: &[&str]) -> Result<Self> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let place = |mark: &&str| body.find(*mark).map(|place| head.len() + place);
        let places = marks.iter().map(place).collect::<Option<_>>().ok_or("no such mark")?;
        Ok(Self { bytes: [head.as_bytes(), body.as_bytes()].concat(), places })
    }

    /// Overwrites a place.
    pub(crate) fn set(&mut self, place: usize, text: &[u8]) {
        let start = self.places[place];
        self.bytes[start..start + text.len()].copy_from_slice(text);
    }

    /// Overwrites a place of this many digits with the last digits of a number.
    pub(crate) fn set_digits(&mut self, place: usize, digits: usize, number: u64) {
        let start = self.places[place];
        write_digits(number, &mut self.bytes[start..start + digits]);
    }

    /// Returns all bytes of the request.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keep-alive connections to one server.
#[derive(Debug)]
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    connections: Vec<Connection>,
}

impl Client {
    /// Opens this number of connections.
    pub(crate) fn connect(server: SocketAddr, connections: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connect = async {
            let mut open = Vec::with_capacity(connections);
            for _ in 0..connections {
                open.push(Connection::open(server).await?);
            }
            Ok::<_, Error>(open)
        };
        let connections = runtime.block_on(connect)?;
        Ok(Self { runtime, connections })
    }

    /// Runs a script on every connection, one request at a time.
    ///
    /// It ends after `time`, or when the scripts have no requests left.
    pub(crate) fn drive<S: Script>(
        &mut self,
        time: Duration,
        mut script: impl FnMut() -> S,
    ) -> Result<Measured> {
        let connections = std::mem::take(&mut self.connections);
        let (start, cpu) = (Stopwatch::start(), CpuTime::now()?);
        let round = async {
            let mut running = JoinSet::new();
            for connection in connections {
                running.spawn(connection.follow(script(), start, time));
            }
            let (mut all, mut open) = (Latencies::new(), Vec::new());
            while let Some(ended) = running.join_next().await {
                let (connection, latencies) = ended??;
                all.merge(latencies);
                open.push(connection);
            }
            Ok::<_, Error>((all, open))
        };
        let (latencies, connections) = self.runtime.block_on(round)?;
        let elapsed = start.elapsed();
        self.connections = connections;
        let cpu_us = cpu.of_others_per_operation(latencies.len())?;
        Ok(Measured::operations(latencies, elapsed).with_cpu(cpu_us))
    }
}

/// One connection, with the bytes that have come in and are not used yet.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    /// The number of bytes that came in to `read`.
    filled: usize,
}

/// The positions of an answer's parts in the bytes that came in.
struct Answer {
    status: u16,
    body: std::ops::Range<usize>,
}

impl Connection {
    async fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: vec![0; 16 * 1024], filled: 0 })
    }

    async fn follow<S: Script>(
        mut self,
        mut script: S,
        start: Stopwatch,
        time: Duration,
    ) -> Result<(Self, Latencies)> {
        let mut latencies = Latencies::new();
        let mut asked_at = start.elapsed();
        while asked_at < time {
            let Some(request) = script.next() else { break };
            self.send(request).await?;
            let answer = self.receive().await?;
            let counts = script.check(answer.status, &self.read[answer.body])?;
            // No pipelining: nothing comes behind an answer.
            self.filled = 0;
            // The clock is read once for each request.
            let answered_at = start.elapsed();
            if counts {
                latencies.add(answered_at - asked_at);
            }
            asked_at = answered_at;
            if let Some(rest) = script.rest() {
                tokio::time::sleep(rest.time).await;
                if rest.reconnects {
                    self = Self::open(self.stream.peer_addr()?).await?;
                }
                asked_at = start.elapsed();
            }
        }
        Ok((self, latencies))
    }

    async fn send(&mut self, mut request: &[u8]) -> Result<()> {
        while !request.is_empty() {
            match self.stream.try_write(request) {
                Ok(written) => request = &request[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.stream.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<Answer> {
        loop {
            // The answer is hardly ever there already: wait before the first attempt to read.
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.read[self.filled..]) {
                Ok(0) => {
                    return Err("the server closed the connection, or its answer is long".into());
                }
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(answer) = parse(&self.read[..self.filled])? {
                return Ok(answer);
            }
        }
    }
}

/// Finds the status and the body; `None` when more has to come in.
fn parse(bytes: &[u8]) -> Result<Option<Answer>> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let status = bytes.get(9..12).ok_or("no status")?;
    let status: u16 = std::str::from_utf8(status)?.parse()?;
    // This status has no body, and no length.
    let mut length = (status == 204).then_some(0);
    for line in bytes[..head].split(|byte| *byte == b'\n').skip(1) {
        const NAME: &[u8] = b"content-length:";
        if line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME) {
            length = Some(std::str::from_utf8(&line[NAME.len()..])?.trim().parse::<usize>()?);
        }
    }
    let start = head + 4;
    let end = start + length.ok_or("an answer without a length")?;
    Ok((bytes.len() >= end).then_some(Answer { status, body: start..end }))
}
