//! What waits for one endpoint, and when it goes: pure.
//!
//! The line is a place in the workspace's event log, `after`, and the deliveries before it that
//! have not come to an end: those under way, those that wait for another try or for their turn, and
//! those given up.
//!
//! What somebody asks for again is a second, shorter stretch of the log, and of what waits what was
//! asked for again: both go when nothing new may, with a part of the room.
//!
//! In order, what is about one contact goes one after the other, and what fails holds back what
//! comes later of the same contact, nothing else: it is set aside and waits with it.

mod next;
mod read_ahead;
mod replays;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_runtime::flow::{AimdLimit, CircuitBreaker, Rate, TokenBucket};

use super::delivery::{Aftermath, Attempt, DisabledReason, Failure, Parcel, QueueRules};
use super::ordering::Lanes;
use super::records::{Cursor, Open, Waiting};
use super::schedule::{self, FAILING_MAX};
use next::Next;
use read_ahead::Stretch;

/// Deliveries that may wait for another try or their turn, beside those that somebody asked for
/// again; while there are more, nothing new is begun.
const WAITING_MAX: usize = 10_000;
/// In order: how many that were not begun are looked at for one that may go.
const LOOK_AHEAD: usize = 128;
/// How long what could not be tried waits.
const POSTPONED: Duration = Duration::from_secs(30);
/// Deliveries that are remembered as given up; the oldest go first.
const GIVEN_UP_MAX: usize = 10_000;

/// The line of one endpoint.
#[derive(Debug, Default)]
pub(super) struct DeliveryQueue {
    rules: QueueRules,
    /// What comes for the first time.
    new: Stretch,
    /// What comes again, and up to where.
    again: Stretch,
    again_until: u64,
    under_way: BTreeMap<u64, Attempt>,
    /// How many of them come again.
    again_under_way: usize,
    /// How many have begun since one came again.
    new_in_a_row: u32,
    serials: u64,
    /// Failed before, or set aside, by sequence.
    waiting: BTreeMap<u64, Waiting>,
    /// Those of them that have not been given up.
    lanes: Lanes,
    /// Records to be written (or, without a value, deleted) since they were last taken.
    changed: BTreeMap<u64, Option<Waiting>>,
    limiter: AimdLimit,
    breaker: CircuitBreaker,
    pace: TokenBucket,
    left_alone_until: Timestamp,
    failing_since: Option<Timestamp>,
}

impl DeliveryQueue {
    /// The line that these records tell of. What was under way may have arrived, or not: it goes
    /// out again, under the same id.
    pub(super) fn new(cursor: &Cursor, waiting: BTreeMap<u64, Waiting>, now: Timestamp) -> Self {
        let mut line = Self {
            new: Stretch::after(cursor.after),
            again: Stretch::after(cursor.again.map_or(0, |(after, _)| after)),
            again_until: cursor.again.map_or(0, |(_, until)| until),
            failing_since: cursor.failing_since,
            waiting,
            ..Self::default()
        };
        for Open { first, last, failures, lane, batch, again } in cursor.open.clone() {
            let told = Waiting { last, failures, at: Some(now), lane, batch, again };
            // A record of the same one may tell of less than a batch.
            let before = line.waiting.get(&first).filter(|it| it.last >= last);
            let waiting = before.cloned().unwrap_or(told);
            line.waiting.insert(first, waiting.clone());
            line.changed.insert(first, Some(waiting));
        }
        line.arrange(false);
        line
    }

    /// Takes new settings.
    pub(super) fn set_rules(&mut self, rules: QueueRules) {
        if rules.ordered != self.lanes.in_order() {
            self.arrange(rules.ordered);
            // What was not begun is read again: its lanes were not asked for.
            self.new.unread();
            self.again.unread();
        }
        if rules.enabled_at != self.rules.enabled_at {
            // What failed before it was enabled is not held against it.
            self.failing_since = self.failing_since.filter(|since| *since >= rules.enabled_at);
            self.forgive();
        }
        self.rules = rules;
        self.pace.set_rate(Rate::smooth(rules.per_second.map_or(0, NonZeroU32::get)));
    }

    /// Puts everything that waits in order, or out of it.
    fn arrange(&mut self, in_order: bool) {
        self.lanes = Lanes::new(in_order);
        for (first, it) in &self.waiting {
            if let Some(at) = it.at {
                self.lanes.wait(*first, it.lane, at, it.again);
            }
        }
        self.under_way.values().for_each(|attempt| self.lanes.begin(attempt.parcel.lane));
    }

    /// When the endpoint was enabled, as far as the line knows.
    pub(super) fn enabled_at(&self) -> Timestamp {
        self.rules.enabled_at
    }

    /// Keeps the endpoint from being sent anything more until its settings come again.
    pub(super) fn suspend(&mut self) {
        self.rules.enabled = false;
    }

    /// Where the log is to be read on, if there is room for more.
    pub(super) fn wants_more(&self, room: usize) -> Option<u64> {
        (self.rules.enabled && self.new.fresh.len() < room).then_some(self.new.scanned)
    }

    /// Takes what was read after `after`, up to `scanned`, unless it is read from elsewhere by now.
    pub(super) fn feed(&mut self, after: u64, parcels: Vec<Parcel>, scanned: u64) -> bool {
        self.new.feed(after, parcels, scanned)
    }

    /// What is up to this sequence of a batch under way is not there any more.
    pub(super) fn cut_off(&mut self, serial: u64, until: u64) {
        let attempt = self.under_way.get_mut(&serial);
        if let Some(batch) = attempt.and_then(|it| it.parcel.batch.as_mut()) {
            *batch = batch.after(until);
        }
    }

    /// Whether a delivery may go now.
    pub(super) fn may_start(&mut self, now: Timestamp) -> bool {
        self.rules.enabled
            && self.under_way.len() < self.limiter.limit()
            && self.gate() <= now
            && self.next_up(now).is_some_and(|(at, _)| at <= now)
            && (self.breaker.open_until().is_none() || self.under_way.is_empty())
    }

    /// When the next delivery may go, if that is a matter of time alone.
    pub(super) fn next_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        if !self.rules.enabled || self.under_way.len() >= self.limiter.limit() {
            return None;
        }
        let (at, _) = self.next_up(now)?;
        Some(at.max(self.gate())).filter(|at| *at > now)
    }

    /// Begins the next delivery; only when it [`may_start`](Self::may_start).
    pub(super) fn start(&mut self, now: Timestamp) -> Option<Attempt> {
        if !self.may_start(now) || !self.breaker.admit(now) {
            return None;
        }
        let (parcel, failures, stored) = match self.next_up(now)?.1 {
            Next::Waiting(first) => {
                let waiting = self.waiting.remove(&first)?;
                let Waiting { lane, again, .. } = waiting;
                waiting.at.inspect(|at| self.lanes.leave(first, lane, *at, again));
                let failures = waiting.failures;
                (waiting.parcel(first), failures, true)
            }
            Next::New(place) => (self.new.begin(place)?, 0, false),
            Next::Again(place) => (self.again.begin(place)?, 0, false),
        };
        self.again_under_way += usize::from(parcel.again);
        self.new_in_a_row = if parcel.again { 0 } else { self.new_in_a_row.saturating_add(1) };
        self.lanes.begin(parcel.lane);
        self.pace.take(now);
        self.serials += 1;
        let (serial, enabled_at) = (self.serials, self.rules.enabled_at);
        let attempt = Attempt { serial, parcel, failures, stored, enabled_at };
        self.under_way.insert(attempt.serial, attempt.clone());
        Some(attempt)
    }

    /// A delivery arrived.
    pub(super) fn succeeded(&mut self, serial: u64, latency: Duration) {
        let Some(attempt) = self.ended(serial) else { return };
        if attempt.stored {
            self.forget(attempt.parcel.first);
        }
        self.limiter.succeeded(latency);
        self.breaker.answered(true);
        self.failing_since = None;
    }

    /// There is nothing left of what was to be delivered.
    pub(super) fn vanished(&mut self, serial: u64) {
        if let Some(attempt) = self.ended(serial) {
            if attempt.stored {
                self.forget(attempt.parcel.first);
            }
            self.breaker.abandoned();
        }
    }

    /// A delivery could not be tried, for a reason that is not the endpoint's.
    pub(super) fn postponed(&mut self, serial: u64, now: Timestamp) {
        let Some(attempt) = self.ended(serial) else { return };
        self.wait_again(&attempt, attempt.failures, Some(now.plus(POSTPONED)));
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
        let Some(attempt) = self.ended(serial) else {
            return Aftermath { next_at: None, disable: None };
        };
        if attempt.enabled_at != self.rules.enabled_at {
            // It went to where the endpoint was before.
            self.wait_again(&attempt, attempt.failures, Some(now));
            return Aftermath { next_at: Some(now), disable: None };
        }
        // Nothing else is told of an endpoint that is down than that it still is: what only found
        // that out has not used up one of its tries.
        let was_trial = self.breaker.open_until().is_some() && attempt.failures == 0;
        if failure.timed_out {
            self.limiter.timed_out()
        } else {
            self.limiter.failed()
        }
        // While a trial is under way nothing else is.
        self.breaker.failed(now, self.breaker.is_trying());
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
            let at = self.gate().max(now);
            if attempt.stored || attempt.parcel.again {
                self.wait_again(&attempt, 0, Some(at));
            } else {
                self.new.put_back(attempt.parcel);
            }
            Some(at)
        } else {
            let delay = schedule::delay(attempt.failures, jitter);
            let at = delay.map(|delay| now.plus(delay).max(self.left_alone_until));
            self.wait_again(&attempt, attempt.failures + 1, at);
            at
        };
        Aftermath { next_at, disable }
    }

    /// Whether nothing is under way or waits for time or room.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
            && (!self.rules.enabled
                || (self.lanes.waiting() == 0 && self.new.fresh.is_empty() && self.again_is_over()))
    }

    /// Since when the oldest of what is due, and not under way, has been so: as an event that was
    /// told, or as a try whose moment came (it may lie ahead). What the endpoint's rate, a pause or
    /// the breaker holds back is due all the same; what somebody asked for again is not.
    pub(super) fn due_since(&self) -> Option<Timestamp> {
        let fresh = self.new.fresh.front().and_then(|parcel| parcel.events.as_ref()?.first());
        let waiting = self.lanes.next(false).map(|(at, _)| at);
        // One that was set aside has no moment of its own.
        let waiting = waiting.filter(|at| *at > Timestamp::default());
        let due = fresh.map(|event| event.at).into_iter().chain(waiting).min();
        due.filter(|_| self.rules.enabled)
    }

    /// Deliveries under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Where it stands, to be written.
    pub(super) fn cursor(&self) -> Cursor {
        let open = self.under_way.values().filter(|attempt| !attempt.stored).map(Open::from);
        Cursor {
            after: self.new.place(),
            open: open.chain(self.new.passed_open()).chain(self.again.passed_open()).collect(),
            again: (!self.again_is_over()).then(|| (self.again.place(), self.again_until)),
            failing_since: self.failing_since,
        }
    }

    /// The records that changed since this was last called.
    pub(super) fn take_changed(&mut self) -> BTreeMap<u64, Option<Waiting>> {
        std::mem::take(&mut self.changed)
    }

    /// Before this nothing may go.
    fn gate(&self) -> Timestamp {
        let breaker = self.breaker.open_until().unwrap_or_default();
        self.left_alone_until.max(breaker).max(self.pace.ready_at())
    }

    /// Takes what was under way from there.
    fn ended(&mut self, serial: u64) -> Option<Attempt> {
        let attempt = self.under_way.remove(&serial)?;
        self.again_under_way -= usize::from(attempt.parcel.again);
        self.lanes.end(attempt.parcel.lane);
        Some(attempt)
    }

    /// Has what was tried wait for its next try, or gives it up.
    fn wait_again(&mut self, attempt: &Attempt, failures: u32, at: Option<Timestamp>) {
        self.wait(attempt.parcel.first, attempt.parcel.waiting(failures, at));
    }

    fn wait(&mut self, first: u64, mut waiting: Waiting) {
        // One event of a batch must not take the place of all, nor that of the record of all.
        let under_way = self.recorded(first).map(|it| it.parcel.waiting(it.failures, None));
        let before = under_way.chain(self.waiting.get(&first).cloned());
        let before = before.max_by_key(|it| it.last);
        self.drop_waiting(first);
        if let Some(before) = before.filter(|it| it.last > waiting.last) {
            waiting = Waiting { failures: waiting.failures, at: waiting.at, ..before };
        }
        let Waiting { at, lane, again, .. } = waiting;
        self.waiting.insert(first, waiting.clone());
        self.changed.insert(first, Some(waiting));
        match at {
            Some(at) => self.lanes.wait(first, lane, at, again),
            None if self.waiting.len() - self.lanes.waiting() > GIVEN_UP_MAX => {
                let oldest = self.waiting.iter().find(|(_, it)| it.at.is_none());
                if let Some(oldest) = oldest.map(|(first, _)| *first) {
                    self.drop_waiting(oldest);
                }
            }
            None => {}
        }
    }

    fn drop_waiting(&mut self, first: u64) {
        let Some(waiting) = self.waiting.remove(&first) else { return };
        if let Some(at) = waiting.at {
            self.lanes.leave(first, waiting.lane, at, waiting.again);
        }
        self.forget(first);
    }

    /// Deletes the record of what came to an end, unless it waits anew, or another try goes by it.
    fn forget(&mut self, first: u64) {
        if !self.waiting.contains_key(&first) && self.recorded(first).next().is_none() {
            self.changed.insert(first, None);
        }
    }

    /// What is under way and has no other record than this one.
    fn recorded(&self, first: u64) -> impl Iterator<Item = &Attempt> {
        let under_way = self.under_way.values();
        under_way.filter(move |it| it.stored && it.parcel.first == first)
    }

    /// Lets the endpoint begin anew.
    fn forgive(&mut self) {
        self.breaker.answered(true);
        self.left_alone_until = Timestamp::default();
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod retry_tests;
#[cfg(test)]
mod tests;
