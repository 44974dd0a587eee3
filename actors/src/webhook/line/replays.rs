//! Delivering again.

use crate::domain::Timestamp;
use crate::webhook::delivery::Batch;
use crate::webhook::lanes::Lane;

use super::{Line, Waiting};

impl Line {
    /// Goes back to `after`: everything from there on is delivered again. It never goes forward:
    /// what was not delivered yet comes all the same.
    pub(in crate::webhook) fn rewind(&mut self, after: u64) {
        let after = self.fresh.front().map_or(self.scanned, |parcel| parcel.first - 1).min(after);
        self.scanned = after;
        self.begun = self.begun.min(after);
        self.fresh.clear();
        let later: Vec<_> = self.waiting.range(after + 1..).map(|(first, _)| *first).collect();
        for first in later {
            self.drop_waiting(first);
        }
        self.forgive();
    }

    /// Delivers one event once more, or the batch that begins with it and waits.
    pub(in crate::webhook) fn deliver_again(
        &mut self,
        sequence: u64,
        lane: Option<Lane>,
        batch: Option<Batch>,
        now: Timestamp,
    ) {
        let waiting = Waiting { last: sequence, failures: 0, at: Some(now), lane, batch };
        self.wait(sequence, waiting);
        self.forgive();
    }

    /// Tries everything that failed again, from the start of its schedule; says how many there are.
    pub(in crate::webhook) fn retry_failed(&mut self, now: Timestamp) -> u64 {
        let failed = self.waiting.iter().filter(|(_, it)| it.failures > 0);
        let failed: Vec<_> = failed.map(|(first, it)| (*first, it.clone())).collect();
        let count = failed.len() as u64;
        for (first, waiting) in failed {
            self.wait(first, Waiting { failures: 0, at: Some(now), ..waiting });
        }
        self.forgive();
        count
    }
}
