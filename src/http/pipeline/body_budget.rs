//! Counts the bytes of bodies in memory, with a limit in all and for each client.
//!
//! A quarter of the budget is for routes without a key, so that clients with keys and strangers
//! cannot take each other's. One key may hold half of the budget, one address half of the quarter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_actors::domain::{KeyId, SessionId};

/// The holder for whom the bytes of a body are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// An API key.
    Key(KeyId),
    /// A person's session.
    Session(SessionId),
    /// The holders of an admin token.
    Administrator,
    /// An address without a key.
    Stranger(IpAddr),
}

impl Holder {
    const fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

/// The budget for the bytes of bodies.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    bytes_max: usize,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    strangers: usize,
    others: usize,
    by_holder: HashMap<Holder, usize>,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    /// Returns a lease of no bytes yet.
    pub(crate) fn lease(self: &Arc<Self>, holder: Holder) -> BodyLease {
        BodyLease { budget: Arc::clone(self), holder, bytes: 0 }
    }

    fn take(&self, holder: Holder, bytes: usize) -> bool {
        let share = if holder.is_stranger() {
            self.bytes_max / 4
        } else {
            self.bytes_max - self.bytes_max / 4
        };
        let own = if holder.is_stranger() { share / 2 } else { self.bytes_max / 2 };
        let mut all = self.held();
        let HeldBytes { strangers, others, by_holder } = &mut *all;
        let pool = if holder.is_stranger() { strangers } else { others };
        let held = by_holder.get(&holder).copied().unwrap_or_default();
        if bytes > share.saturating_sub(*pool) || bytes > own.saturating_sub(held) {
            return false;
        }
        *pool += bytes;
        by_holder.insert(holder, held + bytes);
        true
    }

    fn give_back(&self, holder: Holder, bytes: usize) {
        let mut all = self.held();
        let HeldBytes { strangers, others, by_holder } = &mut *all;
        let pool = if holder.is_stranger() { strangers } else { others };
        *pool = pool.saturating_sub(bytes);
        if let Some(held) = by_holder.get_mut(&holder) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                by_holder.remove(&holder);
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldBytes> {
        // No code panics while it holds the lock, so the data is consistent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of one body, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct BodyLease {
    budget: Arc<BodyBudget>,
    holder: Holder,
    bytes: usize,
}

impl BodyLease {
    /// Adds bytes to the lease; returns `false` if the budget has none left.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let grown = self.budget.take(self.holder, bytes);
        if grown {
            self.bytes += bytes;
        }
        grown
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.holder, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(last: u8) -> Holder {
        Holder::Stranger([192, 0, 2, last].into())
    }

    fn key() -> Holder {
        let at = postrider_actors::domain::Timestamp::from_millis(1_700_000_000_000);
        Holder::Key(KeyId::from_parts(at, 1))
    }

    #[test]
    fn nobody_takes_the_share_of_others() {
        let budget = BodyBudget::new(800);
        let mut first = budget.lease(stranger(1));
        assert!(first.grow(100) && !first.grow(1), "half of a quarter");
        let mut second = budget.lease(stranger(2));
        assert!(second.grow(60) && second.grow(40));
        assert!(!budget.lease(stranger(3)).grow(1), "all of the quarter is taken");
        let mut keyed = budget.lease(key());
        assert!(keyed.grow(400) && !keyed.grow(1), "half of all");
        assert!(!budget.lease(key()).grow(1), "by whatever request");
        let mut admin = budget.lease(Holder::Administrator);
        assert!(admin.grow(200) && !admin.grow(1), "what is not for strangers");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = BodyBudget::new(800);
        for _ in 0..3 {
            let mut lease = budget.lease(stranger(1));
            assert!(lease.grow(70) && !lease.grow(31) && lease.grow(30));
        }
        let held = budget.held();
        assert_eq!((held.strangers, held.others, held.by_holder.len()), (0, 0, 0));
    }
}
