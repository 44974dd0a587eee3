//! Deletion of records with a limited retention, also of resting workspaces.
//!
//! The event logs and their indexes are trimmed without waking a workspace, each from the position
//! that it was trimmed to. All else is deleted by a workspace's actor, so each workspace is woken
//! now and then.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::core::settings::EventOptions;
use crate::services::Services;
use postrider_domain::{LogEntry, Timestamp, WorkspaceId};
use postrider_store::view::log_chunk::{Head, event_log_prefix};
use postrider_store::view::{event_index, event_log};
use postrider_store::{Change, Direction, StoreError, Table, View};

use crate::mailbox::slot::Slot;
use crate::sweep::{LogSweep, SLICE_MAX, SweepCursor};

/// The time between two rounds over the logs.
const EVERY: Duration = Duration::from_secs(60);
/// The time until resting workspaces are first woken after a start, and then between two rounds.
const FIRST_WAKE: Duration = Duration::from_secs(600);
const WAKE_EVERY: Duration = Duration::from_secs(12 * 3600);
/// The number of workspaces that one beat wakes. Each ends with the next beat if it is idle.
const WOKEN_MAX: usize = 20;
/// The maximum number of logs that are looked at in one turn.
const LOOKS_MAX: usize = 1_000;

/// The maximum number of blocks of a log's index that one slice deletes.
///
/// Each is many small records.
const BLOCKS_MAX: usize = 3;

/// Deletes the oldest parts of all logs, and wakes resting workspaces now and then.
#[derive(Debug, Default)]
pub struct Retention {
    /// The time of the next round over the logs.
    next: Timestamp,
    sweep: Option<JoinHandle<()>>,
    /// The time of the next round of wakes.
    next_round: Option<Timestamp>,
    /// The workspaces that have not had their turn since then.
    left: Vec<Arc<Slot>>,
    waking: Option<JoinHandle<()>>,
}

impl Retention {
    /// Starts to look at the logs at a beat if it is time and no task runs, and wakes some
    /// workspaces.
    pub fn beat(&mut self, shared: &Arc<Services>) {
        let now = shared.clock.now();
        if now >= self.next && !runs(self.sweep.as_ref()) {
            self.next = now.plus(EVERY);
            self.sweep = Some(tokio::spawn(sweep(Arc::clone(shared), now)));
        }
        if now >= *self.next_round.get_or_insert(now.plus(FIRST_WAKE)) && self.left.is_empty() {
            self.next_round = Some(now.plus(WAKE_EVERY));
            self.left = shared.workspaces.slots();
        }
        if !self.left.is_empty() && !runs(self.waking.as_ref()) && shared.writer.is_healthy() {
            let rests = |slot: &Arc<Slot>| slot.is_idle();
            let resting = std::iter::from_fn(|| self.left.pop()).filter(rests);
            let woken: Vec<_> = resting.take(WOKEN_MAX).collect();
            self.waking = Some(tokio::spawn(wake(Arc::clone(shared), woken)));
        }
    }
}

fn runs(task: Option<&JoinHandle<()>>) -> bool {
    task.is_some_and(|task| !task.is_finished())
}

/// Wakes workspaces: with the next beat each deletes its ended records, and rests again.
async fn wake(shared: Arc<Services>, resting: Vec<Arc<Slot>>) {
    for slot in resting {
        shared.workspaces.start_and_wait(slot.id.clone()).await;
    }
}

/// Deletes everything that is too old or too much, in parts. After a failure the next run
/// continues.
async fn sweep(shared: Arc<Services>, now: Timestamp) {
    let mut options = shared.events;
    if shared.clock.deletion_rests() {
        options.kept_for = Duration::MAX;
    }
    let mut left = shared.workspaces.slots();
    while !left.is_empty() {
        let Some(_turn) = shared.sweep_turns.take().await else { return };
        let store = Arc::clone(&shared.store);
        let scan = move || {
            let slice = slice(store.as_ref(), &mut left, options, now);
            (slice, left)
        };
        let Ok(((changes, trimmed), rest)) = tokio::task::spawn_blocking(scan).await else {
            return;
        };
        left = rest;
        if !changes.is_empty() && shared.writer.commit(changes).await.is_err() {
            return;
        }
        // Deletions that are not durable may be lost, so the cursors move now.
        for (slot, sweep) in trimmed {
            *slot.log_sweep.lock() = sweep;
        }
    }
}

/// Logs, and the progress of trimming of each.
type TrimmedLogs = Vec<(Arc<Slot>, LogSweep)>;

/// Returns some changes that delete the excess of these workspaces' logs.
///
/// Removes the logs that are done from `left`.
fn slice(
    store: &dyn View,
    left: &mut Vec<Arc<Slot>>,
    options: EventOptions,
    now: Timestamp,
) -> (Vec<Change>, TrimmedLogs) {
    let (mut changes, mut trimmed) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS_MAX {
        let Some(slot) = left.last().filter(|_| changes.len() < SLICE_MAX) else { break };
        let max = SLICE_MAX - changes.len();
        let mut sweep = slot.log_sweep.lock().clone();
        // The readers of a damaged log get the error.
        let old_entries =
            old_entries(store, &slot.id, &sweep.chunks, options, now, max).unwrap_or_default();
        let old_blocks =
            old_blocks(store, &slot.id, &sweep, old_entries.oldest_left).unwrap_or_default();
        let is_done = old_entries.keys.len() < max && old_blocks.len() < BLOCKS_MAX;
        if let Some(key) = old_entries.keys.last() {
            sweep.chunks.pass(key);
        }
        if let Some(last) = old_blocks.last() {
            sweep.blocks = last + 1;
        }
        if !old_entries.keys.is_empty() || !old_blocks.is_empty() {
            trimmed.push((Arc::clone(slot), sweep));
        }
        changes.extend(old_entries.keys.into_iter().map(|key| Change::delete(Table::Events, key)));
        changes
            .extend(old_blocks.into_iter().flat_map(|it| event_index::without_block(&slot.id, it)));
        if is_done {
            left.pop();
        }
    }
    (changes, trimmed)
}

/// The part of a log to delete.
#[derive(Default)]
struct OldEntries {
    /// The keys of the oldest records.
    keys: Vec<Vec<u8>>,
    /// The first sequence that stays; 0 if that is not known yet.
    oldest_left: u64,
}

/// Returns the oldest records of a log, at most `max`, that are too old, too many or too large.
///
/// The newest stays: it determines the next sequence.
fn old_entries(
    store: &dyn View,
    workspace: &WorkspaceId,
    cursor: &SweepCursor,
    options: EventOptions,
    now: Timestamp,
    max: usize,
) -> Result<OldEntries, StoreError> {
    let event_log::End { last, bytes } = event_log::end(store, workspace)?;
    let prefix = event_log_prefix(workspace);
    let from = (!cursor.from.is_empty()).then_some(cursor.from.as_slice());
    let mut old_entries = OldEntries::default();
    store.scan(Table::Events, &prefix, from, Direction::Forward, &mut |key, value| {
        let Some((first, head, at)) = measure(&key[prefix.len()..], value) else {
            return ControlFlow::Break(());
        };
        let is_newest = first + u64::from(head.count) > last;
        let too_old = at.plus(options.kept_for) < now;
        let too_many = last + 1 - first > options.kept_max;
        let too_large = bytes.saturating_sub(head.before) > options.kept_bytes_max;
        if is_newest || !(too_old || too_many || too_large) || old_entries.keys.len() == max {
            old_entries.oldest_left = first;
            return ControlFlow::Break(());
        }
        old_entries.keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(old_entries)
}

/// Returns the next blocks of the log's index, at most [`BLOCKS_MAX`], whose events are all
/// deleted.
fn old_blocks(
    store: &dyn View,
    workspace: &WorkspaceId,
    sweep: &LogSweep,
    oldest_left: u64,
) -> Result<Vec<u64>, StoreError> {
    event_index::blocks_before(store, workspace, (sweep.blocks, oldest_left), BLOCKS_MAX)
}

/// Returns the first sequence of a record of the log, its head, and the time of its first entry.
fn measure(key: &[u8], value: &[u8]) -> Option<(u64, Head, Timestamp)> {
    let first = u64::from_be_bytes(key.try_into().ok()?);
    let (head, entries) = Head::decode(value)?;
    let at = LogEntry::decode_all(entries).next()?.ok()?.at;
    Some((first, head, at))
}
