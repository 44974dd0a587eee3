//! A server: engine, edge and listener, started and stopped together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use postrider_actors::{
    AdmissionOptions, Engine, EngineOptions, Prices, SandboxOptions, ShutdownError, StartError,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::demo::{self, DemoError};
use crate::files::{self, FileError};
use crate::http::{AppOptions, app};
use crate::metrics::Metrics;
use crate::secrets::{self, SecretsError};
use crate::serve::{ServeOptions, serve};
use crate::settings::{Secret, Settings};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// There are no secrets.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The metrics cannot be set up.
    #[error("the metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// The engine did not start.
    #[error("the engine: {0}")]
    Engine(#[from] StartError),
    /// The sandbox could not be prepared.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    engine: Engine,
    demo_key: Option<Secret>,
    grace: Duration,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    upkeep: JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server: makes what the first start makes, recovers what is durable, listens.
    ///
    /// # Errors
    /// [`ServerError`] tells which part did not start, and why.
    pub async fn start(settings: &Settings) -> Result<Self, ServerError> {
        let data_dir = &settings.server.data_dir;
        files::make_data_dir(data_dir)?;
        // The address first: a second server on it should not touch the data.
        let address = settings.server.listen;
        let listen = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;

        let metrics = Metrics::new()?;
        let engine = Engine::start(engine_options(settings, &metrics)?).await?;
        let admin_token = secrets::admin_token(settings)?;
        let demo_key = match settings.sandbox.enabled {
            true => Some(Secret::new(demo::prepare(&engine, data_dir).await?)),
            false => None,
        };
        let options = AppOptions::new(settings, admin_token, metrics.clone());
        let router = app(engine.clone(), options);
        let options = ServeOptions {
            head_timeout: settings.server.head_timeout_seconds,
            max_connections: settings.server.max_connections,
        };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, router, options, async {
            // A server that is dropped stops as one that is told to.
            drop(stopped.await);
        }));
        let upkeep = tokio::spawn(async move { metrics.upkeep().await });
        let grace = settings.shutdown.grace_seconds;
        Ok(Self { address, engine, demo_key, grace, stop, serving, upkeep })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The engine behind it.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The demo workspace's key, in a sandbox.
    #[must_use]
    pub const fn demo_key(&self) -> Option<&Secret> {
        self.demo_key.as_ref()
    }

    /// Takes no new request, answers those under way, makes everything durable and stops, within
    /// `shutdown.grace_seconds`.
    ///
    /// # Errors
    /// [`ShutdownError::TimedOut`] when that was too short.
    pub async fn shutdown(self) -> Result<(), ShutdownError> {
        let watch = Stopwatch::start();
        // The loop may have ended already.
        self.stop.send(()).ok();
        let answered = tokio::time::timeout(self.grace, self.serving).await;
        self.upkeep.abort();
        let left = self.grace.saturating_sub(watch.elapsed());
        self.engine.shutdown(left).await?;
        answered.map(|_| ()).map_err(|_| ShutdownError::TimedOut)
    }
}

fn engine_options(settings: &Settings, metrics: &Metrics) -> Result<EngineOptions, ServerError> {
    let data_dir: PathBuf = settings.server.data_dir.clone();
    let mut options = EngineOptions::on_disk(data_dir, secrets::master_keys(settings)?);
    options.limits = settings.limits;
    options.prices = Prices { otp: settings.prices.otp };
    options.admission = AdmissionOptions {
        in_flight_per_workspace: settings.admission.in_flight_per_workspace,
        in_flight_total: settings.admission.in_flight_total,
    };
    options.otps_per_workspace_max = settings.admission.otps_per_workspace_max;
    options.queued_bytes_max = settings.storage.queued_bytes_max;
    options.snapshot_journal_bytes = settings.storage.snapshot_journal_bytes;
    options.sandbox = SandboxOptions { messages_kept: settings.sandbox.messages_kept };
    options.recorder = Some(metrics.recorder());
    Ok(options)
}
