//! Reading parts of a workspace's event log, forwards and backwards.

use std::collections::HashSet;

use postrider_domain::{EventId, LogEntry, PublicEvent, WorkspaceId};
use postrider_store::view::event_log::{self, EventEntry};
use postrider_store::{StoreError, View};
use serde_json::Value;

/// Most entries that one page looks at: with a filter that matches nothing a page would otherwise
/// read the whole log.
pub(crate) const EVENTS_LOOKED_AT_MAX: u64 = 50_000;

/// Entries of a workspace's event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsPage {
    /// In order, oldest first.
    pub entries: Vec<EventEntry>,
    /// The sequence to go on after: that of the last entry that was looked at.
    pub next_after: u64,
}

/// Entries of a workspace's event log, backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsBack {
    /// Newest first.
    pub entries: Vec<EventEntry>,
    /// The sequence to go on before; `None`: there are no older ones.
    pub next_before: Option<u64>,
}

/// Which events are asked for; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Those of these types.
    pub types: Option<Vec<String>>,
    /// Those in whose data one of these texts is a value: an id, or a phone; empty is all.
    pub about: Vec<String>,
}

/// A filter that is ready to be asked.
struct Ready<'a> {
    types: Option<HashSet<&'a str>>,
    about: Vec<(&'a str, memchr::memmem::Finder<'a>)>,
}

impl EventFilter {
    fn ready(&self) -> Ready<'_> {
        let types = self.types.as_ref().map(|types| types.iter().map(String::as_str).collect());
        let about = self.about.iter().map(|it| (it.as_str(), memchr::memmem::Finder::new(it)));
        Ready { types, about: about.collect() }
    }
}

impl Ready<'_> {
    fn takes(&self, event: &PublicEvent) -> bool {
        self.types.as_ref().is_none_or(|types| types.contains(event.kind()))
            && (self.about.is_empty() || self.is_about(event))
    }

    fn is_about(&self, event: &PublicEvent) -> bool {
        self.about.iter().any(|(text, finder)| match event {
            // Most are recognized by their text, without a tree of values.
            PublicEvent::Other { data, .. } if finder.find(data.as_bytes()).is_none() => false,
            PublicEvent::Message(step) if !step.may_have(text) => false,
            event => has_value(&event.data(), text),
        })
    }
}

/// Whether a text is one of the values.
fn has_value(data: &Value, text: &str) -> bool {
    match data {
        Value::String(value) => value == text,
        Value::Array(values) => values.iter().any(|value| has_value(value, text)),
        Value::Object(fields) => fields.values().any(|value| has_value(value, text)),
        _ => false,
    }
}

/// A page of the entries after a sequence.
pub(crate) fn after(
    store: &dyn View,
    id: &WorkspaceId,
    after: u64,
    limit: usize,
    filter: &EventFilter,
) -> Result<EventsPage, StoreError> {
    let (mut page, filter) =
        (EventsPage { entries: Vec::new(), next_after: after }, filter.ready());
    event_log::read(store, id, after, &mut |sequence, entry| {
        page.next_after = sequence;
        if filter.takes(&entry.event) {
            page.entries.push(EventEntry::of(id, sequence, entry));
        }
        page.entries.len() < limit && sequence - after < EVENTS_LOOKED_AT_MAX
    })?;
    Ok(page)
}

/// A page of the entries before a sequence.
pub(crate) fn before(
    store: &dyn View,
    id: &WorkspaceId,
    before: u64,
    limit: usize,
    filter: &EventFilter,
) -> Result<EventsBack, StoreError> {
    let (mut entries, mut next_before, mut looked_at) = (Vec::new(), None, 0);
    let (filter, mut last) = (filter.ready(), before);
    event_log::read_back(store, id, before, &mut |sequence, entry| {
        // Only an entry that is there begins another page.
        if entries.len() == limit || looked_at == EVENTS_LOOKED_AT_MAX {
            next_before = Some(last);
            return false;
        }
        (last, looked_at) = (sequence, looked_at + 1);
        if filter.takes(&entry.event) {
            entries.push(EventEntry::of(id, sequence, entry));
        }
        true
    })?;
    Ok(EventsBack { entries, next_before })
}

/// The entry of an id, if it is still there.
pub(crate) fn one(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: EventId,
) -> Result<Option<EventEntry>, StoreError> {
    let (sequence, mut found) = (LogEntry::sequence_of(id), None);
    if sequence > 0 {
        event_log::read(store, workspace, sequence - 1, &mut |at, entry| {
            let entry = EventEntry::of(workspace, at, entry);
            found = Some(entry).filter(|entry| entry.id == id);
            false
        })?;
    }
    Ok(found)
}
