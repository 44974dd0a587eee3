//! The log over NATS JetStream, and the rules by which several nodes serve one Postrider.
//!
//! Not an API: this crate promises no stability. The server runs a [`Node`].

pub mod bucket;
pub mod checkpoints;
mod checkup;
pub mod clock;
pub mod cluster_record;
pub mod coordination;
pub mod coordinator;
pub mod copies;
pub mod gate;
pub mod import;
mod life;
pub mod log;
mod member;
pub mod name;
pub mod nats;
pub mod node;
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
mod watch;

pub use cluster_record::{Access, ClusterRecord, JoinError, init};
pub use gate::{Gate, ShardTenure};
pub use name::{Identity, NameError, NodeName};
pub use node::Node;
pub use operations::{Move, OperationError};
pub use postrider_log::Log;
pub use shared::{Counts, Host, NodeOptions, Seen};
