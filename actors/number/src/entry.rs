//! What the directory keeps of one number, whether or not its actor runs.

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

/// How long a number must have had nothing to do before its actor passivates itself. By then its
/// rate limit is full again, and what it had learned of the channel's speed says little.
pub(crate) const REST_AFTER: Duration = Duration::from_secs(600);

/// One number's place in the directory: its [`NumberEntry`], and where its actor is.
pub type NumberSlot = Slot<NumberMessage, NumberEntry>;

/// State of one number that other threads read without a message to its actor.
///
/// The actor publishes it after each message that it handles, so it may lag behind.
#[derive(Debug, Default)]
pub struct NumberEntry {
    /// Engine time until which the circuit breaker is open, in milliseconds; 0 while it is closed.
    pub(crate) down_until_ms: AtomicU64,
    /// Engine time at which it last opened after it had been closed, in milliseconds; 0 while it
    /// is closed.
    pub(crate) down_since_ms: AtomicU64,
    /// Messages without a final outcome.
    pub(crate) queue: AtomicUsize,
    /// Those of them that are with the channel or about to be.
    pub(crate) in_flight: AtomicUsize,
    /// How many single messages could go to the channel at once.
    pub(crate) capacity: Arc<SendCapacity>,
    /// Why it cannot send at the time, as the provider explains it.
    pub(crate) trouble: parking_lot::Mutex<Option<Trouble>>,
    /// The last error that it met.
    pub(crate) last_error: parking_lot::Mutex<Option<NumberError>>,
    /// When the provider last called back, in milliseconds; 0: not since the start.
    pub(crate) last_callback_ms: AtomicU64,
    /// When something of each field of callbacks came last.
    pub(crate) fields_seen: FieldTimes,
    /// Messages that are no codes, and that the channel accepted.
    pub(crate) accepted: HourCounts,
    /// Engine time since which it has had nothing to do, in milliseconds; 0 while it has.
    pub(crate) idle_since_ms: AtomicU64,
    /// Messages that arrived while no actor ran. The next actor receives them when it starts.
    pub(crate) waiting: parking_lot::Mutex<Vec<NumberMessage>>,
}

impl NumberEntry {
    /// Something of a field of the provider's callbacks has come.
    pub fn note_field(&self, field: FieldNumber, at: Timestamp) {
        self.fields_seen.note(field, at);
    }

    /// How long the circuit breaker stays open. `None` if it is closed or the time is over.
    pub fn down_for(&self, now: Timestamp) -> Option<Duration> {
        let until = Timestamp::from_millis(self.down_until_ms.load(Ordering::Acquire));
        let left = until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// For how long it has been failing, or stopped, if it is left alone now.
    pub fn down_since(&self, now: Timestamp) -> Option<Duration> {
        self.down_for(now)?;
        Some(now.since(Timestamp::from_millis(self.down_since_ms.load(Ordering::Acquire))))
    }

    /// Notes until when the circuit breaker is open; `None` once it is closed.
    pub(crate) fn note_down(&self, until: Option<Timestamp>, now: Timestamp) {
        let since = match (until, self.down_since_ms.load(Ordering::Relaxed)) {
            (None, _) => 0,
            (Some(_), 0) => now.as_millis(),
            (Some(_), since) => since,
        };
        self.down_since_ms.store(since, Ordering::Release);
        self.down_until_ms.store(until.map_or(0, Timestamp::as_millis), Ordering::Release);
    }

    /// Whether it has had nothing to do for so long that its actor may passivate itself.
    pub(crate) fn is_idle_for_long(&self, now: Timestamp) -> bool {
        let since = self.idle_since_ms.load(Ordering::Acquire);
        since != 0 && Timestamp::from_millis(since).plus(REST_AFTER) <= now
    }

    /// Whether it has messages without a final outcome.
    pub fn has_messages(&self) -> bool {
        self.queue.load(Ordering::Relaxed) > 0
    }

    /// How many messages are with the channel, or about to be.
    pub fn under_way(&self) -> u32 {
        u32::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Reserves capacity for a single message that the number could send at once. `None` if there
    /// is none: the message must then wait for a claim of its own.
    pub fn take_place(&self) -> Option<Reservation> {
        self.capacity.take()
    }
}
