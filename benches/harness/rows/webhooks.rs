//! These rows measure deliveries to a sink on loopback, in this process on a thread of its own.
//!
//! They are `webhook_delivery`, `webhook_p99_beside_hanging` and `webhook_publish_to_arrival`.
//!
//! The first delivers the events that an endpoint has missed while it was disabled, at full speed.
//! Its reference posts the bytes of such a delivery to the same sink, with as many concurrent
//! requests as an endpoint may have. The other two publish events at an even rate. They measure
//! from the call that made the event until the sink has read the request, so the commit is a part
//! of it. In both, one endpoint of the workspace is never answered, and disabled for the reference.

use std::collections::HashMap;
use std::time::Duration;

use postrider_actors::domain::WebhookId;
use postrider_actors::{AddressRules, Engine, SendOtp, WebhookChange, WebhookSettings, Workspace};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::{Group, pending};
use crate::bare_client::Posts;
use crate::callers::in_loops;
use crate::measure::{Latencies, Measured, Pair, Phones, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::sink::Sink;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const DELIVERY: Group = Group { rows: &["webhook_delivery"], run: run_delivery };
pub(crate) const BESIDE_HANGING: Group =
    Group { rows: &["webhook_p99_beside_hanging"], run: run_beside_hanging };
pub(crate) const PUBLISH_TO_ARRIVAL: Group =
    Group { rows: &["webhook_publish_to_arrival"], run: run_publish_to_arrival };

const DELIVERY_BUDGET_AND_GOAL: (f64, f64) = (0.55, 0.75);
const BESIDE_BUDGET_AND_GOAL: (f64, f64) = (1.1, 1.05);
/// The maximum number of requests in flight per endpoint.
const CONCURRENT: usize = 64;
/// The expected deliveries per second of the first round.
const FIRST_GUESS: f64 = 10_000.0;
/// The interval between checks whether everything has arrived.
const LOOK: Duration = Duration::from_millis(2);
/// The maximum time that anything may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    since: Stopwatch,
    runtime: Runtime,
    engine: Engine,
    workspace: Workspace,
    sink: Sink,
    phones: Phones,
    _data: TempDir,
}

impl Bench {
    fn start(timed: bool) -> Result<Self> {
        let (data, runtime) = (setup::data_directory()?, setup::runtime()?);
        let mut options = setup::options(data.path(), 1000);
        options.webhooks.addresses =
            AddressRules { allow_http: true, allowed_subnets: vec!["127.0.0.0/8".parse()?] };
        let engine = runtime.block_on(Engine::start(options))?;
        let workspace = runtime.block_on(setup::make_workspace(&engine))?;
        let since = Stopwatch::start();
        let (sink, phones) = (Sink::start(since, timed)?, Phones::new());
        Ok(Self { since, runtime, engine, workspace, sink, phones, _data: data })
    }

    /// Makes an endpoint that gets an event for each one-time password that is sent.
    fn endpoint(&self, url: String) -> Result<WebhookId> {
        let settings = WebhookSettings {
            url,
            events: vec!["otp.sent".to_owned()],
            description: None,
            enabled: true,
            rate_limit_per_second: None,
            ordered: false,
            batch: false,
        };
        Ok(self.runtime.block_on(self.workspace.create_webhook(settings))?.0.id)
    }

    fn enable(&self, id: WebhookId, enabled: bool) -> Result<()> {
        let change = WebhookChange { enabled: Some(enabled), ..WebhookChange::default() };
        self.runtime.block_on(self.workspace.update_webhook(id, change))?;
        Ok(())
    }

    fn stop(self) -> Result<()> {
        // Hanging requests are abandoned.
        self.runtime.block_on(self.engine.shutdown(Duration::from_secs(1))).ok();
        Ok(())
    }
}

fn run_delivery(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start(false)?;
    let endpoint = bench.endpoint(bench.sink.url(0))?;
    bench.deliver(endpoint, 1)?;
    let example = bench.sink.last().ok_or("nothing was delivered")?;
    let headers = ["webhook-id", "webhook-timestamp", "webhook-signature", "user-agent"];
    let headers = headers.map(|name| {
        let value = example.headers.get(name).and_then(|value| value.to_str().ok());
        (name, value.unwrap_or_default())
    });
    let reference = Posts::new(&bench.sink.url(0), &headers, example.body)?;
    let mut rate = FIRST_GUESS;
    let pair = alternate(
        scale,
        |time| {
            let measured = bench.deliver(endpoint, (rate * time.as_secs_f64()) as usize + 1)?;
            rate = measured.rate;
            Ok(measured)
        },
        |time| {
            let posted = in_loops(&bench.runtime, CONCURRENT, time, || reference.clone())?;
            Ok(Measured::rate(posted.rate))
        },
    )?;
    bench.stop()?;
    let unit = "deliveries/s to one endpoint";
    let reference = format!("requests/s of {CONCURRENT} bare hyper client loops to the same sink");
    Ok(vec![Row::of_rates(DELIVERY.rows[0], unit, reference, pair, DELIVERY_BUDGET_AND_GOAL)])
}

impl Bench {
    /// Publishes this many events while the endpoint is disabled, then delivers them.
    fn deliver(&self, endpoint: WebhookId, events: usize) -> Result<Measured> {
        self.enable(endpoint, false)?;
        self.runtime.block_on(pending::send(&self.workspace, events))?;
        let before = self.sink.count();
        let watch = Stopwatch::start();
        self.enable(endpoint, true)?;
        while self.sink.count() < before + events as u64 {
            if watch.elapsed() > PATIENCE {
                return Err("the deliveries do not come to an end".into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(Measured::rate(events as f64 / watch.elapsed().as_secs_f64()))
    }
}

fn run_beside_hanging(scale: &Scale) -> Result<Vec<Row>> {
    const HEALTHY: usize = 9;
    const PER_SECOND: u32 = 200;
    let pair = beside_hanging(scale, HEALTHY, PER_SECOND)?;
    let unit = format!(
        "ms from publishing to arrival, p99, {HEALTHY} endpoints beside one that hangs, {PER_SECOND} \
         events/s"
    );
    let row = BESIDE_HANGING.rows[0];
    Ok(vec![Row::of_p99(row, unit, "ms without it", pair, Some(BESIDE_BUDGET_AND_GOAL))])
}

fn run_publish_to_arrival(scale: &Scale) -> Result<Vec<Row>> {
    const PER_SECOND: u32 = 1000;
    let pair = beside_hanging(scale, 1, PER_SECOND)?;
    let unit = format!(
        "ms from publishing to arrival, p99, one endpoint beside one that hangs, {PER_SECOND} \
         events/s"
    );
    Ok(vec![Row::of_p99(PUBLISH_TO_ARRIVAL.rows[0], unit, "ms without it", pair, None)])
}

/// Returns the times to arrival at this many endpoints: beside one that hangs, and without it.
fn beside_hanging(scale: &Scale, healthy: usize, per_second: u32) -> Result<Pair> {
    let mut bench = Bench::start(true)?;
    for endpoint in 0..healthy {
        bench.endpoint(bench.sink.url(endpoint))?;
    }
    let hanging = bench.endpoint(bench.sink.hanging_url())?;
    let (mut beside, mut without) = (Latencies::new(), Latencies::new());
    let mut warm_up = Latencies::new();
    bench.publish(scale.warm_up, per_second, healthy, &mut warm_up)?;
    for round in 0..scale.rounds {
        bench.enable(hanging, true)?;
        bench.publish(scale.round, per_second, healthy, &mut beside)?;
        bench.enable(hanging, false)?;
        bench.publish(scale.round, per_second, healthy, &mut without)?;
        eprintln!("  round {}: {} deliveries on each side", round + 1, without.len());
    }
    bench.stop()?;
    Ok(Pair { subject: Measured::times(beside), reference: Measured::times(without) })
}

impl Bench {
    /// Publishes for this time, each event on schedule whether or not others wait.
    ///
    /// Adds the time that each took to each endpoint.
    fn publish(
        &mut self,
        time: Duration,
        per_second: u32,
        endpoints: usize,
        times: &mut Latencies,
    ) -> Result<()> {
        let (since, mut asked) = (self.since, HashMap::new());
        let publishing = async {
            let (begin, mut running) = (since.elapsed(), JoinSet::new());
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while since.elapsed() < begin + time || asked.is_empty() {
                ticks.tick().await;
                let phone = self.phones.next_phone()?;
                asked.insert(phone.as_u64(), since.elapsed());
                let workspace = self.workspace.clone();
                running.spawn(async move { workspace.send_otp(SendOtp::to(phone)).await });
            }
            while let Some(ended) = running.join_next().await {
                ended??;
            }
            Ok::<_, Error>(())
        };
        self.runtime.block_on(publishing)?;
        let (watch, mut missing) = (Stopwatch::start(), asked.len() * endpoints);
        while missing > 0 {
            for arrival in self.sink.take_arrivals() {
                let asked_at = asked.get(&arrival.phone).ok_or("an event came twice")?;
                times.add(arrival.at - *asked_at);
                missing = missing.checked_sub(1).ok_or("an event came twice")?;
            }
            if watch.elapsed() > PATIENCE {
                return Err(format!("{missing} deliveries have not arrived").into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
