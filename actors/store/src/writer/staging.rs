//! The queue of the writer's thread is a list of groups, of which the last one is open.
//!
//! It is under one lock that every actor takes for every batch. So staging copies bytes into reused
//! buffers, and allocates only where they have to grow.

mod group;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use postrider_domain::WorkspaceId;
use tokio::sync::oneshot;

use super::{Batch, ChangeRef, CommitError, GroupNumber, Notify};
use crate::log::frame::{FRAME_BYTES_MAX, HEADER_BYTES, SECTION_HEADER_BYTES};
use crate::{Change, Frame, StoreError};
use group::{GroupChanges, StagedSection};

/// The bytes above which a group takes no further batch.
///
/// Its writing should not take much longer than the fsync that it saves.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// The bytes above which a batch is bulk, such as an import or a window of a broadcast.
const BULK_BATCH_BYTES: usize = 8 * 1024;
/// The limit of one subscriber's bulk in a group; the next group takes the rest.
///
/// So the commit that all callers wait for stays short. Bulk loses little: writing and applying
/// this much takes about as long as the fsync.
const OWNER_BULK_BYTES_MAX: usize = 32 * 1024;
/// The same limit for a subscriber that has recently been alone.
const LONE_BULK_BYTES_MAX: usize = 256 * 1024;
/// The same limit for the bulk of all.
const GROUP_BULK_BYTES_MAX: usize = 4 * OWNER_BULK_BYTES_MAX;
/// The number of groups without others' batches after which a subscriber is alone.
const LONE_GROUPS_MIN: u32 = 8;
/// The bytes that each batch counts in addition to its own.
///
/// They bound a queue of empty batches.
const BATCH_OVERHEAD: usize = 64;
/// The capacity above which a buffer is not kept for the next group.
const KEPT_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of buffers of one kind that are kept.
const KEPT_BUFFERS_MAX: usize = 4096;
/// The maximum number of emptied groups that are kept: one fills while one is being committed.
const KEPT_GROUPS_MAX: usize = 2;

/// The subscriber that owns a section.
pub(super) struct SectionOwner {
    pub(super) workspace: WorkspaceId,
    pub(super) notify: Notify,
    /// Set under the queue's lock once a group with a section of this owner has failed.
    pub(super) failed: AtomicBool,
}

/// The bytes that a batch takes.
#[derive(Clone, Copy)]
pub(super) struct BatchSize {
    section_header: usize,
    bytes: usize,
}

impl BatchSize {
    const fn bulk_bytes(self) -> usize {
        if self.bytes > BULK_BATCH_BYTES { self.bytes } else { 0 }
    }

    /// Measures a batch. This runs outside of the lock.
    pub(super) fn of(workspace: &WorkspaceId, batch: &Batch<'_>) -> Result<Self, CommitError> {
        let section_header = SECTION_HEADER_BYTES + workspace.as_str().len();
        let frame = HEADER_BYTES + section_header + batch.events.len();
        if frame > FRAME_BYTES_MAX || batch.log.len() > FRAME_BYTES_MAX {
            return Err(CommitError::TooLarge);
        }
        let change =
            |change: &ChangeRef<'_>| change.key.len() + change.value.map_or(0, <[u8]>::len);
        let changes = batch.changes.iter().map(change).sum::<usize>();
        let bytes = BATCH_OVERHEAD + batch.events.len() + batch.log.len() + changes;
        Ok(Self { section_header, bytes })
    }
}

/// One group, which becomes one commit.
#[derive(Default)]
pub(super) struct StagedGroup {
    pub(super) number: GroupNumber,
    pub(super) sections: Vec<StagedSection>,
    pub(super) changes: GroupChanges,
    pub(super) waiters: Vec<oneshot::Sender<Result<(), CommitError>>>,
    pub(super) batches: u64,
    pub(super) bytes: usize,
    /// The bytes of the bulk batches.
    bulk_bytes: usize,
    /// The bytes that the encoded frame would take, without its header.
    frame_bytes: usize,
    buffers: Vec<Vec<u8>>,
}

impl StagedGroup {
    fn fits(
        &self,
        section: Option<usize>,
        batch: &Batch<'_>,
        need: BatchSize,
        is_alone: bool,
    ) -> bool {
        let section = section.map(|at| &self.sections[at]);
        let mut frame_bytes = self.frame_bytes + batch.events.len();
        if section.is_none_or(StagedSection::has_no_events) {
            frame_bytes += need.section_header;
        }
        let bulk = need.bulk_bytes();
        let owners_bulk = section.map_or(0, |section| section.bulk_bytes);
        // The first bulk of a group may have any size, because a batch is not divided.
        let bulk_fits = |before: usize, most| bulk == 0 || before == 0 || before + bulk <= most;
        (batch.events.is_empty() || frame_bytes <= FRAME_BYTES_MAX - HEADER_BYTES)
            && (self.bytes == 0 || self.bytes + need.bytes <= GROUP_BYTES_MAX)
            && match is_alone {
                true => bulk_fits(self.bulk_bytes, LONE_BULK_BYTES_MAX),
                false => {
                    bulk_fits(owners_bulk, OWNER_BULK_BYTES_MAX)
                        && bulk_fits(self.bulk_bytes, GROUP_BULK_BYTES_MAX)
                }
            }
    }

    /// Adds a batch to a section, or to a new one. Returns the section's index.
    fn push(
        &mut self,
        owner: &Arc<SectionOwner>,
        section: Option<usize>,
        batch: &Batch<'_>,
        need: BatchSize,
    ) -> usize {
        let Self { sections, buffers, .. } = self;
        let at = section.unwrap_or_else(|| {
            let events = buffers.pop().unwrap_or_default();
            sections.push(StagedSection::new(owner.clone(), events));
            sections.len() - 1
        });
        let section = &mut sections[at];
        if !batch.events.is_empty() {
            if section.has_no_events() {
                self.frame_bytes += need.section_header;
            }
            self.frame_bytes += batch.events.len();
        }
        section.push(batch, buffers);
        for change in batch.changes {
            self.changes.upsert(change.table, change.key, change.value);
        }
        let bulk = need.bulk_bytes();
        section.bulk_bytes += bulk;
        self.bulk_bytes += bulk;
        self.batches += 1;
        self.bytes += need.bytes;
        at
    }

    /// Closes the group: moves the events into `frame` and turns the log entries into changes.
    ///
    /// Runs outside of the lock. Returns whether there are any events.
    pub(super) fn seal(&mut self, frame: &mut Frame, key: &mut Vec<u8>) -> bool {
        for section in &mut self.sections {
            section.seal(frame, &mut self.changes, key);
        }
        !frame.sections.is_empty()
    }

    /// Empties the group and its frame for reuse, and keeps their buffers.
    pub(super) fn recycle(&mut self, frame: &mut Frame) {
        let Self { sections, buffers, .. } = self;
        let mut keep = |mut buffer: Vec<u8>| {
            let worth_it = (1..=KEPT_BUFFER_BYTES_MAX).contains(&buffer.capacity());
            if worth_it && buffers.len() < KEPT_BUFFERS_MAX {
                buffer.clear();
                buffers.push(buffer);
            }
        };
        for section in sections.drain(..) {
            section.into_buffers().for_each(&mut keep);
        }
        for section in frame.sections.drain(..) {
            keep(section.events);
        }
        self.changes.recycle();
        self.waiters.clear();
        (self.batches, self.bytes) = (0, 0);
        (self.bulk_bytes, self.frame_bytes) = (0, 0);
    }
}

/// The sole subscriber in the last taken groups, so that its bulk delays no other.
#[derive(Default)]
struct LoneSubscriber {
    /// Its address, 0 for none.
    owner: usize,
    /// The number of these groups.
    groups: u32,
}

impl LoneSubscriber {
    /// Records a taken group. One with changes of no subscriber changes nothing.
    fn note(&mut self, sections: &[StagedSection]) {
        match sections {
            [] => {}
            [section] => {
                let owner = Arc::as_ptr(&section.owner).addr();
                let before = if owner == self.owner { self.groups } else { 0 };
                *self = Self { owner, groups: before.saturating_add(1) };
            }
            _ => *self = Self::default(),
        }
    }

    /// Returns whether no other subscriber had a batch recently, or has a queued one.
    fn is_alone(&self, owner: &Arc<SectionOwner>, queued: &VecDeque<StagedGroup>) -> bool {
        let is_own = |section: &StagedSection| Arc::ptr_eq(&section.owner, owner);
        self.groups >= LONE_GROUPS_MIN
            && self.owner == Arc::as_ptr(owner).addr()
            && queued.iter().all(|group| group.sections.iter().all(is_own))
    }
}

/// The mode, in which batches are accepted or not.
pub(super) enum Mode {
    Open,
    /// A commit failed, and the store is not open again yet.
    Failed(StoreError),
    /// The thread has ended.
    Closed,
}

/// The sleep of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// It is awake.
    Not,
    /// It wakes after a short timeout, soon enough for deferrable batches.
    Lightly,
    /// It wakes only when it is notified.
    Soundly,
}

/// The state under the lock.
pub(super) struct Queue {
    pub(super) mode: Mode,
    pub(super) stopping: bool,
    /// The thread's sleep, if it sleeps.
    pub(super) sleep: Sleep,
    /// Set if a caller waits for one of `groups`.
    pub(super) urgent: bool,
    /// The queued groups, none of them empty, with consecutive numbers. Each takes what fits.
    pub(super) groups: VecDeque<StagedGroup>,
    /// Bytes in `groups` and in the group that is being committed.
    pub(super) queued_bytes: usize,
    queued_bytes_max: usize,
    last_group: GroupNumber,
    /// The last group that has changes of no subscriber. Such changes keep their order.
    last_changes: GroupNumber,
    lone: LoneSubscriber,
    spare: Vec<StagedGroup>,
}

impl Queue {
    pub(super) fn new(queued_bytes_max: usize) -> Self {
        Self {
            mode: Mode::Open,
            stopping: false,
            sleep: Sleep::Not,
            urgent: false,
            groups: VecDeque::new(),
            queued_bytes: 0,
            queued_bytes_max,
            last_group: 0,
            last_changes: 0,
            lone: LoneSubscriber::default(),
            spare: Vec::new(),
        }
    }

    pub(super) fn admit(&self) -> Result<(), CommitError> {
        match &self.mode {
            _ if self.stopping => Err(CommitError::Closed),
            Mode::Open => Ok(()),
            Mode::Failed(error) => Err(error.clone().into()),
            Mode::Closed => Err(CommitError::Closed),
        }
    }

    /// Records that a batch was staged. Returns whether the thread must be woken for it.
    pub(super) fn note_staged(&mut self, deferrable: bool) -> bool {
        self.urgent |= !deferrable;
        let wake = match self.sleep {
            Sleep::Not => false,
            Sleep::Lightly => !deferrable,
            Sleep::Soundly => true,
        };
        if wake {
            self.sleep = Sleep::Not;
        }
        wake
    }

    /// Returns the queued bytes if a caller waits for them, otherwise 0.
    pub(super) const fn urgent_bytes(&self) -> usize {
        if self.urgent { self.queued_bytes } else { 0 }
    }

    /// Takes the next group to commit.
    ///
    /// The last group stays while it holds only deferrable batches, unless they have `waited` or
    /// the writer stops.
    pub(super) fn next(&mut self, waited: bool) -> Option<StagedGroup> {
        if !(self.urgent || waited || self.stopping || self.groups.len() > 1) {
            return None;
        }
        let group = self.groups.pop_front();
        self.urgent &= !self.groups.is_empty();
        if let Some(group) = &group {
            self.lone.note(&group.sections);
        }
        group
    }

    /// Returns whether new work may be started: it may fill three quarters of the queue.
    ///
    /// The rest is for the engine's own writes.
    pub(super) const fn has_room(&self) -> bool {
        self.queued_bytes < self.queued_bytes_max / 4 * 3
    }

    /// Counts bytes that are not refused for lack of room.
    fn count(&mut self, bytes: usize) -> Result<(), CommitError> {
        if bytes > self.queued_bytes_max {
            return Err(CommitError::TooLarge);
        }
        self.queued_bytes += bytes;
        Ok(())
    }

    /// Counts bytes if the part of the queue for new work has room for them.
    ///
    /// One batch that is larger than that part has it alone.
    fn reserve(&mut self, bytes: usize) -> Result<(), CommitError> {
        let part = self.queued_bytes_max / 4 * 3;
        let is_full = self.queued_bytes > 0 && self.queued_bytes + bytes > part;
        if is_full && bytes <= self.queued_bytes_max {
            return Err(CommitError::Full);
        }
        self.count(bytes)
    }

    /// Stages a batch of a subscriber, and returns its group and section.
    ///
    /// It goes to the first group that takes it, but not before `last`, the group and section of
    /// the subscriber's last batch. So a subscriber that fills one group after the other does not
    /// delay others. It is never refused for lack of room: see
    /// [`Subscriber::submit`](super::Subscriber::submit).
    pub(super) fn stage_batch(
        &mut self,
        owner: &Arc<SectionOwner>,
        last: (GroupNumber, Option<usize>),
        batch: &Batch<'_>,
        need: BatchSize,
    ) -> Result<(GroupNumber, usize), CommitError> {
        self.count(need.bytes)?;
        let in_last = |open: &StagedGroup| last.1.filter(|_| open.number == last.0);
        let is_alone = need.bulk_bytes() > 0 && self.lone.is_alone(owner, &self.groups);
        let open = self.first_open(last.0, |open| open.fits(in_last(open), batch, need, is_alone));
        let open = &mut self.groups[open];
        let section = in_last(open);
        Ok((open.number, open.push(owner, section, batch, need)))
    }

    /// Stages changes that belong to no subscriber, behind those that were staged before.
    ///
    /// `waiter` receives their result. An empty list is a barrier: it goes to the last group, and
    /// groups settle in order, so everything staged before is settled by then. Changes that the
    /// engine `must` write are not refused for lack of room.
    pub(super) fn stage_changes(
        &mut self,
        changes: Vec<Change>,
        must: bool,
        waiter: oneshot::Sender<Result<(), CommitError>>,
    ) -> Result<(), CommitError> {
        let size = |change: &Change| change.key.len() + change.value.as_ref().map_or(0, Vec::len);
        let bytes = BATCH_OVERHEAD + changes.iter().map(size).sum::<usize>();
        let is_barrier = changes.is_empty();
        // A barrier must not fail on a full queue, because that is when it is needed.
        if is_barrier || must {
            self.count(bytes)?;
        } else {
            self.reserve(bytes)?;
        }
        let after = if is_barrier { self.last_group } else { self.last_changes };
        let open = self.first_open(after, |open| open.bytes + bytes <= GROUP_BYTES_MAX);
        let open = &mut self.groups[open];
        if !is_barrier {
            self.last_changes = open.number;
        }
        for change in changes {
            open.changes.upsert_owned(change);
        }
        open.waiters.push(waiter);
        open.batches += 1;
        open.bytes += bytes;
        Ok(())
    }

    /// Returns the number of the group that was opened last.
    pub(super) const fn last_group(&self) -> GroupNumber {
        self.last_group
    }

    /// Returns the index of the first queued group from `from` on that `fits`, or else of a new
    /// one.
    fn first_open(&mut self, from: GroupNumber, fits: impl Fn(&StagedGroup) -> bool) -> usize {
        let before = self.groups.front().map_or(0, |front| from.saturating_sub(front.number));
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let found = self.groups.iter().skip(before).position(fits);
        found.map_or_else(|| self.open_group(), |found| before + found)
    }

    fn open_group(&mut self) -> usize {
        self.last_group += 1;
        let mut group = self.spare.pop().unwrap_or_default();
        group.number = self.last_group;
        self.groups.push_back(group);
        self.groups.len() - 1
    }

    /// Keeps a recycled group for reuse.
    pub(super) fn give_back(&mut self, group: StagedGroup) {
        if self.spare.len() < KEPT_GROUPS_MAX {
            self.spare.push(group);
        }
    }
}
