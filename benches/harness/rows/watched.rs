//! `otp_send_http_watched` measures the cost of fifty browsers that show the events.
//!
//! Each browser has a person, an owner, with a session and the event stream that a page of the
//! dashboard opens. One server is watched, and another is not. Both get the same sends in turn. The
//! browsers are a thread of this process that reads all and stores nothing. Its cost counts against
//! the watched server; browsers on other machines would cost it less.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Group;
use super::otp_http::{BARE, Servers};
use super::traced::sends_in_turn;
use crate::measure::Stopwatch;
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_send_http_watched"], run };

/// The maximum cost is 3 %; the goal is a cost that does not exceed the noise.
const BUDGET_AND_GOAL: (f64, f64) = (0.97, 1.0);
const BROWSERS: usize = 50;
/// The maximum wait of the browsers for the first event.
const PATIENCE: Duration = Duration::from_secs(10);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let watched = Servers::start(&BARE)?;
    let plain = Servers::start(&BARE)?;
    let browsers = Browsers::open(&watched)?;
    let pair = sends_in_turn(scale, &watched, &plain)?;
    browsers.close()?;
    watched.stop()?;
    plain.stop()?;
    let connections = scale.connections;
    let unit = format!("sends/s of {connections} connections, {BROWSERS} browsers watching");
    let reference = "sends/s of a server that nobody watches";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// Streams that are read on their own thread until they are closed.
struct Browsers {
    thread: JoinHandle<Result<()>>,
    close: oneshot::Sender<()>,
    /// The number of bytes read.
    bytes: Arc<AtomicU64>,
    /// The bytes of the starts of streams among them.
    opening: u64,
}

impl Browsers {
    /// Signs in each browser and opens its stream; returns when all are answered.
    fn open(servers: &Servers) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (server, bytes) = (servers.address(), Arc::new(AtomicU64::new(0)));
        let mut streams = Vec::new();
        for person in 0..BROWSERS {
            let link = servers.link(person)?;
            let cookie = runtime.block_on(sign_in(server, link.reveal()))?;
            streams.push(runtime.block_on(open(server, &cookie, &bytes))?);
        }
        let opening = bytes.load(Ordering::Relaxed);
        let (close, closed) = oneshot::channel();
        let counted = Arc::clone(&bytes);
        let watch = async move {
            let mut reading = JoinSet::new();
            for stream in streams {
                reading.spawn(read(stream, Arc::clone(&counted)));
            }
            tokio::select! {
                Some(ended) = reading.join_next() => ended?,
                _ = closed => Ok(()),
            }
        };
        let thread = std::thread::spawn(move || runtime.block_on(watch));
        Ok(Self { thread, close, bytes, opening })
    }

    /// Closes the streams. Fails if one has ended before, or if they got no events of sends.
    fn close(self) -> Result<()> {
        let watch = Stopwatch::start();
        while self.bytes.load(Ordering::Relaxed) <= self.opening && watch.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        // If the streams have ended by themselves, nobody listens any more.
        self.close.send(()).ok();
        self.thread.join().map_err(|_| "the browsers panicked")??;
        let read = self.bytes.load(Ordering::Relaxed) - self.opening;
        eprintln!("  the browsers have read {:.1} MB", read as f64 / 1e6);
        match read {
            0 => Err("the browsers were sent nothing".into()),
            _ => Ok(()),
        }
    }
}

/// Returns the cookie of a new session.
async fn sign_in(server: SocketAddr, link: &str) -> Result<String> {
    let body = format!(r#"{{"link":"{link}"}}"#);
    let head = format!(
        "POST /ui/api/session HTTP/1.1\r\nhost: {server}\r\nsec-fetch-site: same-origin\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (_, answer) = ask(server, &(head + &body), "\r\n\r\n").await?;
    let set = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = set.and_then(|set| set.split(';').next()).ok_or("no cookie was set")?;
    Ok(cookie.to_owned())
}

/// Opens a stream, and waits until it has sent the clock.
async fn open(server: SocketAddr, cookie: &str, bytes: &AtomicU64) -> Result<TcpStream> {
    let request = format!(
        "GET /v1/events/stream?workspace=demo HTTP/1.1\r\nhost: {server}\r\ncookie: {cookie}\r\n\
         sec-fetch-site: same-origin\r\naccept: text/event-stream\r\n\r\n"
    );
    let (stream, answer) = ask(server, &request, "event: ping").await?;
    bytes.fetch_add(answer.len() as u64, Ordering::Relaxed);
    Ok(stream)
}

/// Sends a request and reads the answer until `end` has come.
async fn ask(server: SocketAddr, request: &str, end: &str) -> Result<(TcpStream, String)> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(request.as_bytes()).await?;
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    while !answer.contains(end) {
        match stream.read(&mut buffer).await? {
            0 => return Err(answer.into()),
            read => answer.push_str(std::str::from_utf8(&buffer[..read])?),
        }
    }
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok((stream, answer)),
        false => Err(answer.into()),
    }
}

async fn read(mut stream: TcpStream, bytes: Arc<AtomicU64>) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Err(Error::from("the server ended a stream")),
            read => bytes.fetch_add(read as u64, Ordering::Relaxed),
        };
    }
}
