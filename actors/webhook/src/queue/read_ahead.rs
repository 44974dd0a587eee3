//! Pure: the parts of the log that are read ahead, of new events and of a replay.

use std::collections::VecDeque;

use postrider_domain::Timestamp;

use super::{DeliveryQueue, OrderingKey};
use crate::delivery::{Delivery, EventBatch};
use crate::records::{OpenDelivery, WaitingDelivery};

/// The deliveries that were read ahead and have not started, and the progress of reads and starts.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The last sequence that was read.
    pub(super) scanned: u64,
    /// The last sequence that was started.
    pub(super) begun: u64,
    /// Deliveries that have not started, or were put back, by sequence.
    pub(super) fresh: VecDeque<Delivery>,
}

impl ReadAhead {
    /// Returns a part that starts after this sequence.
    pub(super) fn after(after: u64) -> Self {
        Self { scanned: after, begun: after, fresh: VecDeque::new() }
    }

    /// Adds the deliveries read after `after`, up to `scanned`.
    ///
    /// Returns `false` if reading is elsewhere by now; then nothing is added.
    pub(super) fn feed(&mut self, after: u64, deliveries: Vec<Delivery>, scanned: u64) -> bool {
        let takes = self.scanned == after;
        if takes {
            self.fresh.extend(deliveries);
            self.scanned = scanned;
        }
        takes
    }

    /// Removes the delivery at this index, which starts.
    pub(super) fn begin(&mut self, place: usize) -> Option<Delivery> {
        let delivery = self.fresh.remove(place)?;
        self.begun = self.begun.max(delivery.last);
        Some(delivery)
    }

    /// Puts a delivery back in its order, as if it had not started.
    pub(super) fn put_back(&mut self, delivery: Delivery) {
        let place = self.fresh.partition_point(|it| it.first < delivery.first);
        self.fresh.insert(place, delivery);
    }

    /// Forgets deliveries that have not started, so that they are read again.
    pub(super) fn unread(&mut self) {
        let passed = self.passed().len();
        if let Some(delivery) = self.fresh.get(passed) {
            self.scanned = delivery.first - 1;
            self.fresh.truncate(passed);
        }
    }

    /// Returns the last sequence up to which all have started or are [`passed`](Self::passed).
    pub(super) fn place(&self) -> u64 {
        let next = self.fresh.get(self.passed().len());
        next.map_or(self.scanned, |delivery| delivery.first - 1)
    }

    /// Returns deliveries that have not started although a later one has.
    pub(super) fn passed(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        let passed = self.fresh.partition_point(|delivery| delivery.first <= self.begun);
        self.fresh.range(..passed)
    }

    /// Returns the passed deliveries, as the cursor holds them.
    pub(super) fn passed_open(&self) -> impl Iterator<Item = OpenDelivery> {
        self.passed().map(OpenDelivery::from)
    }
}

impl DeliveryQueue {
    /// Delivers everything after `after` again that has started; the rest is delivered anyway.
    ///
    /// A replay in progress is merged with it.
    pub(crate) fn replay(&mut self, after: u64) {
        let until = self.new.place();
        let mut after = after.min(until);
        if self.replay_is_over() {
            self.replays.begun = after;
        } else {
            let replays = &self.replays;
            after = replays.fresh.front().map_or(replays.scanned, |it| it.first - 1).min(after);
            self.replays.begun = self.replays.begun.min(after);
        }
        self.replays.fresh.clear();
        self.replays.scanned = after;
        self.replay_until = until;
        self.forgive();
    }

    /// Returns the sequences after which and up to which the log is to be read for the replay.
    ///
    /// `None` while deliveries of it are read ahead.
    pub(crate) fn wants_replay(&self) -> Option<(u64, u64)> {
        let wants = self.rules.enabled
            && self.replays.fresh.is_empty()
            && self.replays.scanned < self.replay_until;
        wants.then_some((self.replays.scanned, self.replay_until))
    }

    /// Adds the deliveries of the replay read after `after`, up to `scanned`.
    pub(crate) fn feed_replays(&mut self, after: u64, deliveries: Vec<Delivery>, scanned: u64) {
        self.replays.feed(after, deliveries, scanned);
    }

    /// Returns whether every delivery of the replay has started.
    pub(super) fn replay_is_over(&self) -> bool {
        self.replays.fresh.is_empty() && self.replays.scanned >= self.replay_until
    }

    /// Leaves out the replay at this index if it is delivered anyway, because it waits or is in
    /// flight. A failed one is retried at once.
    pub(super) fn leave_out(&mut self, place: usize, now: Timestamp) {
        while let Some(first) = self.replays.fresh.get(place).map(|delivery| delivery.first)
            && let Some(goes) = self.goes_anyway(first)
            && let Some(delivery) = self.replays.fresh.remove(place)
        {
            if let Some(failed) = self.waiting.get(&first).filter(|it| it.failures > 0) {
                self.retry(first, failed.clone(), now);
            }
            let events = delivery.events.iter().flat_map(|events| events.iter());
            let left: Vec<_> = events.filter(|it| !goes.has(it.sequence)).cloned().collect();
            if let (Some(first), Some(last)) = (left.first(), left.last()) {
                let (first, last) = (first.sequence, last.sequence);
                let batch =
                    delivery.batch.map(|_| EventBatch::of(left.iter().map(|it| it.sequence)));
                let left = Delivery { first, last, batch, events: Some(left.into()), ..delivery };
                self.replays.fresh.insert(place, left);
            }
        }
    }

    /// Returns the events of the delivery of this sequence that waits or is in flight.
    fn goes_anyway(&self, first: u64) -> Option<EventBatch> {
        let waits = self.waiting.get(&first).map(|it| &it.batch);
        let in_flight = self.in_flight.values().map(|attempt| &attempt.delivery);
        let mut other =
            in_flight.chain(self.new.passed()).filter(|delivery| delivery.first == first);
        let batch = waits.or_else(|| other.next().map(|delivery| &delivery.batch))?;
        Some(batch.clone().unwrap_or_else(|| EventBatch::of([first])))
    }

    /// Delivers one event again, or the waiting batch that starts with it.
    pub(crate) fn replay_one(
        &mut self,
        sequence: u64,
        lane: Option<OrderingKey>,
        batch: Option<EventBatch>,
        now: Timestamp,
    ) {
        let at = Some(now);
        let waiting =
            WaitingDelivery { last: sequence, failures: 0, at, lane, batch, is_replay: true };
        self.wait(sequence, waiting);
        self.forgive();
    }

    /// Retries everything that failed, each from the start of its schedule. Returns the number of
    /// them.
    pub(crate) fn retry_failed(&mut self, now: Timestamp) -> u64 {
        let failed = self.waiting.iter().filter(|(_, it)| it.failures > 0);
        let failed: Vec<_> = failed.map(|(first, it)| (*first, it.clone())).collect();
        let count = failed.len() as u64;
        failed.into_iter().for_each(|(first, it)| self.retry(first, it, now));
        self.forgive();
        count
    }

    fn retry(&mut self, first: u64, failed: WaitingDelivery, now: Timestamp) {
        self.wait(first, WaitingDelivery { failures: 0, at: Some(now), is_replay: true, ..failed });
    }
}
