//! Pure: a part of the log that is read ahead, and the progress of its deliveries.

use std::collections::VecDeque;

use crate::delivery::Delivery;
use crate::records::Open;

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
    pub(super) fn passed_open(&self) -> impl Iterator<Item = Open> {
        self.passed().map(Open::from)
    }
}
