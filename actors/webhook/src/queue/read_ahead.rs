//! A stretch of the log, which is read ahead and begun in its order.

use std::collections::VecDeque;

use crate::delivery::Parcel;
use crate::records::Open;

/// What of a stretch was read and is not begun, and how far that is.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    /// It was read up to here.
    pub(super) scanned: u64,
    /// Something up to here was begun, and nothing after it.
    pub(super) begun: u64,
    /// Not begun, or begun and not held against it; by sequence.
    pub(super) fresh: VecDeque<Parcel>,
}

impl Stretch {
    /// One that begins after this sequence.
    pub(super) fn after(after: u64) -> Self {
        Self { scanned: after, begun: after, fresh: VecDeque::new() }
    }

    /// Takes what was read after `after`, up to `scanned`, unless it is read from elsewhere by now.
    pub(super) fn feed(&mut self, after: u64, parcels: Vec<Parcel>, scanned: u64) -> bool {
        let takes = self.scanned == after;
        if takes {
            self.fresh.extend(parcels);
            self.scanned = scanned;
        }
        takes
    }

    /// Takes out the one at this place, which begins.
    pub(super) fn begin(&mut self, place: usize) -> Option<Parcel> {
        let parcel = self.fresh.remove(place)?;
        self.begun = self.begun.max(parcel.last);
        Some(parcel)
    }

    /// Takes one back as if it had not been begun, at its place.
    pub(super) fn put_back(&mut self, parcel: Parcel) {
        let place = self.fresh.partition_point(|it| it.first < parcel.first);
        self.fresh.insert(place, parcel);
    }

    /// Has what was not begun read again.
    pub(super) fn unread(&mut self) {
        let passed = self.passed().len();
        if let Some(parcel) = self.fresh.get(passed) {
            self.scanned = parcel.first - 1;
            self.fresh.truncate(passed);
        }
    }

    /// What is up to here was begun, or is [`passed`](Self::passed); what comes after it was not.
    pub(super) fn place(&self) -> u64 {
        let next = self.fresh.get(self.passed().len());
        next.map_or(self.scanned, |parcel| parcel.first - 1)
    }

    /// What was not begun although something after it was.
    pub(super) fn passed(&self) -> impl ExactSizeIterator<Item = &Parcel> {
        let passed = self.fresh.partition_point(|parcel| parcel.first <= self.begun);
        self.fresh.range(..passed)
    }

    /// The same, as it is written.
    pub(super) fn passed_open(&self) -> impl Iterator<Item = Open> {
        self.passed().map(Open::from)
    }
}
