//! The loop that accepts connections: HTTP/1.1 on hyper, with limits on time and number, and an end
//! that answers what is under way.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower_service::Service as _;

use crate::http::Peer;
use crate::write_timeout::WriteTimeout;

/// How long the loop rests when the system has no sockets left: one may be closed meanwhile.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Most bytes of a connection that are buffered, and so the longest head of a request.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// What a connection may do.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// Longest wait for a request's head; also how long a connection may stay idle.
    pub head_timeout: Duration,
    /// Longest that a write may wait for the client to read.
    pub write_timeout: Duration,
    /// Most connections at a time; others wait to be accepted.
    pub max_connections: usize,
}

/// Connections that were not done in time. They go on until this is dropped; then they are cut.
#[derive(Debug)]
#[must_use = "dropping it cuts the connections"]
pub struct Lingering {
    connections: Arc<Semaphore>,
    max_connections: usize,
    /// What cuts them, when it is dropped.
    cut: watch::Sender<()>,
}

impl Lingering {
    /// Cuts them; says how many there were.
    pub fn cut(self) -> usize {
        let Self { connections, max_connections, cut } = self;
        let count = max_connections.saturating_sub(connections.available_permits());
        drop(cut);
        count
    }
}

/// Serves `router` until `stop` resolves to how long the end may take; then accepts no more, lets
/// requests under way be answered (with `Connection: close`), and returns what is left.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    stop: impl Future<Output = Duration>,
) -> Lingering {
    let connections = Arc::new(Semaphore::new(options.max_connections));
    let graceful = GracefulShutdown::new();
    let cut = watch::Sender::new(());
    let mut stop = std::pin::pin!(stop);
    let grace = loop {
        let accepted = async {
            // Never closed, so a permit always comes.
            let permit = Arc::clone(&connections).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            grace = &mut stop => break grace,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = connection(stream, peer, router.clone(), options);
                let connection = graceful.watch(connection);
                let mut cut = cut.subscribe();
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        biased;
                        ended = connection => ended,
                        // Nothing is ever sent: it resolves when the sender is dropped.
                        _ = cut.changed() => Ok(()),
                    };
                    // A client that goes away or talks nonsense is none of our failures.
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(permit);
                });
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    };
    drop(listener);
    // In time or not, whoever holds what is left decides when that is cut.
    drop(tokio::time::timeout(grace, graceful.shutdown()).await);
    Lingering { connections, max_connections: options.max_connections, cut }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ServeOptions,
) -> http1::Connection<WriteTimeout<TokioIo<TcpStream>>, impl AnswersRequests> {
    // An answer is one small packet: it must not wait for another.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        answer(router.clone(), request)
    });
    let io = WriteTimeout::new(TokioIo::new(stream), options.write_timeout);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(io, service)
}

/// What hyper serves a connection with.
trait AnswersRequests:
    HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send
{
}

impl<S> AnswersRequests for S where
    S: HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send
{
}

/// A router is always ready, so it is called at once.
fn answer(
    mut router: Router,
    request: Request<Body>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> {
    router.call(request)
}

/// The client gave up before it was accepted; the next one is not affected.
fn is_of_the_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
