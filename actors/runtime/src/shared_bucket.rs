//! A token bucket that many threads take from without a lock, and whose state can be saved.
//!
//! It is `governor`'s GCRA on engine time. A bucket with one owner is
//! [`flow::TokenBucket`](crate::flow::TokenBucket), which needs neither atomics nor a clock.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use postrider_domain::Timestamp;

use crate::clock::Clock;

/// The level of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketState {
    /// The number of tokens of a full bucket: the requests that it allows at once.
    pub limit: u32,
    /// The number of tokens that are left now.
    pub remaining: u32,
    /// The time at which it is full again, if nothing more is taken.
    pub full_at: Timestamp,
    /// The time in which an empty bucket fills, in seconds.
    pub window_s: u32,
}

/// A bucket of `limit` tokens that fills in `window`, full at first.
///
/// GCRA, the generic cell rate algorithm, has one number, the theoretical arrival time. It is the
/// moment at which the bucket is full again if nothing more is taken. Only that number has to be
/// saved.
#[derive(Debug)]
pub struct SharedBucket {
    limiter: RateLimiter<NotKeyed, SharedState, LimiterClock, NoOpMiddleware<Nanos>>,
    state: SharedState,
    /// The engine time that the limiter counts from, in nanoseconds since the epoch.
    start_ns: u64,
    limit: NonZeroU32,
    window: Duration,
    /// The time for one token.
    token_ns: u64,
}

/// The single number of the limiter, in nanoseconds from its start; 0 before the first token.
#[derive(Debug, Clone, Default)]
struct SharedState(Arc<AtomicU64>);

impl StateStore for SharedState {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _key: &NotKeyed, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut old = self.0.load(Ordering::Acquire);
        loop {
            let (answer, new) = decide((old != 0).then(|| Nanos::from(old)))?;
            let swap =
                self.0.compare_exchange_weak(old, new.into(), Ordering::AcqRel, Ordering::Acquire);
            match swap {
                Ok(_) => return Ok(answer),
                Err(now) => old = now,
            }
        }
    }
}

/// Engine time as a clock of `governor`.
#[derive(Debug, Clone)]
struct LimiterClock(Clock);

impl GovernorClock for LimiterClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(nanos(self.0.now()))
    }
}

/// Returns a moment in nanoseconds since the epoch; a `u64` holds them until the year 2554.
#[must_use]
pub const fn nanos(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(1_000_000)
}

impl SharedBucket {
    /// Creates a bucket that is full at `full_at_ns`, nanoseconds since the epoch, or now.
    ///
    /// Returns `None` when `limit` is 0, which is no limit.
    #[must_use]
    pub fn new(
        limit: u32,
        window: Duration,
        full_at_ns: Option<u64>,
        clock: &Clock,
    ) -> Option<Self> {
        let limit = NonZeroU32::new(limit)?;
        let token = (window / limit.get()).max(Duration::from_nanos(1));
        let quota = Quota::with_period(token)?.allow_burst(limit);
        let state = SharedState::default();
        let start_ns = nanos(clock.now());
        let limiter = RateLimiter::new(quota, state.clone(), LimiterClock(clock.clone()));
        let token_ns = u64::try_from(token.as_nanos()).unwrap_or(u64::MAX);
        let bucket = Self { limiter, state, start_ns, limit, window, token_ns };
        if let Some(full_at_ns) = full_at_ns {
            // The limit may be smaller than at the time of the save: the bucket is at most empty.
            let left_ns = full_at_ns.saturating_sub(start_ns).min(bucket.window_ns());
            bucket.state.0.store(left_ns, Ordering::Release);
        }
        Some(bucket)
    }

    const fn window_ns(&self) -> u64 {
        self.token_ns.saturating_mul(self.limit.get() as u64)
    }

    /// Returns the number of tokens of a full bucket.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit.get()
    }

    /// Returns the time in which an empty bucket fills, in seconds.
    #[must_use]
    pub fn window_s(&self) -> u32 {
        u32::try_from(self.window.as_secs()).unwrap_or(u32::MAX)
    }

    /// Returns the moment at which the bucket is full, in nanoseconds since the epoch.
    ///
    /// It is in the past if the bucket is full.
    #[must_use]
    pub fn full_at_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.state.0.load(Ordering::Acquire))
    }

    /// Takes one token.
    ///
    /// # Errors
    /// Returns the time until a token is available if the bucket is empty.
    pub fn take(&self, clock: &Clock) -> Result<(), Duration> {
        self.limiter
            .check()
            .map_err(|not_until| not_until.wait_time_from(Nanos::from(nanos(clock.now()))))
    }

    /// Returns the time until a token is available; `None` if one is.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        let missing_ns = self.full_at_ns().saturating_sub(nanos(now));
        let spare_ns = self.window_ns().saturating_sub(self.token_ns);
        let wait_ns = missing_ns.saturating_sub(spare_ns);
        (wait_ns > 0).then(|| Duration::from_nanos(wait_ns))
    }

    /// Returns the level of the bucket at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> BucketState {
        let missing_ns = self.full_at_ns().saturating_sub(nanos(now));
        let remaining = self.window_ns().saturating_sub(missing_ns) / self.token_ns;
        BucketState {
            limit: self.limit.get(),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX).min(self.limit.get()),
            full_at: now.plus(Duration::from_nanos(missing_ns)),
            window_s: self.window_s(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(bucket: &SharedBucket, clock: &Clock) -> bool {
        let expected = bucket.wait(clock.now());
        let taken = bucket.take(clock);
        assert_eq!(taken.err(), expected, "looking and taking agree");
        expected.is_none()
    }

    #[test]
    fn it_is_full_at_first_and_fills_evenly() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let bucket = SharedBucket::new(60, Duration::from_secs(60), None, &clock).unwrap();
        for left in (0..60).rev() {
            assert!(take(&bucket, &clock));
            assert_eq!(bucket.state(clock.now()).remaining, left);
        }
        assert!(!take(&bucket, &clock));
        assert_eq!(bucket.wait(clock.now()), Some(Duration::from_secs(1)));
        let full_at = bucket.state(clock.now()).full_at;
        assert_eq!(full_at, clock.now().plus(Duration::from_secs(60)));
        clock.advance(Duration::from_millis(999));
        assert!(!take(&bucket, &clock));
        clock.advance(Duration::from_millis(1));
        assert!(take(&bucket, &clock));
        assert!(!take(&bucket, &clock));
        clock.advance(Duration::from_secs(3600));
        assert_eq!(bucket.state(clock.now()).remaining, 60);
    }

    #[test]
    fn a_saved_bucket_goes_on_where_it_was() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let window = Duration::from_secs(3600);
        let bucket = SharedBucket::new(1000, window, None, &clock).unwrap();
        for _ in 0..1000 {
            assert!(take(&bucket, &clock));
        }
        clock.advance(Duration::from_secs(36));
        let restored = SharedBucket::new(1000, window, Some(bucket.full_at_ns()), &clock).unwrap();
        assert_eq!(restored.state(clock.now()), bucket.state(clock.now()));
        assert_eq!(restored.state(clock.now()).remaining, 10);
        let smaller = SharedBucket::new(10, window, Some(bucket.full_at_ns()), &clock).unwrap();
        assert_eq!(smaller.state(clock.now()).remaining, 0);
    }

    #[test]
    fn zero_is_no_limit() {
        let clock = Clock::manual(Timestamp::default());
        assert!(SharedBucket::new(0, Duration::from_secs(60), None, &clock).is_none());
    }

    #[test]
    fn threads_take_no_more_than_there_is() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let bucket = SharedBucket::new(1000, Duration::from_secs(60), None, &clock).unwrap();
        let taken = std::thread::scope(|scope| {
            let take_many = || (0..500).filter(|_| bucket.take(&clock).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take_many)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(taken, 1000);
        assert_eq!(bucket.state(clock.now()).remaining, 0);
    }
}
