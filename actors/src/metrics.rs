//! The engine's own figures: sampled, so that no command pays for them.

mod timing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use parking_lot::Mutex;
use postrider_domain::{NumberId, Timestamp};
use postrider_runtime::ScanFigures;
use postrider_store::Position;
use postrider_workspace::services::Services;

pub(crate) use timing::{CommitTimes, RecentCommits};

/// The recorder at which metrics are registered.
pub type SharedRecorder = Arc<dyn Recorder + Send + Sync>;

const SAMPLED_EVERY: Duration = Duration::from_secs(1);
/// Names and meanings of the counters of codes, and of webhook requests by their outcome.
const OTPS: [(&str, &str); 2] = [
    ("postrider_otp_sent_total", "One-time passwords accepted, resends included"),
    ("postrider_otp_verified_total", "One-time passwords verified"),
];
const WEBHOOK_TRIES: [(&str, &str); 3] = [
    ("postrider_webhook_delivered_total", "Webhook requests that succeeded"),
    ("postrider_webhook_refused_total", "Webhook requests answered otherwise"),
    ("postrider_webhook_unanswered_total", "Webhook requests without an answer"),
];
/// The figures of the clock: its difference from the wall clock, and the count of its jumps.
const CLOCK: [(&str, &str); 2] = [
    (
        "postrider_clock_difference_seconds",
        "The machine's wall clock less the time that the engine keeps",
    ),
    (
        "postrider_clock_steps_total",
        "Steps of the wall clock, and starts with data that was ahead of it",
    ),
];
/// The figures of the log, and of the view that it produces.
const LOG: [(&str, &str); 5] = [
    ("postrider_log_position", "The last position of the log"),
    ("postrider_log_bytes", "Bytes of the log"),
    ("postrider_log_segments", "Files of the log"),
    ("postrider_view_position", "The position of the log that the view has applied"),
    ("postrider_view_synced_position", "The position up to which the view is synced"),
];
/// The figures of the newest checkpoint.
const CHECKPOINT: [(&str, &str); 2] = [
    ("postrider_checkpoint_age_seconds", "Age of the newest checkpoint; NaN where there is none"),
    ("postrider_checkpoint_bytes", "Bytes of the newest checkpoint; NaN where there is none"),
];
/// The gauge of each number's maximum rate.
const NUMBER_PACE: &str = "postrider_number_pace";
/// The gauge of the people who count towards the budget of each portfolio.
const PORTFOLIO_USED: &str = "postrider_portfolio_used";
/// The maximum number of portfolios that have a gauge.
const PORTFOLIOS_MAX: usize = 500;

/// Registers the figures and samples them until the engine has stopped.
pub(crate) fn start(
    shared: &Arc<Services>,
    recorder: &SharedRecorder,
    checkpoints: CheckpointFigures,
) {
    let figures = EngineMeters::register(recorder.as_ref(), shared);
    let shared = Arc::downgrade(shared);
    let mut paces = NumberPaces::register(Arc::clone(recorder));
    let mut portfolios = PortfoliosUsed::register(Arc::clone(recorder));
    drop(tokio::spawn(async move {
        while let Some(shared) = shared.upgrade() {
            figures.sample(&shared, &checkpoints);
            paces.sample(&shared);
            portfolios.sample(&shared);
            drop(shared);
            tokio::time::sleep(SAMPLED_EVERY).await;
        }
    }));
}

/// The newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewestCheckpoint {
    pub(crate) position: Position,
    pub(crate) bytes: u64,
    /// The engine time of its creation.
    pub(crate) made: Timestamp,
}

/// Reports the newest checkpoint, if there is one. Clones report the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointFigures(Arc<Mutex<Option<NewestCheckpoint>>>);

impl CheckpointFigures {
    pub(crate) fn set(&self, newest: Option<NewestCheckpoint>) {
        *self.0.lock() = newest;
    }

    pub(crate) fn newest(&self) -> Option<NewestCheckpoint> {
        *self.0.lock()
    }

    /// Returns the age and the size of the newest checkpoint.
    pub(crate) fn read(&self, now: Timestamp) -> Option<(Duration, u64)> {
        self.newest().map(|newest| (now.since(newest.made), newest.bytes))
    }
}

/// The registered figures.
struct EngineMeters {
    commits: Counter,
    batches: Counter,
    bytes: Counter,
    suspicions: Counter,
    /// Sent and verified one-time passwords.
    otps: [Counter; 2],
    /// In the order of [`OutcomeCounts::read`](postrider_number::figures::OutcomeCounts::read).
    messages: Vec<Counter>,
    /// In the order of [`ItemCounts::read`](postrider_channel::cloud_api::items::ItemCounts::read).
    callback_items: Vec<Counter>,
    /// In the order of [`OtpFigures::tries`](postrider_workspace::services::OtpFigures::tries).
    otp_tries: Vec<Counter>,
    otp_failovers: Histogram,
    number_queue: Gauge,
    number_queue_longest: Gauge,
    number_down: Gauge,
    in_flight: Gauge,
    scans: ScanMeters,
    live_workspaces: Gauge,
    damaged_workspaces: Gauge,
    journal_position: Gauge,
    log: [Gauge; LOG.len()],
    healthy: Gauge,
    held: Gauge,
    /// Age and bytes of the newest checkpoint.
    checkpoint: [Gauge; CHECKPOINT.len()],
    free_bytes: Gauge,
    media_bytes: Gauge,
    clock: (Gauge, Counter),
    webhooks: WebhookMeters,
}

impl EngineMeters {
    fn register(recorder: &dyn Recorder, shared: &Services) -> Self {
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let counter = |name: &'static str, what: &'static str| {
            recorder.describe_counter(name.into(), None, what.into());
            recorder.register_counter(&Key::from_static_name(name), &metadata)
        };
        let gauge = |name: &'static str, what: &'static str| {
            recorder.describe_gauge(name.into(), None, what.into());
            recorder.register_gauge(&Key::from_static_name(name), &metadata)
        };
        Self {
            commits: counter("postrider_commits_total", "Group commits, each one fsync"),
            batches: counter("postrider_commit_batches_total", "Batches in the group commits"),
            bytes: counter("postrider_commit_bytes_total", "Bytes in the group commits"),
            suspicions: counter(
                "postrider_otp_pumping_suspected_total",
                "Hours with suspiciously many unverified codes to one country, by workspace",
            ),
            otps: OTPS.map(|(name, what)| counter(name, what)),
            messages: register_messages(recorder, shared, &metadata),
            callback_items: register_callback_items(recorder, shared, &metadata),
            otp_tries: register_otp_tries(recorder, shared, &metadata),
            otp_failovers: register_otp_failovers(recorder, &metadata),
            number_queue: gauge("postrider_number_queue", "Messages that numbers are to send"),
            number_queue_longest: gauge(
                "postrider_number_queue_longest",
                "The most messages that one number is to send",
            ),
            number_down: gauge(
                "postrider_number_down",
                "Numbers that are left alone because their channel or account fails",
            ),
            in_flight: gauge("postrider_commands_in_flight", "Commands under way"),
            scans: ScanMeters::register(counter, gauge),
            live_workspaces: gauge("postrider_workspaces_live", "Workspaces held in memory"),
            damaged_workspaces: gauge(
                "postrider_workspaces_damaged",
                "Workspaces whose data cannot be read",
            ),
            journal_position: gauge(
                "postrider_journal_position",
                "The newest durable commit; postrider_log_position takes its place",
            ),
            log: LOG.map(|(name, what)| gauge(name, what)),
            healthy: gauge("postrider_storage_healthy", "1 when storage works, 0 when it fails"),
            held: gauge("postrider_held", "1 while nothing leaves the server until it is released"),
            checkpoint: CHECKPOINT.map(|(name, what)| gauge(name, what)),
            free_bytes: gauge(
                "postrider_storage_free_bytes",
                "Free bytes of the disk with the data; NaN where they are not measured",
            ),
            media_bytes: gauge("postrider_media_bytes", "Bytes of files, counted once a minute"),
            clock: (gauge(CLOCK[0].0, CLOCK[0].1), counter(CLOCK[1].0, CLOCK[1].1)),
            webhooks: WebhookMeters::register(counter, gauge),
        }
    }

    fn sample(&self, shared: &Services, checkpoints: &CheckpointFigures) {
        let newest = checkpoints.read(shared.clock.now());
        let newest = newest.map_or([f64::NAN; 2], |(age, bytes)| [age.as_secs_f64(), bytes as f64]);
        self.checkpoint.iter().zip(newest).for_each(|(gauge, value)| gauge.set(value));
        let stats = shared.writer.stats();
        self.commits.absolute(stats.groups);
        self.batches.absolute(stats.batches);
        self.bytes.absolute(stats.bytes);
        self.suspicions.absolute(shared.guard.suspicions.load(Ordering::Relaxed));
        let otps = shared.otps.each_ref().map(|count| count.load(Ordering::Relaxed));
        self.otps.iter().zip(otps).for_each(|(counter, count)| counter.absolute(count));
        let outcomes = shared.numbers.outcomes.read();
        self.messages
            .iter()
            .zip(outcomes)
            .for_each(|(counter, (.., count))| counter.absolute(count));
        let items = self.callback_items.iter().zip(shared.callback_items.read());
        items.for_each(|(counter, (.., count))| counter.absolute(count));
        let tries = self.otp_tries.iter().zip(shared.step_workers.figures.tries());
        tries.for_each(|(counter, (.., count))| counter.absolute(count));
        for took in shared.step_workers.figures.take_failovers() {
            self.otp_failovers.record(took);
        }
        let queues = shared.numbers.queues();
        self.number_queue.set(queues.messages as f64);
        self.number_queue_longest.set(queues.longest as f64);
        self.number_down.set(queues.down as f64);
        self.in_flight.set(shared.admission.in_flight() as f64);
        self.scans.sample(shared.scans.figures());
        let live = shared.workspaces.slots().iter().filter(|slot| slot.live().is_some()).count();
        self.live_workspaces.set(live as f64);
        self.damaged_workspaces.set(shared.damaged().len() as f64);
        self.journal_position.set(shared.writer.last_position().0 as f64);
        if let Some(figures) = shared.recovered.log().figures() {
            let (last, applied) = (figures.last.0, figures.applied.0);
            let values = [last, figures.bytes, figures.segments as u64, applied, figures.synced.0];
            self.log.iter().zip(values).for_each(|(gauge, value)| gauge.set(value as f64));
        }
        self.webhooks.sample(shared);
        let clock = shared.clock.health();
        self.clock.0.set(clock.difference_ms as f64 / 1000.0);
        self.clock.1.absolute(clock.steps);
        self.free_bytes.set(shared.disk.free().map_or(f64::NAN, |free| free as f64));
        self.media_bytes.set(shared.media.bytes.load(Ordering::Relaxed) as f64);
        self.held.set(f64::from(u8::from(shared.hold.is_held())));
        self.healthy.set(if shared.writer.is_healthy() { 1.0 } else { 0.0 });
    }
}

/// Registers the counters of messages, by kind and outcome.
fn register_messages(
    recorder: &dyn Recorder,
    shared: &Services,
    metadata: &Metadata<'_>,
) -> Vec<Counter> {
    const NAME: &str = "postrider_messages_total";
    let what = "Messages that the channel has answered for, or that were given up";
    recorder.describe_counter(NAME.into(), None, what.into());
    let outcomes = shared.numbers.outcomes.read();
    let counters = outcomes.map(|(kind, outcome, _)| {
        let labels = vec![Label::new("kind", kind), Label::new("outcome", outcome)];
        recorder.register_counter(&Key::from_parts(NAME, labels), metadata)
    });
    counters.collect()
}

/// Registers the counters of the items of callbacks, by field and outcome.
fn register_callback_items(
    recorder: &dyn Recorder,
    shared: &Services,
    metadata: &Metadata<'_>,
) -> Vec<Counter> {
    const NAME: &str = "postrider_callback_items_total";
    let what = "Items of the channel's callbacks, by field and by what became of them";
    recorder.describe_counter(NAME.into(), None, what.into());
    let counters = shared.callback_items.read().map(|(field, outcome, _)| {
        let labels = vec![Label::new("field", field), Label::new("outcome", outcome)];
        recorder.register_counter(&Key::from_parts(NAME, labels), metadata)
    });
    counters.collect()
}

/// Registers the counters of the steps of codes over several channels, by channel and status.
fn register_otp_tries(
    recorder: &dyn Recorder,
    shared: &Services,
    metadata: &Metadata<'_>,
) -> Vec<Counter> {
    const NAME: &str = "postrider_otp_tries_total";
    let what = "Steps of codes over several channels that ended, by what was known of them then";
    recorder.describe_counter(NAME.into(), None, what.into());
    let counters = shared.step_workers.figures.tries().map(|(channel, status, _)| {
        let labels = vec![Label::new("channel", channel), Label::new("status", status)];
        recorder.register_counter(&Key::from_parts(NAME, labels), metadata)
    });
    counters.collect()
}

/// Registers the histogram of the time until the next channel of a code had its turn.
fn register_otp_failovers(recorder: &dyn Recorder, metadata: &Metadata<'_>) -> Histogram {
    const NAME: &str = "postrider_otp_failover_seconds";
    let what = "From the beginning of a step of a code to that of the next one";
    recorder.describe_histogram(NAME.into(), None, what.into());
    recorder.register_histogram(&Key::from_static_name(NAME), metadata)
}

/// The figures of reads that scan.
struct ScanMeters {
    running: Gauge,
    waiting: Gauge,
    finished: Counter,
    refused: Counter,
}

impl ScanMeters {
    fn register(
        counter: impl Fn(&'static str, &'static str) -> Counter,
        gauge: impl Fn(&'static str, &'static str) -> Gauge,
    ) -> Self {
        const REFUSED: &str = "Lists, searches and exports refused because too many waited";
        Self {
            running: gauge("postrider_scans_running", "Lists, searches and exports being read"),
            waiting: gauge("postrider_scans_waiting", "Lists, searches and exports that wait"),
            finished: counter("postrider_scans_total", "Lists, searches and exports read"),
            refused: counter("postrider_scans_refused_total", REFUSED),
        }
    }

    fn sample(&self, scans: ScanFigures) {
        self.running.set(scans.running as f64);
        self.waiting.set(scans.waiting as f64);
        self.finished.absolute(scans.finished);
        self.refused.absolute(scans.refused);
    }
}

/// The meters of webhook requests, by outcome, and of waiting ones.
struct WebhookMeters {
    requests: Gauge,
    tries: [Counter; 3],
    micros: Counter,
    oldest_due: Gauge,
}

impl WebhookMeters {
    fn register(
        counter: impl Fn(&'static str, &'static str) -> Counter,
        gauge: impl Fn(&'static str, &'static str) -> Gauge,
    ) -> Self {
        const MICROS: &str = "Time that all webhook requests took";
        const OLDEST: &str = "Age of the oldest webhook delivery that is due, held back or not";
        Self {
            requests: gauge("postrider_webhook_requests", "Webhook requests under way"),
            tries: WEBHOOK_TRIES.map(|(name, what)| counter(name, what)),
            micros: counter("postrider_webhook_microseconds_total", MICROS),
            oldest_due: gauge("postrider_webhook_oldest_due_seconds", OLDEST),
        }
    }

    fn sample(&self, shared: &Services) {
        let figures = shared.webhooks.figures();
        self.requests.set(figures.in_flight as f64);
        let tries = [figures.delivered, figures.refused, figures.unanswered];
        self.tries.iter().zip(tries).for_each(|(counter, count)| counter.absolute(count));
        self.micros.absolute(figures.latency_us);
        self.oldest_due.set(shared.webhooks.oldest_due().as_secs_f64());
    }
}

/// The pace of each number that was connected since the start.
struct NumberPaces {
    recorder: SharedRecorder,
    gauges: BTreeMap<NumberId, Gauge>,
}

impl NumberPaces {
    fn register(recorder: SharedRecorder) -> Self {
        let what = "Most messages a second through a number, 0 for no limit";
        recorder.describe_gauge(NUMBER_PACE.into(), None, what.into());
        Self { recorder, gauges: BTreeMap::new() }
    }

    fn sample(&mut self, shared: &Services) {
        let paces = shared.numbers.paces();
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        for (number, pace) in &paces {
            let gauge = self.gauges.entry(*number).or_insert_with(|| {
                let labels = vec![Label::new("number", number.to_string())];
                self.recorder.register_gauge(&Key::from_parts(NUMBER_PACE, labels), &metadata)
            });
            gauge.set(f64::from(*pace));
        }
        let is_removed = |number: &NumberId, gauge: &mut Gauge| {
            let is_removed = !paces.contains_key(number);
            if is_removed {
                gauge.set(f64::NAN);
            }
            is_removed
        };
        self.gauges.retain(|number, gauge| !is_removed(number, gauge));
    }
}

/// The gauges of the portfolios that were used since the start.
struct PortfoliosUsed {
    recorder: SharedRecorder,
    gauges: BTreeMap<Box<str>, Gauge>,
}

impl PortfoliosUsed {
    fn register(recorder: SharedRecorder) -> Self {
        let what = "People who count towards the daily budget of a portfolio, of all workspaces";
        recorder.describe_gauge(PORTFOLIO_USED.into(), None, what.into());
        Self { recorder, gauges: BTreeMap::new() }
    }

    fn sample(&mut self, shared: &Services) {
        let mut used: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for (_, portfolio, count) in shared.portfolios.used(shared.clock.now()) {
            if count > 0 {
                let sum = used.entry(portfolio).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        for portfolio in used.keys() {
            if !self.gauges.contains_key(portfolio) && self.gauges.len() < PORTFOLIOS_MAX {
                let labels = vec![Label::new("portfolio", portfolio.to_string())];
                let key = Key::from_parts(PORTFOLIO_USED, labels);
                let gauge = self.recorder.register_gauge(&key, &metadata);
                self.gauges.insert(portfolio.clone(), gauge);
            }
        }
        // A portfolio without counted people frees its place; its series ends with NaN.
        self.gauges.retain(|portfolio, gauge| {
            let count = used.get(portfolio).copied();
            gauge.set(count.map_or(f64::NAN, f64::from));
            count.is_some()
        });
    }
}
