//! The directory's entry of one broadcast: its due time, its wakes and its actor's place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_runtime::directory::Slot;

use crate::message::FanoutMessage;

/// One broadcast's entry. It lasts until the broadcast is over, while its actor comes and goes.
pub type BroadcastSlot = Slot<FanoutMessage, BroadcastEntry>;

/// The directory's data of a broadcast beside the placement of its actor.
#[derive(Debug)]
pub struct BroadcastEntry {
    /// The workspace that owns the broadcast.
    pub workspace: WorkspaceId,
    /// Set if the actor has work.
    wanted: AtomicBool,
    /// Set if recipients wait for the budget of their numbers' portfolio.
    held: AtomicBool,
    /// The number of the actor's wakes.
    wakes: AtomicU64,
    /// The due time of the broadcast, in milliseconds of engine time; 0 once it was detected.
    due_ms: AtomicU64,
    /// The time of that detection, in milliseconds of real time; 0 before.
    detected_ms: AtomicU64,
    /// The lateness of that detection, in milliseconds.
    detected_late_ms: AtomicU64,
}

impl BroadcastEntry {
    /// Creates the entry of a broadcast that is due at `due` and was never woken.
    pub(crate) fn new(workspace: WorkspaceId, due: Timestamp) -> Self {
        Self {
            workspace,
            wanted: AtomicBool::new(false),
            held: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
            due_ms: AtomicU64::new(due.as_millis()),
            detected_ms: AtomicU64::new(0),
            detected_late_ms: AtomicU64::new(0),
        }
    }

    /// Records another due time.
    pub(crate) fn set_due(&self, due: Timestamp) {
        self.due_ms.store(due.as_millis(), Ordering::Release);
    }

    /// Counts a wake and records that the actor has work. This must come before the caller looks
    /// for the actor: see [`passivate`].
    pub(crate) fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
        self.wanted.store(true, Ordering::Release);
    }

    /// Records that the broadcast is due, if it became due by `now`. `real` is the real time of
    /// this beat and `last_beat` that of the one before, both in milliseconds.
    pub(crate) fn detect_due(&self, now: Timestamp, real: u64, last_beat: u64) {
        let due = self.due_ms.load(Ordering::Acquire);
        if due <= now.as_millis() && due != 0 {
            // It cannot have been due for longer than the time since the last beat, however far the
            // sandbox has moved the clock.
            let late = (now.as_millis() - due).min(real.saturating_sub(last_beat));
            self.detected_late_ms.store(late, Ordering::Release);
            self.detected_ms.store(real, Ordering::Release);
            self.due_ms.store(0, Ordering::Release);
            self.wanted.store(true, Ordering::Release);
        }
    }

    /// Returns whether the actor has work.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Returns whether recipients wait for the budget of their numbers' portfolio.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Records whether recipients wait for a budget.
    pub(crate) fn set_held(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    /// Returns the number of the actor's wakes.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Acquire)
    }

    /// Returns the time since the broadcast became due, or zero for one without a schedule.
    pub fn lateness(&self, real: Timestamp) -> Duration {
        match self.detected_ms.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            detected => {
                let late = Duration::from_millis(self.detected_late_ms.load(Ordering::Acquire));
                late + real.since(Timestamp::from_millis(detected))
            }
        }
    }
}

/// Passivates the actor unless it was woken after `wakes` was read. Callers must read `wakes`
/// before they look for work. Returns whether the actor must stop.
pub(crate) fn passivate(slot: &BroadcastSlot, wakes: u64) -> bool {
    slot.rest_if(|entry| {
        // A waker counts its wake before it looks for the actor, so a wake that is not counted here
        // finds the actor stopped and starts it again.
        let rests = entry.wakes() == wakes;
        if rests {
            entry.wanted.store(false, Ordering::Release);
        }
        rests
    })
}
