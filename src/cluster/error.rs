//! The reasons why a cluster cannot be made or joined.

use std::path::PathBuf;

use postrider_actors::copies::CopyError;
use postrider_cluster::copies::ShardCopyError;
use postrider_cluster::import::ImportError;
use postrider_cluster::repair::RepairError;
use postrider_cluster::{JoinError, NameError};

use crate::boot::BootError;
use crate::tls::TlsError;

/// The reason why a cluster cannot be made or joined. The message starts with a code in capitals.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The server cannot start, in a cluster or not.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// NATS, or what it holds, is not what it must be.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The data directory has the data of a single node.
    #[error(
        "NOT_EMPTY: {path} has the data of a single node, and a cluster keeps its data in NATS: \
         name another `server.data_dir`, or leave `cluster.nats` empty",
        path = .0.display()
    )]
    NotEmpty(PathBuf),
    /// The settings name no servers for a cluster.
    #[error("NATS_UNREACHABLE: no servers are named: set `cluster.nats`")]
    NoServers,
    /// The files of TLS between nodes cannot be used.
    #[error("TLS: {0} (cluster.tls_cert, cluster.tls_key and cluster.tls_ca)")]
    Tls(TlsError),
    /// The roots that verify the certificates of NATS cannot be used.
    #[error("TLS: {0} (cluster.nats_ca)")]
    NatsCa(TlsError),
    /// The roots of the system, which verify monitoring addresses, cannot be used.
    #[error(
        "TLS: the roots of the system cannot be used for cluster.monitor, set cluster.nats_ca: {0}"
    )]
    SystemRoots(rustls::Error),
    /// The shards cannot be read.
    #[error(transparent)]
    Shards(#[from] ShardCopyError),
    /// A shard was not copied.
    #[error("{code}: shard {shard}: {error}", code = .error.code())]
    Copy {
        /// The shard.
        shard: u16,
        /// The reason.
        error: CopyError,
    },
    /// Nothing is imported, or not all of it.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A shard is not repaired.
    #[error(transparent)]
    Repair(#[from] RepairError),
    /// The data to import cannot be read or split.
    #[error("{code}: {0}", code = .0.code())]
    Data(#[from] CopyError),
    /// A name in the settings is not valid.
    #[error("BAD_NAME: {0}")]
    Name(#[from] NameError),
    /// The check did not come to its end.
    #[error("IO: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl ClusterError {
    /// The code that the message begins with.
    #[must_use]
    pub fn code(&self) -> String {
        let text = self.to_string();
        let code = text.split_once(':').map_or("IO", |(code, _)| code);
        let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if is_code { code.to_owned() } else { "IO".to_owned() }
    }
}
