//! What the log tells of messages, and whether that is what their records say.

use std::collections::{BTreeMap, BTreeSet};

use crate::{EventEntry, MessageState, MessageStatus};
use postrider_domain::{MessageId, PublicEvent};

/// The types of the events of each message, in order.
pub(super) struct ToldMessages(BTreeMap<MessageId, Vec<&'static str>>);

impl ToldMessages {
    pub(super) fn of(log: &[EventEntry]) -> Self {
        let mut told: BTreeMap<MessageId, Vec<_>> = BTreeMap::new();
        for entry in log {
            if let PublicEvent::Other { kind, data } = &entry.event {
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                let id = data["message_id"].as_str().unwrap().parse().unwrap();
                told.entry(id).or_default().push(kind.as_str());
            }
        }
        Self(told)
    }

    /// The messages that are told of.
    pub(super) fn ids(&self) -> impl Iterator<Item = MessageId> {
        self.0.keys().copied()
    }

    /// How many events of a type there are.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.0.values().flatten().filter(|told| **told == kind).count()
    }

    /// Every acknowledged message is told of; each event comes once, none after a later one, and
    /// none after a failure; and the records say how far each has come.
    pub(super) fn check(&self, acknowledged: &BTreeSet<MessageId>, states: &[MessageState]) {
        let order = [
            "message.queued",
            "message.sent",
            "message.delivered",
            "message.read",
            "message.failed",
        ];
        for (id, told) in &self.0 {
            let places: Vec<_> =
                told.iter().map(|kind| order.iter().position(|known| known == kind)).collect();
            assert!(places.iter().all(Option::is_some), "{id}: {told:?}");
            assert!(places.is_sorted_by(|earlier, later| earlier < later), "{id}: {told:?}");
            assert_eq!(told[0], "message.queued", "{id}: {told:?}");
            let delivered = told.contains(&"message.delivered") || told.contains(&"message.read");
            assert!(!(delivered && told.contains(&"message.failed")), "{id}: {told:?}");
        }
        assert!(acknowledged.iter().all(|id| self.0.contains_key(id)));
        assert_eq!(states.len(), self.0.len(), "what is told of has a record");
        for state in states {
            let told = &self.0[&state.message_id];
            let last = told.last().unwrap().strip_prefix("message.").unwrap();
            match state.status {
                MessageStatus::Unknown => assert_eq!(last, "queued", "{told:?}"),
                status => assert_eq!(last, status.as_str(), "{told:?}"),
            }
        }
    }
}
