//! A node of a cluster: engines for the shards it owns, and a front that finds the owner of each.
//!
//! The rules are in `postrider-cluster`. Here they meet HTTP: `front` answers clients, `door`
//! answers the other nodes, `engines` has an engine with its router for each shard that is owned.

mod admin;
mod backup;
mod door;
mod engines;
mod error;
mod figures;
mod front;
mod gather;
mod identity;
mod import;
mod keeper;
mod made;
mod operate;
mod peers;
mod repair;
mod server;
mod settled;
mod work;

pub use backup::{ShardBackup, backup_cluster};
pub use error::ClusterError;
pub use import::{ClusterImported, import_into_cluster};
pub use made::{ClusterMade, init_cluster};
pub use repair::{RepairOrder, RepairState, ShardRepaired, repair_shard};
pub use server::{ClusterNode, NodeStopError};
