//! Seeded runs of a cluster in virtual time, with faults of everything that can fail.
//!
//! The nodes run the rules that ship. The network, the log, the bucket, the clocks and the clients
//! are made up here, and each is drawn from the seed. The answers to clients are judged against the
//! log at the end. `POSTRIDER_SIM_SEED` runs one seed alone and prints its events.

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

/// The options of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// The seed from which everything is drawn.
    pub(crate) seed: u64,
    /// The planted fault.
    pub(crate) planted: Option<Planted>,
    /// Set if each step is printed.
    pub(crate) is_traced: bool,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    /// The number of acknowledged writes.
    pub(crate) acknowledged: usize,
    /// The number of answered reads.
    pub(crate) reads: usize,
    /// The number of claims in all logs.
    pub(crate) claims: usize,
    /// The number of handoffs in all logs.
    pub(crate) handoffs: usize,
    /// The number of shards that stopped for a log that lost something.
    pub(crate) stopped: usize,
    /// The number of places taken from buckets.
    pub(crate) taken: usize,
    /// The number of messages that were handed over.
    pub(crate) handed_over: usize,
    /// The number of moves that the coordinator started and that ended with another owner.
    pub(crate) moves: usize,
    /// The number of trims of a log.
    pub(crate) trims: usize,
    /// The number of replicas that started at a checkpoint.
    pub(crate) restored: usize,
    /// The number of appends that were settled by a lookup.
    pub(crate) settled: usize,
}

/// Runs one seed to its end.
pub(crate) fn run(options: Options) -> Result<Summary, Violation> {
    let mut world = World::new(options);
    world.run()?;
    world.judge()
}
