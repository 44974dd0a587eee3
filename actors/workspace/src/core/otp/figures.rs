//! Pure: what a command adds to the figures of codes over several channels.

use std::time::Duration;

use postrider_domain::event::chain::{OtpChannel, TryStatus};

/// What a command adds to them.
#[derive(Debug, Default)]
pub(crate) struct OtpFiguresAdded {
    /// Steps that ended, with what was known of them.
    pub(crate) tries: Vec<(OtpChannel, TryStatus)>,
    /// How long after the beginning of a step the next one began.
    pub(crate) failovers: Vec<Duration>,
}
