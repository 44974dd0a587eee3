//! Sweeps delete what is kept for a time only, a slice at a time, beside the workspace's actor.
//!
//! Each kind of records that end by age has a `SweepCursor`: up to where it is deleted, and when
//! the next record ends. A thread that may block reads a slice from there on. The actor submits its
//! deletions, and the next slice is read once they are durable. So a slice costs what it deletes,
//! whatever was deleted before it, and no command waits for one. Cursors are kept in memory; after
//! a restart the first slice finds its place with one ordered seek.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View, Visit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::settings::MessageOptions;

/// Most records that one slice deletes of most kinds, so that it is a small part of a commit.
pub const SLICE_MAX: usize = 500;
/// Most slices of the engine that are read or on their way to the store at once. All together they
/// stay below a quarter of the bytes that the writer takes into one group.
const SLICES_AT_ONCE: usize = 4;
/// How many kinds of records a workspace's actor deletes by age.
pub(crate) const KINDS: usize = 14;
/// A moment that never comes.
pub(crate) const NEVER: Timestamp = Timestamp::from_millis(u64::MAX);

/// The keys of records that are to be deleted.
pub(crate) type RecordKeys = Vec<(Table, Vec<u8>)>;

/// How long records are kept whose time is a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Broadcasts, after their end.
    pub(crate) broadcasts: Duration,
    /// Messages, and what was written in conversations.
    pub(crate) messages: MessageOptions,
    /// One-time passwords, after their end.
    pub(crate) otps: Duration,
}

/// What a slice is read from.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) store: &'a dyn View,
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) now: Timestamp,
    pub(crate) kept: Kept,
    /// Whether nothing may be deleted because of its age: the clock may be wrong.
    pub(crate) age_rests: bool,
}

impl Look<'_> {
    /// Visits the records whose key starts with `prefix`, in the order of their keys, from the
    /// first at or after `from`, or from the first of all if that is empty.
    pub(crate) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let from = (!from.is_empty()).then_some(from);
        self.store.scan(table, prefix, from, Direction::Forward, visit)
    }
}

/// How far one kind of records is deleted.
#[derive(Debug, Clone, Default)]
pub(crate) struct SweepCursor {
    /// Nothing is left to delete before this key; empty before the first slice.
    pub(crate) from: Vec<u8>,
    /// The same among the parts of the record at `from`, where it has parts.
    pub(crate) within: Vec<u8>,
    /// The first record that was passed over because it cannot go yet.
    passed_over: Option<Vec<u8>>,
    /// Nothing ends before this.
    next: Timestamp,
}

impl SweepCursor {
    /// Whether something may have ended.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next <= now
    }

    /// Notes that the record with this key goes, and that nothing is left before it.
    pub(crate) fn pass(&mut self, key: &[u8]) {
        self.from = after(key);
        self.within.clear();
    }

    /// Notes that the record with this key stays for now: the next round begins with the first of
    /// those.
    pub(crate) fn pass_over(&mut self, key: &[u8]) {
        self.passed_over.get_or_insert_with(|| key.to_vec());
        self.pass(key);
    }

    /// Notes that nothing more ends before `next`, when the next round begins.
    pub(crate) fn rest_until(&mut self, next: Timestamp) {
        self.next = next;
        if let Some(first) = self.passed_over.take() {
            self.from = first;
        }
    }

    /// Notes that nothing can be read now, and that this is tried again at `next`.
    pub(crate) fn postpone(&mut self, next: Timestamp) {
        self.next = next;
    }

    /// Notes that a record was written, which may be one that the cursor would not come to.
    pub(crate) fn written(&mut self, key: &[u8]) {
        if key < self.from.as_slice() {
            self.from = key.to_vec();
            self.within.clear();
            self.next = Timestamp::default();
        }
    }
}

/// How far an event log is deleted.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogSweep {
    /// Its chunks.
    pub(crate) chunks: SweepCursor,
    /// The blocks of its index: those before this one.
    pub(crate) blocks: u64,
}

/// The least key after this one.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// How far each kind of a workspace's records is deleted.
#[derive(Debug, Clone, Default)]
pub struct SweepCursors {
    /// The kind whose turn it is, so that a kind with much to delete does not hold up the others.
    pub(crate) turn: usize,
    pub(crate) of: [SweepCursor; KINDS],
}

impl SweepCursors {
    /// Whether something may have ended.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.of.iter().any(|cursor| cursor.is_due(now))
    }
}

/// One step of a workspace's sweep, as a message of its actor.
#[derive(Debug)]
pub enum SweepStep {
    /// A slice may be read now.
    Turn(OwnedSemaphorePermit),
    /// A slice was read; `None` if reading it panicked.
    Read(Option<Box<SweepSlice>>, OwnedSemaphorePermit),
}

/// What a slice deletes, and where the next one begins once it has.
#[derive(Debug)]
pub struct SweepSlice {
    pub(crate) keys: RecordKeys,
    pub(crate) cursors: SweepCursors,
}

/// Hands out turns to the sweeps of all workspaces, in the order in which they ask.
#[derive(Debug, Clone)]
pub struct SweepTurns(Arc<Semaphore>);

impl Default for SweepTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SLICES_AT_ONCE)))
    }
}

impl SweepTurns {
    /// Waits for a turn. It lasts until the slice is durable, when what is returned is dropped.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore, so there always is one in the end.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// Collects up to [`SLICE_MAX`] keys of a range while `is_over` says so of them. Returns them, and
/// whether there may be more.
pub(crate) fn while_over(
    look: &Look<'_>,
    (table, prefix): (Table, &[u8]),
    from: &[u8],
    is_over: impl Fn(&[u8]) -> bool,
) -> Result<(RecordKeys, bool), StoreError> {
    let (mut keys, mut more) = (Vec::new(), false);
    look.scan(table, prefix, from, &mut |key, _| {
        more = keys.len() == SLICE_MAX;
        if more || !is_over(&key[prefix.len()..]) {
            return ControlFlow::Break(());
        }
        keys.push((table, key.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok((keys, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_with_what_was_passed_over_and_a_late_record_is_come_to() {
        let mut cursor = SweepCursor::default();
        let at = Timestamp::from_millis;
        assert!(cursor.is_due(at(0)), "the first look is at once");
        cursor.pass(b"b");
        cursor.pass_over(b"c");
        cursor.pass_over(b"d");
        cursor.pass(b"e");
        assert_eq!(cursor.from, b"e\0");
        cursor.rest_until(at(9));
        assert_eq!((cursor.from.as_slice(), cursor.is_due(at(8))), (&b"c"[..], false));
        cursor.written(b"d");
        assert!(!cursor.is_due(at(8)), "it would be come to anyway");
        cursor.within = vec![1];
        cursor.written(b"a");
        assert_eq!((cursor.from.as_slice(), cursor.within.len()), (&b"a"[..], 0));
        assert!(cursor.is_due(at(0)));
    }
}
