//! Pure: a circuit breaker, which stops calls to a target that keeps failing, then lets a trial
//! pass.
//!
//! It is closed while calls succeed. Failures in a row open it; an account that cannot send opens
//! it at once. After a delay one call, the trial, decides: a good answer closes it, a bad one opens
//! it again for longer.

use std::time::Duration;

use postrider_domain::Timestamp;

use super::Backoff;

/// The conditions under which a circuit breaker opens, and the durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// The number of failures in a row that open it.
    pub failures_max: u32,
    /// The first and the longest time that it stays open for [`Trip::Failing`].
    pub failing: Backoff,
    /// The first and the longest time that it stays open for [`Trip::Stopped`].
    pub stopped: Backoff,
}

impl Default for BreakerPolicy {
    /// Returns the defaults.
    ///
    /// The breaker opens after five failures, for 5 seconds to a minute. For an account that cannot
    /// send it opens for a minute to a quarter of an hour.
    fn default() -> Self {
        Self {
            failures_max: 5,
            failing: Backoff { min: Duration::from_secs(5), max: Duration::from_secs(60) },
            stopped: Backoff { min: Duration::from_secs(60), max: Duration::from_secs(900) },
        }
    }
}

/// The reason why a breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trip {
    /// Calls failed in a row.
    Failing,
    /// The account cannot send. Only a trial shows that it can again.
    Stopped,
}

/// The calls that a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Every call.
    Open,
    /// One call, which the caller must announce by [`CircuitBreaker::begin_trial`].
    Trial,
    /// No call before this moment.
    NotBefore(Timestamp),
    /// No call until the trial in flight is answered.
    AfterTrial,
}

/// A circuit breaker, which counts failures in a row, and opens.
///
/// Most methods take `trial`: whether the call was the one announced by
/// [`begin_trial`](Self::begin_trial). A caller that makes no other call while a trial is in flight
/// can pass [`is_trying`](Self::is_trying).
#[derive(Debug, Default)]
pub struct CircuitBreaker {
    policy: BreakerPolicy,
    /// The number of failures in a row.
    failures: u32,
    /// The number of openings in a row.
    openings: u32,
    open_until: Option<Timestamp>,
    /// Set while a trial is in flight.
    trying: bool,
    /// Set if it is open because the account cannot send.
    stopped: bool,
}

impl CircuitBreaker {
    /// Creates a closed breaker.
    #[must_use]
    pub const fn new(policy: BreakerPolicy) -> Self {
        Self { policy, failures: 0, openings: 0, open_until: None, trying: false, stopped: false }
    }

    /// Returns which calls may start now.
    #[must_use]
    pub fn passage(&self, now: Timestamp) -> Passage {
        match self.open_until {
            None => Passage::Open,
            Some(until) if now < until => Passage::NotBefore(until),
            Some(_) if self.trying => Passage::AfterTrial,
            Some(_) => Passage::Trial,
        }
    }

    /// Starts a trial: no other call passes until it is answered.
    pub const fn begin_trial(&mut self) {
        self.trying = true;
    }

    /// Returns whether a call may start now.
    ///
    /// A call that is let through while the breaker is open is the trial.
    pub fn admit(&mut self, now: Timestamp) -> bool {
        match self.passage(now) {
            Passage::Open => true,
            Passage::Trial => {
                self.begin_trial();
                true
            }
            Passage::NotBefore(_) | Passage::AfterTrial => false,
        }
    }

    /// Returns the time until which it is open; `None` while it is closed.
    ///
    /// It stays open beyond that until a trial succeeds.
    #[must_use]
    pub const fn open_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// Returns the reason why it is open; `None` while it is closed.
    #[must_use]
    pub const fn trip(&self) -> Option<Trip> {
        match self.open_until {
            None => None,
            Some(_) if self.stopped => Some(Trip::Stopped),
            Some(_) => Some(Trip::Failing),
        }
    }

    /// Returns the number of failures in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether a trial is in flight.
    #[must_use]
    pub const fn is_trying(&self) -> bool {
        self.trying
    }

    /// Lets a trial through at once, because the obstacle may have been removed.
    ///
    /// If it fails, the breaker opens for as long as the first time. A closed one stays closed.
    pub fn try_at_once(&mut self, now: Timestamp) {
        if self.open_until.is_some() {
            let stopped = self.stopped;
            *self = Self { open_until: Some(now), stopped, ..Self::new(self.policy) };
        }
    }

    /// Records that a call was answered, with any answer: the breaker closes.
    ///
    /// Returns whether it had been open because the account could not send.
    ///
    /// A call that was in flight when the account was stopped closes nothing.
    pub const fn answered(&mut self, trial: bool) -> bool {
        if self.stopped && !trial {
            return false;
        }
        let was_stopped = self.stopped;
        *self = Self::new(self.policy);
        was_stopped
    }

    /// Records a call that ended without showing whether the account can send.
    ///
    /// If the account is stopped, the next call is the trial; otherwise the breaker closes.
    pub const fn undecided(&mut self, trial: bool) {
        if self.stopped {
            self.trying &= !trial;
        } else {
            self.answered(trial);
        }
    }

    /// Records that the trial was not made after all.
    ///
    /// The breaker stays open, and the next call is the trial.
    pub const fn abandoned(&mut self) {
        self.trying = false;
    }

    /// Records a failed call. The breaker opens after enough failures in a row, or after a trial.
    pub fn failed(&mut self, now: Timestamp, trial: bool) {
        self.failures = self.failures.saturating_add(1);
        if trial || (self.open_until.is_none() && self.failures >= self.policy.failures_max) {
            self.open(now);
        }
    }

    /// Opens the breaker because the account cannot send. Returns whether that is new.
    pub fn stop(&mut self, now: Timestamp, trial: bool) -> bool {
        let new = !self.stopped;
        if new {
            *self = Self { stopped: true, ..Self::new(self.policy) };
        }
        if new || trial {
            self.open(now);
        }
        new
    }

    fn open(&mut self, now: Timestamp) {
        let backoff = if self.stopped { self.policy.stopped } else { self.policy.failing };
        self.open_until = Some(now.plus(backoff.delay(self.openings)));
        self.openings = self.openings.saturating_add(1);
        self.trying = false;
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
        let mut breaker = CircuitBreaker::default();
        for _ in 0..4 {
            breaker.failed(at(0), false);
        }
        breaker.answered(false);
        for _ in 0..4 {
            breaker.failed(at(0), false);
        }
        assert_eq!(breaker.passage(at(0)), Passage::Open);
        breaker.failed(at(0), false);
        assert_eq!(breaker.open_until(), Some(at(5)));
        assert_eq!(breaker.trip(), Some(Trip::Failing));
        assert_eq!(breaker.passage(at(4)), Passage::NotBefore(at(5)));
        assert_eq!(breaker.passage(at(5)), Passage::Trial);
        breaker.begin_trial();
        assert_eq!(breaker.passage(at(5)), Passage::AfterTrial, "only one is tried");
        assert!(!breaker.answered(true));
        assert_eq!(breaker.passage(at(5)), Passage::Open);
        assert_eq!(breaker.trip(), None);
    }

    #[test]
    fn each_failed_trial_doubles_the_delay_up_to_a_minute() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..5 {
            breaker.failed(at(0), false);
        }
        let mut now = 5;
        for delay in [10, 20, 40, 60, 60] {
            assert_eq!(breaker.passage(at(now)), Passage::Trial);
            breaker.begin_trial();
            // A call that was under way before changes nothing.
            breaker.failed(at(now), false);
            breaker.failed(at(now), true);
            assert_eq!(breaker.open_until(), Some(at(now + delay)));
            now += delay;
        }
    }

    #[test]
    fn it_can_be_tried_at_once_and_opens_for_as_long_as_at_first() {
        let mut breaker = CircuitBreaker::default();
        breaker.try_at_once(at(0));
        assert_eq!(breaker.passage(at(0)), Passage::Open);
        breaker.stop(at(0), false);
        assert_eq!(breaker.trip(), Some(Trip::Stopped));
        breaker.begin_trial();
        breaker.stop(at(60), true);
        for now in [61, 62] {
            breaker.try_at_once(at(now));
            assert_eq!(breaker.passage(at(now)), Passage::Trial);
            breaker.begin_trial();
        }
        assert!(!breaker.stop(at(63), true), "it is known");
        assert_eq!(breaker.open_until(), Some(at(123)));
        breaker.try_at_once(at(64));
        breaker.begin_trial();
        assert!(breaker.answered(true), "it sends again");
    }

    #[test]
    fn a_stopped_account_is_tried_after_a_minute_and_then_less_and_less_often() {
        let mut breaker = CircuitBreaker::default();
        breaker.failed(at(0), false);
        assert!(breaker.stop(at(0), false));
        assert!(!breaker.stop(at(1), false), "it is known");
        let mut now = 60;
        for (trial, delay) in [120, 240, 480, 900, 900].into_iter().enumerate() {
            assert_eq!(breaker.passage(at(now - 1)), Passage::NotBefore(at(now)));
            breaker.begin_trial();
            assert!(!breaker.answered(false), "what was under way decides nothing");
            match trial {
                1 => breaker.failed(at(now), true),
                _ => assert!(!breaker.stop(at(now), true)),
            }
            assert_eq!(breaker.open_until(), Some(at(now + delay)));
            now += delay;
        }
        breaker.begin_trial();
        breaker.undecided(true);
        assert_eq!(breaker.passage(at(now)), Passage::Trial, "another one is tried");
        breaker.begin_trial();
        assert!(breaker.answered(true));
        assert_eq!(breaker.passage(at(now)), Passage::Open);
        assert!(!breaker.answered(false));
    }

    /// Fails like a caller that makes no other call while a trial is in flight.
    fn fail_alone(breaker: &mut CircuitBreaker, now: Timestamp) {
        breaker.failed(now, breaker.is_trying());
    }

    #[test]
    fn a_caller_without_other_calls_admits_one_trial_at_a_time() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..4 {
            fail_alone(&mut breaker, at(0));
        }
        breaker.answered(true);
        for _ in 0..4 {
            fail_alone(&mut breaker, at(0));
        }
        assert!(breaker.admit(at(0)));
        fail_alone(&mut breaker, at(0));
        assert_eq!(breaker.open_until(), Some(at(5)));
        assert!(!breaker.admit(at(4)));
        assert!(breaker.admit(at(5)), "one is tried");
        assert!(!breaker.admit(at(5)), "and only one");
        breaker.answered(true);
        assert!(breaker.admit(at(5)) && breaker.admit(at(5)));
    }

    #[test]
    fn each_failed_trial_of_such_a_caller_doubles_the_delay_too() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..5 {
            fail_alone(&mut breaker, at(0));
        }
        let mut now = 5;
        for delay in [10, 20, 40, 60, 60] {
            assert!(breaker.admit(at(now)));
            fail_alone(&mut breaker, at(now));
            assert_eq!(breaker.open_until(), Some(at(now + delay)));
            now += delay;
        }
    }

    #[test]
    fn an_abandoned_trial_leaves_it_open_for_the_next_one() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..5 {
            breaker.failed(at(0), false);
        }
        assert!(breaker.admit(at(5)));
        breaker.abandoned();
        assert_eq!(breaker.open_until(), Some(at(5)));
        assert!(breaker.admit(at(5)));
        fail_alone(&mut breaker, at(5));
        assert_eq!(breaker.open_until(), Some(at(15)), "the trial failed");
    }

    #[test]
    fn a_policy_of_ones_own_is_kept_over_a_good_answer() {
        let delay = |seconds| Backoff { min: at(seconds).since(at(0)), max: Duration::MAX };
        let policy = BreakerPolicy { failures_max: 2, failing: delay(1), stopped: delay(3) };
        let mut breaker = CircuitBreaker::new(policy);
        for _ in 0..2 {
            breaker.failed(at(0), false);
            assert_eq!(breaker.trip(), None);
            breaker.failed(at(0), false);
            assert_eq!(breaker.open_until(), Some(at(1)));
            breaker.answered(true);
            breaker.stop(at(0), false);
            assert_eq!(breaker.open_until(), Some(at(3)));
            breaker.answered(true);
        }
    }
}
