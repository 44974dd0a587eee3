//! Reading parts of a workspace's event log, forwards and backwards.
//!
//! The index of the log finds events by a name in the filter; behind its end the log is read. For
//! all other conditions a bounded part of the log is read for each page.

use std::collections::HashSet;
use std::ops::ControlFlow;

use postrider_domain::event::subjects::about_hash;
use postrider_domain::{EventId, LogEntry, PublicEvent, WorkspaceId};
use postrider_store::view::event_index::{self, Sought};
use postrider_store::view::event_log::{self, EventEntry};
use postrider_store::{Direction, StoreError, View};
use serde_json::Value;

/// The maximum number of entries that one page looks at.
///
/// With a filter that matches nothing a page would otherwise read the whole log.
pub(crate) const EVENTS_LOOKED_AT_MAX: u64 = 50_000;
/// The number of sequences of one name that are read from the index at a time.
const FOUND_AT_ONCE: usize = 1_000;

/// Entries of a workspace's event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsPage {
    /// The entries, oldest first.
    pub entries: Vec<EventEntry>,
    /// The sequence after which the next page starts: that of the last entry looked at.
    pub next_after: u64,
}

/// Entries of a workspace's event log, backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsBack {
    /// The entries, newest first.
    pub entries: Vec<EventEntry>,
    /// The sequence before which the next page starts; `None`: there are no older entries.
    pub next_before: Option<u64>,
}

/// The conditions for events; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// The types of the events.
    pub types: Option<Vec<String>>,
    /// Texts one of which must be a value in the event's data: an id, or a phone; empty matches
    /// all.
    pub about: Vec<String>,
}

/// A filter prepared for use.
struct ReadyFilter<'a> {
    types: Option<HashSet<&'a str>>,
    about: Vec<(&'a str, memchr::memmem::Finder<'a>)>,
}

impl EventFilter {
    fn ready(&self) -> ReadyFilter<'_> {
        let types = self.types.as_ref().map(|types| types.iter().map(String::as_str).collect());
        let about = self.about.iter().map(|it| (it.as_str(), memchr::memmem::Finder::new(it)));
        ReadyFilter { types, about: about.collect() }
    }
}

impl ReadyFilter<'_> {
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

/// Returns whether a text is one of the values.
fn has_value(data: &Value, text: &str) -> bool {
    match data {
        Value::String(value) => value == text,
        Value::Array(values) => values.iter().any(|value| has_value(value, text)),
        Value::Object(fields) => fields.values().any(|value| has_value(value, text)),
        _ => false,
    }
}

/// A page while it fills.
struct PageFilling<'a> {
    workspace: &'a WorkspaceId,
    filter: ReadyFilter<'a>,
    limit: usize,
    entries: Vec<EventEntry>,
    looked_at: u64,
    /// The last sequence that was looked at.
    last: u64,
    /// Set if there is an entry behind the page.
    more: bool,
}

impl<'a> PageFilling<'a> {
    fn new(workspace: &'a WorkspaceId, filter: &'a EventFilter, limit: usize, last: u64) -> Self {
        let (filter, entries) = (filter.ready(), Vec::new());
        Self { workspace, filter, limit, entries, looked_at: 0, last, more: false }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.looked_at >= EVENTS_LOOKED_AT_MAX
    }

    /// Looks at an entry. Returns whether there is room for another.
    fn add(&mut self, sequence: u64, entry: LogEntry) -> bool {
        (self.last, self.looked_at) = (sequence, self.looked_at + 1);
        if self.filter.takes(&entry.event) {
            self.entries.push(EventEntry::of(self.workspace, sequence, entry));
        }
        !self.is_full()
    }

    /// Looks at an entry if there is room, or else records that there are more.
    fn add_or_note(&mut self, sequence: u64, entry: LogEntry) -> bool {
        self.more = self.is_full();
        if !self.more {
            self.add(sequence, entry);
        }
        !self.more
    }
}

/// The indexed part of a log, and the hashes to find in it.
struct IndexSearch<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    sought: Vec<Sought>,
    through: u64,
}

/// Sequences whose entries may match.
struct IndexHits {
    sequences: Vec<u64>,
    /// The sequence up to which the search is complete.
    complete_to: u64,
}

impl<'a> IndexSearch<'a> {
    /// Returns `None` if the index does not have all of these texts.
    fn of(
        store: &'a dyn View,
        workspace: &'a WorkspaceId,
        about: &[String],
    ) -> Result<Option<Self>, StoreError> {
        let hashes = about.iter().map(|text| about_hash(text).map(Sought::Hash));
        let hashes: Option<Vec<_>> = hashes.collect();
        let Some(mut sought) = hashes.filter(|hashes| !hashes.is_empty()) else { return Ok(None) };
        sought.push(Sought::Crowded);
        // The forms of a phone have one hash.
        sought.sort_unstable();
        sought.dedup();
        let through = event_index::indexed_through(store, workspace)?;
        Ok(Some(Self { store, workspace, sought, through }))
    }

    /// Returns some of the sequences from this one on, in order and each once.
    fn search(&self, from: u64, direction: Direction) -> Result<IndexHits, StoreError> {
        let is_forward = direction == Direction::Forward;
        let mut complete_to = if is_forward { self.through } else { 1 };
        let mut sequences = Vec::new();
        for sought in &self.sought {
            let (own, thing) = (sequences.len(), (self.workspace, *sought));
            event_index::find(self.store, thing, (from, direction), &mut |sequence| {
                sequences.push(sequence);
                match sequences.len() - own < FOUND_AT_ONCE {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            // A partial read does not cover the sequences behind it.
            if let Some(last) = sequences.get(own + FOUND_AT_ONCE - 1) {
                let (one, other) = (complete_to.min(*last), complete_to.max(*last));
                complete_to = if is_forward { one } else { other };
            }
        }
        sequences.retain(|it| if is_forward { *it <= complete_to } else { *it >= complete_to });
        sequences.sort_unstable();
        sequences.dedup();
        if !is_forward {
            sequences.reverse();
        }
        Ok(IndexHits { sequences, complete_to })
    }
}

/// Returns a page of the entries after a sequence.
pub(crate) fn after(
    store: &dyn View,
    id: &WorkspaceId,
    after: u64,
    limit: usize,
    filter: &EventFilter,
) -> Result<EventsPage, StoreError> {
    let mut page = PageFilling::new(id, filter, limit, after);
    if let Some(index) = IndexSearch::of(store, id, &filter.about)? {
        while page.last < index.through && !page.is_full() {
            let found = index.search(page.last + 1, Direction::Forward)?;
            event_log::read_some(store, id, &found.sequences, &mut |sequence, entry| {
                page.add(sequence, entry)
            })?;
            if !page.is_full() {
                page.last = found.complete_to;
            }
        }
    }
    if !page.is_full() {
        let after = page.last;
        event_log::read(store, id, after, &mut |sequence, entry| page.add(sequence, entry))?;
    }
    Ok(EventsPage { entries: page.entries, next_after: page.last })
}

/// Returns a page of the entries before a sequence.
pub(crate) fn before(
    store: &dyn View,
    id: &WorkspaceId,
    before: u64,
    limit: usize,
    filter: &EventFilter,
) -> Result<EventsBack, StoreError> {
    let mut page = PageFilling::new(id, filter, limit, before);
    visit_back(store, id, before, &filter.about, &mut |sequence, entry| {
        page.add_or_note(sequence, entry)
    })?;
    Ok(EventsBack { entries: page.entries, next_before: page.more.then_some(page.last) })
}

/// Visits the entries before a sequence that may be about one of these texts, newest first.
///
/// Without texts it visits all of them. It ends when `visit` returns false. The visitor must
/// compare the entries, and have a bound.
pub(crate) fn visit_back(
    store: &dyn View,
    id: &WorkspaceId,
    before: u64,
    about: &[String],
    visit: &mut dyn FnMut(u64, LogEntry) -> bool,
) -> Result<(), StoreError> {
    let index = IndexSearch::of(store, id, about)?;
    let through = index.as_ref().map_or(0, |index| index.through);
    let mut goes_on = true;
    event_log::read_back(store, id, before, &mut |sequence, entry| {
        if sequence <= through {
            return false;
        }
        goes_on = visit(sequence, entry);
        goes_on
    })?;
    let Some(index) = index else { return Ok(()) };
    let mut to = through.min(before.saturating_sub(1));
    while to > 0 && goes_on {
        let found = index.search(to, Direction::Backward)?;
        event_log::read_some(store, id, &found.sequences, &mut |sequence, entry| {
            goes_on = visit(sequence, entry);
            goes_on
        })?;
        to = found.complete_to - 1;
    }
    Ok(())
}

/// Returns the entry with an id, if it still exists.
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

#[cfg(test)]
mod tests;
