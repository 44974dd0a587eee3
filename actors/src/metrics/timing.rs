//! How long the steps of commits take.

use std::time::Duration;

use metrics::{Histogram, Key, Level, Metadata, Recorder};

use postrider_runtime::Stopwatch;
use postrider_store::{Step, Timing};

const APPEND: (&str, &str) =
    ("postrider_log_append_seconds", "Time of a commit's append to the log, with its sync");
const APPLY: (&str, &str) =
    ("postrider_view_apply_seconds", "Time in which the view applies a commit");

/// The histograms of a store with a log.
pub(crate) struct CommitTimes {
    watch: Stopwatch,
    append: Histogram,
    apply: Histogram,
}

impl CommitTimes {
    /// Registers the histograms.
    pub(crate) fn register(recorder: &dyn Recorder) -> Self {
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let [append, apply] = [APPEND, APPLY].map(|(name, what)| {
            recorder.describe_histogram(name.into(), None, what.into());
            recorder.register_histogram(&Key::from_static_name(name), &metadata)
        });
        Self { watch: Stopwatch::start(), append, apply }
    }
}

impl Timing for CommitTimes {
    fn now(&self) -> Duration {
        self.watch.elapsed()
    }

    fn took(&self, step: Step, time: Duration) {
        let histogram = match step {
            Step::Append => &self.append,
            Step::Apply => &self.apply,
        };
        histogram.record(time);
    }
}
