//! Pure: the number of single messages that a number can send at once, and their reservations.
//!
//! A single message that finds capacity reserves it as it is accepted, and is claimed in the same
//! commit. It then need not wait for a claim of its own, which would cost a second commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_channel::Outbound;

/// A message that is dispatched to its number.
#[derive(Debug)]
pub struct HandedOver {
    /// The message, which must be durable.
    pub message: Outbound,
    /// The capacity reserved for it. A message has one if it was claimed when it was accepted,
    /// because its number could send it at once.
    pub place: Option<Reservation>,
}

impl From<Outbound> for HandedOver {
    fn from(message: Outbound) -> Self {
        Self { message, place: None }
    }
}

/// The room for single messages on their way to the number.
#[derive(Debug, Default)]
pub struct SendCapacity {
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
    pub fn take(self: &Arc<Self>) -> Option<Reservation> {
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
}
