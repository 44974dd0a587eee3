//! Pure: a command's contribution to the figures of codes over several channels.

use std::time::Duration;

use postrider_domain::event::chain::{OtpChannel, TryStatus};

/// A command's contribution to the figures.
#[derive(Debug, Default)]
pub(crate) struct OtpFiguresAdded {
    /// Steps that ended, with their known outcome.
    pub(crate) tries: Vec<(OtpChannel, TryStatus)>,
    /// The time between the start of a step and that of the next one.
    pub(crate) failovers: Vec<Duration>,
}
