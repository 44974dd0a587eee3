//! `broadcast_create`, `broadcast_memory` and `broadcast_restart` measure a served broadcast.
//!
//! It goes to a million recipients and is made with one body over HTTP, by a server in a process of
//! its own.
//!
//! The memory of a broadcast is the maximum allocation of the server's process, less that before.
//! It is sampled every millisecond from before the first byte of the body until the last outcome.
//! `broadcast_memory_resident` is the resident memory of that time. The restart kills the server
//! with half of the recipients sent to, and counts from the next start until the channel has a
//! message again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::BroadcastStatus;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::Group;
use super::child::{self, Child, say};
use crate::bare_client::Api;
use crate::measure::{Phones, Stopwatch, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, memory, setup};

/// The rows.
pub(crate) const GROUP: Group = Group {
    rows: &[
        "broadcast_create",
        "broadcast_create_bytes",
        "broadcast_create_memory",
        "broadcast_memory",
        "broadcast_memory_resident",
        "broadcast_restart",
    ],
    run,
};

const MEMORY_BUDGET_AND_GOAL: (f64, f64) = (36.0, 24.0);
/// The interval of memory samples.
const SAMPLE: Duration = Duration::from_millis(1);
/// The interval of checks of a broadcast's progress.
const LOOK: Duration = Duration::from_millis(250);
/// The maximum time of a broadcast.
const PATIENCE: Duration = Duration::from_secs(120);
/// The seconds that a broadcast to be killed takes, roughly.
const PARTS: usize = 3;
/// The minimum number of recipients of a broadcast to be killed.
///
/// Recipients that were claimed by then are not sent to again, and these are up to a thousand.
const MANY: usize = 5000;

/// The order to such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    directory: PathBuf,
    recipients: usize,
    /// The maximum number of messages per second; 0 for no limit.
    per_second: u32,
}

/// The report of a server after its start.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    address: SocketAddr,
    key: String,
}

/// The maxima of memory in use since the last reset, and the values at the reset.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Most {
    allocated: f64,
    resident: f64,
}

/// A server and a way to it.
struct Served {
    runtime: Runtime,
    api: Api,
    child: Child,
}

/// The results of one broadcast.
struct Measured {
    created: f64,
    create_memory: f64,
    memory: f64,
    resident: f64,
    restart: f64,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (recipients, many) = (scale.pending, scale.pending.max(MANY));
    let (body, body_of_many) = (body(recipients)?, body(many)?);
    let mut all = Vec::new();
    for _ in 0..scale.restarts {
        let (created, create_memory, memory, resident) = whole(recipients, &body)?;
        let restart = killed(many, &body_of_many)?;
        eprintln!("  made in {created:.2} s, went on after {restart:.2} s");
        all.push(Measured { created, create_memory, memory, resident, restart });
    }
    let of = |figure: fn(&Measured) -> f64| median(all.iter().map(figure).collect());
    let each = |bytes: f64| bytes / recipients as f64;
    let [create, bytes, create_memory, most, resident, restart] = GROUP.rows else {
        return Ok(Vec::new());
    };
    let (created, megabytes) = (of(|it| it.created), body.len() as f64 / 1e6);
    let per = |what: &str| format!("bytes per recipient {what} at {recipients}");
    Ok(vec![
        Row::of_value(
            create,
            format!("s from {recipients} phones in a body over HTTP to the durable answer"),
            created,
            None,
        ),
        Row::of_value(bytes, "MB/s of that body", megabytes / created, None),
        Row::of_value(
            create_memory,
            per("allocated at most until that answer,"),
            each(of(|it| it.create_memory)),
            None,
        ),
        Row::of_value(
            most,
            per("allocated at most until the last outcome,"),
            each(of(|it| it.memory)),
            Some(MEMORY_BUDGET_AND_GOAL),
        ),
        Row::of_value(resident, per("resident (RSS) at most,"), each(of(|it| it.resident)), None),
        Row::of_value(
            restart,
            format!("s from a start in the middle of {many} to the next message"),
            of(|it| it.restart),
            None,
        ),
    ])
}

/// Makes the body of a broadcast to this many recipients.
fn body(recipients: usize) -> Result<Bytes> {
    let (phones, mut body) = (Phones::new(), Vec::new());
    body.extend_from_slice(br#"{"name":"Benchmark","template_name":"spring_sale","recipients":["#);
    for number in 0..recipients {
        let comma = if number == 0 { "" } else { "," };
        body.extend_from_slice(format!("{comma}\"+{}\"", phones.next()).as_bytes());
    }
    body.extend_from_slice(b"]}");
    Ok(Bytes::from(body))
}

/// Runs a broadcast from its body to its end.
///
/// Returns the seconds to make it, and the maximum allocation until then, in all, and resident.
fn whole(recipients: usize, body: &Bytes) -> Result<(f64, f64, f64, f64)> {
    let data = setup::data_directory()?;
    let mut served = Served::start(data.path(), recipients, 0)?;
    let before: Most = served.child.ask("forget")?;
    let (id, created) = served.create(body)?;
    let made: Most = served.child.ask("most")?;
    served.wait(&id, |it| it["status"] == "completed")?;
    let most: Most = served.child.ask("most")?;
    let over = |most: Most| most.allocated - before.allocated;
    Ok((created, over(made), over(most), most.resident - before.resident))
}

/// Kills a server in the middle of a broadcast; returns the seconds until the next one sends.
fn killed(recipients: usize, body: &Bytes) -> Result<f64> {
    let data = setup::data_directory()?;
    let per_second = u32::try_from(recipients / PARTS)?;
    let served = Served::start(data.path(), recipients, per_second)?;
    let (id, _) = served.create(body)?;
    served.wait(&id, |it| it["counts"]["sent"].as_u64() >= Some(recipients as u64 / 2))?;
    // Dropping it kills it.
    drop(served);
    let order = Order { directory: data.path().to_owned(), recipients, per_second };
    Child::start(&child::Order::GoOn(order))?.says()
}

impl Served {
    fn start(directory: &Path, recipients: usize, per_second: u32) -> Result<Self> {
        let order = Order { directory: directory.to_owned(), recipients, per_second };
        let mut child = Child::start(&child::Order::Serve(order))?;
        let Started { address, key } = child.says()?;
        Ok(Self { runtime: setup::runtime()?, api: Api::new(address, &key)?, child })
    }

    /// Makes a broadcast; returns its id, and the seconds that this took.
    fn create(&self, body: &Bytes) -> Result<(String, f64)> {
        let watch = Stopwatch::start();
        let post = self.api.post("/messaging/broadcasts", body.clone());
        let made: serde_json::Value = serde_json::from_slice(&self.runtime.block_on(post)?)?;
        let seconds = watch.elapsed().as_secs_f64();
        let id = made["broadcast_id"].as_str().ok_or("a broadcast has an id")?;
        Ok((id.to_owned(), seconds))
    }

    /// Waits until a broadcast has an expected state.
    fn wait(&self, id: &str, is: impl Fn(&serde_json::Value) -> bool) -> Result<()> {
        let (watch, path) = (Stopwatch::start(), format!("/messaging/broadcasts/{id}"));
        while watch.elapsed() < PATIENCE {
            let found = self.runtime.block_on(self.api.get(&path))?;
            if is(&serde_json::from_slice(&found)?) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err("the broadcast takes too long".into())
    }
}

fn start(order: &Order, runtime: &Runtime) -> Result<RunningServer> {
    let mut settings = Settings::default();
    settings.server.listen = "127.0.0.1:0".parse()?;
    settings.server.data_dir.clone_from(&order.directory);
    settings.sandbox.messages_kept = 1000;
    settings.limits = setup::high_limits();
    settings.rates.number_messages_per_second = Some(order.per_second);
    Ok(runtime.block_on(Server::start(settings))?)
}

/// Runs the part of a process that serves, and reports its memory.
pub(crate) fn serve(order: &Order) -> Result<()> {
    let runtime = setup::runtime()?;
    let server = start(order, &runtime)?;
    let demo = "demo".parse()?;
    runtime.block_on(server.engine().admin().set_credits(&demo, u64::MAX / 2))?;
    let key = server.demo_key().ok_or("a sandbox has a key")?.to_owned();
    say(&Started { address: server.address(), key })?;
    let most = Arc::new(AtomicU64::new(0));
    let (sampled, stop) = (Arc::clone(&most), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let sampler = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // The number of bytes is far below the precision of a float.
            sampled.fetch_max(memory::allocated()? as u64, Ordering::Relaxed);
            std::thread::sleep(SAMPLE);
        }
        Ok::<_, Error>(())
    });
    for line in std::io::stdin().lines() {
        if line? == "forget" {
            memory::forget_most_resident()?;
            most.store(memory::allocated()? as u64, Ordering::Relaxed);
        }
        let allocated = most.load(Ordering::Relaxed) as f64;
        say(&Most { allocated, resident: memory::most_resident()? })?;
    }
    stop.store(true, Ordering::Relaxed);
    sampler.join().map_err(|_| "the sampler panicked")??;
    Ok(runtime.block_on(server.shutdown())?)
}

/// Runs the part of a process that starts in the middle of a broadcast.
///
/// Returns the seconds until the channel has a message. Waits for the end of the broadcast.
pub(crate) fn go_on(order: &Order) -> Result<f64> {
    let runtime = setup::runtime()?;
    let watch = Stopwatch::start();
    let server = start(order, &runtime)?;
    let demo = "demo".parse()?;
    while server.engine().sandbox().messages(&demo, None, 1).is_empty() {
        if watch.elapsed() > PATIENCE {
            return Err("nothing is sent".into());
        }
        std::thread::sleep(SAMPLE);
    }
    let seconds = watch.elapsed().as_secs_f64();
    let workspace = server.engine().workspace(&demo).ok_or("a sandbox has a workspace")?;
    loop {
        std::thread::sleep(LOOK);
        let (found, _) = runtime.block_on(workspace.broadcasts(0, 1))?;
        let broadcast = found.first().ok_or("the broadcast is gone")?;
        if broadcast.status == BroadcastStatus::Completed {
            let (sent, unknown) = (broadcast.counts.sent, broadcast.counts.unknown);
            eprintln!("  after the restart {sent} are sent and {unknown} unknown");
            return match (sent + unknown) as usize == order.recipients {
                true => Ok(seconds),
                false => Err("a recipient was forgotten".into()),
            };
        }
        if watch.elapsed() > PATIENCE {
            return Err("the broadcast does not come to its end".into());
        }
    }
}
