//! Sweeps delete records with a limited retention in slices, beside the workspace's actor.
//!
//! Each kind of records that end by age has a `SweepCursor`. It holds the position up to which they
//! are deleted, and the end of the next record. A thread that may block reads a slice from there
//! on. The actor submits its deletions, and the next slice is read once they are durable. So a
//! slice's cost depends only on its own deletions, and no command waits for one. Cursors are kept
//! in memory; after a restart the first slice finds its place with one ordered seek.
//!
//! Event logs are trimmed by their own options, beside the actors.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View, Visit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::settings::MessageOptions;

/// The maximum number of records that one slice deletes of most kinds.
///
/// It makes a slice a small part of a commit.
pub const SLICE_MAX: usize = 500;
/// The maximum number of the engine's slices that are read or committed at once.
///
/// All together they stay below a quarter of the bytes that the writer accepts into one group.
const SLICES_AT_ONCE: usize = 4;
/// The number of kinds of records that a workspace's actor deletes by age.
pub(crate) const KINDS: usize = 15;
/// A moment that never comes.
pub(crate) const NEVER: Timestamp = Timestamp::from_millis(u64::MAX);

/// The keys of records to delete.
pub(crate) type RecordKeys = Vec<(Table, Vec<u8>)>;

/// The retention of records for which it is a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionTimes {
    /// Broadcasts, after their end.
    pub(crate) broadcasts: Duration,
    /// Messages, also those in conversations.
    pub(crate) messages: MessageOptions,
    /// One-time passwords, after their end.
    pub(crate) otps: Duration,
}

/// The sources of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) store: &'a dyn View,
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) now: Timestamp,
    pub(crate) kept: RetentionTimes,
    /// Set if nothing may be deleted because of its age: the clock may be wrong.
    pub(crate) age_rests: bool,
}

impl Look<'_> {
    /// Visits the records whose key starts with `prefix`, in the order of their keys.
    ///
    /// It starts at the first one at or after `from`, or at the first of all if that is empty.
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

/// The progress of the deletion of one kind of records.
#[derive(Debug, Clone, Default)]
pub(crate) struct SweepCursor {
    /// The key before which nothing is left to delete; empty before the first slice.
    pub(crate) from: Vec<u8>,
    /// The position among the parts of the record at `from`, if it has parts.
    pub(crate) within: Vec<u8>,
    /// The first record that was passed over because it cannot be deleted yet.
    passed_over: Option<Vec<u8>>,
    /// The time before which nothing ends.
    next: Timestamp,
}

impl SweepCursor {
    /// Returns whether records may have ended.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next <= now
    }

    /// Records that the record with this key is deleted, and that nothing is left before it.
    pub(crate) fn pass(&mut self, key: &[u8]) {
        self.from = after(key);
        self.within.clear();
    }

    /// Records that the record with this key stays for now.
    ///
    /// The next round starts with the first of these.
    pub(crate) fn pass_over(&mut self, key: &[u8]) {
        self.passed_over.get_or_insert_with(|| key.to_vec());
        self.pass(key);
    }

    /// Records that nothing more ends before `next`, when the next round starts.
    pub(crate) fn rest_until(&mut self, next: Timestamp) {
        self.next = next;
        if let Some(first) = self.passed_over.take() {
            self.from = first;
        }
    }

    /// Records that nothing can be read now, and that this is tried again at `next`.
    pub(crate) fn postpone(&mut self, next: Timestamp) {
        self.next = next;
    }

    /// Records that a record was written, which the cursor might not reach.
    pub(crate) fn written(&mut self, key: &[u8]) {
        if key < self.from.as_slice() {
            self.from = key.to_vec();
            self.within.clear();
            self.next = Timestamp::default();
        }
    }
}

/// The progress of the deletion of an event log.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogSweep {
    /// The progress in its chunks.
    pub(crate) chunks: SweepCursor,
    /// The first block of its index that is not deleted.
    pub(crate) blocks: u64,
}

/// Returns the least key after this one.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The progress of the deletion of each kind of a workspace's records.
#[derive(Debug, Clone, Default)]
pub struct SweepCursors {
    /// The kind whose turn it is, so that a kind with much to delete does not hold up the others.
    pub(crate) turn: usize,
    pub(crate) of: [SweepCursor; KINDS],
}

impl SweepCursors {
    /// Returns whether records may have ended.
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

/// The deletions of a slice, and the cursors of the next one after it.
#[derive(Debug)]
pub struct SweepSlice {
    pub(crate) keys: RecordKeys,
    pub(crate) cursors: SweepCursors,
}

/// Hands out turns to the sweeps of all workspaces, in the order of their requests.
#[derive(Debug, Clone)]
pub struct SweepTurns(Arc<Semaphore>);

impl Default for SweepTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SLICES_AT_ONCE)))
    }
}

impl SweepTurns {
    /// Waits for a turn. It lasts until the slice is durable and the returned permit is dropped.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so a permit always arrives.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// Collects up to [`SLICE_MAX`] keys of a range while `is_over` accepts them.
///
/// Returns them, and whether there may be more.
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
