//! Reports of the numbers to the port above them, once that is wired.

use std::sync::{Arc, OnceLock};

use postrider_domain::BroadcastId;

use crate::ports::OutcomeSink;

/// Holds the receiver of what numbers report. It is created before the receiver exists; nothing is
/// reported until then, and no number runs.
#[derive(Default)]
pub(crate) struct Reporter {
    sink: OnceLock<Arc<dyn OutcomeSink>>,
}

impl Reporter {
    /// Connects the receiver; only the first call counts.
    pub(crate) fn wire(&self, sink: Arc<dyn OutcomeSink>) {
        drop(self.sink.set(sink));
    }

    /// The receiver, if it is wired.
    pub(crate) fn sink(&self) -> Option<&dyn OutcomeSink> {
        self.sink.get().map(AsRef::as_ref)
    }

    /// Returns messages of broadcasts that the channel surely did not accept, by broadcast and
    /// recipient.
    pub(crate) fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>) {
        if let (Some(sink), false) = (self.sink(), messages.is_empty()) {
            sink.withdrawn(messages);
        }
    }
}
