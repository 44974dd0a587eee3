//! The directory's data of one number, whether or not its actor runs: state, capacity, counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use postrider_channel::Trouble;
use postrider_channel::cloud_api::items::{FieldNumber, FieldTimes};
use postrider_domain::Timestamp;
use postrider_runtime::directory::Slot;

use crate::figures::NumberError;
use crate::message::NumberMessage;

/// The idle time after which a number's actor passivates itself. By then its rate limit is full
/// again, and its measurements of the channel's speed are outdated.
pub(crate) const REST_AFTER: Duration = Duration::from_secs(600);

/// One number's place in the directory: its [`NumberEntry`], and its actor's placement.
pub type NumberSlot = Slot<NumberMessage, NumberEntry>;

/// The state of one number that other threads read without a message to its actor.
///
/// The actor publishes it after each message that it handles, so it may lag behind.
#[derive(Debug, Default)]
pub struct NumberEntry {
    /// The engine time until which the breaker is open, in milliseconds; 0 while it is closed.
    pub(crate) down_until_ms: AtomicU64,
    /// The engine time of the breaker's last opening, in milliseconds; 0 while it is closed.
    pub(crate) down_since_ms: AtomicU64,
    /// The number of messages without a final outcome.
    pub(crate) queue: AtomicUsize,
    /// The number of those messages that are with the channel or about to be.
    pub(crate) in_flight: AtomicUsize,
    /// The number of single messages that could go to the channel at once.
    pub(crate) capacity: Arc<SendCapacity>,
    /// The reason for which it cannot send now, in the provider's words.
    pub(crate) trouble: parking_lot::Mutex<Option<Trouble>>,
    /// The last error that it met.
    pub(crate) last_error: parking_lot::Mutex<Option<NumberError>>,
    /// The time of the provider's last callback, in milliseconds; 0 if none since the start.
    pub(crate) last_callback_ms: AtomicU64,
    /// The time of the last callback of each field.
    pub(crate) fields_seen: FieldTimes,
    /// The counts of messages that the channel accepted, without codes.
    pub(crate) accepted: HourCounts,
    /// The engine time since which it has been idle, in milliseconds; 0 while it is not.
    pub(crate) idle_since_ms: AtomicU64,
    /// Messages that arrived while no actor ran. The next actor receives them when it starts.
    pub(crate) waiting: parking_lot::Mutex<Vec<NumberMessage>>,
}

impl NumberEntry {
    /// Records the time of a callback of this field.
    pub fn note_field(&self, field: FieldNumber, at: Timestamp) {
        self.fields_seen.note(field, at);
    }

    /// Returns how long the circuit breaker stays open. `None` if it is closed or the time is over.
    pub fn down_for(&self, now: Timestamp) -> Option<Duration> {
        let until = Timestamp::from_millis(self.down_until_ms.load(Ordering::Acquire));
        let left = until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Returns for how long the circuit breaker has been open, if it is open now.
    pub fn down_since(&self, now: Timestamp) -> Option<Duration> {
        self.down_for(now)?;
        Some(now.since(Timestamp::from_millis(self.down_since_ms.load(Ordering::Acquire))))
    }

    /// Records the end of the open circuit breaker; `None` once it is closed.
    pub(crate) fn note_down(&self, until: Option<Timestamp>, now: Timestamp) {
        let since = match (until, self.down_since_ms.load(Ordering::Relaxed)) {
            (None, _) => 0,
            (Some(_), 0) => now.as_millis(),
            (Some(_), since) => since,
        };
        self.down_since_ms.store(since, Ordering::Release);
        self.down_until_ms.store(until.map_or(0, Timestamp::as_millis), Ordering::Release);
    }

    /// Returns whether it has been idle for so long that its actor may passivate itself.
    pub(crate) fn is_idle_for_long(&self, now: Timestamp) -> bool {
        let since = self.idle_since_ms.load(Ordering::Acquire);
        since != 0 && Timestamp::from_millis(since).plus(REST_AFTER) <= now
    }

    /// Returns whether it has messages without a final outcome.
    pub fn has_messages(&self) -> bool {
        self.queue.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of messages that are with the channel, or about to be.
    pub fn under_way(&self) -> u32 {
        u32::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Reserves capacity for a single message that the number could send at once. Without capacity
    /// it returns `None`, and the message must wait for a claim of its own.
    pub fn take_place(&self) -> Option<Reservation> {
        self.capacity.take()
    }
}

/// The room for single messages on their way to the number.
///
/// A single message that finds room reserves it as it is accepted, and is claimed in the same
/// commit. It then need not wait for a claim of its own, which would cost a second commit.
#[derive(Debug, Default)]
pub(crate) struct SendCapacity {
    /// The number of further messages that the number can send, by its last report.
    free: AtomicUsize,
    /// The number of reservations.
    reserved: AtomicUsize,
}

impl SendCapacity {
    /// Sets the number of further messages that the number can send at once.
    pub(super) fn set(&self, free: usize) {
        self.free.store(free, Ordering::Release);
    }

    /// Reserves capacity for one message, if there is any. The reservation promises nothing: the
    /// channel may pause or fail before the message arrives. Then the message waits without a
    /// claim.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Reservation> {
        let free = self.free.load(Ordering::Acquire);
        let one_more = |reserved: usize| (reserved < free).then_some(reserved + 1);
        let taken = self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok().then(|| Reservation(Arc::clone(self)))
    }
}

/// Capacity for a message that is on its way to its number; dropping it frees that capacity.
#[derive(Debug)]
pub struct Reservation(Arc<SendCapacity>);

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.reserved.fetch_sub(1, Ordering::AcqRel);
    }
}

const MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;
/// The bits of a place that hold its count. The higher bits hold its minute since the epoch.
const COUNT_BITS: u32 = 32;

/// The counts of events in the last sixty minutes. One thread writes at a time.
#[derive(Debug)]
pub(crate) struct HourCounts([AtomicU64; MINUTES as usize]);

impl Default for HourCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl HourCounts {
    /// Counts one event.
    pub(crate) fn note(&self, now: Timestamp) {
        let minute = now.as_millis() / MINUTE_MS;
        let place = &self.0[(minute % MINUTES) as usize];
        let before = place.load(Ordering::Relaxed);
        let is_this = before >> COUNT_BITS == minute;
        let count = if is_this { before as u32 } else { 0 };
        place.store(minute << COUNT_BITS | u64::from(count.saturating_add(1)), Ordering::Relaxed);
    }

    /// Returns the number of events in this minute and the 59 before it.
    pub(crate) fn sum(&self, now: Timestamp) -> u64 {
        let now = now.as_millis() / MINUTE_MS;
        let places = self.0.iter().map(|place| place.load(Ordering::Relaxed));
        let recent = places.filter(|place| {
            let minute = place >> COUNT_BITS;
            minute <= now && now - minute < MINUTES
        });
        recent.map(|place| u64::from(place as u32)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_until_it_is_given_back() {
        let capacity = Arc::new(SendCapacity::default());
        assert!(capacity.take().is_none());
        capacity.set(2);
        let [one, two] = [capacity.take(), capacity.take()];
        assert!(one.is_some() && two.is_some() && capacity.take().is_none());
        // The number has not received them yet.
        capacity.set(2);
        assert!(capacity.take().is_none());
        // One has arrived and is in flight; the other one was lost on the way.
        capacity.set(1);
        drop((one, two));
        let last = capacity.take();
        assert!(last.is_some() && capacity.take().is_none());
    }

    #[test]
    fn what_happened_counts_for_an_hour() {
        let counts = HourCounts::default();
        let at = |minute: u64| Timestamp::from_millis(28_000_000 * MINUTE_MS + minute * MINUTE_MS);
        for minute in [0, 0, 1, 30, 59] {
            counts.note(at(minute));
        }
        let sum = |minute| counts.sum(at(minute));
        assert_eq!((sum(59), sum(60), sum(61), sum(118), sum(119)), (5, 3, 2, 1, 0));
        // The place of the first minute is used again.
        counts.note(at(60));
        assert_eq!(sum(60), 4);
        assert_eq!(sum(29), 1, "what is ahead of the moment is not of the hour before it");
    }
}
