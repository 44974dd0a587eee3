//! The event log as a file, one event a line.

use postrider_actors::{EventEntry, EventFilter, Unavailable, Workspace};

use super::EventRow;
use crate::http::streamed::Parts;

/// The number of events that are read at a time.
const PART_EVENTS: usize = 1000;

/// The position in the file at which the next part starts.
pub(super) enum EventLines {
    /// Oldest first: the events after `after`, up to and including `end`.
    Ascending {
        filter: EventFilter,
        after: u64,
        end: u64,
    },
    /// Newest first: the events before `before`; `None` starts at the newest.
    Descending {
        filter: EventFilter,
        before: Option<u64>,
    },
    Over,
}

impl Parts for EventLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        match self {
            Self::Ascending { filter, after, end } => {
                let page = workspace.events_that(*after, PART_EVENTS, filter.clone()).await?;
                let is_over = page.next_after == *after || page.next_after >= *end;
                // Events that were added in the meantime are left for the next file.
                let entries = page.entries.into_iter().filter(|entry| entry.sequence <= *end);
                let part = lines(entries);
                *after = page.next_after;
                if is_over {
                    *self = Self::Over;
                }
                Ok(Some(part))
            }
            Self::Descending { filter, before } => {
                let page = workspace.events_back(*before, PART_EVENTS, filter.clone()).await?;
                *before = page.next_before;
                if before.is_none() {
                    *self = Self::Over;
                }
                Ok(Some(lines(page.entries.into_iter())))
            }
            Self::Over => Ok(None),
        }
    }
}

fn lines(entries: impl Iterator<Item = EventEntry>) -> Vec<u8> {
    let mut lines = Vec::new();
    for entry in entries {
        // A struct of texts and numbers always has a JSON form, and that has no line break.
        lines.extend(serde_json::to_vec(&EventRow::from(entry)).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}
