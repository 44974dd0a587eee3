//! `broadcast_fan_out` measures a broadcast to a million through a channel that costs nothing.
//!
//! Each window is claimed durably before it is sent, and each outcome is kept.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider_actors::channel::{Channel, Outbound, Outcome, Sending};
use postrider_actors::domain::{BroadcastId, SenderNotes};
use postrider_actors::{
    Audience, BroadcastPolicy, BroadcastStatus, CustomChannel, Engine, NewBroadcast, NewNumber,
    NewProvider, Workspace,
};

use super::Group;
use crate::measure::{Phones, Stopwatch, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["broadcast_fan_out"], run };

/// Messages per second and core.
const BUDGET_AND_GOAL: (f64, f64) = (600_000.0, 1_500_000.0);
/// How often it is looked whether a broadcast is over.
const LOOK: Duration = Duration::from_millis(20);

/// Takes everything at once and counts it.
struct Counting(AtomicU64);

impl Channel for Counting {
    fn send(&self, _: Outbound) -> Sending {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Outcome::Sent))
    }
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = setup::runtime()?;
    let mut rates = Vec::new();
    for _ in 0..scale.restarts {
        let (created, sent) = runtime.block_on(one(scale.pending))?;
        eprintln!("  made in {created:.2} s, sent in {sent:.2} s");
        rates.push(scale.pending as f64 / sent / cores as f64);
    }
    let unit = format!("messages/s and core ({cores}), {} recipients", scale.pending);
    Ok(vec![Row::of_least(GROUP.rows[0], unit, median(rates), BUDGET_AND_GOAL)])
}

/// A broadcast on an engine of its own: seconds to make it, seconds to send it.
async fn one(recipients: usize) -> Result<(f64, f64)> {
    let data = setup::data_directory()?;
    let channel = Arc::new(Counting(AtomicU64::new(0)));
    let mut options = setup::options(data.path(), 1000);
    options.channel = Some(CustomChannel(channel.clone()));
    options.broadcasts.recipients_max = recipients;
    let engine = Engine::start(options).await?;
    let number = NewNumber::of(NewProvider::Custom);
    let workspace = setup::workspace_with(&engine, number).await?;
    let new = to_phones(&Phones::new(), recipients)?;
    let watch = Stopwatch::start();
    let id = workspace.create_broadcast(new, None).await?.answer.broadcast_id;
    let created = watch.elapsed().as_secs_f64();
    let watch = Stopwatch::start();
    wait(&workspace, id, LOOK).await?;
    let sent = watch.elapsed().as_secs_f64();
    let count = channel.0.load(Ordering::Relaxed);
    if count != recipients as u64 {
        return Err(format!("{count} messages went to {recipients} recipients").into());
    }
    engine.shutdown(Duration::from_secs(30)).await?;
    Ok((created, sent))
}

/// A broadcast at once to that many phones of their own.
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

/// Waits until a broadcast has come to its end, and looks that often.
pub(super) async fn wait(workspace: &Workspace, id: BroadcastId, look: Duration) -> Result<()> {
    loop {
        match workspace.broadcast(id).await?.status {
            BroadcastStatus::Completed => return Ok(()),
            BroadcastStatus::Queued | BroadcastStatus::Sending => tokio::time::sleep(look).await,
            other => return Err(format!("the broadcast is {}", other.as_str()).into()),
        }
    }
}
