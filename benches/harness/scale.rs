//! The durations and sizes of a run.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The number of pairs of rounds.
    pub(crate) rounds: usize,
    /// The duration of a round.
    pub(crate) round: Duration,
    /// The time that each side runs before the first round.
    pub(crate) warm_up: Duration,
    /// The keep-alive connections of the HTTP rows.
    pub(crate) connections: usize,
    /// The numbers of concurrent callers that the in-process row tries.
    pub(crate) callers: &'static [usize],
    /// The pending requests in the rows about memory and restarts.
    pub(crate) pending: usize,
    /// The number of restarts, whose median counts.
    pub(crate) restarts: usize,
    /// The bytes of the records that a node without any restores.
    pub(crate) restored_bytes: usize,
    /// Set if the references do not run: for a profiler.
    pub(crate) alone: bool,
}

impl Scale {
    /// The sizes that the budgets are about.
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        round: Duration::from_secs(3),
        warm_up: Duration::from_secs(2),
        connections: 64,
        callers: &[256, 1024, 4096],
        pending: 1_000_000,
        restarts: 3,
        restored_bytes: 1_000_000_000,
        alone: false,
    };

    /// The sizes for a quick look during development.
    pub(crate) const QUICK: Self = Self {
        rounds: 3,
        round: Duration::from_secs(1),
        warm_up: Duration::from_secs(1),
        callers: &[1024],
        pending: 100_000,
        restarts: 1,
        restored_bytes: 100_000_000,
        ..Self::FULL
    };

    /// The sizes for a test of the harness itself.
    pub(crate) const SMOKE: Self = Self {
        rounds: 1,
        round: Duration::from_millis(50),
        warm_up: Duration::ZERO,
        connections: 4,
        callers: &[16],
        pending: 200,
        restarts: 1,
        restored_bytes: 4_000_000,
        alone: false,
    };
}
