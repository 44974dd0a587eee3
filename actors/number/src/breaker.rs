//! The breaker: a channel that cannot be reached again and again, or whose account cannot send, is
//! left alone for a while, then tried with one message.

use std::time::Duration;

use postrider_domain::Timestamp;

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 5;
/// How long it stays open the first time, and at the most; each time the trial fails too it stays
/// twice as long.
const FAILING: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// The same for an account that cannot send.
const STOPPED: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(900)];

/// Counts failures in a row. Pure: the caller tells the time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    openings: u32,
    open_until: Option<Timestamp>,
    /// A message is under way that decides whether it closes.
    trying: bool,
    /// It is open because of the account.
    stopped: bool,
}

/// What a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// Every message.
    Open,
    /// One message, which is to be noted by [`Breaker::begin_trial`].
    Trial,
    /// None before this.
    NotBefore(Timestamp),
    /// None until the trial that is under way is answered.
    AfterTrial,
}

impl Breaker {
    /// What may be handed over now.
    pub(super) fn passage(&self, now: Timestamp) -> Passage {
        match self.open_until {
            None => Passage::Open,
            Some(until) if now < until => Passage::NotBefore(until),
            Some(_) if self.trying => Passage::AfterTrial,
            Some(_) => Passage::Trial,
        }
    }

    /// A trial was handed over.
    pub(super) fn begin_trial(&mut self) {
        self.trying = true;
    }

    /// Until when it is open.
    pub(super) const fn open_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// Whether it is open because the channel cannot be reached.
    pub(super) const fn is_failing(&self) -> bool {
        self.open_until.is_some() && !self.stopped
    }

    /// What stood in the way may be gone: the next message is tried at once.
    pub(super) fn try_at_once(&mut self, now: Timestamp) {
        if self.open_until.is_some() {
            *self = Self { open_until: Some(now), stopped: self.stopped, ..Self::default() };
        }
    }

    /// The channel answered, whatever it said; `trial` for the message that was tried. Gives whether
    /// the account can send again that could not.
    pub(super) fn answered(&mut self, trial: bool) -> bool {
        if self.stopped && !trial {
            // It was under way when the account was stopped.
            return false;
        }
        std::mem::take(self).stopped
    }

    /// The trial had no answer that says whether it may close: the next one decides.
    pub(super) fn undecided(&mut self, trial: bool) {
        if self.stopped {
            self.trying &= !trial;
        } else {
            self.answered(trial);
        }
    }

    /// The channel could not be reached.
    pub(super) fn failed(&mut self, now: Timestamp, trial: bool) {
        self.failures += 1;
        if trial || (self.open_until.is_none() && self.failures >= FAILURES_MAX) {
            self.open(now);
        }
    }

    /// The account cannot send. Gives whether that is new.
    pub(super) fn stop(&mut self, now: Timestamp, trial: bool) -> bool {
        let new = !self.stopped;
        if new {
            *self = Self { stopped: true, ..Self::default() };
        }
        if new || trial {
            self.open(now);
        }
        new
    }

    fn open(&mut self, now: Timestamp) {
        let [min, max] = if self.stopped { STOPPED } else { FAILING };
        let open = min.saturating_mul(1 << self.openings.min(8)).min(max);
        self.openings += 1;
        self.trying = false;
        self.open_until = Some(now.plus(open));
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
            breaker.failed(at(0), false);
        }
        breaker.answered(false);
        for _ in 0..4 {
            breaker.failed(at(0), false);
        }
        assert_eq!(breaker.passage(at(0)), Passage::Open);
        breaker.failed(at(0), false);
        assert_eq!(breaker.open_until(), Some(at(5)));
        assert_eq!(breaker.passage(at(4)), Passage::NotBefore(at(5)));
        assert_eq!(breaker.passage(at(5)), Passage::Trial);
        breaker.begin_trial();
        assert_eq!(breaker.passage(at(5)), Passage::AfterTrial, "only one is tried");
        assert!(!breaker.answered(true));
        assert_eq!(breaker.passage(at(5)), Passage::Open);
    }

    #[test]
    fn each_failed_trial_doubles_the_wait_up_to_a_minute() {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            breaker.failed(at(0), false);
        }
        let mut now = 5;
        for wait in [10, 20, 40, 60, 60] {
            assert_eq!(breaker.passage(at(now)), Passage::Trial);
            breaker.begin_trial();
            // One that was under way before changes nothing.
            breaker.failed(at(now), false);
            breaker.failed(at(now), true);
            assert_eq!(breaker.open_until(), Some(at(now + wait)));
            now += wait;
        }
    }

    #[test]
    fn it_can_be_tried_at_once_and_opens_for_as_long_as_at_first() {
        let mut breaker = Breaker::default();
        breaker.try_at_once(at(0));
        assert_eq!(breaker.passage(at(0)), Passage::Open);
        breaker.stop(at(0), false);
        assert!(!breaker.is_failing());
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
        let mut breaker = Breaker::default();
        breaker.failed(at(0), false);
        assert!(breaker.stop(at(0), false));
        assert!(!breaker.stop(at(1), false), "it is known");
        let mut now = 60;
        for (trial, wait) in [120, 240, 480, 900, 900].into_iter().enumerate() {
            assert_eq!(breaker.passage(at(now - 1)), Passage::NotBefore(at(now)));
            breaker.begin_trial();
            assert!(!breaker.answered(false), "what was under way decides nothing");
            match trial {
                1 => breaker.failed(at(now), true),
                _ => assert!(!breaker.stop(at(now), true)),
            }
            assert_eq!(breaker.open_until(), Some(at(now + wait)));
            now += wait;
        }
        breaker.begin_trial();
        breaker.undecided(true);
        assert_eq!(breaker.passage(at(now)), Passage::Trial, "another one is tried");
        breaker.begin_trial();
        assert!(breaker.answered(true));
        assert_eq!(breaker.passage(at(now)), Passage::Open);
        assert!(!breaker.answered(false));
    }
}
