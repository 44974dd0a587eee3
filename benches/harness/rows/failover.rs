//! `otp_failover` measures how soon the gateway of the next step has a code that was refused.
//!
//! The channel refuses each code with a further step, and accepts all others. The time goes from
//! its refusal until the gateway has read the request: the commit that ends the step and claims the
//! next one, and the way to the gateway. Meanwhile callers send codes that are accepted, at an even
//! rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_actors::channel::{Channel, Content, Failure, Outbound, Outcome, Sending};
use postrider_actors::domain::event::chain::{ChainStep, OtpChannel};
use postrider_actors::{
    AddressRules, CustomChannel, Engine, NewNumber, NewProvider, SendMore, SendOtp, SmsRoute,
    Workspace,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::Group;
use crate::measure::{Latencies, Measured, Phones, Stopwatch};
use crate::report::Row;
use crate::scale::Scale;
use crate::sink::Sink;
use crate::{Error, Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_failover"], run };

/// In milliseconds.
const BUDGET_AND_GOAL: (f64, f64) = (50.0, 10.0);
/// The interval of codes that are refused.
const BETWEEN: Duration = Duration::from_millis(11);
/// The callers of the other codes, and their rest after each: some 2,000 codes a second.
const CALLERS: usize = 16;
const REST: Duration = Duration::from_millis(8);
/// The interval between checks whether all SMS have arrived, and the maximum wait for them.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// A channel that refuses codes with a further step, and reports when.
struct Refusing {
    since: Stopwatch,
    refused: UnboundedSender<(u64, Duration)>,
}

impl Channel for Refusing {
    fn send(&self, message: Outbound) -> Sending {
        let outcome = match (message.content, message.to.phone()) {
            (Content::Otp { chained: true, .. }, Some(to)) => {
                // Nobody listens any more when the time is up.
                self.refused.send((to.as_u64(), self.since.elapsed())).ok();
                Outcome::Failed(Failure::permanent(Some(131_026)))
            }
            _ => Outcome::Sent,
        };
        Box::pin(std::future::ready(outcome))
    }
}

struct Bench {
    since: Stopwatch,
    engine: Engine,
    workspace: Workspace,
    phones: Arc<Phones>,
    gateway: Arc<Sink>,
    refused: UnboundedReceiver<(u64, Duration)>,
    _data: TempDir,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let since = Stopwatch::start();
    // It has its own runtime, which cannot end inside another.
    let gateway = Arc::new(Sink::start(since, true)?);
    let times = runtime.block_on(async {
        let mut bench = Bench::start(since, Arc::clone(&gateway)).await?;
        bench.failovers(scale.warm_up).await?;
        let times = bench.failovers(scale.round * u32::try_from(scale.rounds)?).await?;
        bench.engine.shutdown(Duration::from_secs(30)).await?;
        Ok::<_, Error>(times)
    })?;
    eprintln!("  {} codes were refused", times.len());
    let unit = "ms from a refusal until the next step's gateway has the code, p99";
    Ok(vec![Row::of_time(GROUP.rows[0], unit, Measured::times(times), Some(BUDGET_AND_GOAL))])
}

impl Bench {
    async fn start(since: Stopwatch, gateway: Arc<Sink>) -> Result<Self> {
        let (data, (refusals, refused)) = (setup::data_directory()?, unbounded_channel());
        let mut options = setup::options(data.path(), 1000);
        options.webhooks.addresses =
            AddressRules { allow_http: true, allowed_subnets: vec!["127.0.0.0/8".parse()?] };
        options.channel = Some(CustomChannel(Arc::new(Refusing { since, refused: refusals })));
        let engine = Engine::start(options).await?;
        let number = NewNumber::of(NewProvider::Custom);
        let workspace = setup::workspace_with(&engine, number).await?;
        workspace.set_sms(SmsRoute::Http { url: gateway.url(0) }, None, None).await?;
        let phones = Arc::new(Phones::new());
        Ok(Self { since, engine, workspace, phones, gateway, refused, _data: data })
    }

    /// Returns the times of all codes that are sent in this time.
    async fn failovers(&mut self, time: Duration) -> Result<Latencies> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut load = JoinSet::new();
        for _ in 0..CALLERS {
            let (workspace, phones) = (self.workspace.clone(), Arc::clone(&self.phones));
            load.spawn(send_beside(workspace, phones, Arc::clone(&is_over)));
        }
        let (begin, mut sent) = (self.since.elapsed(), 0);
        let mut ticks = interval(BETWEEN);
        while self.since.elapsed() < begin + time || sent == 0 {
            ticks.tick().await;
            self.workspace.send_otp(chained(&self.phones)?).await?;
            sent += 1;
        }
        let mut refused = HashMap::new();
        while refused.len() < sent {
            let (phone, at) = self.refused.recv().await.ok_or("the channel is gone")?;
            refused.insert(phone, at);
        }
        let times = self.arrived(&refused).await?;
        is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = load.join_next().await {
            ended??;
        }
        Ok(times)
    }

    /// Waits until the gateway has all refused codes.
    async fn arrived(&self, refused: &HashMap<u64, Duration>) -> Result<Latencies> {
        let (mut times, waited) = (Latencies::new(), Stopwatch::start());
        while times.len() < refused.len() {
            if waited.elapsed() > PATIENCE {
                return Err(format!("{} of {} came", times.len(), refused.len()).into());
            }
            for arrival in self.gateway.take_arrivals() {
                let at = refused.get(&arrival.phone).ok_or("an SMS came that nobody waits for")?;
                times.add(arrival.at.saturating_sub(*at));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(times)
    }
}

/// Makes a code that continues by SMS.
fn chained(phones: &Phones) -> Result<SendOtp> {
    let step = |channel| ChainStep { channel, timeout_seconds: 30 };
    let channels = Some(vec![step(OtpChannel::Messaging), step(OtpChannel::Sms)]);
    let more = SendMore { channels, ..SendMore::default() };
    Ok(SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phones.next_phone()?) })
}

/// Sends codes that the channel accepts, until the measurement is over.
async fn send_beside(
    workspace: Workspace,
    phones: Arc<Phones>,
    is_over: Arc<AtomicBool>,
) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        workspace.send_otp(SendOtp::to(phones.next_phone()?)).await?;
        tokio::time::sleep(REST).await;
    }
    Ok(())
}
