//! `otp_p99_beside_broadcast` measures how fast a code passes a broadcast of the same number.
//!
//! The broadcast uses all that the number may send. The reference is a number that has no other
//! messages.
//!
//! The number sends 80 messages in a second, like one of the Cloud API by default, and its channel
//! takes 20 ms for each. The measured time goes from the call until the channel gets the message:
//! the commit, the way through the number, and the wait for the number's rate. The channel's own
//! time is left out, since it is the same on both sides and would hide the rest. The two numbers
//! belong to two engines, and the one-time passwords go to both at the same moments. So a
//! disturbance of the machine affects both. `otp_answer_p99_beside_broadcast` is the same callers'
//! wait for the durable answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::channel::{Channel, Content, Outbound, Outcome, Sending};
use postrider_actors::domain::Phone;
use postrider_actors::{
    BroadcastStatus, CustomChannel, Engine, NewNumber, NewProvider, SendOtp, Workspace,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::Group;
use super::broadcast::to_phones;
use crate::measure::{Latencies, Measured, Pair, Phones, Stopwatch};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group =
    Group { rows: &["otp_p99_beside_broadcast", "otp_answer_p99_beside_broadcast"], run };

const BUDGET_AND_GOAL: (f64, f64) = (1.2, 1.05);
/// The messages per second of the number.
const RATE: u32 = 80;
/// The time that the channel takes for each message.
const CHANNEL: Duration = Duration::from_millis(20);
/// The interval of one-time passwords: no multiple of the time between two messages of the number.
const BETWEEN: Duration = Duration::from_millis(41);

/// A channel that takes time for each message, and reports when it got a one-time password.
struct Taking {
    since: Stopwatch,
    arrived: UnboundedSender<(Phone, Duration)>,
}

impl Channel for Taking {
    fn send(&self, message: Outbound) -> Sending {
        if let Content::Otp { .. } = message.content {
            // Nobody listens any more when the rounds are over.
            let arrived = message.to.phone().map(|to| (to, self.since.elapsed()));
            arrived.map(|arrived| self.arrived.send(arrived).ok());
        }
        Box::pin(async {
            tokio::time::sleep(CHANNEL).await;
            Outcome::Sent
        })
    }
}

/// The measured times of one-time passwords: until the channel had them, and until the answer.
#[derive(Default)]
struct Times {
    channel: Latencies,
    answer: Latencies,
}

struct Bench {
    since: Stopwatch,
    engine: Engine,
    workspace: Workspace,
    phones: Phones,
    arrived: UnboundedReceiver<(Phone, Duration)>,
    _data: TempDir,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let (beside, idle) = runtime.block_on(measure(scale))?;
    let row = |name, what: &str, beside, idle, budget_and_goal| {
        let pair = Pair { subject: Measured::times(beside), reference: Measured::times(idle) };
        let unit = format!("ms until {what} beside a broadcast, p99");
        Row::of_p99(name, unit, "ms on an idle number", pair, budget_and_goal)
    };
    let [channel, answer] = GROUP.rows else { return Ok(Vec::new()) };
    Ok(vec![
        row(channel, "the channel has it", beside.channel, idle.channel, Some(BUDGET_AND_GOAL)),
        row(answer, "the durable answer", beside.answer, idle.answer, None),
    ])
}

/// Returns the times of both sides, measured in the same moments.
async fn measure(scale: &Scale) -> Result<(Times, Times)> {
    let time = 2 * scale.round * u32::try_from(scale.rounds)?;
    let (mut beside, mut idle) = (Bench::start().await?, Bench::start().await?);
    // More recipients than the number reaches meanwhile.
    let recipients = ((scale.warm_up + time).as_secs() as usize + 2) * RATE as usize;
    let new = to_phones(&beside.phones, recipients)?;
    let broadcast = beside.workspace.create_broadcast(new, None).await?.answer.broadcast_id;
    // Wait until the number has used up its saved burst.
    tokio::time::sleep(scale.warm_up).await;
    let (beside_times, idle_times) = tokio::join!(beside.run(time), idle.run(time));
    let status = beside.workspace.broadcast(broadcast).await?.status;
    if status != BroadcastStatus::Sending {
        return Err(format!("the broadcast is {}", status.as_str()).into());
    }
    // Messages that wait for the number's rate are abandoned.
    for bench in [beside, idle] {
        bench.engine.shutdown(Duration::from_secs(1)).await.ok();
    }
    Ok((beside_times?, idle_times?))
}

impl Bench {
    async fn start() -> Result<Self> {
        let data = setup::data_directory()?;
        let (since, (arrivals, arrived)) = (Stopwatch::start(), unbounded_channel());
        let mut options = setup::options(data.path(), 1000);
        options.channel = Some(CustomChannel(Arc::new(Taking { since, arrived: arrivals })));
        let engine = Engine::start(options).await?;
        let number =
            NewNumber { messages_per_second: Some(RATE), ..NewNumber::of(NewProvider::Custom) };
        let workspace = setup::workspace_with(&engine, number).await?;
        Ok(Self { since, engine, workspace, phones: Phones::new(), arrived, _data: data })
    }

    /// Sends one-time passwords for this time, each on schedule whether or not others wait.
    async fn run(&mut self, time: Duration) -> Result<Times> {
        let (since, begin) = (self.since, self.since.elapsed());
        let (mut asked, mut running) = (HashMap::new(), JoinSet::new());
        let mut ticks = interval(BETWEEN);
        while since.elapsed() < begin + time || asked.is_empty() {
            ticks.tick().await;
            let (phone, workspace) = (self.phones.next_phone()?, self.workspace.clone());
            let asked_at = since.elapsed();
            asked.insert(phone, asked_at);
            running.spawn(async move {
                workspace.send_otp(SendOtp::to(phone)).await?;
                Ok::<_, Error>(since.elapsed() - asked_at)
            });
        }
        let mut times = Times::default();
        while let Some(ended) = running.join_next().await {
            times.answer.add(ended??);
        }
        while !asked.is_empty() {
            let (phone, at) = self.arrived.recv().await.ok_or("the channel is gone")?;
            let asked_at = asked.remove(&phone).ok_or("the channel was handed one twice")?;
            times.channel.add(at - asked_at);
        }
        eprintln!("  {} one-time passwords", times.answer.len());
        Ok(times)
    }
}
