//! `broadcast_create`, `broadcast_memory` and `broadcast_restart` measure a served broadcast.
//!
//! It goes to a million recipients and is made with one body over HTTP, by a server in a process of
//! its own.
//!
//! What a broadcast takes in memory is the most that the server's process has allocated at any
//! moment, looked at every millisecond from before the first byte of the body until the last
//! outcome, less what it had before. `broadcast_memory_resident` is what the system sees of that.
//! The restart kills the server with half of the recipients sent to, and counts from the next
//! start until the channel has a message again.

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
/// How often the memory is looked at.
const SAMPLE: Duration = Duration::from_millis(1);
/// How often it is asked how far a broadcast is.
const LOOK: Duration = Duration::from_millis(250);
/// The longest that a broadcast may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// A broadcast that is to be killed takes some three seconds.
const PARTS: usize = 3;
/// At least as many recipients has one that is to be killed: what was claimed by then is not sent
/// again, and that is up to a thousand.
const MANY: usize = 5000;

/// What such a process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    directory: PathBuf,
    recipients: usize,
    /// Most messages in a second; 0 for no limit.
    per_second: u32,
}

/// What a server says when it has started.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    address: SocketAddr,
    key: String,
}

/// The most that was in use since it was asked to forget it, and what there was then.
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

/// What was measured of one broadcast.
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

/// The body that makes a broadcast to that many.
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

/// A broadcast from its body to its end: seconds to make it, and the most that was allocated until
/// then, in all, and resident.
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

/// Kills a server in the middle of a broadcast; seconds until the next one sends again.
fn killed(recipients: usize, body: &Bytes) -> Result<f64> {
    let data = setup::data_directory()?;
    let per_second = u32::try_from(recipients / PARTS)?;
    let served = Served::start(data.path(), recipients, per_second)?;
    let (id, _) = served.create(body)?;
    served.wait(&id, |it| it["counts"]["sent"].as_u64() >= Some(recipients as u64 / 2))?;
    // Dropped, it is killed.
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

    /// Makes a broadcast: its id, and the seconds that it took.
    fn create(&self, body: &Bytes) -> Result<(String, f64)> {
        let watch = Stopwatch::start();
        let post = self.api.post("/messaging/broadcasts", body.clone());
        let made: serde_json::Value = serde_json::from_slice(&self.runtime.block_on(post)?)?;
        let seconds = watch.elapsed().as_secs_f64();
        let id = made["broadcast_id"].as_str().ok_or("a broadcast has an id")?;
        Ok((id.to_owned(), seconds))
    }

    /// Waits until a broadcast is as it should be.
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
    settings.number_messages_per_second = Some(order.per_second);
    Ok(runtime.block_on(Server::start(settings))?)
}

/// The part of a process that serves, and reports its memory.
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
            // Bytes are far from what a float cannot count.
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

/// The part of a process that starts in the middle of a broadcast: seconds until the channel has a
/// message. Sees the broadcast to its end.
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
