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
        "no admin token: give --token-file or POSTRIDER_ADMIN_TOKEN, or --data-dir of the server; {path}: \
         {source}",
        path = .path.display()
    )]
    NoToken { path: PathBuf, source: std::io::Error },
    #[error(
        "no API key: give --key-file or POSTRIDER_API_KEY, or --data-dir of a sandbox; {path}: {source}",
        path = .path.display()
    )]
    NoKey { path: PathBuf, source: std::io::Error },
    #[error("give the data directory of a stopped server: --data-dir DIR")]
    NoDataDir,
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("standard output says why")]
    Reported,
    #[error(transparent)]
    Contacts(#[from] ImportError),
    #[error(transparent)]
    Json(#[from] JsonFileError),
    #[error("interrupted; the same command goes on")]
    Suspended,
    #[error("cannot reach {server}: {cause}")]
    Unreachable { server: String, cause: String },
    #[error("{message} ({code})")]
    Refused { message: String, code: String },
    #[error("record {sequence} of the audit log does not fit: {fault}")]
    Audit { sequence: u64, fault: String },
    #[error("{0} found; --json has all of it")]
    Problems(String),
    #[error("nothing was changed: --accept-loss gives up what cannot be kept")]
    LossNotAccepted,
    #[error(
        "nothing was changed: what is given up may be kept by {0}, which did not answer; repair \
         again once it does, or stop it and name its data directory with --node"
    )]
    NodesNotHeard(String),
    #[error("the records were not compared with the log: {0}")]
    NotCompared(String),
    #[error("nobody has the e-mail address {0}")]
    NoSuchUser(String),
    #[error(
        "{path} is not empty; `postrider --data-dir {path}` serves what is there",
        path = .0.display()
    )]
    NotEmpty(PathBuf),
    #[error("{node} still has {left} shards; the drain goes on, and the same command waits again")]
    Undrained { node: String, left: u64 },
    #[error("stopped before its end")]
    Interrupted,
    #[error("the engine ended by itself; nothing that was acknowledged is lost: start it again")]
    EngineEnded,
    #[error("{server} answered something that is not Postrider's: {what}")]
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
