//! Pure: the port through which the store reports how long its steps take.

use std::time::Duration;

/// A step of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The commit is appended to the log, durably.
    Append,
    /// The view applies it.
    Apply,
}

/// Takes how long steps took. The store reads no clock by itself.
pub trait Timing: Send + Sync + 'static {
    /// A time that only goes forward.
    fn now(&self) -> Duration;

    /// A step took so long.
    fn took(&self, step: Step, time: Duration);
}
