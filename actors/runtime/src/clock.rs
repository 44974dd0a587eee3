//! The one place that reads the time.
//!
//! Engine time is the system's time plus an offset that only grows: the sandbox moves it forward so
//! that expiries and windows can be tested at once. It never goes back, even if the system's clock
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use postrider_domain::Timestamp;

/// Longest time between two looks at the clock while sleeping. It bounds how late a sleeper notices
/// that the system's clock was set forward.
const NAP_MAX: Duration = Duration::from_secs(1);

/// Engine time. Cheap to clone; clones share the offset.
#[derive(Debug, Clone)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Milliseconds added to the source.
    offset_ms: AtomicU64,
    /// The latest moment that was returned, in milliseconds since the epoch. No earlier one is
    /// returned after it.
    latest_ms: AtomicU64,
    /// Wakes sleepers when the offset has grown.
    moved: watch::Sender<()>,
}

#[derive(Debug)]
enum Source {
    System,
    Manual(AtomicU64),
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::with(Source::System)
    }

    /// A clock that stays at `start` until it is advanced, for tests.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self::with(Source::Manual(AtomicU64::new(start.as_millis())))
    }

    fn with(source: Source) -> Self {
        let inner = Inner {
            source,
            offset_ms: AtomicU64::new(0),
            latest_ms: AtomicU64::new(0),
            moved: watch::Sender::new(()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Now, in engine time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let source_ms = match &self.inner.source {
            Source::System => system_ms(),
            Source::Manual(ms) => ms.load(Ordering::Relaxed),
        };
        let now_ms = source_ms.saturating_add(self.inner.offset_ms.load(Ordering::Acquire));
        // Most calls find the same millisecond: reading first spares a write to a shared line.
        let latest_ms = self.inner.latest_ms.load(Ordering::Relaxed);
        let now_ms = match now_ms.cmp(&latest_ms) {
            std::cmp::Ordering::Greater => {
                self.inner.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
            }
            _ => latest_ms,
        };
        Timestamp::from_millis(now_ms)
    }

    /// How far engine time is ahead of the source.
    #[must_use]
    pub fn offset(&self) -> Duration {
        Duration::from_millis(self.inner.offset_ms.load(Ordering::Acquire))
    }

    /// Now, in the time of other systems: engine time without the offset of the sandbox.
    #[must_use]
    pub fn real(&self) -> Timestamp {
        self.now().minus(self.offset())
    }

    /// Moves engine time forward by `step` and wakes those that sleep on it.
    pub fn advance(&self, step: Duration) {
        let step_ms = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
        self.inner.offset_ms.fetch_add(step_ms, Ordering::AcqRel);
        self.inner.moved.send_replace(());
    }

    /// Sleeps until engine time has reached `at`.
    pub async fn sleep_until(&self, at: Timestamp) {
        let mut moved = self.inner.moved.subscribe();
        loop {
            let wait = at.since(self.now());
            if wait.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait.min(NAP_MAX)) => {}
                // The sender lives as long as this clock does.
                _ = moved.changed() => {}
            }
        }
    }

    /// Moves the source of a manual clock, as the system's time continues while no engine runs. It
    /// wakes nobody.
    #[cfg(any(test, feature = "testing"))]
    pub fn pass(&self, step: Duration) {
        if let Source::Manual(ms) = &self.inner.source {
            ms.fetch_add(u64::try_from(step.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// A receiver that changes each time engine time has been moved forward.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<()> {
        self.inner.moved.subscribe()
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
fn system_ms() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 was never set: engine time then starts at the epoch.
    since_epoch.map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Measures how long something took, for metrics and backoff. The sandbox does not affect it.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_goes_forward() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        assert_eq!(clock.now().as_millis(), 1_000);
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now().as_millis(), 4_000);
        assert_eq!(clock.offset(), Duration::from_secs(3));
        let Source::Manual(source) = &clock.inner.source else { unreachable!() };
        source.store(0, Ordering::Relaxed);
        assert_eq!(clock.now().as_millis(), 4_000, "a source set back is not followed");
    }

    #[tokio::test(start_paused = true)]
    async fn sleepers_wake_when_time_is_moved() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(Timestamp::from_millis(60_000)).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }
}
