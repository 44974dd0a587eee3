//! The writer's thread takes groups, commits them and notifies their callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use postrider_domain::Timestamp;
use tracing::{error, info, warn};

use super::staging::{Mode, Queue, Sleep, StagedGroup};
use super::{CommitError, LAST_MOMENT, Moments, Shared, WriterOptions, encode_moment, last_moment};
use crate::audit_chain::{self, AuditMark};
use crate::{Frame, Group, Position, Store, StoreError, Table, usage};

/// The first and the longest delay before a failed store is opened again.
const REOPEN_DELAY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The longest time that a deferrable batch waits for others to share an fsync.
const DEFER_MAX: Duration = Duration::from_millis(5);

/// The number of times that the thread yields to callers before it takes a group.
const YIELDS_MAX: usize = 16;

/// The state that the thread owns.
pub(super) struct Worker {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    epoch: u64,
    last: Position,
    /// The end of the audit log. Only this thread adds to it, so that it is one chain.
    audit_end: AuditMark,
    /// The group that is being committed. It is not on the stack, so that it can be failed after a
    /// panic.
    current: Option<StagedGroup>,
    frame: Frame,
    key: Vec<u8>,
    /// Returns the moment that is stored with a commit.
    moments: Option<Moments>,
}

impl Worker {
    pub(super) fn open(
        store: Arc<dyn Store>,
        options: WriterOptions,
        moments: Option<Moments>,
    ) -> Result<(Self, Arc<Shared>), StoreError> {
        let last_moment = last_moment(store.as_ref())?.unwrap_or_default();
        let (epoch, _) = store.begin_epoch()?;
        let audit_end = audit_chain::head(store.as_ref())?;
        let last = store.last_position()?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(options.queued_bytes_max)),
            wake: Condvar::new(),
            has_room: AtomicBool::new(true),
            healthy: AtomicBool::new(true),
            last_position: AtomicU64::new(last.0),
            last_moment: AtomicU64::new(last_moment.as_millis()),
            groups: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let frame = Frame { epoch, number: last, sections: Vec::new() };
        let worker = Self {
            shared: shared.clone(),
            store,
            epoch,
            last,
            audit_end,
            current: None,
            frame,
            key: Vec::new(),
            moments,
        };
        Ok((worker, shared))
    }

    /// Runs until it is stopped or something panics.
    ///
    /// In both cases every waiting caller is notified.
    pub(super) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            while self.take_group() {
                if let Err(error) = self.commit_group()
                    && !self.recover(error)
                {
                    break;
                }
            }
        }));
        if ended.is_err() {
            error!("the store's writer panicked; nothing is accepted any more");
        }
        let was_healthy = self.shared.healthy.load(Ordering::Acquire);
        self.fail_everything(Mode::Closed, &CommitError::Closed);
        if was_healthy
            && ended.is_ok()
            && let Err(error) = self.store.close()
        {
            warn!(%error, "the clean stop was not marked; the next start takes longer");
        }
    }

    /// Waits for a group and takes it. Returns `false` when the thread must end.
    fn take_group(&mut self) -> bool {
        let done = self.current.take().map(|mut group| {
            let bytes = group.bytes;
            group.recycle(&mut self.frame);
            (group, bytes)
        });
        let mut queue = self.shared.queue.lock();
        if let Some((group, bytes)) = done {
            queue.queued_bytes -= bytes;
            self.shared.note_room(&queue);
            queue.give_back(group);
        }
        let (mut waited, mut rested) = (false, false);
        loop {
            // Callers that the previous group released are about to submit again. While batches
            // keep arriving, the thread yields to them, so that they share this group.
            let mut staged = queue.urgent_bytes();
            for _ in 0..YIELDS_MAX {
                if staged == 0 || queue.stopping {
                    break;
                }
                drop(queue);
                std::thread::yield_now();
                queue = self.shared.queue.lock();
                let now = queue.urgent_bytes();
                if now == staged {
                    break;
                }
                staged = now;
            }
            if let Some(group) = queue.next(waited) {
                self.current = Some(group);
                return true;
            }
            if queue.stopping {
                return false;
            }
            // The batches after a commit are often deferrable, such as the outcomes of messages
            // that it released. A timed wait saves them the cost of waking the thread.
            if rested && queue.groups.is_empty() {
                queue.sleep = Sleep::Soundly;
                self.shared.wake.wait(&mut queue);
            } else {
                queue.sleep = Sleep::Lightly;
                waited = self.shared.wake.wait_for(&mut queue, DEFER_MAX).timed_out();
                rested = true;
            }
            queue.sleep = Sleep::Not;
        }
    }

    /// Commits the current group and notifies its callers.
    fn commit_group(&mut self) -> Result<(), StoreError> {
        let Some(group) = &mut self.current else { return Ok(()) };
        (self.frame.epoch, self.frame.number) = (self.epoch, self.last.next());
        let has_events = group.seal(&mut self.frame, &mut self.key);
        let audit_end = group.changes.link_audit(&self.audit_end);
        for (key, value) in usage::changed_counts(self.store.as_ref(), group.changes.live())? {
            group.changes.upsert(Table::Meta, &key, value.as_deref());
        }
        if has_events || !group.changes.live().is_empty() {
            let now = self.moments.as_ref().map(|moments| moments());
            if let Some(now) = now {
                group.changes.upsert(Table::Meta, LAST_MOMENT, Some(&encode_moment(now)));
            }
            let frame = has_events.then_some(&self.frame);
            let time_ms = now.map_or(0, Timestamp::as_millis);
            let changes = group.changes.live();
            self.last = self.store.commit(Group { frame, changes, time_ms })?;
            self.shared.last_position.store(self.last.0, Ordering::Release);
            self.shared.groups.fetch_add(1, Ordering::Relaxed);
            if let Some(now) = now {
                self.shared.last_moment.store(now.as_millis(), Ordering::Release);
            }
        }
        if let Some(end) = audit_end {
            self.audit_end = end;
        }
        self.shared.batches.fetch_add(group.batches, Ordering::Relaxed);
        self.shared.bytes.fetch_add(group.bytes as u64, Ordering::Relaxed);
        settle(group, &Ok(()));
        Ok(())
    }

    /// Fails the current group and all groups behind it, because they build on its state.
    fn fail_everything(&mut self, mode: Mode, error: &CommitError) {
        self.shared.healthy.store(false, Ordering::Release);
        let mut failed: Vec<_> = self.current.take().into_iter().collect();
        {
            let mut queue = self.shared.queue.lock();
            queue.mode = mode;
            failed.extend(queue.groups.drain(..));
            queue.queued_bytes = 0;
            self.shared.note_room(&queue);
            queue.urgent = false;
            // This happens under the lock, so that no owner submits a batch after the store is open
            // again and before it was notified of the failure.
            for section in failed.iter().flat_map(|group| &group.sections) {
                section.owner.failed.store(true, Ordering::Relaxed);
            }
        }
        self.frame.sections.clear();
        for group in &mut failed {
            settle(group, &Err(error.clone()));
        }
    }

    /// Opens the store again after a failed commit, and retries with backoff.
    ///
    /// Returns `false` if the writer is stopped first.
    fn recover(&mut self, error: StoreError) -> bool {
        error!(%error, "a commit failed; nothing is accepted until the store is open again");
        self.fail_everything(Mode::Failed(error.clone()), &CommitError::Store(error));
        let mut delay = REOPEN_DELAY.0;
        loop {
            {
                let mut queue = self.shared.queue.lock();
                if !queue.stopping {
                    self.shared.wake.wait_for(&mut queue, delay);
                }
                if queue.stopping {
                    return false;
                }
            }
            match self.reopen() {
                Ok(()) => break,
                // This logs once, when the delay reaches its maximum, and not at each attempt.
                Err(error) if delay < REOPEN_DELAY.1 && delay * 2 >= REOPEN_DELAY.1 => {
                    warn!(%error, "the store cannot be opened again yet; trying on");
                }
                Err(_) => {}
            }
            delay = (delay * 2).min(REOPEN_DELAY.1);
        }
        self.shared.last_position.store(self.last.0, Ordering::Release);
        self.shared.queue.lock().mode = Mode::Open;
        self.shared.healthy.store(true, Ordering::Release);
        info!(epoch = self.epoch, "the store is open again");
        true
    }

    /// Opens the store again and reads its end.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()?;
        let (epoch, last) = self.store.begin_epoch()?;
        self.audit_end = audit_chain::head(self.store.as_ref())?;
        (self.epoch, self.last) = (epoch, last);
        Ok(())
    }
}

/// Notifies every subscriber and every waiter of the group, once.
fn settle(group: &mut StagedGroup, result: &Result<(), CommitError>) {
    for section in &group.sections {
        let notify = || (section.owner.notify)(group.number, result.clone());
        if catch_unwind(AssertUnwindSafe(notify)).is_err() {
            error!(workspace = %section.owner.workspace, "a commit's notification panicked");
        }
    }
    for waiter in group.waiters.drain(..) {
        // A waiter that was dropped needs no notification.
        drop(waiter.send(result.clone()));
    }
}
