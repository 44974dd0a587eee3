//! The room that a number has at its channel. A single message that finds some takes its place as it
//! is accepted, and is claimed in the same commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_channel::Outbound;

/// A message for its number.
#[derive(Debug)]
pub struct HandedOver {
    pub message: Outbound,
    /// Held by one that was claimed when it was accepted, because its number could hand it over at
    /// once.
    pub place: Option<Reservation>,
}

impl From<Outbound> for HandedOver {
    fn from(message: Outbound) -> Self {
        Self { message, place: None }
    }
}

/// How many single messages may be on their way to the number at once.
#[derive(Debug, Default)]
pub struct SendCapacity {
    /// How many more the number could hand over, by what has come to it.
    free: AtomicUsize,
    /// How many places are held.
    held: AtomicUsize,
}

impl SendCapacity {
    /// The number can hand over so many more.
    pub(super) fn set(&self, free: usize) {
        self.free.store(free, Ordering::Release);
    }

    /// Takes a place, if there is one. It may not be there any more when the message comes.
    pub fn take(self: &Arc<Self>) -> Option<Reservation> {
        let free = self.free.load(Ordering::Acquire);
        let one_more = |held: usize| (held < free).then_some(held + 1);
        let taken = self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok().then(|| Reservation(Arc::clone(self)))
    }
}

/// The place of a message that is on its way to its number; dropping it gives it back.
#[derive(Debug)]
pub struct Reservation(Arc<SendCapacity>);

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_until_it_is_given_back() {
        let room = Arc::new(SendCapacity::default());
        assert!(room.take().is_none());
        room.set(2);
        let [one, two] = [room.take(), room.take()];
        assert!(one.is_some() && two.is_some() && room.take().is_none());
        // The number has not heard of them yet.
        room.set(2);
        assert!(room.take().is_none());
        // One came, and is under way; the other one was lost on the way.
        room.set(1);
        drop((one, two));
        let last = room.take();
        assert!(last.is_some() && room.take().is_none());
    }
}
