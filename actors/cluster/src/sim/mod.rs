//! Seeded runs of a cluster in virtual time, with faults of everything that can fail.
//!
//! The nodes run the rules that ship. The network, the log, the bucket, the clocks and the clients
//! are made up here, and each is drawn from the seed. What clients were answered is judged against
//! the log at the end. `POSTRIDER_SIM_SEED` runs one seed alone and prints what happened.

mod append;
mod call;
mod checkpoints;
mod engine;
mod judge;
mod limits;
mod node;
mod ops;
mod requests;
mod script;
mod server;
mod services;
mod shell;
mod tests;
mod world;

use crate::planted::Planted;
pub(crate) use judge::Violation;
pub(crate) use world::World;

/// How a run differs from others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// What everything is drawn from.
    pub(crate) seed: u64,
    /// The fault that is planted.
    pub(crate) planted: Option<Planted>,
    /// Whether each step is printed.
    pub(crate) is_traced: bool,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    /// Writes that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Reads that were answered.
    pub(crate) reads: usize,
    /// Claims in all logs.
    pub(crate) claims: usize,
    /// Handoffs in all logs.
    pub(crate) handoffs: usize,
    /// Shards that stopped for a log that lost something.
    pub(crate) stopped: usize,
    /// Places of buckets that were taken.
    pub(crate) taken: usize,
    /// Messages that were handed over.
    pub(crate) handed_over: usize,
    /// Moves that the coordinator began and that ended with another owner.
    pub(crate) moves: usize,
    /// Trims of a log.
    pub(crate) trims: usize,
    /// Replicas that began at a checkpoint.
    pub(crate) restored: usize,
    /// Appends that were settled by looking.
    pub(crate) settled: usize,
}

/// Runs one seed to its end.
pub(crate) fn run(options: Options) -> Result<Summary, Violation> {
    let mut world = World::new(options);
    world.run()?;
    world.judge()
}
