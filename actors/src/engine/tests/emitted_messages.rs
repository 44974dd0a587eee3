//! The events of messages in the log, compared with the messages' records.

use std::collections::{BTreeMap, BTreeSet};

use crate::{EventEntry, MessageState, MessageStatus};
use postrider_domain::{MessageId, PublicEvent};

/// The types of the events of each message, in order.
pub(super) struct EmittedMessages(BTreeMap<MessageId, Vec<&'static str>>);

impl EmittedMessages {
    pub(super) fn of(log: &[EventEntry]) -> Self {
        let mut emitted: BTreeMap<MessageId, Vec<_>> = BTreeMap::new();
        for entry in log {
            if let PublicEvent::Message(step) = &entry.event {
                emitted.entry(step.message_id).or_default().push(step.kind.as_str());
            }
        }
        Self(emitted)
    }

    /// Returns the messages that have events.
    pub(super) fn ids(&self) -> impl Iterator<Item = MessageId> {
        self.0.keys().copied()
    }

    /// Returns the number of events of a type.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.0.values().flatten().filter(|emitted| **emitted == kind).count()
    }

    /// Checks that every acknowledged message has its events. Each comes once, none after a later
    /// one, and none after a failure. The records have the same status.
    pub(super) fn check(&self, acknowledged: &BTreeSet<MessageId>, states: &[MessageState]) {
        let order = [
            "message.queued",
            "message.sent",
            "message.delivered",
            "message.read",
            "message.failed",
        ];
        for (id, emitted) in &self.0 {
            let places: Vec<_> =
                emitted.iter().map(|kind| order.iter().position(|known| known == kind)).collect();
            assert!(places.iter().all(Option::is_some), "{id}: {emitted:?}");
            assert!(places.is_sorted_by(|earlier, later| earlier < later), "{id}: {emitted:?}");
            assert_eq!(emitted[0], "message.queued", "{id}: {emitted:?}");
            let delivered =
                emitted.contains(&"message.delivered") || emitted.contains(&"message.read");
            assert!(!(delivered && emitted.contains(&"message.failed")), "{id}: {emitted:?}");
        }
        assert!(acknowledged.iter().all(|id| self.0.contains_key(id)));
        assert_eq!(states.len(), self.0.len(), "what has events has a record");
        for state in states {
            let emitted = &self.0[&state.message_id];
            let last = emitted.last().unwrap().strip_prefix("message.").unwrap();
            match state.status {
                MessageStatus::Unknown => assert_eq!(last, "queued", "{emitted:?}"),
                status => assert_eq!(last, status.as_str(), "{emitted:?}"),
            }
        }
    }
}
