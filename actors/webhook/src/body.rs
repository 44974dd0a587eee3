//! Pure: the JSON body of a delivery, which has the same objects as the event log.

use serde::Serialize;
use sha2::{Digest, Sha256};

use postrider_domain::EventId;
use postrider_domain::event::EventPayload;
use postrider_store::EventEntry;
use postrider_store::view::codec::encode;

/// The kind of a batch, in place of an event type.
pub(super) const BATCH: &str = "batch";

/// An event as it is delivered.
#[derive(Debug, Serialize)]
struct EventBody {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    sequence: u64,
    data: EventPayload,
}

impl From<&EventEntry> for EventBody {
    fn from(entry: &EventEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            kind: entry.event.kind(),
            timestamp: entry.at.to_string(),
            sequence: entry.sequence,
            data: entry.event.payload(),
        }
    }
}

/// The JSON of one event.
pub(crate) fn single(entry: &EventEntry) -> Vec<u8> {
    encode(&EventBody::from(entry))
}

/// Returns the JSON array of several events.
pub(crate) fn batch(entries: &[EventEntry]) -> Vec<u8> {
    encode(&entries.iter().map(EventBody::from).collect::<Vec<_>>())
}

/// Returns the id of a batch, derived from its events; `None` if there are no events.
///
/// So a receiver that has seen the id has seen all of them.
pub(super) fn batch_id(entries: &[EventEntry]) -> Option<EventId> {
    let first = entries.first()?;
    let mut hash = Sha256::new();
    for entry in entries {
        hash.update(entry.id.as_bytes());
    }
    let (unique, _) =
        hash.finalize().as_slice().split_first_chunk::<16>().map(|(a, b)| (*a, b.len()))?;
    Some(EventId::from_parts(first.at, u128::from_be_bytes(unique)))
}
