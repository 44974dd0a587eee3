//! The breaker: an endpoint that fails again and again is left alone for a while, then tried with
//! one delivery.

use std::time::Duration;

use postrider_domain::Timestamp;

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 5;
/// How long it stays open the first time; each time the trial fails too this doubles.
const OPEN_MIN: Duration = Duration::from_secs(5);
/// It never stays open longer.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// Counts failures in a row. Pure: the caller tells the time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    openings: u32,
    open_until: Option<Timestamp>,
    /// A delivery is under way that decides whether it closes.
    trying: bool,
}

impl Breaker {
    /// Whether one more delivery may go now. If it is open no longer, one is let
    /// through, and no other until that one is answered.
    pub(super) fn admit(&mut self, now: Timestamp) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until || self.trying => false,
            Some(_) => {
                self.trying = true;
                true
            }
        }
    }

    /// Until when it is open.
    pub(super) const fn open_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// A delivery arrived.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// What was let through did not go after all.
    pub(super) const fn abandoned(&mut self) {
        self.trying = false;
    }

    /// A delivery failed.
    pub(super) fn failed(&mut self, now: Timestamp) {
        self.failures += 1;
        let trial_failed = std::mem::take(&mut self.trying);
        if trial_failed || (self.open_until.is_none() && self.failures >= FAILURES_MAX) {
            let open = OPEN_MIN.saturating_mul(1 << self.openings.min(8)).min(OPEN_MAX);
            self.openings += 1;
            self.open_until = Some(now.plus(open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_good_trial_closes_it() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failed(at(0));
        }
        breaker.answered();
        for _ in 0..4 {
            breaker.failed(at(0));
        }
        assert!(breaker.admit(at(0)));
        breaker.failed(at(0));
        assert_eq!(breaker.open_until(), Some(at(5)));
        assert!(!breaker.admit(at(4)));
        assert!(breaker.admit(at(5)), "one is tried");
        assert!(!breaker.admit(at(5)), "and only one");
        breaker.answered();
        assert!(breaker.admit(at(5)) && breaker.admit(at(5)));
    }

    #[test]
    fn each_failed_trial_doubles_the_wait_up_to_a_minute() {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            breaker.failed(at(0));
        }
        let mut now = 5;
        for wait in [10, 20, 40, 60, 60] {
            assert!(breaker.admit(at(now)));
            breaker.failed(at(now));
            assert_eq!(breaker.open_until(), Some(at(now + wait)));
            now += wait;
        }
    }
}
