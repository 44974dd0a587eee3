//! Pure: the replays of a queue.

use postrider_domain::Timestamp;

use crate::delivery::{Batch, Delivery};
use crate::ordering::OrderingKey;

use super::{DeliveryQueue, Waiting};

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
                let batch = delivery.batch.map(|_| Batch::of(left.iter().map(|it| it.sequence)));
                let left = Delivery { first, last, batch, events: Some(left.into()), ..delivery };
                self.replays.fresh.insert(place, left);
            }
        }
    }

    /// Returns the events of the delivery of this sequence that waits or is in flight.
    fn goes_anyway(&self, first: u64) -> Option<Batch> {
        let waits = self.waiting.get(&first).map(|it| &it.batch);
        let in_flight = self.in_flight.values().map(|attempt| &attempt.delivery);
        let mut other =
            in_flight.chain(self.new.passed()).filter(|delivery| delivery.first == first);
        let batch = waits.or_else(|| other.next().map(|delivery| &delivery.batch))?;
        Some(batch.clone().unwrap_or_else(|| Batch::of([first])))
    }

    /// Delivers one event again, or the waiting batch that starts with it.
    pub(crate) fn replay_one(
        &mut self,
        sequence: u64,
        lane: Option<OrderingKey>,
        batch: Option<Batch>,
        now: Timestamp,
    ) {
        let at = Some(now);
        let waiting = Waiting { last: sequence, failures: 0, at, lane, batch, is_replay: true };
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

    fn retry(&mut self, first: u64, failed: Waiting, now: Timestamp) {
        self.wait(first, Waiting { failures: 0, at: Some(now), is_replay: true, ..failed });
    }
}
