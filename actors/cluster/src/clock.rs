//! The clock that counts on while the machine sleeps and never jumps, and waiting by it.

use std::fmt::Debug;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock that only advances. Its zero has no meaning.
pub trait SteadyClock: Debug + Send + Sync + 'static {
    /// Returns the time, in milliseconds.
    fn now_ms(&self) -> u64;

    /// Blocks the thread for this long.
    fn wait_ms(&self, for_ms: u64);
}

/// `CLOCK_BOOTTIME` of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl SteadyClock for BootClock {
    fn now_ms(&self) -> u64 {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is negative: the clock counts from the start of the machine.
        let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|it| u64::try_from(it).unwrap_or(0));
        seconds * 1_000 + nanos / 1_000_000
    }

    fn wait_ms(&self, for_ms: u64) {
        std::thread::sleep(Duration::from_millis(for_ms));
    }
}

/// A clock that advances only when a test waits.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct StillClock(std::sync::atomic::AtomicU64);

#[cfg(test)]
impl SteadyClock for StillClock {
    fn now_ms(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn wait_ms(&self, for_ms: u64) {
        self.0.fetch_add(for_ms, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_does_not_go_back() {
        let mut last = BootClock.now_ms();
        assert!(last > 0);
        for _ in 0..1_000 {
            let now = BootClock.now_ms();
            assert!(now >= last);
            last = now;
        }
    }
}
