//! The log over NATS JetStream, and the rules by which several nodes serve one Postrider.
//!
//! Not an API: this crate promises no stability. The server runs a [`Node`].

mod archive_store;
pub mod bucket;
pub mod checkpoints;
mod checkup;
pub mod clock;
pub mod cluster_record;
pub mod coordination;
pub mod coordinator;
pub mod copies;
mod files;
pub mod gate;
pub mod import;
mod life;
pub mod log;
mod member;
pub mod name;
pub mod nats;
pub mod node;
pub mod numbers;
mod operations;
pub mod placement;
#[cfg(test)]
pub(crate) mod planted;
pub mod repair;
pub mod replica;
pub mod settle;
pub mod shard;
mod shared;
#[cfg(test)]
mod sim;
pub mod tenure;
mod turns;
mod watch;

pub use archive_store::{CheckpointStore, CheckpointsIn};
pub use cluster_record::{Access, ClusterRecord, JoinError, init};
pub use files::open_files;
pub use gate::{Gate, ShardTenure};
pub use name::{Identity, NameError, NodeName};
pub use node::Node;
pub use operations::{Move, OperationError};
pub use postrider_log::Log;
pub use shared::{Counts, Host, NodeOptions, Seen};
