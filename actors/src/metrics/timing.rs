//! The durations of the steps of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Histogram, Key, Level, Metadata, Recorder};

use postrider_runtime::Stopwatch;
use postrider_store::{Step, Timing};

const APPEND: (&str, &str) =
    ("postrider_log_append_seconds", "Time of a commit's append to the log, with its sync");
const APPLY: (&str, &str) =
    ("postrider_view_apply_seconds", "Time in which the view applies a commit");

/// The number of last commits that are timed for an operator: as many as a busy second has.
const RECENT: usize = 1024;

/// The histograms of a store with a log, and its last commits.
pub(crate) struct CommitTimes {
    watch: Stopwatch,
    /// The histograms of appends and of applies to the view, if metrics are registered.
    histograms: Option<[Histogram; 2]>,
    recent: Arc<RecentCommits>,
}

impl CommitTimes {
    /// Registers the histograms, if there is a recorder. Also returns the times of the last
    /// commits.
    pub(crate) fn register(recorder: Option<&dyn Recorder>) -> (Self, Arc<RecentCommits>) {
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let histograms = recorder.map(|recorder| {
            [APPEND, APPLY].map(|(name, what)| {
                recorder.describe_histogram(name.into(), None, what.into());
                recorder.register_histogram(&Key::from_static_name(name), &metadata)
            })
        });
        let recent = Arc::<RecentCommits>::default();
        (Self { watch: Stopwatch::start(), histograms, recent: Arc::clone(&recent) }, recent)
    }
}

impl Timing for CommitTimes {
    fn now(&self) -> Duration {
        self.watch.elapsed()
    }

    fn took(&self, step: Step, time: Duration) {
        if step == Step::Append {
            self.recent.note(time);
        }
        let Some([append, apply]) = &self.histograms else { return };
        match step {
            Step::Append => append.record(time),
            Step::Apply => apply.record(time),
        }
    }
}

/// The durations of the last commits.
pub(crate) struct RecentCommits {
    /// The durations in microseconds; 0 is none.
    took: [AtomicU32; RECENT],
    next: AtomicUsize,
}

impl Default for RecentCommits {
    fn default() -> Self {
        let took = std::array::from_fn(|_| AtomicU32::new(0));
        Self { took, next: AtomicUsize::new(0) }
    }
}

impl RecentCommits {
    fn note(&self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let place = self.next.fetch_add(1, Ordering::Relaxed) % RECENT;
        self.took[place].store(micros, Ordering::Relaxed);
    }

    /// Returns the time within which 99 of 100 commits were done; `None` if there was none.
    pub(crate) fn p99(&self) -> Option<Duration> {
        let all = self.took.iter().map(|took| took.load(Ordering::Relaxed));
        let mut all: Vec<_> = all.filter(|took| *took > 0).collect();
        all.sort_unstable();
        let at = (all.len() * 99).div_ceil(100).checked_sub(1)?;
        all.get(at).map(|micros| Duration::from_micros(u64::from(*micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_last_commits_the_slowest_hundredth_is_left_out() {
        let recent = RecentCommits::default();
        assert_eq!(recent.p99(), None);
        recent.note(Duration::ZERO);
        assert_eq!(recent.p99(), Some(Duration::from_micros(1)));
        (1..=200).for_each(|millis| recent.note(Duration::from_millis(millis)));
        assert_eq!(recent.p99(), Some(Duration::from_millis(198)));
        (0..RECENT).for_each(|_| recent.note(Duration::from_millis(3)));
        assert_eq!(recent.p99(), Some(Duration::from_millis(3)), "what is long past is forgotten");
    }
}
