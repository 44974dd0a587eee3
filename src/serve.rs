//! Accepts connections and serves HTTP/1.1 on them, with limits and a graceful shutdown.

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

/// Pause of the accept loop when the system has no sockets left. One may be closed meanwhile.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Most bytes that are buffered of a connection. This also bounds the head of a request.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Limits on connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// Longest wait for a request's head, and so the longest time that a connection may stay idle.
    pub head_timeout: Duration,
    /// Longest time that a write may wait for the client to read.
    pub write_timeout: Duration,
    /// Most simultaneous connections. Further ones wait to be accepted.
    pub max_connections: usize,
}

/// Connections that did not finish within the grace period. They stay open until this is dropped,
/// which closes them.
#[derive(Debug)]
#[must_use = "dropping it closes the connections"]
pub struct Lingering {
    connections: Arc<Semaphore>,
    max_connections: usize,
    /// Closes them when it is dropped.
    cut: watch::Sender<()>,
}

impl Lingering {
    /// Closes them and returns how many there were.
    pub fn cut(self) -> usize {
        let Self { connections, max_connections, cut } = self;
        let count = max_connections.saturating_sub(connections.available_permits());
        drop(cut);
        count
    }
}

/// Serves `router` until `stop` resolves to the grace period. Then it accepts no more connections,
/// answers requests in progress (with `Connection: close`), and returns the connections that are
/// still open when the grace period is over.
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
            // The semaphore is never closed, so this returns a permit.
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
                        // Nothing is ever sent on it: it resolves when the sender is dropped.
                        _ = cut.changed() => Ok(()),
                    };
                    // A client that disconnects or violates HTTP is not a failure of the server.
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(permit);
                });
            }
            Err(error) if is_client_fault(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    };
    drop(listener);
    // After the timeout the caller decides when the remaining connections are closed.
    drop(tokio::time::timeout(grace, graceful.shutdown()).await);
    Lingering { connections, max_connections: options.max_connections, cut }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ServeOptions,
) -> http1::Connection<WriteTimeout<TokioIo<TcpStream>>, impl ConnectionService> {
    // A response is one small packet, which Nagle would delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        respond(router.clone(), request)
    });
    let io = WriteTimeout::new(TokioIo::new(stream), options.write_timeout);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(io, service)
}

/// The service type that hyper runs on a connection.
trait ConnectionService:
    HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send
{
}

impl<S> ConnectionService for S where
    S: HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send
{
}

/// Calls the router. A router is always ready, so `poll_ready` is not needed.
fn respond(
    mut router: Router,
    request: Request<Body>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> {
    router.call(request)
}

/// Whether the client gave up before its connection was accepted. That affects no other client.
fn is_client_fault(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
