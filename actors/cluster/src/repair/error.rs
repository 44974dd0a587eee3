//! The reasons why a shard is not repaired.

use postrider_log::Position;

use crate::cluster_record::JoinError;
use crate::coordination::CoordinationError;
use crate::log::StreamError;
use crate::name::NodeName;

/// The reason why a shard is not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The cluster cannot be reached, or does not meet the requirements.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The bucket did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Bucket(#[from] CoordinationError),
    /// The stream did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Stream(#[from] StreamError),
    /// There is no such shard.
    #[error("NO_SUCH_SHARD: the cluster has the shards 0 to {last}, and no shard {asked}")]
    NoSuchShard {
        /// The requested shard.
        asked: u16,
        /// The last shard.
        last: u16,
    },
    /// A node serves the shard.
    #[error(
        "IN_USE: the node {node} serves shard {shard}, so it has what its log lacks; wait until \
         `postrider cluster status` shows a checkpoint of the shard behind {behind}, then run it \
         again; stop {node} only if none is made, for what the log lacks goes with it"
    )]
    InUse {
        /// The node.
        node: NodeName,
        /// The shard.
        shard: u16,
        /// The last position that is not whole, or the last one.
        behind: Position,
    },
    /// No whole base is left from which the shard could start.
    #[error(
        "LOST: no whole checkpoint of shard {shard} is left, and its log begins at {first}; give a \
         backup of the cluster with --from"
    )]
    NothingLeft {
        /// The shard.
        shard: u16,
        /// The first position of the log.
        first: Position,
    },
    /// Something was written meanwhile.
    #[error("REPLACED: shard {0} was written meanwhile, by a node or another repair; run it again")]
    Replaced(u16),
    /// An entry that was read a moment ago cannot be read any more.
    #[error("LOST: the log of shard {shard} has changed: {what}; run it again")]
    Changed {
        /// The shard.
        shard: u16,
        /// The change.
        what: String,
    },
    /// The checkpoint was not fetched or not stored, or the log not written.
    #[error("NOT_STORED: shard {shard}: {what}")]
    NotStored {
        /// The shard.
        shard: u16,
        /// Why.
        what: String,
    },
}
