//! Pure: the deliveries of one endpoint, and the time at which each of them starts.
//!
//! The queue is a position in the workspace's event log, `after`, and the deliveries before it that
//! have not ended: those in flight, those that wait for a retry or for their turn, and those given
//! up.
//!
//! A replay is a second, bounded part of the log, and those waiting deliveries that were asked for
//! again. Replays start when no new delivery may, and get a part of the capacity.
//!
//! In order, deliveries about one contact go one after the other. One that fails blocks the later
//! ones of the same contact and no others: they are set aside and wait with it.

mod ordering;
mod read_ahead;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_runtime::flow::{AimdLimit, CircuitBreaker, Rate, TokenBucket};

use crate::delivery::{Aftermath, Delivery, DeliveryFailure, QueueRules, StartedAttempt};
use crate::records::{Cursor, OpenDelivery, WaitingDelivery};
use crate::retry_schedule::{pause_length, reason_to_disable, retry_delay};

use ordering::Lanes;
pub(crate) use ordering::OrderingKey;
use read_ahead::ReadAhead;

/// The maximum of deliveries that wait for a retry or their turn, not counting replays.
///
/// While there are more, no new one starts.
const WAITING_MAX: usize = 10_000;
/// In order: the number of deliveries that are examined for one that may start.
const LOOK_AHEAD: usize = 128;
/// The time for which a delivery waits that could not be attempted.
const POSTPONED: Duration = Duration::from_secs(30);
/// The maximum of deliveries that are kept as given up; the oldest are dropped first.
const GIVEN_UP_MAX: usize = 10_000;

/// Under constant load every tenth delivery is a replay, so that replays are not starved.
const NEW_IN_A_ROW_MAX: u32 = 9;

/// The deliveries of one endpoint.
#[derive(Debug, Default)]
pub(super) struct DeliveryQueue {
    rules: QueueRules,
    /// New events.
    new: ReadAhead,
    /// Events of the replay in progress.
    replays: ReadAhead,
    /// The sequence at which the replay ends.
    replay_until: u64,
    /// Attempts in flight, by serial.
    in_flight: BTreeMap<u64, StartedAttempt>,
    /// The number of replays among them.
    replays_in_flight: usize,
    /// The number of deliveries that have started since the last replay.
    new_in_a_row: u32,
    /// The serial of the last attempt.
    serials: u64,
    /// Deliveries that failed or were set aside, by sequence.
    waiting: BTreeMap<u64, WaitingDelivery>,
    /// The start times of those that were not given up.
    lanes: Lanes,
    /// Records to be written, or deleted if there is no value, since they were last taken.
    changed: BTreeMap<u64, Option<WaitingDelivery>>,
    limiter: AimdLimit,
    breaker: CircuitBreaker,
    pace: TokenBucket,
    /// The time until which the endpoint asked for a pause.
    left_alone_until: Timestamp,
    /// The time of the first of the failures in a row.
    failing_since: Option<Timestamp>,
}

/// The delivery that starts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextDelivery {
    /// The waiting one of this sequence.
    Waiting(u64),
    /// The new one at this index of those that were read ahead.
    New(usize),
    /// The replay at this index of those that were read ahead.
    Replay(usize),
}

impl DeliveryQueue {
    /// Restores the queue from its records. A delivery that was in flight may have arrived or not:
    /// it is repeated with the same id.
    pub(super) fn new(
        cursor: &Cursor,
        waiting: BTreeMap<u64, WaitingDelivery>,
        now: Timestamp,
    ) -> Self {
        let mut queue = Self {
            new: ReadAhead::after(cursor.after),
            replays: ReadAhead::after(cursor.replay.map_or(0, |(after, _)| after)),
            replay_until: cursor.replay.map_or(0, |(_, until)| until),
            failing_since: cursor.failing_since,
            waiting,
            ..Self::default()
        };
        for OpenDelivery { first, last, failures, lane, batch, is_replay } in cursor.open.clone() {
            let open = WaitingDelivery { last, failures, at: Some(now), lane, batch, is_replay };
            // A waiting record of the same sequence may hold fewer events than the batch.
            let before = queue.waiting.get(&first).filter(|it| it.last >= last);
            let waiting = before.cloned().unwrap_or(open);
            queue.waiting.insert(first, waiting.clone());
            queue.changed.insert(first, Some(waiting));
        }
        queue.arrange(false);
        queue
    }

    /// Applies new settings.
    pub(super) fn set_rules(&mut self, rules: QueueRules) {
        if rules.ordered != self.lanes.in_order() {
            self.arrange(rules.ordered);
            // Deliveries that have not started are read again, as they were read without ordering
            // keys.
            self.new.unread();
            self.replays.unread();
        }
        if rules.enabled_at != self.rules.enabled_at {
            // Failures from before it was enabled do not count.
            self.failing_since = self.failing_since.filter(|since| *since >= rules.enabled_at);
            self.forgive();
        }
        self.rules = rules;
        self.pace.set_rate(Rate::smooth(rules.per_second.map_or(0, NonZeroU32::get)));
    }

    /// Arranges everything that waits by contact, or by time alone.
    fn arrange(&mut self, in_order: bool) {
        self.lanes = Lanes::new(in_order);
        for (first, it) in &self.waiting {
            if let Some(at) = it.at {
                self.lanes.wait(*first, it.lane, at, it.is_replay);
            }
        }
        self.in_flight.values().for_each(|attempt| self.lanes.begin(attempt.delivery.lane));
    }

    /// Returns when the endpoint was last enabled, by the settings applied last.
    pub(super) fn enabled_at(&self) -> Timestamp {
        self.rules.enabled_at
    }

    /// Stops further starts until settings are applied again.
    pub(super) fn suspend(&mut self) {
        self.rules.enabled = false;
    }

    /// Returns the sequence after which the log is to be read.
    ///
    /// `None` if at least `capacity` deliveries are read ahead.
    pub(super) fn wants_more(&self, capacity: usize) -> Option<u64> {
        (self.rules.enabled && self.new.fresh.len() < capacity).then_some(self.new.scanned)
    }

    /// Adds the deliveries read after `after`, up to `scanned`.
    ///
    /// Returns `false` if the queue meanwhile reads from elsewhere; then nothing is added.
    pub(super) fn feed(&mut self, after: u64, deliveries: Vec<Delivery>, scanned: u64) -> bool {
        self.new.feed(after, deliveries, scanned)
    }

    /// Removes the events up to this sequence from a batch in flight: the log no longer has them.
    pub(super) fn cut_off(&mut self, serial: u64, until: u64) {
        let attempt = self.in_flight.get_mut(&serial);
        if let Some(batch) = attempt.and_then(|it| it.delivery.batch.as_mut()) {
            *batch = batch.after(until);
        }
    }

    /// Returns whether a delivery may start now.
    pub(super) fn may_start(&mut self, now: Timestamp) -> bool {
        self.rules.enabled
            && self.in_flight.len() < self.limiter.limit()
            && self.gate() <= now
            && self.next_start(now).is_some_and(|(at, _)| at <= now)
            && (self.breaker.open_until().is_none() || self.in_flight.is_empty())
    }

    /// Returns when the next delivery may start, if only time has to pass.
    pub(super) fn next_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        if !self.rules.enabled || self.in_flight.len() >= self.limiter.limit() {
            return None;
        }
        let (at, _) = self.next_start(now)?;
        Some(at.max(self.gate())).filter(|at| *at > now)
    }

    /// Starts the next delivery, if it [`may_start`](Self::may_start).
    pub(super) fn start(&mut self, now: Timestamp) -> Option<StartedAttempt> {
        if !self.may_start(now) || !self.breaker.admit(now) {
            return None;
        }
        let (delivery, failures, stored) = match self.next_start(now)?.1 {
            NextDelivery::Waiting(first) => {
                let waiting = self.waiting.remove(&first)?;
                let WaitingDelivery { lane, is_replay, .. } = waiting;
                waiting.at.inspect(|at| self.lanes.leave(first, lane, *at, is_replay));
                let failures = waiting.failures;
                (waiting.delivery(first), failures, true)
            }
            NextDelivery::New(place) => (self.new.begin(place)?, 0, false),
            NextDelivery::Replay(place) => (self.replays.begin(place)?, 0, false),
        };
        self.replays_in_flight += usize::from(delivery.is_replay);
        let in_a_row = self.new_in_a_row.saturating_add(1);
        self.new_in_a_row = if delivery.is_replay { 0 } else { in_a_row };
        self.lanes.begin(delivery.lane);
        self.pace.take(now);
        self.serials += 1;
        let (serial, enabled_at) = (self.serials, self.rules.enabled_at);
        let attempt = StartedAttempt { serial, delivery, failures, stored, enabled_at };
        self.in_flight.insert(attempt.serial, attempt.clone());
        Some(attempt)
    }

    /// Ends a delivery that the endpoint acknowledged.
    pub(super) fn succeeded(&mut self, serial: u64, latency: Duration) {
        let Some(attempt) = self.ended(serial) else { return };
        if attempt.stored {
            self.forget(attempt.delivery.first);
        }
        self.limiter.succeeded(latency);
        self.breaker.answered(true);
        self.failing_since = None;
    }

    /// Ends a delivery of which the log has no event any more.
    pub(super) fn vanished(&mut self, serial: u64) {
        if let Some(attempt) = self.ended(serial) {
            if attempt.stored {
                self.forget(attempt.delivery.first);
            }
            self.breaker.abandoned();
        }
    }

    /// Postpones a delivery that could not be attempted for a reason outside of the endpoint.
    pub(super) fn postponed(&mut self, serial: u64, now: Timestamp) {
        let Some(attempt) = self.ended(serial) else { return };
        self.wait_for_retry(&attempt, attempt.failures, Some(now.plus(POSTPONED)));
        self.breaker.abandoned();
    }

    /// Schedules a retry of a delivery that failed, or gives it up. `jitter` is a fraction from 0
    /// to 1.
    pub(super) fn failed(
        &mut self,
        serial: u64,
        failure: DeliveryFailure,
        now: Timestamp,
        jitter: f64,
    ) -> Aftermath {
        let Some(attempt) = self.ended(serial) else {
            return Aftermath { next_at: None, disable: None };
        };
        if attempt.enabled_at != self.rules.enabled_at {
            // It went to the URL that the endpoint had before.
            self.wait_for_retry(&attempt, attempt.failures, Some(now));
            return Aftermath { next_at: Some(now), disable: None };
        }
        // A trial shows only that the endpoint is still down: it does not count as an attempt of
        // the delivery that it was made with.
        let was_trial = self.breaker.open_until().is_some() && attempt.failures == 0;
        if failure.timed_out {
            self.limiter.timed_out()
        } else {
            self.limiter.failed()
        }
        // While a trial is in flight nothing else is.
        self.breaker.failed(now, self.breaker.is_trying());
        if failure.slow_down {
            let pause = pause_length(failure.retry_after);
            self.left_alone_until = self.left_alone_until.max(now.plus(pause));
        }
        let since = *self.failing_since.get_or_insert(now);
        let disable = reason_to_disable(failure.gone, since, now);
        let next_at = if was_trial {
            let at = self.gate().max(now);
            if attempt.stored || attempt.delivery.is_replay {
                self.wait_for_retry(&attempt, 0, Some(at));
            } else {
                self.new.put_back(attempt.delivery);
            }
            Some(at)
        } else {
            let delay = retry_delay(attempt.failures, jitter);
            let at = delay.map(|delay| now.plus(delay).max(self.left_alone_until));
            self.wait_for_retry(&attempt, attempt.failures + 1, at);
            at
        };
        Aftermath { next_at, disable }
    }

    /// Returns whether nothing is in flight, and nothing waits for its time or for capacity.
    pub(super) fn is_idle(&self) -> bool {
        let is_over = self.lanes.waiting() == 0 && self.new.fresh.is_empty();
        self.in_flight.is_empty() && (!self.rules.enabled || (is_over && self.replay_is_over()))
    }

    /// Returns since when the oldest due delivery that is not in flight has been due.
    ///
    /// It is due since its event was emitted, or since the moment of its retry, which may lie
    /// ahead. A delivery delayed by the endpoint's rate, a pause or the breaker is due all the
    /// same; replays are not.
    pub(super) fn due_since(&self) -> Option<Timestamp> {
        let fresh = self.new.fresh.front().and_then(|delivery| delivery.events.as_ref()?.first());
        let waiting = self.lanes.next(false).map(|(at, _)| at);
        // A delivery that was set aside has no moment of its own.
        let waiting = waiting.filter(|at| *at > Timestamp::default());
        let due = fresh.map(|event| event.at).into_iter().chain(waiting).min();
        due.filter(|_| self.rules.enabled)
    }

    /// Returns the number of deliveries in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns its cursor, to be written.
    pub(super) fn cursor(&self) -> Cursor {
        let open =
            self.in_flight.values().filter(|attempt| !attempt.stored).map(OpenDelivery::from);
        Cursor {
            after: self.new.place(),
            open: open.chain(self.new.passed_open()).chain(self.replays.passed_open()).collect(),
            replay: (!self.replay_is_over()).then(|| (self.replays.place(), self.replay_until)),
            failing_since: self.failing_since,
        }
    }

    /// Returns the records that changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeMap<u64, Option<WaitingDelivery>> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the moment before which no delivery may start.
    fn gate(&self) -> Timestamp {
        let breaker = self.breaker.open_until().unwrap_or_default();
        self.left_alone_until.max(breaker).max(self.pace.ready_at())
    }

    /// Removes an attempt from those in flight.
    fn ended(&mut self, serial: u64) -> Option<StartedAttempt> {
        let attempt = self.in_flight.remove(&serial)?;
        self.replays_in_flight -= usize::from(attempt.delivery.is_replay);
        self.lanes.end(attempt.delivery.lane);
        Some(attempt)
    }

    /// Makes a delivery wait for its retry at `at`, or gives it up.
    fn wait_for_retry(&mut self, attempt: &StartedAttempt, failures: u32, at: Option<Timestamp>) {
        self.wait(attempt.delivery.first, attempt.delivery.waiting(failures, at));
    }

    fn wait(&mut self, first: u64, mut waiting: WaitingDelivery) {
        // One event of a batch must not replace the batch, nor the record of the batch.
        let in_flight = self.recorded(first).map(|it| it.delivery.waiting(it.failures, None));
        let before = in_flight.chain(self.waiting.get(&first).cloned());
        let before = before.max_by_key(|it| it.last);
        self.drop_waiting(first);
        if let Some(before) = before.filter(|it| it.last > waiting.last) {
            waiting = WaitingDelivery { failures: waiting.failures, at: waiting.at, ..before };
        }
        let WaitingDelivery { at, lane, is_replay, .. } = waiting;
        self.waiting.insert(first, waiting.clone());
        self.changed.insert(first, Some(waiting));
        match at {
            Some(at) => self.lanes.wait(first, lane, at, is_replay),
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
            self.lanes.leave(first, waiting.lane, at, waiting.is_replay);
        }
        self.forget(first);
    }

    /// Deletes the record of a delivery that has ended.
    ///
    /// The record stays if the delivery waits again or another attempt uses the record.
    fn forget(&mut self, first: u64) {
        if !self.waiting.contains_key(&first) && self.recorded(first).next().is_none() {
            self.changed.insert(first, None);
        }
    }

    /// Returns the attempts in flight whose only record is this one.
    fn recorded(&self, first: u64) -> impl Iterator<Item = &StartedAttempt> {
        let in_flight = self.in_flight.values();
        in_flight.filter(move |it| it.stored && it.delivery.first == first)
    }

    /// Clears the delays of the endpoint by earlier failures.
    fn forgive(&mut self) {
        self.breaker.answered(true);
        self.left_alone_until = Timestamp::default();
    }

    /// Returns the number of deliveries that wait, as far as the log was read, or are in flight.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.waiting() + self.new.fresh.len() + self.in_flight.len()
    }

    /// Returns whether the endpoint keeps failing, and is tried only now and then.
    pub(super) fn is_left_alone(&self) -> bool {
        self.breaker.open_until().is_some()
    }

    /// Returns the delivery that starts next, and its moment.
    ///
    /// A replay starts when no new delivery may, and after [`NEW_IN_A_ROW_MAX`] new ones.
    fn next_start(&mut self, now: Timestamp) -> Option<(Timestamp, NextDelivery)> {
        let may_replay = self.replays_in_flight < (self.limiter.limit() / 4).max(1);
        let replay = if may_replay { self.next_of(true, now) } else { None };
        let is_due = |it: &(Timestamp, NextDelivery)| it.0 <= now;
        if self.new_in_a_row >= NEW_IN_A_ROW_MAX && replay.as_ref().is_some_and(is_due) {
            return replay;
        }
        let new = self.next_of(false, now);
        if new.as_ref().is_some_and(is_due) {
            return new;
        }
        new.into_iter().chain(replay).min_by_key(|(at, _)| *at)
    }

    /// Returns the next of the replays (`is_replay`), or of the others.
    ///
    /// A retry that is due goes before a first attempt.
    fn next_of(&mut self, is_replay: bool, now: Timestamp) -> Option<(Timestamp, NextDelivery)> {
        let waiting = |queue: &Self| {
            let next = queue.lanes.next(is_replay);
            next.map(|(at, first)| (at, NextDelivery::Waiting(first)))
        };
        waiting(self).filter(|(at, _)| *at <= now).or_else(|| {
            let fresh = self.next_fresh(is_replay, now).map(|place| {
                let next =
                    if is_replay { NextDelivery::Replay(place) } else { NextDelivery::New(place) };
                (Timestamp::default(), next)
            });
            // The search may have set deliveries aside.
            fresh.or_else(|| waiting(self))
        })
    }

    /// Returns the index of the first delivery read ahead whose lane is free.
    ///
    /// Earlier ones whose lane waits for a retry are set aside.
    fn next_fresh(&mut self, is_replay: bool, now: Timestamp) -> Option<usize> {
        let mut place = 0;
        while self.may_begin(is_replay) && place < LOOK_AHEAD {
            if is_replay {
                self.leave_out(place, now);
            }
            let lane = self.read_ahead(is_replay).fresh.get(place)?.lane;
            if !self.lanes.in_order() {
                return Some(place);
            }
            if lane.is_none() {
                // It is ordered against everything before and after it.
                return (place == 0 && self.lanes.is_empty()).then_some(0);
            }
            if self.lanes.is_taken(None) {
                return None;
            }
            if !self.lanes.is_taken(lane) {
                return Some(place);
            }
            if self.lanes.has_waiting(lane) {
                self.set_aside(is_replay, place);
            } else {
                place += 1;
            }
        }
        None
    }

    /// Returns whether few enough deliveries wait for another to start.
    ///
    /// Replays use half the capacity, and their number never blocks new deliveries.
    fn may_begin(&self, is_replay: bool) -> bool {
        match is_replay {
            true => self.lanes.waiting() < WAITING_MAX / 2,
            false => self.lanes.waiting_anew() < WAITING_MAX,
        }
    }

    /// Makes a delivery that was read ahead wait for its turn.
    fn set_aside(&mut self, is_replay: bool, place: usize) {
        if let Some(delivery) = self.read_ahead(is_replay).begin(place) {
            self.wait(delivery.first, delivery.waiting(0, Some(Timestamp::default())));
        }
    }

    fn read_ahead(&mut self, is_replay: bool) -> &mut ReadAhead {
        if is_replay { &mut self.replays } else { &mut self.new }
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;
