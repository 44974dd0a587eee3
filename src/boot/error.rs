//! Why a server did not start.

use std::io;
use std::path::PathBuf;

use postrider_actors::{AdminError, CreateWorkspaceError, StartError, TemplateError, Unavailable};

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has something else in it than it must.
    #[error("{path}: must hold {expected}", path = .path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it must hold.
        expected: &'static str,
    },
    /// There is data, and not the key that it was written under.
    #[error(
        "{path}: there is no such file, but there is data that was written under a master key: \
         put it back, or give the key as `secrets.master_key` \
         (POSTRIDER__SECRETS__MASTER_KEY); with a new one every code that is on its way and every \
         stored secret would be lost, so the server makes none",
        path = .0.display()
    )]
    NoMasterKey(PathBuf),
    /// The data is a sandbox's whose time was moved ahead.
    #[error(
        "{path}: this is the data of a sandbox whose time was moved ahead by {seconds} s: with \
         `sandbox.enabled = false` codes and limits would live by a wrong time; name another \
         `server.data_dir`, or set `sandbox.enabled = true`",
        path = .path.display(), seconds = .ahead.as_secs()
    )]
    ClockMoved {
        /// The data directory.
        path: PathBuf,
        /// By how much.
        ahead: std::time::Duration,
    },
    /// Another server uses the data directory.
    #[error("{path}: the data directory is in use by another server", path = .0.display())]
    InUse(PathBuf),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The metrics cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// The engine does not start.
    #[error("the engine does not start: {0}")]
    Engine(#[from] StartError),
    /// The demo workspace cannot be made.
    #[error("cannot prepare the demo workspace: {0}")]
    Demo(#[from] DemoError),
}

/// Why the demo workspace cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The workspace is not made.
    #[error(transparent)]
    Create(#[from] CreateWorkspaceError),
    /// Something of it is not.
    #[error(transparent)]
    Change(#[from] AdminError),
    /// A template of it is not made.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// It cannot be asked for.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
