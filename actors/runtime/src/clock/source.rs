//! The clocks of the machine, and clocks that tests drive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The source of the time, in milliseconds.
#[derive(Debug)]
pub(super) enum Source {
    /// The clocks of the machine.
    System(SystemClocks),
    /// Clocks that stay until they are moved.
    Manual(ManualClocks),
}

impl Source {
    /// Returns the clock that only runs forward, at a steady rate, from an arbitrary start.
    pub(super) fn mono_ms(&self) -> u64 {
        match self {
            Self::System(clocks) => clocks.mono_ms(),
            Self::Manual(clocks) => clocks.mono_ms(),
        }
    }

    /// Returns the clock that people set, since the Unix epoch. It can step.
    pub(super) fn wall_ms(&self) -> u64 {
        match self {
            Self::System(_) => system_wall_ms(),
            Self::Manual(clocks) => clocks.wall_ms(),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
fn system_wall_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 was never set: the wall clock then shows the epoch.
    since_epoch.map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// The monotonic clock of the machine.
///
/// On Linux it counts the time in which the machine was suspended, so that a laptop that wakes does
/// not have to catch up.
#[derive(Debug)]
#[cfg(target_os = "linux")]
pub(super) struct SystemClocks;

#[cfg(target_os = "linux")]
impl SystemClocks {
    pub(super) fn start() -> Self {
        Self
    }

    fn mono_ms(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // The system counts from its boot, so neither part is negative.
        now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
    }
}

/// The monotonic clock of the machine.
#[derive(Debug)]
#[cfg(not(target_os = "linux"))]
pub(super) struct SystemClocks(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl SystemClocks {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub(super) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn mono_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Clocks that stay at their time until they are moved.
#[derive(Debug)]
pub(super) struct ManualClocks {
    mono_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl ManualClocks {
    pub(super) fn at(wall_ms: u64) -> Self {
        // The monotonic clock is far from 0, so that a test can set the wall clock back.
        Self { mono_ms: AtomicU64::new(1 << 40), wall_ms: AtomicU64::new(wall_ms) }
    }

    fn mono_ms(&self) -> u64 {
        self.mono_ms.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    /// Lets time pass: both clocks run.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn pass(&self, ms: u64) {
        self.mono_ms.fetch_add(ms, Ordering::Relaxed);
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock, as an administrator does.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn set_wall(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }
}
