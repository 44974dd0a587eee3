//! The directory's data of one number, whether or not its actor runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use postrider_channel::Trouble;
use postrider_channel::cloud_api::items::{FieldNumber, FieldTimes};
use postrider_domain::Timestamp;
use postrider_runtime::directory::Slot;

use crate::capacity::{Reservation, SendCapacity};
use crate::figures::NumberError;
use crate::hour_counts::HourCounts;
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
