//! Pure: the port through which the store reports the durations of its steps.

use std::time::Duration;

/// A step of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The commit is appended to the log, durably.
    Append,
    /// The view applies it.
    Apply,
}

/// Receives the durations of steps. The store reads no clock by itself.
pub trait Timing: Send + Sync + 'static {
    /// Returns a time that never decreases.
    fn now(&self) -> Duration;

    /// Reports the duration of a step.
    fn took(&self, step: Step, time: Duration);
}
