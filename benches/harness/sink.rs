//! The sink is the server on loopback to which webhooks are delivered.
//!
//! It accepts everything immediately, except for one path where it never answers. It has its own
//! thread.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::measure::{Phones, Stopwatch};
use crate::{Error, Result};

/// The path that is never answered.
const HANGING: &str = "/hanging";

/// A received request, without the parts whose length differs between requests.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The time of arrival of the event about a phone at an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) phone: u64,
    pub(crate) at: Duration,
}

/// The state that the connections share.
struct State {
    since: Stopwatch,
    /// The number of answered requests.
    count: AtomicU64,
    last: Mutex<Option<Received>>,
    /// The arrivals, if somebody asked for them.
    arrivals: Option<Mutex<Vec<Arrival>>>,
}

/// The server, which ends when this is dropped.
pub(crate) struct Sink {
    address: SocketAddr,
    state: Arc<State>,
    _runtime: tokio::runtime::Runtime,
}

impl Sink {
    /// Starts a sink that counts; with `timed` it also stores when the event of each phone arrived.
    pub(crate) fn start(since: Stopwatch, timed: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sink")
            .enable_all()
            .build()?;
        let state = Arc::new(State {
            since,
            count: AtomicU64::new(0),
            last: Mutex::default(),
            arrivals: timed.then(Mutex::default),
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { address, state, _runtime: runtime })
    }

    /// Returns the URL of an endpoint.
    pub(crate) fn url(&self, endpoint: usize) -> String {
        format!("http://{}/{endpoint}", self.address)
    }

    /// Returns the URL of the endpoint that never answers.
    pub(crate) fn hanging_url(&self) -> String {
        format!("http://{}{HANGING}", self.address)
    }

    /// Returns the number of requests that were ever answered.
    pub(crate) fn count(&self) -> u64 {
        self.state.count.load(Ordering::Relaxed)
    }

    /// Returns a recent request.
    pub(crate) fn last(&self) -> Option<Received> {
        lock(&self.state.last).clone()
    }

    /// Takes the arrivals.
    pub(crate) fn take_arrivals(&self) -> Vec<Arrival> {
        let arrivals = self.state.arrivals.as_ref();
        arrivals.map(|it| std::mem::take(&mut *lock(it))).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until the runtime ends.
async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let state = Arc::clone(&state);
        let service = service_fn(move |request| take(Arc::clone(&state), request));
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // The connection ends with an error when the client goes.
            connection.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

async fn take(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    if parts.uri.path() == HANGING {
        std::future::pending::<Infallible>().await;
    }
    match &state.arrivals {
        Some(arrivals) => {
            let phone = phone(&body).ok_or_else(|| Error::from("an event without a phone"))?;
            lock(arrivals).push(Arrival { phone, at: state.since.elapsed() });
        }
        // Only now and then, so that it costs nothing.
        None if state.count.load(Ordering::Relaxed).is_multiple_of(1000) => {
            *lock(&state.last) = Some(Received { headers: parts.headers, body });
        }
        None => {}
    }
    state.count.fetch_add(1, Ordering::Relaxed);
    Ok(Response::new(Empty::new()))
}

/// Returns the digits of the phone that an event is about, or that an SMS goes to.
fn phone(body: &[u8]) -> Option<u64> {
    const MARKS: [&[u8]; 2] = [br#""phone":"+"#, br#""to":"+"#];
    let start = MARKS.into_iter().find_map(|mark| {
        let at = body.windows(mark.len()).position(|it| it == mark)?;
        Some(at + mark.len())
    })?;
    std::str::from_utf8(body.get(start..start + Phones::DIGITS)?).ok()?.parse().ok()
}
