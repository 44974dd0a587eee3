//! What waits for one endpoint, and when it goes: pure.
//!
//! The line is a place in the workspace's event log, `after`, and the deliveries before it that
//! have not come to an end: those under way, those that wait for another try, and those given up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::domain::Timestamp;

use super::breaker::Breaker;
use super::delivery::{Aftermath, Attempt, DisabledReason, Failure, LineRules, Parcel};
use super::limiter::{Limiter, Pace};
use super::records::{Cursor, Open, Waiting};
use super::schedule::{self, FAILING_MAX};

/// Deliveries that may wait for another try; while there are more, nothing new is begun.
const WAITING_MAX: usize = 10_000;
/// How long what could not be tried waits.
const POSTPONED: Duration = Duration::from_secs(30);
/// Deliveries that are remembered as given up; the oldest go first.
const GIVEN_UP_MAX: usize = 10_000;

/// The line of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Line {
    rules: LineRules,
    /// The log was read up to here.
    scanned: u64,
    /// Not begun, oldest first.
    fresh: VecDeque<Parcel>,
    under_way: BTreeMap<u64, Attempt>,
    serials: u64,
    /// Failed before, by sequence.
    waiting: BTreeMap<u64, Waiting>,
    /// Those of them that are tried again, by moment.
    due: BTreeSet<(Timestamp, u64)>,
    /// Records to be written (or, without a value, deleted) since they were last taken.
    changed: BTreeMap<u64, Option<Waiting>>,
    limiter: Limiter,
    breaker: Breaker,
    pace: Pace,
    left_alone_until: Timestamp,
    failing_since: Option<Timestamp>,
}

impl Line {
    /// The line that these records tell of. What was under way may have arrived, or not: it goes
    /// out again, under the same id.
    pub(super) fn new(cursor: &Cursor, waiting: BTreeMap<u64, Waiting>, now: Timestamp) -> Self {
        let mut line = Self {
            scanned: cursor.after,
            failing_since: cursor.failing_since,
            waiting,
            ..Self::default()
        };
        for Open { first, last, failures } in &cursor.open {
            let again = Waiting { last: *last, failures: *failures, at: Some(now) };
            line.waiting.entry(*first).or_insert(again);
            line.changed.insert(*first, line.waiting.get(first).copied());
        }
        line.due = line.waiting.iter().filter_map(|(first, it)| Some((it.at?, *first))).collect();
        line
    }

    /// Takes new settings.
    pub(super) fn set_rules(&mut self, rules: LineRules) {
        self.rules = rules;
        self.pace.set(rules.per_second);
        if self.failing_since.is_some_and(|since| since < rules.enabled_at) {
            // What failed before it was enabled is not held against it.
            self.failing_since = None;
            self.forgive();
        }
    }

    /// Keeps the endpoint from being sent anything more until its settings come again.
    pub(super) fn suspend(&mut self) {
        self.rules.enabled = false;
    }

    /// Where the log is to be read on, if there is room for more.
    pub(super) fn wants_more(&self, room: usize) -> Option<u64> {
        (self.rules.enabled && self.fresh.len() < room).then_some(self.scanned)
    }

    /// Takes what was read after `after`, up to `scanned`.
    pub(super) fn feed(&mut self, after: u64, parcels: Vec<Parcel>, scanned: u64) {
        // A replay may have moved it meanwhile.
        if self.scanned == after {
            self.fresh.extend(parcels);
            self.scanned = scanned;
        }
    }

    /// Whether a delivery may go now.
    pub(super) fn may_start(&mut self, now: Timestamp) -> bool {
        self.rules.enabled
            && self.under_way.len() < self.limit()
            && self.gate() <= now
            && self.next_up().is_some_and(|at| at <= now)
            && (self.breaker.open_until().is_none() || self.under_way.is_empty())
    }

    /// When the next delivery may go, if that is a matter of time alone.
    pub(super) fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.rules.enabled || self.under_way.len() >= self.limit() {
            return None;
        }
        Some(self.next_up()?.max(self.gate())).filter(|at| *at > now)
    }

    /// Begins the next delivery; only when it [`may_start`](Self::may_start).
    pub(super) fn start(&mut self, now: Timestamp) -> Option<Attempt> {
        if !self.may_start(now) || !self.breaker.admit(now) {
            return None;
        }
        let due = if self.rules.ordered {
            self.head().map(|(first, at)| (at, first))
        } else {
            self.due.first().copied()
        };
        let (parcel, failures, stored) = match due.filter(|(at, _)| *at <= now) {
            Some((at, first)) => {
                self.due.remove(&(at, first));
                let Waiting { last, failures, .. } = self.waiting.remove(&first)?;
                (Parcel { first, last, events: None }, failures, true)
            }
            None => (self.fresh.pop_front()?, 0, false),
        };
        self.pace.take(now);
        self.serials += 1;
        let attempt = Attempt { serial: self.serials, parcel, failures, stored };
        self.under_way.insert(attempt.serial, attempt.clone());
        Some(attempt)
    }

    /// A delivery arrived.
    pub(super) fn succeeded(&mut self, serial: u64, latency: Duration) {
        let Some(attempt) = self.under_way.remove(&serial) else { return };
        self.forget(&attempt);
        self.limiter.succeeded(latency);
        self.breaker.answered();
        self.failing_since = None;
    }

    /// There is nothing left of what was to be delivered.
    pub(super) fn vanished(&mut self, serial: u64) {
        if let Some(attempt) = self.under_way.remove(&serial) {
            self.forget(&attempt);
            self.breaker.abandoned();
        }
    }

    /// A delivery could not be tried, for a reason that is not the endpoint's.
    pub(super) fn postponed(&mut self, serial: u64, now: Timestamp) {
        let Some(attempt) = self.under_way.remove(&serial) else { return };
        let Attempt { parcel: Parcel { first, last, .. }, failures, .. } = attempt;
        self.wait(first, Waiting { last, failures, at: Some(now.plus(POSTPONED)) });
        self.breaker.abandoned();
    }

    /// A delivery failed. `jitter` is a fraction from 0 to 1.
    pub(super) fn failed(
        &mut self,
        serial: u64,
        failure: Failure,
        now: Timestamp,
        jitter: f64,
    ) -> Aftermath {
        let Some(attempt) = self.under_way.remove(&serial) else {
            return Aftermath { next_at: None, disable: None };
        };
        // Nothing else is told of an endpoint that is down than that it still is: what only found
        // that out has not used up one of its tries.
        let was_trial = self.breaker.open_until().is_some() && !attempt.stored;
        if failure.timed_out {
            self.limiter.timed_out()
        } else {
            self.limiter.failed()
        }
        self.breaker.failed(now);
        if failure.slow_down {
            let pause = schedule::pause(failure.retry_after);
            self.left_alone_until = self.left_alone_until.max(now.plus(pause));
        }
        let since = *self.failing_since.get_or_insert(now);
        let disable = if failure.gone {
            Some(DisabledReason::Gone)
        } else {
            (now.since(since) >= FAILING_MAX).then_some(DisabledReason::Failing)
        };
        let next_at = if was_trial {
            let again = self.gate().max(now);
            self.fresh.push_front(attempt.parcel);
            Some(again)
        } else {
            let delay = schedule::delay(attempt.failures, jitter);
            let at = delay.map(|delay| now.plus(delay).max(self.left_alone_until));
            let Parcel { first, last, .. } = attempt.parcel;
            self.wait(first, Waiting { last, failures: attempt.failures + 1, at });
            at
        };
        Aftermath { next_at, disable }
    }

    /// Goes back to `after`: everything from there on is delivered again.
    pub(super) fn rewind(&mut self, after: u64) {
        self.scanned = after;
        self.fresh.clear();
        let later: Vec<_> = self.waiting.range(after + 1..).map(|(first, _)| *first).collect();
        for first in later {
            self.drop_waiting(first);
        }
        self.forgive();
    }

    /// Delivers one event once more.
    pub(super) fn deliver_again(&mut self, sequence: u64, now: Timestamp) {
        self.wait(sequence, Waiting { last: sequence, failures: 0, at: Some(now) });
        self.forgive();
    }

    /// Tries everything that failed again, from the start of its schedule; says how many there are.
    pub(super) fn retry_failed(&mut self, now: Timestamp) -> u64 {
        let all: Vec<_> = self.waiting.iter().map(|(first, it)| (*first, it.last)).collect();
        for (first, last) in &all {
            self.wait(*first, Waiting { last: *last, failures: 0, at: Some(now) });
        }
        self.forgive();
        all.len() as u64
    }

    /// Whether nothing is under way or waits for time or room.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
            && (!self.rules.enabled || (self.due.is_empty() && self.fresh.is_empty()))
    }

    /// Deliveries under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Where it stands, to be written.
    pub(super) fn cursor(&self) -> Cursor {
        let open = self.under_way.values().filter(|attempt| !attempt.stored);
        Cursor {
            after: self.fresh.front().map_or(self.scanned, |parcel| parcel.first - 1),
            open: open.map(Open::from).collect(),
            failing_since: self.failing_since,
        }
    }

    /// The records that changed since this was last called.
    pub(super) fn take_changed(&mut self) -> BTreeMap<u64, Option<Waiting>> {
        std::mem::take(&mut self.changed)
    }

    fn limit(&self) -> usize {
        if self.rules.ordered { 1 } else { self.limiter.limit() }
    }

    /// Before this nothing may go.
    fn gate(&self) -> Timestamp {
        let breaker = self.breaker.open_until().unwrap_or_default();
        self.left_alone_until.max(breaker).max(self.pace.ready_at())
    }

    /// The moment of what would go next.
    fn next_up(&self) -> Option<Timestamp> {
        if self.rules.ordered
            && let Some((_, at)) = self.head()
        {
            return Some(at);
        }
        if !self.fresh.is_empty() && self.due.len() < WAITING_MAX {
            return Some(Timestamp::default());
        }
        self.due.first().map(|(at, _)| *at)
    }

    /// In strict order: the first of what is tried again, which everything else waits for.
    fn head(&self) -> Option<(u64, Timestamp)> {
        self.waiting.iter().find_map(|(first, it)| Some((*first, it.at?)))
    }

    fn wait(&mut self, first: u64, waiting: Waiting) {
        self.drop_waiting(first);
        self.waiting.insert(first, waiting);
        self.changed.insert(first, Some(waiting));
        match waiting.at {
            Some(at) => drop(self.due.insert((at, first))),
            None if self.waiting.len() - self.due.len() > GIVEN_UP_MAX => {
                let oldest = self.waiting.iter().find(|(_, it)| it.at.is_none());
                if let Some(oldest) = oldest.map(|(first, _)| *first) {
                    self.drop_waiting(oldest);
                }
            }
            None => {}
        }
    }

    fn drop_waiting(&mut self, first: u64) {
        if let Some(waiting) = self.waiting.remove(&first) {
            if let Some(at) = waiting.at {
                self.due.remove(&(at, first));
            }
            self.changed.insert(first, None);
        }
    }

    /// Deletes the record of what came to an end, unless it waits anew.
    fn forget(&mut self, attempt: &Attempt) {
        let first = attempt.parcel.first;
        if attempt.stored && !self.waiting.contains_key(&first) {
            self.changed.insert(first, None);
        }
    }

    /// Lets the endpoint begin anew.
    fn forgive(&mut self) {
        self.breaker.answered();
        self.left_alone_until = Timestamp::default();
    }
}

#[cfg(test)]
mod tests;
