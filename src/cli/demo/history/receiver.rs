//! An endpoint that accepts the deliveries of webhooks.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cli::error::CliError;

/// Answers 204 to every request, until it is dropped.
pub(in crate::cli::demo) struct Receiver {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(super) async fn start() -> Result<Self, CliError> {
        let unbound = |source| CliError::Io { what: "cannot listen for webhooks", source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let router = Router::new().fallback(|| async { StatusCode::NO_CONTENT });
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the endpoint of the demo's webhook has ended");
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
