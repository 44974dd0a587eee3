//! The writer's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use crate::{Frame, Group, Position, Store, StoreError};

use super::staging::{Mode, Queue, Sleep, Staged};
use super::{CommitError, Shared, WriterOptions};

/// How long to wait before a failed store is opened again, at first and at most.
const REOPEN_DELAY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Longest that a deferrable batch waits for company.
const PATIENCE: Duration = Duration::from_millis(5);

/// Most turns that are given to others before a group is taken.
const COMPANY_MAX: usize = 16;

/// What the thread owns.
pub(super) struct Worker {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    epoch: u64,
    last: Position,
    /// The group that is being committed. Here, and not on the stack, so that a panic leaves it to
    /// be failed.
    current: Option<Staged>,
    frame: Frame,
    key: Vec<u8>,
}

impl Worker {
    pub(super) fn open(
        store: Arc<dyn Store>,
        options: WriterOptions,
    ) -> Result<(Self, Arc<Shared>), StoreError> {
        let (epoch, last) = store.begin_epoch()?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(options.queued_bytes_max)),
            wake: Condvar::new(),
            healthy: AtomicBool::new(true),
            last_position: AtomicU64::new(last.0),
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
            current: None,
            frame,
            key: Vec::new(),
        };
        Ok((worker, shared))
    }

    /// Runs until told to stop, or until something panics; either way nobody is left waiting.
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
        self.fail_everything(Mode::Closed, &CommitError::Closed);
    }

    /// Waits for a group and takes it; `false` when it is time to end.
    fn take_group(&mut self) -> bool {
        let done = self.current.take().map(|mut group| {
            let bytes = group.bytes;
            group.recycle(&mut self.frame);
            (group, bytes)
        });
        let mut queue = self.shared.queue.lock();
        if let Some((group, bytes)) = done {
            queue.queued_bytes -= bytes;
            queue.give_back(group);
        }
        let (mut waited, mut rested) = (false, false);
        loop {
            // Those that this group's predecessor let go are about to come back: while batches keep
            // arriving, whoever makes them goes first.
            let mut staged = queue.staged();
            for _ in 0..COMPANY_MAX {
                if staged == 0 || queue.stopping {
                    break;
                }
                drop(queue);
                std::thread::yield_now();
                queue = self.shared.queue.lock();
                let now = queue.staged();
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
            // After a commit what comes next is often deferrable, such as what became of the
            // messages that it let out: a light sleep spares it the waking.
            if rested && queue.groups.is_empty() {
                queue.sleep = Sleep::Soundly;
                self.shared.wake.wait(&mut queue);
            } else {
                queue.sleep = Sleep::Lightly;
                waited = self.shared.wake.wait_for(&mut queue, PATIENCE).timed_out();
                rested = true;
            }
            queue.sleep = Sleep::Not;
        }
    }

    /// Commits the current group and tells those who wait for it.
    fn commit_group(&mut self) -> Result<(), StoreError> {
        let Some(group) = &mut self.current else {
            return Ok(());
        };
        let number = self.last.next();
        (self.frame.epoch, self.frame.number) = (self.epoch, number);
        let has_events = group.seal(&mut self.frame, &mut self.key);
        let changes = group.changes.live();
        if has_events || !changes.is_empty() {
            self.store.commit(Group::new(has_events.then_some(&self.frame), changes))?;
            self.shared.groups.fetch_add(1, Ordering::Relaxed);
        }
        if has_events {
            self.last = number;
            self.shared.last_position.store(number.0, Ordering::Release);
        }
        self.shared.batches.fetch_add(group.batches, Ordering::Relaxed);
        self.shared.bytes.fetch_add(group.bytes as u64, Ordering::Relaxed);
        settle(group, &Ok(()));
        Ok(())
    }

    /// Fails the current group and all behind it, for their states were built on it.
    fn fail_everything(&mut self, mode: Mode, error: &CommitError) {
        self.shared.healthy.store(false, Ordering::Release);
        let mut failed: Vec<_> = self.current.take().into_iter().collect();
        {
            let mut queue = self.shared.queue.lock();
            queue.mode = mode;
            failed.extend(queue.groups.drain(..));
            queue.queued_bytes = 0;
            queue.urgent = false;
            // Under the lock, so that none of them gets a batch in once the store is open again:
            // it may not have heard of the failure by then.
            for section in failed.iter().flat_map(|group| &group.sections) {
                section.owner.failed.store(true, Ordering::Relaxed);
            }
        }
        self.frame.sections.clear();
        for group in &mut failed {
            settle(group, &Err(error.clone()));
        }
    }

    /// After a failed commit: tries to open the store again until it works or the writer is told
    /// to stop, then `false`.
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
            match self.store.reopen().and_then(|()| self.store.begin_epoch()) {
                Ok((epoch, last)) => {
                    (self.epoch, self.last) = (epoch, last);
                    break;
                }
                // One line when the waits have become long, not one for each attempt.
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
}

/// Tells everyone who has something in the group, once.
fn settle(group: &mut Staged, result: &Result<(), CommitError>) {
    for section in &group.sections {
        let notify = || (section.owner.notify)(group.number, result.clone());
        if catch_unwind(AssertUnwindSafe(notify)).is_err() {
            error!(workspace = %section.owner.workspace, "a commit's notification panicked");
        }
    }
    for waiter in group.waiters.drain(..) {
        // Who no longer waits need not be told.
        drop(waiter.send(result.clone()));
    }
}
