//! The gate that says whether this node may answer for a shard at this very moment.
//!
//! It owns the deadline of the tenure and the term in which each shard is owned, as other threads
//! see them. The asking thread reads the clock itself: a flag that a timer sets would be late after
//! a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::SteadyClock;

/// No term.
const NONE: u64 = u64::MAX;

/// The check that every request makes. Clones share their state.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn SteadyClock>,
    deadline: AtomicU64,
    term: AtomicU64,
    /// By shard, the term in which its engine answers.
    owned: Vec<AtomicU64>,
    /// By shard, set while it accepts nothing new because it is being handed over.
    closing: Vec<AtomicBool>,
}

impl Gate {
    pub(crate) fn new(clock: Arc<dyn SteadyClock>, shards: u16) -> Self {
        let owned = (0..shards).map(|_| AtomicU64::new(NONE)).collect();
        let (deadline, term) = (AtomicU64::new(0), AtomicU64::new(NONE));
        let closing = (0..shards).map(|_| AtomicBool::new(false)).collect();
        Self(Arc::new(Inner { clock, deadline, term, owned, closing }))
    }

    /// Publishes the tenure.
    pub(crate) fn publish(&self, term: u64, deadline: u64) {
        if self.0.term.load(Ordering::Acquire) != term {
            // A reader of the new deadline must not take it for one of the term before.
            self.0.deadline.store(0, Ordering::Release);
            self.0.term.store(term, Ordering::Release);
        }
        self.0.deadline.store(deadline, Ordering::Release);
    }

    /// Ends the tenure.
    pub(crate) fn end(&self) {
        self.0.deadline.store(0, Ordering::Release);
    }

    /// Returns the term of the tenure, if the tenure holds now.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        // The order matters: the deadline that was read belongs to this term or to an earlier one.
        let deadline = self.0.deadline.load(Ordering::Acquire);
        let term = self.0.term.load(Ordering::Acquire);
        (self.0.clock.now_ms() < deadline && term != NONE).then_some(term)
    }

    /// Returns for how much longer the tenure holds, in milliseconds.
    #[must_use]
    pub fn left_ms(&self) -> u64 {
        self.0.deadline.load(Ordering::Acquire).saturating_sub(self.0.clock.now_ms())
    }

    /// Sets the term in which the engine of a shard answers; `None`: it answers no more.
    pub(crate) fn owns(&self, shard: u16, term: Option<u64>) {
        let at = usize::from(shard);
        if let Some((owned, closing)) = self.0.owned.get(at).zip(self.0.closing.get(at)) {
            closing.store(false, Ordering::Release);
            owned.store(term.unwrap_or(NONE), Ordering::Release);
        }
    }

    /// Closes a shard to new requests. Its engine still answers the requests that it has accepted.
    pub(crate) fn close(&self, shard: u16) {
        if let Some(closing) = self.0.closing.get(usize::from(shard)) {
            closing.store(true, Ordering::Release);
        }
    }

    /// Returns whether this node may start a request for a shard.
    #[must_use]
    pub fn admits(&self, shard: u16) -> bool {
        let closing = self.0.closing.get(usize::from(shard));
        self.answers(shard) && !closing.is_some_and(|closing| closing.load(Ordering::Acquire))
    }

    /// Returns whether this node may answer a request for a shard that it has started.
    #[must_use]
    pub fn answers(&self, shard: u16) -> bool {
        let owned = self.0.owned.get(usize::from(shard));
        let owned = owned.map_or(NONE, |owned| owned.load(Ordering::Acquire));
        self.term().is_some_and(|term| term == owned)
    }
}

/// The right of one claim's engine to act for its shard, checked before anything is sent.
#[derive(Debug, Clone)]
pub struct ShardTenure {
    gate: Gate,
    term: Option<u64>,
    is_over: Arc<AtomicBool>,
}

impl ShardTenure {
    /// Creates the tenure of a claim in this term.
    pub(crate) fn new(gate: Gate, term: Option<u64>) -> Self {
        Self { gate, term, is_over: Arc::default() }
    }

    /// Ends the right of the engine, whatever the node's key says.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns whether the engine may act at this very moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        let term = self.gate.term();
        term.is_some() && term == self.term && !self.is_over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::StillClock;

    #[test]
    fn an_engine_acts_in_the_term_of_its_claim_until_it_is_given_up() {
        let clock = Arc::new(StillClock::default());
        let gate = Gate::new(clock.clone(), 1);
        assert!(!ShardTenure::new(gate.clone(), None).holds());
        gate.publish(1, 100);
        let tenure = ShardTenure::new(gate.clone(), Some(1));
        assert!(tenure.holds());
        clock.wait_ms(100);
        assert!(!tenure.holds(), "nobody had to say that the time is over");
        gate.publish(1, 200);
        assert!(tenure.holds(), "a renewal that came late");
        gate.publish(2, 300);
        assert!(!tenure.holds(), "another term, and perhaps another owner between");
        let tenure = ShardTenure::new(gate, Some(2));
        tenure.clone().end();
        assert!(!tenure.holds());
    }

    #[test]
    fn a_shard_is_answered_for_in_its_term_until_the_deadline() {
        let clock = Arc::new(StillClock::default());
        let gate = Gate::new(clock.clone(), 2);
        assert!(gate.term().is_none() && !gate.answers(0));
        gate.publish(1, 100);
        gate.owns(0, Some(1));
        assert_eq!((gate.answers(0), gate.answers(1), gate.answers(2)), (true, false, false));
        clock.wait_ms(99);
        assert!(gate.answers(0) && gate.left_ms() == 1);
        clock.wait_ms(1);
        assert!(!gate.answers(0), "nobody had to say that the time is over");
        gate.publish(1, 200);
        assert!(gate.answers(0));
        gate.publish(2, 300);
        assert!(!gate.answers(0), "what was owned in a term is not owned in the next");
        gate.owns(0, Some(2));
        assert!(gate.answers(0));
        gate.close(0);
        assert!(gate.answers(0) && !gate.admits(0), "what has begun is answered");
        gate.owns(0, None);
        assert!(!gate.answers(0));
        gate.owns(0, Some(2));
        assert!(gate.admits(0), "an owner anew");
    }
}
