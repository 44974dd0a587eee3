//! Many clients at a time, over several lives of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::check::Books;
use super::client::Outcome;
use super::disk::Cutter;
use super::journey::{Journey, Stopped};
use super::process::Process;

const CLIENTS: usize = 24;
/// The maximum wait for so many answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// The variable that repeats the choices of a failed test, though not its timing.
const SEED_VARIABLE: &str = "POSTRIDER_FAULTS_SEED";

/// The answers to all clients over all lives.
pub struct Story {
    pub rng: StdRng,
    pub journeys: Vec<Journey>,
    pub books: Books,
    /// A check reads one request in this many, and looks for all in the event log.
    pub checked_one_in: usize,
}

/// Clients at work.
pub struct Load<'a> {
    story: &'a mut Story,
    progress: Arc<Progress>,
    clients: JoinSet<Journey>,
}

/// The progress of the clients.
#[derive(Default)]
pub struct Progress {
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
    over: AtomicBool,
    /// Set if the power is being cut, or is cut.
    cut: AtomicBool,
}

impl Story {
    /// Prints the seed, which appears only if the test fails.
    pub fn new() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok();
        let seed = given.map_or_else(rand::random, |seed| seed.parse().unwrap());
        eprintln!("{SEED_VARIABLE}={seed}");
        let journeys = (0..CLIENTS).map(|number| Journey::new(seed, number)).collect();
        Self {
            rng: StdRng::seed_from_u64(seed),
            journeys,
            books: Books::default(),
            checked_one_in: 1,
        }
    }

    /// Sets the clients to work.
    pub fn begin(&mut self, process: &Process) -> Load<'_> {
        self.start(process, false)
    }

    /// Has the clients do nothing but send, as fast as they can.
    pub fn flood(&mut self, process: &Process) -> Load<'_> {
        self.checked_one_in = 10;
        self.start(process, true)
    }

    fn start(&mut self, process: &Process, flood: bool) -> Load<'_> {
        let progress = Arc::new(Progress::default());
        let mut clients = JoinSet::new();
        let demo = process.demo();
        for journey in self.journeys.drain(..) {
            let three = [demo.another(), demo.another(), demo.another()];
            let progress = Arc::clone(&progress);
            clients.spawn(async move {
                if flood {
                    return journey.flood(three, &progress).await;
                }
                journey.run(three, &progress).await
            });
        }
        Load { story: self, progress, clients }
    }

    /// Has the clients work until the server is killed, right after one of their answers.
    pub async fn until_killed(&mut self, process: Process, answers: std::ops::Range<usize>) {
        let answers = self.rng.random_range(answers);
        let load = self.begin(&process);
        load.acknowledged(answers).await;
        process.kill();
        load.end().await;
    }
}

impl Load<'_> {
    /// Waits until this many requests were answered as wished.
    pub async fn acknowledged(&self, count: usize) {
        let reached = || self.progress.acknowledged.load(Ordering::Acquire) >= count;
        self.wait_until("so many answers", reached).await;
    }

    /// Waits until this many more requests were answered as wished.
    pub async fn acknowledged_more(&self, count: usize) {
        let now = self.progress.acknowledged.load(Ordering::Acquire);
        self.acknowledged(now + count).await;
    }

    /// Waits until this many requests were answered 503.
    pub async fn unavailable(&self, count: usize) {
        let reached = || self.progress.unavailable.load(Ordering::Acquire) >= count;
        self.wait_until("so many refusals", reached).await;
    }

    /// Cuts a disk's power. Later answers count as no answers. A sync in that moment never returns
    /// when the power really goes. But ext4's shutdown may let it return without an error: the
    /// conversion of its extents is given up, and no error is recorded.
    pub fn cut(&self, cutter: Cutter) {
        self.progress.cut.store(true, Ordering::SeqCst);
        cutter.cut();
    }

    /// Waits until a condition holds.
    pub async fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let step = Duration::from_millis(1);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            if is_so() {
                return;
            }
            tokio::time::sleep(step).await;
        }
        panic!("{what} never came");
    }

    /// Waits until every client is done, on request or because the server has stopped.
    pub async fn end(mut self) {
        self.progress.over.store(true, Ordering::Release);
        while let Some(journey) = self.clients.join_next().await {
            self.story.journeys.push(journey.unwrap());
        }
    }
}

impl Progress {
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns the known part of an outcome.
    pub fn seen(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Answered(_) if self.cut.load(Ordering::SeqCst) => Outcome::Lost,
            outcome => outcome,
        }
    }

    /// Counts an outcome.
    pub fn take(&self, outcome: &Outcome) -> Result<(), Stopped> {
        let Outcome::Answered(answer) = outcome else { return Err(Stopped) };
        if answer.status == 503 {
            assert_eq!(answer.body["code"], "SERVICE_UNAVAILABLE");
            assert!(answer.retry_after.is_some_and(|seconds| seconds >= 1), "{answer:?}");
            assert_eq!(answer.body["retry_after"].as_u64(), answer.retry_after);
            self.unavailable.fetch_add(1, Ordering::AcqRel);
        } else {
            assert!([200, 422].contains(&answer.status), "{answer:?}");
            self.acknowledged.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}
