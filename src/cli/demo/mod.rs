//! `postrider demo`: shows a code and a broadcast, or serves a workspace that has a history.

mod client;
mod history;
mod tour;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use postrider::settings::Settings;
use postrider::{RunningServer, Server, logging};
use tempfile::TempDir;

use super::error::CliError;
use super::serve::Signals;
use client::print;

/// The grace period of the shutdown. It is short, as data that is deleted anyway may be abandoned.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// The number of recipients of the broadcast
    #[arg(
        long,
        value_name = "N",
        default_value = "100000",
        value_parser = clap::value_parser!(u32).range(1..=900_000),
        conflicts_with = "keep"
    )]
    pub(crate) recipients: u32,
    /// Create a week of history instead, and serve the dashboard until you stop the demo
    #[arg(long)]
    pub(crate) keep: bool,
    /// With --keep, the address and port to listen on. By default, a free local port
    #[arg(long, value_name = "ADDR", requires = "keep")]
    pub(crate) listen: Option<SocketAddr>,
    /// With --keep, store the data in this new or empty directory, and keep it at the end
    #[arg(long, value_name = "DIR", requires = "keep")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// The place of a demo's data.
enum DataPlace {
    Temporary(TempDir),
    Kept(PathBuf),
}

/// Runs the demo. It leaves nothing behind that was not requested, even when it is interrupted.
pub(crate) async fn run(args: &DemoArgs) -> Result<(), CliError> {
    let mut signals = Signals::new()?;
    let place = DataPlace::of(args)?;
    let settings = settings(args, place.path());
    logging::start(&settings.log);
    let server = Server::start(settings).await?;
    let shown = tokio::select! {
        shown = show_demo(&server, place.path(), args) => shown,
        () = signals.next() => Err(CliError::Interrupted),
    };
    // A served demo ends with a signal.
    let shown = match shown {
        Ok(DemoOutcome::Served(_receiver)) => tokio::select! {
            () = signals.next() => Ok(()),
            () = server.engine().ended() => Err(CliError::EngineEnded),
        },
        Ok(DemoOutcome::Toured) => Ok(()),
        Err(error) => Err(error),
    };
    let stopped = server.shutdown().await;
    place.close()?;
    shown?;
    Ok(stopped?)
}

/// The result of a demo.
enum DemoOutcome {
    Toured,
    /// The endpoint of a webhook answers as long as this value lives.
    Served(history::WebhookReceiver),
}

async fn show_demo(
    server: &RunningServer,
    path: &Path,
    args: &DemoArgs,
) -> Result<DemoOutcome, CliError> {
    if !args.keep {
        tour::show_tour(server, path, args.recipients).await?;
        return Ok(DemoOutcome::Toured);
    }
    let receiver = history::make_history(server, path).await?;
    print(&format!("\n{}", server.banner()))?;
    let end = match &args.data_dir {
        None => "deletes its data".to_owned(),
        Some(path) => {
            format!("keeps its data; `postrider --data-dir {}` serves it", path.display())
        }
    };
    print(&format!("\nCtrl-C stops the server and {end}.\n"))?;
    Ok(DemoOutcome::Served(receiver))
}

impl DataPlace {
    fn of(args: &DemoArgs) -> Result<Self, CliError> {
        let Some(path) = &args.data_dir else {
            let made = tempfile::Builder::new().prefix("postrider-demo-").tempdir();
            let what = "cannot create a temporary directory";
            return Ok(Self::Temporary(made.map_err(|source| CliError::Io { what, source })?));
        };
        // A second history would be made of the same contacts.
        if path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CliError::NotEmpty(path.clone()));
        }
        Ok(Self::Kept(path.clone()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    fn close(self) -> Result<(), CliError> {
        match self {
            Self::Temporary(directory) => directory.close().map_err(|source| CliError::Io {
                what: "cannot delete the temporary directory",
                source,
            }),
            Self::Kept(_) => Ok(()),
        }
    }
}

/// Makes the settings of a sandbox, independent of those of this machine.
fn settings(args: &DemoArgs, directory: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.server.listen = args.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    settings.server.data_dir = directory.to_owned();
    settings.shutdown.grace_seconds = GRACE;
    settings.log.level = tracing::metadata::LevelFilter::WARN;
    // The demo polls often.
    settings.limits.key_requests_per_hour = 0;
    settings
}
