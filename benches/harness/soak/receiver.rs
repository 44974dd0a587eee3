//! The receiver of a soak's webhooks: it records the arrivals, and hangs now and then.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::Result;

/// The interval at which a hanging request checks whether it still must hang.
const LOOK: Duration = Duration::from_millis(100);
/// The endpoint that answers immediately, and the one that hangs now and then.
pub(super) const ENDPOINTS: [&str; 2] = ["/steady", "/hanging"];

/// The receiver, which ends with the runtime.
pub(super) struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The ids of the events that were answered 200, for each endpoint.
    received: [Mutex<HashSet<String>>; 2],
    count: AtomicU64,
    hangs: AtomicBool,
}

impl Receiver {
    /// Starts a receiver on a free port.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, state) = (listener.local_addr()?, Arc::new(State::default()));
        drop(tokio::spawn(serve(listener, Arc::clone(&state))));
        Ok(Self { address, state })
    }

    /// Returns the URL of an endpoint.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Makes the second endpoint hang, or answer again.
    pub(super) fn hang(&self, hangs: bool) {
        self.state.hangs.store(hangs, Ordering::Release);
    }

    /// Returns the number of deliveries that ever arrived; the same event twice counts twice.
    pub(super) fn count(&self) -> u64 {
        self.state.count.load(Ordering::Relaxed)
    }

    /// Returns the number of these events that an endpoint has not received.
    pub(super) fn missing(&self, endpoint: usize, events: &HashSet<String>) -> usize {
        let received = lock(&self.state.received[endpoint]);
        events.iter().filter(|event| !received.contains(*event)).count()
    }

    /// Returns an event that an endpoint received and that is not among these.
    pub(super) fn foreign(&self, endpoint: usize, events: &HashSet<String>) -> Option<String> {
        let received = lock(&self.state.received[endpoint]);
        received.iter().find(|event| !events.contains(*event)).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
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
    body.collect().await?;
    let path = parts.uri.path();
    let endpoint = ENDPOINTS.iter().position(|it| *it == path).ok_or("another path")?;
    while endpoint == 1 && state.hangs.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK).await;
    }
    let id = parts.headers.get("webhook-id").ok_or("no webhook-id")?.to_str()?.to_owned();
    lock(&state.received[endpoint]).insert(id);
    state.count.fetch_add(1, Ordering::Relaxed);
    Ok(Response::new(Empty::new()))
}
