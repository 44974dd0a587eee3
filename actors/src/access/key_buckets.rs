//! The token buckets of an API key: its requests for an hour and for a minute.

use std::time::Duration;

use postrider_domain::{Limits, Timestamp};
use postrider_runtime::clock::Clock;
use postrider_runtime::shared_bucket::{BucketState, SharedBucket};

use super::{Admission, MINUTE};

const HOUR: Duration = Duration::from_secs(3600);
/// The windows of a key's buckets.
pub(super) const WINDOWS: [Duration; 2] = [HOUR, MINUTE];

/// The buckets of one key. A limit of 0 is off and has no bucket.
pub(super) struct KeyBuckets(Vec<SharedBucket>);

impl KeyBuckets {
    /// Creates the buckets for the limits in force. `full_at_ns` returns the time at which the
    /// bucket of a window of so many seconds is full, if it was used before.
    pub(super) fn new(
        limits: Limits,
        full_at_ns: impl Fn(u32) -> Option<u64>,
        clock: &Clock,
    ) -> Self {
        let sizes =
            [(limits.key_requests_per_hour, HOUR), (limits.key_requests_per_minute, MINUTE)];
        let bucket = |(limit, window): (u32, Duration)| {
            SharedBucket::new(limit, window, full_at_ns(window.as_secs() as u32), clock)
        };
        Self(sizes.into_iter().filter_map(bucket).collect())
    }

    /// Takes one request from every bucket, or from none of them if one is empty.
    pub(super) fn admit(&self, clock: &Clock, now: Timestamp) -> Admission {
        // All buckets are read before one is taken from. Two requests that race for the last token
        // may both pass here. The bucket itself then refuses one of them.
        let wait = self.0.iter().filter_map(|bucket| bucket.wait(now)).max();
        let take = || self.0.iter().filter_map(|bucket| bucket.take(clock).err()).max();
        let refused = wait.or_else(take);
        // A bucket takes by the clock, which is later than `now`: at `now` one more token would
        // seem to be missing.
        Admission { refused, bucket: self.least(clock.now()) }
    }

    /// Returns the time at which the bucket of this window is full, in nanoseconds.
    pub(super) fn full_at_ns(&self, window_s: u32) -> Option<u64> {
        self.0.iter().find(|it| it.window_s() == window_s).map(SharedBucket::full_at_ns)
    }

    /// Returns the buckets.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SharedBucket> {
        self.0.iter()
    }

    /// Returns the bucket with the least share left.
    fn least(&self, now: Timestamp) -> Option<BucketState> {
        let share = |state: &BucketState| {
            // Parts in 2³², exact enough to compare.
            (u64::from(state.remaining) << 32) / u64::from(state.limit)
        };
        self.0.iter().map(|bucket| bucket.state(now)).min_by_key(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_looked_at_before_it_was_admitted_takes_one() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let limits = Limits { key_requests_per_hour: 3, ..Limits::default() };
        let buckets = KeyBuckets::new(limits, |_| None, &clock);
        for remaining in [2, 1, 0] {
            let now = clock.now();
            clock.advance(Duration::from_millis(7));
            let admission = buckets.admit(&clock, now);
            assert_eq!(admission.refused, None);
            assert_eq!(admission.bucket.map(|it| it.remaining), Some(remaining));
        }
    }
}
