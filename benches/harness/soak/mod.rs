//! The soak runs a server for a long time under a mixed load, with faults on the way.
//!
//! `cargo bench -- soak --minutes 60` (10 by default) starts the server's own binary with a fake
//! provider and a receiver of webhooks. It drives every capability at a modest pace, and causes one
//! fault after the other. At the end the audit compares everything that was acknowledged with the
//! stored data: nothing lost, nothing doubled, each limit held, one outcome for each recipient,
//! each event delivered. In the last two fifths of the time the process is not restarted: there its
//! memory and its descriptors must stay flat.
//!
//! It ends with an error if anything was found, and leaves the data and the log in place.

mod api;
mod audit;
mod faults;
mod load;
mod receiver;
mod served;
mod world;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::cloud_api::{Callbacks, FakeCloudApi};
use crate::machine::Machine;
use crate::measure::{Stopwatch, median};
use crate::{Result, setup};

use faults::{ALL, Fault};
use receiver::Receiver;
use served::{Served, Usage};
use world::{APP_SECRET, World};

/// The word on the command line.
pub(crate) const NAME: &str = "soak";
const MINUTES: u64 = 10;
/// The duration of the test of the harness itself.
const SMOKE: Duration = Duration::from_secs(12);
/// The rest after each fault.
const CALM: Duration = Duration::from_secs(5);
/// The share of the time, in tenths, after which the process is no longer restarted.
const RESTARTS_TENTHS: u32 = 6;
/// The maximum wait for work in flight when the load ends.
const PATIENCE: Duration = Duration::from_secs(300);
/// The allowed growth from the second to the last quarter of a process's life.
const GROWTH: f64 = 1.2;
const GROWTH_BYTES: f64 = 48.0 * 1024.0 * 1024.0;
const GROWTH_DESCRIPTORS: usize = 48;

/// A soak: its duration and its faults.
pub(crate) struct Soak {
    length: Duration,
    faults: &'static [Fault],
}

impl Soak {
    /// Makes a soak of the command line's options: `--minutes N`.
    pub(crate) fn parse(minutes: Option<&str>, smoke: bool) -> Result<Self> {
        if smoke {
            let faults = &[Fault::Kill, Fault::ClockGlitch, Fault::FullDisk];
            return Ok(Self { length: SMOKE, faults });
        }
        let minutes = minutes.map_or(Ok(MINUTES), str::parse);
        let minutes = minutes.map_err(|_| "--minutes must be followed by a whole number")?;
        Ok(Self { length: Duration::from_secs(60 * minutes), faults: &ALL })
    }

    /// Runs the soak and prints its result.
    pub(crate) fn run(&self) -> Result<()> {
        let directory = setup::data_directory()?;
        let runtime = setup::runtime()?;
        let machine = Machine::new(directory.path())?;
        let fake = FakeCloudApi::start();
        let mut served = Served::start(directory.path(), &machine, fake.base_url())?;
        let world = runtime.block_on(async {
            let receiver = Receiver::start().await?;
            World::prepare(&served, fake, receiver).await
        });
        let world = Arc::new(world?);
        world.fake.call_back(Some(Callbacks {
            server: served.address(),
            path: world.callback_path.clone(),
            app_secret: APP_SECRET.to_owned(),
            statuses: ["sent", "delivered", "read"].map(str::to_owned).into(),
            delay: Duration::from_millis(20),
            times: 1,
        }));
        let outcome = runtime.block_on(self.drive(&world, &mut served, &machine));
        let (findings, words) = world.findings();
        println!("{}", report(&world, self.length));
        if findings > 0 || outcome.is_err() {
            let kept = directory.keep();
            eprintln!("the data and the log stay in {}", kept.display());
        }
        outcome?;
        match findings {
            0 => Ok(()),
            many => Err(format!("{many} findings:\n{}", words.join("\n")).into()),
        }
    }

    async fn drive(
        &self,
        world: &Arc<World>,
        served: &mut Served,
        machine: &Machine,
    ) -> Result<()> {
        let (watch, mut usages) = (Stopwatch::start(), Vec::new());
        let load = load::begin(world);
        let last_restart = self.length / 10 * RESTARTS_TENTHS;
        for fault in self.faults.iter().cycle() {
            usages.push((watch.elapsed(), served.usage()?));
            tokio::time::sleep(CALM.min(self.length / 10)).await;
            if watch.elapsed() >= self.length {
                break;
            }
            if fault.restarts() && watch.elapsed() > last_restart {
                continue;
            }
            eprintln!("  {:>5.0} s: {fault:?}", watch.elapsed().as_secs_f64());
            fault.happen(world, served, machine).await?;
            world.count("faults", 1);
            if !served.runs()? {
                world.finding(format!("the server ended by itself at {fault:?}"));
                served.begin(machine)?;
            }
        }
        world.end();
        ended(world, load).await;
        audit::audit(world).await?;
        usages.retain(|(at, _)| *at > last_restart);
        flat(world, &usages);
        served.stop()
    }
}

/// Waits for work in flight.
async fn ended(world: &World, mut load: JoinSet<()>) {
    let all = async { while load.join_next().await.is_some() {} };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        world.finding("something of the load does not come to its end".to_owned());
    }
}

/// Checks that memory and descriptors do not grow while the process lives.
fn flat(world: &World, usages: &[(Duration, Usage)]) {
    let quarter = usages.len() / 4;
    // Too few samples are not conclusive.
    if quarter < 4 {
        eprintln!("  too short to judge memory and descriptors");
        return;
    }
    let of = |from: usize, figure: fn(&Usage) -> f64| {
        median(usages[from..from + quarter].iter().map(|(_, usage)| figure(usage)).collect())
    };
    let resident = |it: &Usage| it.resident;
    let descriptors = |it: &Usage| it.descriptors as f64;
    let (early, late) = (of(quarter, resident), of(3 * quarter, resident));
    world.expect(late <= early * GROWTH + GROWTH_BYTES, || {
        format!("memory grows from {early} to {late} bytes")
    });
    let (few, many) = (of(quarter, descriptors), of(3 * quarter, descriptors));
    world.expect(many <= few + GROWTH_DESCRIPTORS as f64, || {
        format!("descriptors grow from {few} to {many}")
    });
    eprintln!("  memory {:.0} to {:.0} MiB, descriptors {few} to {many}", mib(early), mib(late));
}

fn mib(bytes: f64) -> f64 {
    bytes / 1_048_576.0
}

/// Formats the counts and the findings, as a table in Markdown.
fn report(world: &World, length: Duration) -> String {
    let mut report = format!("soak of {:.1} minutes\n\n", length.as_secs_f64() / 60.0);
    report.push_str("| what | how many |\n|---|--:|\n");
    for (what, many) in world.counts() {
        report.push_str(&format!("| {what} | {many} |\n"));
    }
    report.push_str(&format!("| findings | {} |\n", world.findings().0));
    report
}
