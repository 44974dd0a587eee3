//! The reasons why a server does not start.

use std::io;
use std::path::PathBuf;

use postrider_actors::store::StoreError;
use postrider_actors::store::directory::DirectoryError;
use postrider_actors::store::repair::RepairError;
use postrider_actors::{
    AdminError, CreateWorkspaceError, PeopleError, StartError, TemplateError, Unavailable,
};

use crate::tls::TlsError;

/// The reason why the server did not start. The message names the file or address, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other users can use a file or directory, and the permissions cannot be changed.
    #[error(
        "{path}: its permissions are {mode:04o} and its owner is user {owner}, but only the user \
         that runs the server may use it, and {why}",
        path = .path.display()
    )]
    Mode {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The user id of its owner.
        owner: u32,
        /// The reason why they cannot be changed.
        why: String,
    },
    /// A file has the wrong content.
    #[error("{path}: must hold {expected}", path = .path.display())]
    Content {
        /// The file or directory.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// Data exists, but the master key under which it was written is missing.
    #[error(
        "{path}: there is no such file, but there is data that was written under a master key: \
         put it back, or give the key as `secrets.master_key` \
         (POSTRIDER__SECRETS__MASTER_KEY); with a new one every code that is on its way and every \
         stored secret would be lost, so the server makes none",
        path = .0.display()
    )]
    NoMasterKey(PathBuf),
    /// The data belongs to a sandbox whose clock was advanced.
    #[error(
        "{path}: this is the data of a sandbox whose time was moved ahead by {seconds} s: with \
         `sandbox.enabled = false` codes and limits would live by a wrong time; name another \
         `server.data_dir`, or set `sandbox.enabled = true`",
        path = .path.display(), seconds = .ahead.as_secs()
    )]
    ClockMoved {
        /// The data directory.
        path: PathBuf,
        /// The time by which the clock was advanced.
        ahead: std::time::Duration,
    },
    /// Traces cannot be sent to the collector that the settings name.
    #[error("`traces.endpoint`: {0}")]
    Traces(String),
    /// Another server has locked the data directory.
    #[error("{path}: the data directory is in use by another server", path = .0.display())]
    InUse(PathBuf),
    /// The data directory of a stopped server belongs to another user.
    #[error(
        "{path}: this belongs to user {owner}, who could not use the files that user {user} would \
         leave in it: run this as user {owner}, such as by `sudo -u '#{owner}'`",
        path = .path.display()
    )]
    Owner {
        /// The directory of the store.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// The store of a stopped server cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Store {
        /// The data directory.
        path: PathBuf,
        /// The cause.
        source: StoreError,
    },
    /// The data directory of a stopped server cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    Directory {
        /// The data directory.
        path: PathBuf,
        /// The cause.
        source: DirectoryError,
    },
    /// The data directory of a stopped server cannot be repaired.
    #[error("{path}: {source}", path = .path.display())]
    Repair {
        /// The data directory.
        path: PathBuf,
        /// The cause.
        source: RepairError,
    },
    /// There is no data.
    #[error("{path}: there is no data", path = .0.display())]
    NoData(PathBuf),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The files of TLS cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The metrics cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// The engine does not start.
    #[error("the engine does not start: {error}{advice}", error = .0, advice = advice(.0))]
    Engine(#[from] StartError),
    /// The demo workspace cannot be created.
    #[error("cannot prepare the demo workspace: {0}")]
    Demo(#[from] DemoError),
}

/// Returns the advice for damaged or lost data.
const fn advice(error: &StartError) -> &'static str {
    match error {
        StartError::Store(StoreError::Damaged(_) | StoreError::Lost { .. }) => {
            "; `postrider check --data-dir DIR` says what is wrong and what it costs, \
             `postrider repair --data-dir DIR` what can be kept without a backup"
        }
        _ => "",
    }
}

/// The reason why the demo workspace cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Creating the workspace failed.
    #[error(transparent)]
    Create(#[from] CreateWorkspaceError),
    /// Creating its number, credits or key failed.
    #[error(transparent)]
    Change(#[from] AdminError),
    /// Creating one of its templates failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The link that signs in its owner cannot be made.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// The engine is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
