//! The reasons why a command fails.

use std::path::PathBuf;

use postrider::settings::SettingsError;
use postrider::{BootError, StopError};
#[cfg(feature = "cluster")]
use postrider::{ClusterError, NodeStopError};
use postrider_actors::copies::CopyError;

use super::contacts::error::ImportError;
use super::input::{JsonFileError, SecretError};
use super::server_args::AddressError;

/// The reason why a command failed.
///
/// It ends the process with status 1, except for a loss that was not accepted. That loss, and a
/// mistake in the arguments, which the parser finds, end it with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    NodeStop(#[from] NodeStopError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(
        "no admin token was found: use --token-file, POSTRIDER_ADMIN_TOKEN or --data-dir of the \
         server; {path}: {source}",
        path = .path.display()
    )]
    NoToken { path: PathBuf, source: std::io::Error },
    #[error(
        "no API key was found: use --key-file, POSTRIDER_API_KEY or --data-dir of a sandbox; \
         {path}: {source}",
        path = .path.display()
    )]
    NoKey { path: PathBuf, source: std::io::Error },
    #[error("the command needs the data directory of a stopped server: --data-dir DIR")]
    NoDataDir,
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("the command failed; standard output has the reason")]
    Reported,
    #[error(transparent)]
    Contacts(#[from] ImportError),
    #[error(transparent)]
    Json(#[from] JsonFileError),
    #[error("interrupted; run the same command again to finish")]
    Suspended,
    #[error("cannot reach {server}: {cause}")]
    Unreachable { server: String, cause: String },
    #[error("{message} ({code})")]
    Refused { message: String, code: String },
    #[error("record {sequence} of the audit log fails verification: {fault}")]
    Audit { sequence: u64, fault: String },
    #[error("{0} found; --json shows all details")]
    Problems(String),
    #[error("nothing was changed; run the command again with --accept-loss to repair")]
    LossNotAccepted,
    #[error(
        "nothing was changed: nodes that did not answer may still hold the entries that the \
         repair would lose ({0}); retry when they answer, or stop them and name their data \
         directories with --node"
    )]
    NodesNotHeard(String),
    #[error("the records were not compared with the log: {0}")]
    NotCompared(String),
    #[error("no user has the e-mail address {0}")]
    NoSuchUser(String),
    #[error(
        "{path} is not empty; run `postrider --data-dir {path}` to serve its data",
        path = .0.display()
    )]
    NotEmpty(PathBuf),
    #[error("{node} still owns {left} shards; the drain continues: run the command again to wait")]
    Undrained { node: String, left: u64 },
    #[error("interrupted before the command finished")]
    Interrupted,
    #[error(
        "the engine stopped unexpectedly, but no acknowledged data is lost: restart the server"
    )]
    EngineEnded,
    #[error("{server} sent an unexpected answer: {what}")]
    Answer { server: String, what: String },
}

impl CliError {
    /// Returns the status with which the process ends.
    pub(crate) const fn status(&self) -> u8 {
        match self {
            Self::LossNotAccepted | Self::NodesNotHeard(_) => 2,
            _ => 1,
        }
    }
}
