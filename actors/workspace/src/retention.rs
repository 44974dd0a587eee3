//! Forgetting what is kept for a time only, of workspaces that rest too.
//!
//! The event logs and their indexes are seen to without waking any, each from where it was trimmed
//! up to. For all else, which a workspace's actor forgets, each is woken now and then.

use crate::EventOptions;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::services::Services;
use postrider_domain::{LogEntry, Timestamp, WorkspaceId};
use postrider_store::view::log_chunk::{Head, event_log_prefix};
use postrider_store::view::{event_index, event_log};
use postrider_store::{Change, Direction, StoreError, Table, View};

use crate::mailbox::slot::Slot;
use crate::sweep::{LogSweep, SLICE_MAX, SweepCursor};

/// How often the logs are looked at.
const EVERY: Duration = Duration::from_secs(60);
/// How long after a start those that rest are first woken, and how often then.
const FIRST_WAKE: Duration = Duration::from_secs(600);
const WAKE_EVERY: Duration = Duration::from_secs(12 * 3600);
/// How many are woken with one beat. Each ends with the next one, if it has nothing to do.
const WOKEN_MAX: usize = 20;
/// Most logs that are looked at in one turn.
const LOOKS_MAX: usize = 1_000;

/// Most blocks of a log's index that go in one slice. Each is many small records.
const BLOCKS_MAX: usize = 3;

/// Deletes the oldest parts of all logs, and wakes those that rest, now and then.
#[derive(Debug, Default)]
pub struct Retention {
    /// No log is looked at before this.
    next: Timestamp,
    sweep: Option<JoinHandle<()>>,
    /// None is woken before this.
    next_round: Option<Timestamp>,
    /// Who has not had its turn since then.
    left: Vec<Arc<Slot>>,
    waking: Option<JoinHandle<()>>,
}

impl Retention {
    /// Time has passed: begins to look at the logs if it is time and nobody does, and wakes some.
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

/// Wakes them: with the next beat each forgets what is over, and rests again.
async fn wake(shared: Arc<Services>, resting: Vec<Arc<Slot>>) {
    for slot in resting {
        shared.workspaces.start_and_wait(slot.id.clone()).await;
    }
}

/// Deletes everything that is too old or too much, in parts. After a failure the next one goes on.
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
        // What is not durable may be there still, so the cursors move now.
        for (slot, sweep) in trimmed {
            *slot.log_sweep.lock() = sweep;
        }
    }
}

/// Logs, and how far each is trimmed.
type Trimmed = Vec<(Arc<Slot>, LogSweep)>;

/// Some of the changes that delete what is too old or too much of these workspaces' logs. Takes out
/// those that are done with.
fn slice(
    store: &dyn View,
    left: &mut Vec<Arc<Slot>>,
    options: EventOptions,
    now: Timestamp,
) -> (Vec<Change>, Trimmed) {
    let (mut changes, mut trimmed) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS_MAX {
        let Some(slot) = left.last().filter(|_| changes.len() < SLICE_MAX) else { break };
        let max = SLICE_MAX - changes.len();
        let mut sweep = slot.log_sweep.lock().clone();
        // One that is damaged is for whoever reads it to find.
        let ended = ended(store, &slot.id, &sweep.chunks, options, now, max).unwrap_or_default();
        let blocks = blocks(store, &slot.id, &sweep, ended.oldest_left).unwrap_or_default();
        let is_done = ended.keys.len() < max && blocks.len() < BLOCKS_MAX;
        if let Some(key) = ended.keys.last() {
            sweep.chunks.pass(key);
        }
        if let Some(last) = blocks.last() {
            sweep.blocks = last + 1;
        }
        if !ended.keys.is_empty() || !blocks.is_empty() {
            trimmed.push((Arc::clone(slot), sweep));
        }
        changes.extend(ended.keys.into_iter().map(|key| Change::delete(Table::Events, key)));
        changes.extend(blocks.into_iter().flat_map(|it| event_index::without_block(&slot.id, it)));
        if is_done {
            left.pop();
        }
    }
    (changes, trimmed)
}

/// What goes of a log.
#[derive(Default)]
struct Ended {
    /// The keys of the oldest records.
    keys: Vec<Vec<u8>>,
    /// The first sequence that stays; 0 if that is not known yet.
    oldest_left: u64,
}

/// The oldest records of a log, `max` at the most, that are too old, too many or too large. The
/// newest stays: the next sequence is known by it.
fn ended(
    store: &dyn View,
    workspace: &WorkspaceId,
    cursor: &SweepCursor,
    options: EventOptions,
    now: Timestamp,
    max: usize,
) -> Result<Ended, StoreError> {
    let event_log::End { last, bytes } = event_log::end(store, workspace)?;
    let prefix = event_log_prefix(workspace);
    let from = (!cursor.from.is_empty()).then_some(cursor.from.as_slice());
    let mut ended = Ended::default();
    store.scan(Table::Events, &prefix, from, Direction::Forward, &mut |key, value| {
        let Some((first, head, at)) = measure(&key[prefix.len()..], value) else {
            return ControlFlow::Break(());
        };
        let is_newest = first + u64::from(head.count) > last;
        let too_old = at.plus(options.kept_for) < now;
        let too_many = last + 1 - first > options.kept_max;
        let too_large = bytes.saturating_sub(head.before) > options.kept_bytes_max;
        if is_newest || !(too_old || too_many || too_large) || ended.keys.len() == max {
            ended.oldest_left = first;
            return ControlFlow::Break(());
        }
        ended.keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(ended)
}

/// The next blocks of the log's index, [`BLOCKS_MAX`] at the most, whose events have all gone.
fn blocks(
    store: &dyn View,
    workspace: &WorkspaceId,
    sweep: &LogSweep,
    oldest_left: u64,
) -> Result<Vec<u64>, StoreError> {
    event_index::blocks_before(store, workspace, (sweep.blocks, oldest_left), BLOCKS_MAX)
}

/// The first sequence of a record of the log, its head, and when its first entry was made.
fn measure(key: &[u8], value: &[u8]) -> Option<(u64, Head, Timestamp)> {
    let first = u64::from_be_bytes(key.try_into().ok()?);
    let (head, entries) = Head::decode(value)?;
    let at = LogEntry::decode_all(entries).next()?.ok()?.at;
    Some((first, head, at))
}
