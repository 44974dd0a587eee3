//! The loop that takes connections: bounded in number, each with a limit on how long a request's
//! head may take, and drained when the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use crate::http::Peer;

/// How the loop treats connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// Longest that a request's head may take, and that a connection may be idle.
    pub head_timeout: Duration,
    /// Connections at a time; more wait to be accepted.
    pub max_connections: usize,
}

/// Serves `router` until `stop` resolves; then takes no new connection or request and answers those
/// under way. Returns when the last connection is closed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(options.max_connections));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let connection = converse(stream, peer, router.clone(), options, graceful.watcher());
        drop(tokio::spawn(async move {
            connection.await;
            drop(place);
        }));
    }
    // The listener first: who connects from now on is refused at once.
    drop(listener);
    graceful.shutdown().await;
}

/// Waits for a place and a connection.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, place)),
        Err(error) => {
            // Such as too many open files: it passes when other connections end.
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// Answers the requests of one connection.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ServeOptions,
    watcher: Watcher,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection without TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .serve_connection(TokioIo::new(stream), PeerService { router, peer });
    if let Err(error) = watcher.watch(connection).await {
        // The client went away, was too slow, or does not speak HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The router, told who is at the other end.
struct PeerService {
    router: Router,
    peer: SocketAddr,
}

impl hyper::service::Service<Request<Incoming>> for PeerService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(self.peer));
        Box::pin(self.router.clone().call(request))
    }
}
