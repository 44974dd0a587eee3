//! Reports of the numbers to the port above them, once it is wired.

use std::sync::{Arc, OnceLock};

use postrider_domain::BroadcastId;

use crate::ports::OutcomeSink;

/// Holds the receiver of numbers' reports. It is created before the receiver exists; until then
/// numbers report nothing, and none runs.
#[derive(Default)]
pub(crate) struct Reporter {
    sink: OnceLock<Arc<dyn OutcomeSink>>,
}

impl Reporter {
    /// Connects the receiver; only the first call counts.
    pub(crate) fn wire(&self, sink: Arc<dyn OutcomeSink>) {
        drop(self.sink.set(sink));
    }

    /// Returns the receiver, if it is wired.
    pub(crate) fn sink(&self) -> Option<&dyn OutcomeSink> {
        self.sink.get().map(AsRef::as_ref)
    }

    /// Returns messages of broadcasts, by broadcast and recipient, to the receiver. The channel
    /// certainly did not accept them.
    pub(crate) fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>) {
        if let (Some(sink), false) = (self.sink(), messages.is_empty()) {
            sink.withdrawn(messages);
        }
    }
}
