//! A node of a cluster: engines for the shards it owns, and a front that finds the owner of each.
//!
//! The rules are in `postrider-cluster`. Here they meet HTTP: `front` answers clients, `door`
//! answers the other nodes, and `engines` has an engine with its router for each owned shard.

mod admin;
mod asking;
mod audits;
mod backup;
mod callbacks;
mod callers;
mod contents;
mod disk;
mod door;
mod encrypted;
mod engines;
mod error;
mod figures;
mod files;
mod front;
mod gather;
mod identity;
mod import;
mod keeper;
mod kept;
mod known;
mod late;
mod made;
mod numbers;
mod operate;
mod operations;
mod peers;
mod questions;
mod relayed;
mod repair;
mod sending;
mod server;
mod settled;
mod shown;
mod state;
mod system;
mod work;

pub use backup::{ShardBackup, backup_cluster};
pub use error::ClusterError;
pub use import::{ClusterImported, import_into_cluster};
pub use made::{ClusterMade, init_cluster};
pub use repair::{RepairOrder, RepairState, ShardRepaired, repair_shard};
pub use server::{ClusterNode, NodeStopError};
