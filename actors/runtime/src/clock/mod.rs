//! The one place that reads the time.
//!
//! **Real time** is the time that other systems compare with their own clock. It starts as the wall
//! clock's and runs with the monotonic clock. It follows the wall clock only by slewing, so that a
//! step reaches nobody (`Discipline`).
//!
//! **Engine time** is real time, plus the offset by which the sandbox moved it forward, plus the
//! lead. The lead is set at the start, so that engine time is not behind the last durable moment.
//! Expiries, windows, buckets, paces, ids and event times read engine time. It never goes back.
//!
//! The source of the time is the clocks of the machine, or clocks that tests drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use postrider_domain::Timestamp;
use tokio::sync::watch;

use crate::flow::clock_discipline::{Discipline, StepChange};

/// The longest time between two looks at the clock while sleeping.
///
/// It bounds the delay after which a sleeper notices that time was moved forward.
const NAP_MAX: Duration = Duration::from_secs(1);

/// The time since the last durable moment after which a start may have a wrong clock.
const LONG_STOP: Duration = Duration::from_secs(24 * 3600);

/// The thresholds of a step of the wall clock, and the rest after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOptions {
    /// The difference between the wall clock and real time above which it is a step.
    pub step: Duration,
    /// The lead of engine time at a start above which it is reported like a step.
    pub ahead_max: Duration,
    /// The time after a step in which nothing is deleted because of its age.
    pub rest: Duration,
}

impl Default for ClockOptions {
    /// Returns the defaults: five seconds, five minutes and an hour.
    fn default() -> Self {
        Self {
            step: Duration::from_secs(5),
            ahead_max: Duration::from_secs(300),
            rest: Duration::from_secs(3600),
        }
    }
}

/// The state of the wall clock in relation to the engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockHealth {
    /// The wall clock less real time, in milliseconds, as of the last comparison.
    pub difference_ms: i64,
    /// Set if that difference is a step.
    pub in_step: bool,
    /// The number of steps since the start.
    pub steps: u64,
    /// The lead of engine time over real time because data was written by a clock that was ahead.
    ///
    /// It does not include the time by which the sandbox moved engine time.
    pub lead: Duration,
    /// Set if the lead is more than [`ClockOptions::ahead_max`].
    pub is_ahead: bool,
}

/// Engine time. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: TimeSource,
    options: ClockOptions,
    discipline: ArcSwap<Discipline>,
    /// Locked by the thread that compares with the wall clock.
    comparing: Mutex<()>,
    /// The time by which the sandbox moved engine time forward, in milliseconds.
    offset_ms: AtomicU64,
    /// The lead of engine time since the start, in milliseconds.
    lead_ms: AtomicU64,
    /// The latest moment that was returned, in milliseconds since the epoch. No earlier one is
    /// returned after it.
    latest_ms: AtomicU64,
    steps: AtomicU64,
    /// Nothing is deleted because of its age before this monotonic moment, in milliseconds.
    rests_until_ms: AtomicU64,
    is_ahead: AtomicBool,
    /// Wakes sleepers when time was moved forward.
    moved: watch::Sender<()>,
}

impl Clock {
    /// Returns the system's clock, with the default options.
    #[must_use]
    pub fn system() -> Self {
        Self::with_options(ClockOptions::default())
    }

    /// Returns the system's clock.
    #[must_use]
    pub fn with_options(options: ClockOptions) -> Self {
        Self::with(TimeSource::System(SystemClocks::start()), options)
    }

    /// Creates a clock that stays at `start` until it is advanced, for tests.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self::with(TimeSource::Manual(ManualClocks::at(start.as_millis())), ClockOptions::default())
    }

    fn with(source: TimeSource, options: ClockOptions) -> Self {
        let discipline = Discipline::new(source.mono_ms(), source.wall_ms(), millis(options.step));
        let inner = Inner {
            source,
            options,
            discipline: ArcSwap::from_pointee(discipline),
            comparing: Mutex::new(()),
            offset_ms: AtomicU64::new(0),
            lead_ms: AtomicU64::new(0),
            latest_ms: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            rests_until_ms: AtomicU64::new(0),
            is_ahead: AtomicBool::new(false),
            moved: watch::Sender::new(()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the present moment in engine time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ahead_ms = self.inner.offset_ms.load(Ordering::Acquire)
            + self.inner.lead_ms.load(Ordering::Acquire);
        let now_ms = self.real_ms().saturating_add(ahead_ms);
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

    /// Returns the time by which the sandbox has moved engine time forward.
    #[must_use]
    pub fn offset(&self) -> Duration {
        Duration::from_millis(self.inner.offset_ms.load(Ordering::Acquire))
    }

    /// Returns the time of the machine's clock. It may step, so nothing is measured by it.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.inner.source.wall_ms())
    }

    /// Returns the present moment in the time of other systems.
    #[must_use]
    pub fn real(&self) -> Timestamp {
        Timestamp::from_millis(self.real_ms())
    }

    /// Returns real time.
    ///
    /// A thread that finds the last comparison with the wall clock a second old makes the next one.
    /// No thread waits for it.
    fn real_ms(&self) -> u64 {
        let mono_ms = self.inner.source.mono_ms();
        let discipline = self.inner.discipline.load();
        if discipline.is_due(mono_ms)
            && let Some(_comparing) = self.inner.comparing.try_lock()
        {
            return self.compare(mono_ms);
        }
        discipline.real_ms(mono_ms)
    }

    fn compare(&self, mono_ms: u64) -> u64 {
        // Another thread may have compared since this one found that it is due.
        let mut discipline = **self.inner.discipline.load();
        if discipline.is_due(mono_ms) {
            let change = discipline.compare(mono_ms, self.inner.source.wall_ms());
            self.inner.discipline.store(Arc::new(discipline));
            if discipline.in_step() {
                self.rest(mono_ms);
            }
            if let Some(change) = change {
                self.report(change, discipline.difference_ms());
            }
        }
        discipline.real_ms(mono_ms)
    }

    fn report(&self, change: StepChange, difference_ms: i64) {
        match change {
            StepChange::Began => {
                self.inner.steps.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    difference_ms,
                    "the wall clock has stepped; the engine follows it slowly and deletes nothing \
                     for its age meanwhile"
                );
            }
            StepChange::Ended => {
                tracing::warn!(difference_ms, "the wall clock agrees with the engine again");
            }
        }
    }

    fn rest(&self, mono_ms: u64) {
        let until_ms = mono_ms.saturating_add(millis(self.inner.options.rest));
        self.inner.rests_until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }

    /// Returns whether nothing may be deleted because of its age.
    ///
    /// The wall clock has stepped, or had until a short time ago, or may be wrong since the start.
    #[must_use]
    pub fn deletion_rests(&self) -> bool {
        // Reads the wall clock if that is due: a step must be noticed before anything is deleted.
        let _ = self.real_ms();
        self.inner.source.mono_ms() < self.inner.rests_until_ms.load(Ordering::Relaxed)
    }

    /// Returns the state of the wall clock in relation to the engine's.
    #[must_use]
    pub fn health(&self) -> ClockHealth {
        let _ = self.real_ms();
        let discipline = self.inner.discipline.load();
        ClockHealth {
            difference_ms: discipline.difference_ms(),
            in_step: discipline.in_step(),
            steps: self.inner.steps.load(Ordering::Relaxed),
            lead: Duration::from_millis(self.inner.lead_ms.load(Ordering::Acquire)),
            is_ahead: self.inner.is_ahead.load(Ordering::Relaxed),
        }
    }

    /// Starts after the last durable moment.
    ///
    /// Engine time is never behind it, and no further ahead than it must be. An engine calls this
    /// before it reads the time, after the sandbox's offset is set.
    pub fn start_after(&self, durable: Timestamp) {
        let now = self.now();
        let lead = durable.plus(Duration::from_millis(1)).since(now);
        if lead.is_zero() {
            if now.since(durable) > LONG_STOP {
                self.rest(self.inner.source.mono_ms());
            }
            return;
        }
        let lead_ms = self.inner.lead_ms.fetch_add(millis(lead), Ordering::AcqRel) + millis(lead);
        if lead > self.inner.options.ahead_max {
            self.inner.is_ahead.store(true, Ordering::Relaxed);
            self.inner.steps.fetch_add(1, Ordering::Relaxed);
            self.rest(self.inner.source.mono_ms());
            tracing::warn!(
                lead_ms,
                "the data was written by a clock that was ahead of the wall clock; engine time \
                 goes on from there"
            );
        }
        self.inner.moved.send_replace(());
    }

    /// Takes the wall clock's time at once, as after a pause of the machine.
    ///
    /// Returns by how much time moved, or `None` if the wall clock is behind: time never goes back.
    pub fn follow(&self) -> Option<Duration> {
        let _comparing = self.inner.comparing.lock();
        let mut discipline = **self.inner.discipline.load();
        let (mono_ms, wall_ms) = (self.inner.source.mono_ms(), self.inner.source.wall_ms());
        let was_in_step = discipline.in_step();
        let moved_ms = discipline.follow(mono_ms, wall_ms)?;
        self.inner.discipline.store(Arc::new(discipline));
        if was_in_step {
            self.report(StepChange::Ended, 0);
        }
        self.inner.moved.send_replace(());
        Some(Duration::from_millis(moved_ms))
    }

    /// Moves engine time forward by `step` and wakes the sleepers.
    pub fn advance(&self, step: Duration) {
        self.inner.offset_ms.fetch_add(millis(step), Ordering::AcqRel);
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

    /// Lets time pass for a manual clock, as it does while no engine runs. It wakes nobody.
    #[cfg(any(test, feature = "testing"))]
    pub fn pass(&self, step: Duration) {
        if let TimeSource::Manual(clocks) = &self.inner.source {
            clocks.pass(millis(step));
        }
    }

    /// Sets the wall clock of a manual clock, as an administrator or a time daemon does.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_wall(&self, wall: Timestamp) {
        if let TimeSource::Manual(clocks) = &self.inner.source {
            clocks.set_wall(wall.as_millis());
        }
    }

    /// Returns a receiver that changes each time engine time has been moved forward.
    #[must_use]
    pub fn moves(&self) -> watch::Receiver<()> {
        self.inner.moved.subscribe()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the moment in `wait`, for deadlines of I/O. The sandbox does not affect it.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the runtime's clock")]
pub fn deadline_in(wait: Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + wait
}

/// A measurement of elapsed time, for metrics and backoff. The sandbox does not affect it.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts the measurement.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The source of the time, in milliseconds.
#[derive(Debug)]
enum TimeSource {
    /// The clocks of the machine.
    System(SystemClocks),
    /// Clocks that stay until they are moved.
    Manual(ManualClocks),
}

impl TimeSource {
    /// Returns the clock that only runs forward, at a steady rate, from an arbitrary start.
    fn mono_ms(&self) -> u64 {
        match self {
            Self::System(clocks) => clocks.mono_ms(),
            Self::Manual(clocks) => clocks.mono_ms(),
        }
    }

    /// Returns the clock that people set, since the Unix epoch. It can step.
    fn wall_ms(&self) -> u64 {
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
struct SystemClocks;

#[cfg(target_os = "linux")]
impl SystemClocks {
    fn start() -> Self {
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
struct SystemClocks(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl SystemClocks {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn mono_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Clocks that stay at their time until they are moved.
#[derive(Debug)]
struct ManualClocks {
    mono_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl ManualClocks {
    fn at(wall_ms: u64) -> Self {
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
    fn pass(&self, ms: u64) {
        self.mono_ms.fetch_add(ms, Ordering::Relaxed);
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock, as an administrator does.
    #[cfg(any(test, feature = "testing"))]
    fn set_wall(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
