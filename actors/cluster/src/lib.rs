//! The log over NATS JetStream, and the rules by which several nodes serve one Postrider.
//!
//! Not an API: this crate promises no stability. The server does not run a cluster yet.

pub mod bucket;
pub mod clock;
pub mod coordination;
pub mod coordinator;
pub mod log;
pub mod name;
pub mod nats;
pub mod placement;
#[cfg(test)]
pub(crate) mod planted;
pub mod replica;
pub mod settle;
pub mod shard;
#[cfg(test)]
mod sim;
pub mod tenure;

pub use name::{Identity, NameError, NodeName};
