//! Pure: the number of a broadcast's messages that failed since its status last changed.

use crate::BroadcastOptions;
use crate::outcomes::Mark;

/// The outcomes since the status of a broadcast last changed.
///
/// A failure counts however it was reported: in the answer to the message, or by a later report on
/// a message that had been accepted.
#[derive(Debug, Default)]
pub(super) struct Judged {
    outcomes: u32,
    failed: u32,
    /// The recipients whose messages were accepted and are not reported as failed.
    accepted: Places,
    /// The recipients whose messages are reported as failed. A report may overtake the answer.
    reported: Places,
}

impl Judged {
    /// Records the outcome of the message to the recipient at this index.
    pub(super) fn outcome(&mut self, index: u32, mark: Mark) {
        self.outcomes += 1;
        match mark {
            Mark::Failed => self.failed += 1,
            Mark::Sent | Mark::Held | Mark::Unknown if self.reported.has(index) => self.failed += 1,
            Mark::Sent | Mark::Held | Mark::Unknown => self.accepted.set(index, true),
            Mark::Claimed | Mark::Retry | Mark::OptedOut => {}
        }
    }

    /// Records a report that the message to the recipient at this index failed.
    pub(super) fn reported_failed(&mut self, index: u32) {
        if self.accepted.has(index) {
            self.accepted.set(index, false);
            self.failed += 1;
        }
        self.reported.set(index, true);
    }

    /// Resets the counts after a change of the status: earlier outcomes do not count any more.
    pub(super) fn begin_again(&mut self) {
        let reported = std::mem::take(&mut self.reported);
        *self = Self { reported, ..Self::default() };
    }

    /// Returns the reason for a pause, if too many of the outcomes are failures.
    pub(super) fn too_many_failed(&self, options: &BroadcastOptions) -> Option<Box<str>> {
        let Self { outcomes, failed, .. } = *self;
        let percent = u64::from(options.pause_failure_percent);
        let too_many = percent > 0
            && outcomes >= options.pause_failure_min
            && u64::from(failed) * 100 > u64::from(outcomes) * percent;
        too_many.then(|| format!("{failed} of {outcomes} messages failed").into())
    }
}

/// A set of recipients: one bit for each, up to the last one in the set.
#[derive(Debug, Default)]
struct Places(Vec<u64>);

impl Places {
    const fn of(index: u32) -> (usize, u64) {
        ((index / u64::BITS) as usize, 1 << (index % u64::BITS))
    }

    fn has(&self, index: u32) -> bool {
        let (word, bit) = Self::of(index);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn set(&mut self, index: u32, is_in: bool) {
        let (word, bit) = Self::of(index);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits = if is_in { *bits | bit } else { *bits & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> BroadcastOptions {
        BroadcastOptions { pause_failure_min: 4, ..BroadcastOptions::default() }
    }

    #[test]
    fn a_failure_counts_once_however_it_is_reported() {
        let mut judged = Judged::default();
        judged.outcome(0, Mark::Sent);
        judged.reported_failed(0);
        judged.reported_failed(0);
        judged.outcome(1, Mark::Failed);
        judged.reported_failed(1);
        assert_eq!((judged.outcomes, judged.failed), (2, 2));
        // The report has overtaken the answer.
        judged.reported_failed(70);
        assert_eq!(judged.failed, 2);
        judged.outcome(70, Mark::Sent);
        assert_eq!(judged.too_many_failed(&options()), None, "too few are judged");
        judged.outcome(3, Mark::Retry);
        assert_eq!(judged.too_many_failed(&options()).as_deref(), Some("3 of 4 messages failed"));
        for index in [4, 5] {
            judged.outcome(index, Mark::Unknown);
        }
        assert_eq!(judged.too_many_failed(&options()), None, "half is not more than half");
    }

    #[test]
    fn what_was_before_a_change_of_status_does_not_count() {
        let mut judged = Judged::default();
        (0..8).for_each(|index| judged.outcome(index, Mark::Sent));
        judged.begin_again();
        (0..8).for_each(|index| judged.reported_failed(index));
        assert_eq!((judged.outcomes, judged.failed), (0, 0));
        (8..12).for_each(|index| judged.outcome(index, Mark::Sent));
        assert_eq!(judged.too_many_failed(&options()), None);
    }
}
