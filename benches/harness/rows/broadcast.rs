//! `broadcast_fan_out` measures a broadcast to a million through a channel that costs nothing.
//!
//! Each window is claimed durably before it is sent, and each outcome is stored.
//! `broadcast_fan_out_sticky` is a second broadcast to the same people through two numbers. Each of
//! them has a number that is looked up. Its reference is one number, without any lookups.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use postrider_actors::channel::{Acceptance, Channel, Outbound, Outcome, Sending};
use postrider_actors::domain::{BroadcastId, SenderNotes};
use postrider_actors::{
    Audience, BroadcastPolicy, BroadcastStatus, CustomChannel, Engine, NewBroadcast, NewNumber,
    NewProvider, Workspace,
};

use super::Group;
use crate::measure::{Measured, Pair, Phones, Stopwatch, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["broadcast_fan_out"], run };

/// The row of people who have a number each.
pub(crate) const STICKY: Group = Group { rows: &["broadcast_fan_out_sticky"], run: run_sticky };

/// The numbers of the pool if each of the people has one.
const NUMBERS: usize = 2;
const STICKY_BUDGET_AND_GOAL: (f64, f64) = (0.8, 0.95);
/// Messages per second and core.
const BUDGET_AND_GOAL: (f64, f64) = (600_000.0, 1_500_000.0);
/// The interval between checks whether a broadcast is over.
const LOOK: Duration = Duration::from_millis(20);

/// The number of ids that the channel returns in turn.
const IDS: u64 = 1024;

/// A channel that accepts everything immediately and counts it.
///
/// It returns an id for each message like the chat-app channel, because ids are stored.
struct Counting {
    taken: AtomicU64,
    ids: Vec<Box<str>>,
}

impl Counting {
    fn new() -> Self {
        let ids = (0..IDS).map(provider_id).collect();
        Self { taken: AtomicU64::new(0), ids }
    }
}

impl Channel for Counting {
    fn send(&self, _: Outbound) -> Sending {
        let place = self.taken.fetch_add(1, Ordering::Relaxed) % IDS;
        let provider_id = self.ids.get(place as usize).cloned();
        let acceptance = Acceptance { provider_id, ..Acceptance::default() };
        Box::pin(std::future::ready(Outcome::SentAs(acceptance)))
    }
}

/// Returns an id of 62 characters.
///
/// They are the channel's prefix, the recipient's digits, and 18 hexadecimal digits.
fn provider_id(number: u64) -> Box<str> {
    let unique = format!("{:018X}", number << 40);
    let digits = format!("{}", 15_550_000_000 + number);
    let (before, between) = ([0x1c, 0x18, 0x0b], [0x15, 2, 0, 0x11, 0x18, 0x12]);
    let bytes = [&before[..], digits.as_bytes(), &between, unique.as_bytes(), &[0]].concat();
    format!("wamid.{}", base64::prelude::BASE64_STANDARD.encode(bytes)).into()
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = setup::runtime()?;
    let mut rates = Vec::new();
    for _ in 0..scale.restarts {
        let (created, sent) = runtime.block_on(last_of(1, scale.pending, 1))?;
        eprintln!("  made in {created:.2} s, sent in {sent:.2} s");
        rates.push(scale.pending as f64 / sent / cores as f64);
    }
    let unit = format!("messages/s and core ({cores}), {} recipients", scale.pending);
    Ok(vec![Row::of_least(GROUP.rows[0], unit, median(rates), BUDGET_AND_GOAL)])
}

fn run_sticky(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let recipients = scale.pending;
    let second = |numbers| -> Result<Measured> {
        let (_, sent) = runtime.block_on(last_of(2, recipients, numbers))?;
        Ok(Measured::rate(recipients as f64 / sent))
    };
    let (mut sticky, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..scale.restarts {
        sticky.push(second(NUMBERS)?);
        plain.push(second(1)?);
    }
    let unit = format!("messages/s through {NUMBERS} numbers, one for each of {recipients}");
    let reference = "messages/s through one number";
    let pair = Pair::of_rounds(&sticky, &plain);
    Ok(vec![Row::of_rates(STICKY.rows[0], unit, reference, pair, STICKY_BUDGET_AND_GOAL)])
}

/// Runs this number of broadcasts to the same people, on its own engine.
///
/// Returns the seconds to make the last one, and the seconds to send it.
async fn last_of(broadcasts: u64, recipients: usize, numbers: usize) -> Result<(f64, f64)> {
    let data = setup::data_directory()?;
    let channel = Arc::new(Counting::new());
    let mut options = setup::options(data.path(), 1000);
    options.channel = Some(CustomChannel(channel.clone()));
    options.broadcasts.recipients_max = recipients;
    let engine = Engine::start(options).await?;
    let number = || NewNumber::of(NewProvider::Custom);
    let workspace = setup::workspace_with(&engine, number()).await?;
    for _ in 1..numbers {
        engine.admin().connect_number(workspace.id(), number()).await?;
    }
    let mut times = (0.0, 0.0);
    for _ in 0..broadcasts {
        let new = to_phones(&Phones::new(), recipients)?;
        let watch = Stopwatch::start();
        let id = workspace.create_broadcast(new, None).await?.answer.broadcast_id;
        let created = watch.elapsed().as_secs_f64();
        let watch = Stopwatch::start();
        wait(&workspace, id, LOOK).await?;
        times = (created, watch.elapsed().as_secs_f64());
    }
    let count = channel.taken.load(Ordering::Relaxed);
    if count != broadcasts * recipients as u64 {
        return Err(format!("{count} messages went to {recipients} recipients").into());
    }
    engine.shutdown(Duration::from_secs(30)).await?;
    Ok(times)
}

/// Makes an immediate broadcast to this number of phones of its own.
pub(super) fn to_phones(phones: &Phones, recipients: usize) -> Result<NewBroadcast> {
    let mut audience = Audience::new();
    for _ in 0..recipients {
        audience.add(phones.next_phone()?, Box::default());
    }
    Ok(NewBroadcast {
        name: "Benchmark".into(),
        template: setup::TEMPLATE.into(),
        language: "en".into(),
        components: Vec::new(),
        audience,
        schedule_at: None,
        policy: BroadcastPolicy::AtMostOnce,
        notes: SenderNotes::default(),
        from: Vec::new(),
    })
}

/// Waits until a broadcast has ended, checking at this interval.
pub(super) async fn wait(workspace: &Workspace, id: BroadcastId, look: Duration) -> Result<()> {
    loop {
        match workspace.broadcast(id).await?.status {
            BroadcastStatus::Completed => return Ok(()),
            BroadcastStatus::Queued | BroadcastStatus::Sending => tokio::time::sleep(look).await,
            other => return Err(format!("the broadcast is {}", other.as_str()).into()),
        }
    }
}
