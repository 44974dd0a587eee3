//! `postrider serve`: runs a server until a signal stops it, and notifies the service manager.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
#[cfg(feature = "cluster")]
use postrider::ClusterNode;
use postrider::settings::{Flags, Settings};
use postrider::{Banner, RunningServer, Server, logging};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// The exit status after a second signal.
const STATUS_FORCED: i32 = 1;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// The settings file, whose values override the defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address and port to listen on, such as 127.0.0.1:8080. Port 0 selects a free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// The directory for the server's data
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT, then shuts down gracefully.
///
/// A second signal exits immediately. SIGHUP reloads the certificate. If the engine ends by itself,
/// this ends too, so that the service manager restarts the process.
pub(crate) async fn run(args: &ServeArgs) -> Result<(), CliError> {
    let flags = Flags { listen: args.listen, data_dir: args.data_dir.clone() };
    let settings = Settings::load(args.config.as_deref(), &flags)?;
    logging::start(&settings.log);
    let mut signals = Signals::new()?;
    // A start may rebuild records, which takes long. Stopping it is like a crash.
    let server = tokio::select! {
        started = RunningNode::start(settings) => started?,
        () = signals.next() => {
            tracing::info!("stopped before the start was over");
            return Ok(());
        }
    };
    // Standard output may be closed. The server runs without a banner then.
    if let Err(error) = write!(std::io::stdout().lock(), "{}", server.banner()) {
        tracing::warn!(%error, "the banner could not be shown");
    }
    let mut hangup = listen_for(SignalKind::hangup())?;
    notify_ready();
    loop {
        tokio::select! {
            () = signals.next() => break,
            () = server.ended() => return Err(CliError::EngineEnded),
            _ = hangup.recv() => server.reload_certificates(),
        }
    }
    notify_stopping();
    tracing::info!("draining; a second signal ends the process at once");
    tokio::spawn(async move {
        signals.next().await;
        tracing::warn!("ended before everything was finished");
        std::process::exit(STATUS_FORCED);
    });
    server.shutdown().await?;
    tracing::info!("stopped");
    Ok(())
}

/// A single node, or a node of a cluster.
enum RunningNode {
    Single(Box<RunningServer>),
    #[cfg(feature = "cluster")]
    Cluster(Box<ClusterNode>),
}

impl RunningNode {
    async fn start(settings: Settings) -> Result<Self, CliError> {
        #[cfg(feature = "cluster")]
        if settings.cluster.is_on() {
            return Ok(Self::Cluster(Box::new(ClusterNode::start(settings).await?)));
        }
        Ok(Self::Single(Box::new(Server::start(settings).await?)))
    }

    fn banner(&self) -> &Banner {
        match self {
            Self::Single(server) => server.banner(),
            #[cfg(feature = "cluster")]
            Self::Cluster(node) => node.banner(),
        }
    }

    async fn ended(&self) {
        match self {
            Self::Single(server) => server.engine().ended().await,
            #[cfg(feature = "cluster")]
            Self::Cluster(node) => node.ended().await,
        }
    }

    fn reload_certificates(&self) {
        match self {
            Self::Single(server) => server.reload_certificates(),
            #[cfg(feature = "cluster")]
            Self::Cluster(node) => {
                if let Err(error) = node.reload_certificates() {
                    tracing::error!(%error, "the certificate stays as it is");
                }
            }
        }
    }

    async fn shutdown(self) -> Result<(), CliError> {
        match self {
            Self::Single(server) => Ok(server.shutdown().await?),
            #[cfg(feature = "cluster")]
            Self::Cluster(node) => Ok(node.shutdown().await?),
        }
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|source| CliError::Io { what: "cannot wait for signals", source })
}

/// The signals that stop a server.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, CliError> {
        Ok(Self {
            terminate: listen_for(SignalKind::terminate())?,
            interrupt: listen_for(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Notifies that the server accepts requests.
///
/// From now on the manager is also notified that the runtime still runs tasks. This happens three
/// times in the period after which the manager would end the process (`WATCHDOG_USEC`).
fn notify_ready() {
    notify(&[NotifyState::Ready]);
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    // A task of its own, because the runtime's workers run it only while they take tasks.
    tokio::spawn(async move {
        loop {
            notify(&[NotifyState::Watchdog]);
            tokio::time::sleep(limit / 3).await;
        }
    });
}

/// Notifies that the server starts to stop.
fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies the service manager by systemd's protocol.
///
/// Without a service manager that requests it (`NOTIFY_SOCKET`), nothing is sent.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
