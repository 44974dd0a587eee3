//! Accepts connections and serves HTTP/1.1 on them, with limits and a graceful shutdown.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use postrider_actors::LazyTimer;
use postrider_actors::clock::Stopwatch;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::connection_timers::{HyperTimer, RefusalPause, WriteTimeout};
use crate::connections::{ConnectionPlace, ConnectionPlaces, Connections, Member, PlaceLimits};
use crate::head_check::HeadCheck;
use crate::http::{Answering, App, ConnectionTimer, InReserve, Overloaded, Peer, Starting};
use crate::tls::{Tls, Transport};

/// The pause of the accept loop when the system has no sockets left. One may be closed meanwhile.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The minimum time between two log lines about that.
const ACCEPT_LOG_EVERY: Duration = Duration::from_secs(10);

/// The maximum number of bytes buffered per connection. It also bounds the head of a request.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Limits on connections.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The maximum wait for a request's head, and so the maximum idle time of a connection.
    pub head_timeout: Duration,
    /// The maximum time that a write may wait for the client to read.
    pub write_timeout: Duration,
    /// The bounds of simultaneous connections.
    pub places: PlaceLimits,
    /// The TLS settings; `None` for plain connections.
    pub tls: Option<Arc<Tls>>,
}

/// The connections that did not finish within the grace period.
///
/// They stay open until this is dropped, which closes them.
#[derive(Debug)]
#[must_use = "dropping it closes the connections"]
pub struct Lingering {
    permits: Arc<Semaphore>,
    most: usize,
    connections: Connections,
}

impl Lingering {
    /// Closes the connections and returns their number.
    pub fn cut(self) -> usize {
        self.most.saturating_sub(self.permits.available_permits())
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.connections.cut();
    }
}

/// A service that answers requests.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    fn answer(&self, request: Request<Body>) -> Answering;
}

impl Answers for App {
    fn answer(&self, request: Request<Body>) -> Answering {
        Self::answer(self, request)
    }
}

impl Answers for Starting {
    fn answer(&self, request: Request<Body>) -> Answering {
        Self::answer(self, request)
    }
}

/// Serves `app` until `stop` resolves to the grace period.
///
/// Then it accepts no more connections, and answers requests in progress with `Connection: close`.
/// It returns the connections that are still open when the grace period is over.
pub async fn serve(
    listener: TcpListener,
    app: App,
    options: ServeOptions,
    stop: impl Future<Output = Duration>,
) -> Lingering {
    serve_with(listener, app, options, stop).await
}

/// Serves like [`serve`], for any service that answers.
pub(crate) async fn serve_with(
    listener: TcpListener,
    app: impl Answers,
    options: ServeOptions,
    stop: impl Future<Output = Duration>,
) -> Lingering {
    let most = ConnectionPlaces::most(&options.places);
    let permits = Arc::new(Semaphore::new(most));
    let connections = Connections::default();
    let places = ConnectionPlaces::new(options.places.clone());
    let options = Arc::new(options);
    let mut complaints = Complaints::default();
    let mut stop = std::pin::pin!(stop);
    let grace = loop {
        let accepted = async {
            // The semaphore is never closed, so this returns a permit.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            grace = &mut stop => break grace,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (place, displaced) = places.take(peer.ip());
                let client = ConnectedClient { app: app.clone(), peer, place };
                let (connections, options) = (connections.clone(), Arc::clone(&options));
                tokio::spawn(async move {
                    let serving = async |member: &Member| -> hyper::Result<()> {
                        match secured(stream, &options).await {
                            Some(stream) => client.serve(stream, &options, member).await,
                            None => Ok(()),
                        }
                    };
                    note_end(connections.run(displaced, serving).await.unwrap_or(Ok(())));
                    drop(permit);
                });
            }
            Err(error) if is_client_fault(&error) => {}
            Err(error) => {
                complaints.add(&error);
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    };
    drop(listener);
    connections.drain();
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    // After the timeout the caller decides when the remaining connections are closed.
    drop(tokio::time::timeout(grace, permits.acquire_many(all)).await);
    Lingering { permits, most, connections }
}

/// Logs the early end of a connection.
///
/// A client that disconnects or violates HTTP is not a failure of the server.
fn note_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Logs at intervals that connections cannot be accepted, however often that happens.
#[derive(Default)]
struct Complaints {
    last: Option<Stopwatch>,
    since: u64,
}

impl Complaints {
    fn add(&mut self, error: &std::io::Error) {
        let since_last = self.last.as_ref().map(Stopwatch::elapsed);
        if let Some(times) = self.count(since_last) {
            tracing::error!(%error, times, "cannot accept connections");
            self.last = Some(Stopwatch::start());
        }
    }

    /// Counts one failure. Returns the number since the last line, if another line is due.
    fn count(&mut self, since_last: Option<Duration>) -> Option<u64> {
        self.since += 1;
        let is_due = since_last.is_none_or(|since| since >= ACCEPT_LOG_EVERY);
        is_due.then(|| std::mem::take(&mut self.since))
    }
}

/// Makes the TLS handshake, which has the timeout of a request head.
async fn secured(stream: TcpStream, options: &ServeOptions) -> Option<Transport> {
    // A response is one small packet, which Nagle would delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let Some(tls) = &options.tls else { return Some(Transport::Plain(stream)) };
    match tokio::time::timeout(options.head_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => None,
    }
}

/// A connected client.
struct ConnectedClient<A> {
    app: A,
    peer: SocketAddr,
    place: ConnectionPlace,
}

impl<A: Answers> ConnectedClient<A> {
    /// Answers the client's requests until it or the server closes the connection.
    async fn serve(
        self,
        stream: Transport,
        options: &ServeOptions,
        member: &Member,
    ) -> hyper::Result<()> {
        let (timer, pause) = (LazyTimer::default(), RefusalPause::default());
        let service = service_fn(|request| self.answer(request, &timer, &pause));
        let io = WriteTimeout::new(TokioIo::new(HeadCheck::new(stream)), options.write_timeout);
        let mut connection = pin!(
            http1::Builder::new()
                .timer(HyperTimer(timer.clone()))
                .header_read_timeout(options.head_timeout)
                .max_buf_size(BUFFER_BYTES_MAX)
                .serve_connection(io, service)
        );
        let mut is_finishing = false;
        poll_fn(|context| {
            if !is_finishing && member.is_draining() {
                is_finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(context)
        })
        .await
    }

    /// Answers one request. A place of the reserve serves a single request.
    fn answer<'a>(
        &self,
        request: Request<Incoming>,
        timer: &'a LazyTimer,
        pause: &'a RefusalPause,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<'a, A> {
        let mut request = request.map(Body::new);
        let extensions = request.extensions_mut();
        extensions.insert(Peer(self.peer));
        extensions.insert(ConnectionTimer(timer.clone()));
        self.place.has_request();
        let is_reserved = self.place.is_reserved();
        if is_reserved {
            extensions.insert(InReserve);
        }
        let answering = self.app.answer(request);
        async move {
            let mut response = answering.await;
            if response.extensions().get::<Overloaded>().is_some() {
                Box::pin(pause.wait(timer)).await;
            }
            if is_reserved {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response)
        }
    }
}

/// Returns whether the client gave up before its connection was accepted.
///
/// Such a failure affects no other client.
fn is_client_fault(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nothing_can_be_accepted_is_logged_at_most_once_in_ten_seconds() {
        let mut complaints = Complaints::default();
        assert_eq!(complaints.count(None), Some(1));
        for seconds in [0, 1, 9] {
            assert_eq!(complaints.count(Some(Duration::from_secs(seconds))), None);
        }
        assert_eq!(complaints.count(Some(Duration::from_secs(10))), Some(4));
        assert_eq!(complaints.count(Some(Duration::ZERO)), None);
    }
}
