//! `overload_p99` and `neighbour_p99` measure the waits when there is more work than capacity.
//!
//! `overload_p99`: a server admits as many commands at once as the row's connections, and five
//! times as many connections send without a rest. Admitted requests must wait hardly longer than
//! without the others, because the others are refused with 503 and a `retry_after`. A caller that
//! does not heed it is refused a little later the next time. Any other answer than an acknowledged
//! code is an error of the row.
//!
//! `neighbour_p99`: a quiet workspace sends a code now and then, alone and beside a loud one. The
//! loud one imports contacts, searches them and broadcasts, all at full speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::{NewBroadcast, SendOtp, Workspace};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::Group;
use super::broadcast::to_phones;
use crate::bare_client::Api;
use crate::client::{Client, Request, Script};
use crate::measure::{Latencies, Measured, Pair, Phones, Stopwatch};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const OVERLOAD: Group = Group { rows: &["overload_p99"], run: run_overload };
pub(crate) const NEIGHBOUR: Group = Group { rows: &["neighbour_p99"], run: run_neighbour };

const BUDGET_AND_GOAL: (f64, f64) = (3.0, 2.0);
const NEIGHBOUR_BUDGET_AND_GOAL: (f64, f64) = (3.0, 1.5);
/// The ratio of the connections to the admitted commands.
const OVERLOAD_TIMES: usize = 5;
/// The interval of codes of the quiet workspace.
const BETWEEN: Duration = Duration::from_millis(11);
/// The loud workspace: the importers, the contacts per import, and the searchers.
const IMPORTERS: usize = 4;
const IMPORTED: usize = 200;
const SEARCHERS: usize = 4;
const RECIPIENTS: usize = 5000;
/// The broadcasts of a page, and the time for messages that were sent to settle.
const PAGE: usize = 200;
const SETTLING: Duration = Duration::from_secs(1);
const PHONE: &str = "491500000000";

/// Sends codes over HTTP and counts refusals, whose latency is not that of an admitted code.
struct Sends {
    request: Request,
    phones: Arc<Phones>,
    refused: Arc<AtomicU64>,
}

impl Script for Sends {
    fn next(&mut self) -> Option<&[u8]> {
        self.request.set_digits(0, Phones::DIGITS, self.phones.next());
        Some(self.request.bytes())
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        match status {
            200 => Ok(true),
            503 if serde_json::from_slice::<Value>(body)?["retry_after"].is_u64() => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            other => Err(format!("answered {other}: {}", String::from_utf8_lossy(body)).into()),
        }
    }
}

fn run_overload(scale: &Scale) -> Result<Vec<Row>> {
    let data = setup::data_directory()?;
    let runtime = setup::runtime()?;
    let mut settings = Settings::default();
    settings.server.listen = "127.0.0.1:0".parse()?;
    settings.server.data_dir = data.path().to_owned();
    settings.limits = setup::high_limits();
    settings.sandbox.messages_kept = 1000;
    settings.admission.in_flight_per_workspace = scale.connections;
    let server = runtime.block_on(Server::start(settings))?;
    let demo = "demo".parse()?;
    runtime.block_on(server.engine().admin().set_credits(&demo, u64::MAX / 2))?;
    let pair = overload_rounds(scale, &server)?;
    runtime.block_on(server.shutdown())?;
    let unit = format!("ms of what is admitted at {OVERLOAD_TIMES} times the load, p99");
    let reference = "ms at the load that is admitted";
    Ok(vec![Row::of_p99("overload_p99", unit, reference, pair, Some(BUDGET_AND_GOAL))])
}

/// Runs rounds at the load that fits and at more, in turn.
fn overload_rounds(scale: &Scale, server: &RunningServer) -> Result<Pair> {
    let key = server.demo_key().ok_or("a sandbox has a key")?.to_owned();
    let body = format!(r#"{{"phone":"+{PHONE}"}}"#);
    let request = Request::post("/v1/otp/send", &key, &body, &[PHONE])?;
    let (phones, refused) = (Arc::new(Phones::new()), Arc::new(AtomicU64::new(0)));
    let script = || Sends {
        request: request.clone(),
        phones: Arc::clone(&phones),
        refused: Arc::clone(&refused),
    };
    let mut few = Client::connect(server.address(), scale.connections)?;
    let mut many = Client::connect(server.address(), OVERLOAD_TIMES * scale.connections)?;
    let (mut fits, mut over) = (Vec::new(), Vec::new());
    for round in 0..=scale.rounds {
        let time = if round == 0 { scale.warm_up } else { scale.round };
        let (light, before) = (few.drive(time, script)?, refused.load(Ordering::Relaxed));
        let heavy = many.drive(time, script)?;
        if round > 0 {
            let refused = refused.load(Ordering::Relaxed) - before;
            if refused == 0 {
                return Err("nothing was refused: this is no overload".into());
            }
            let (ours, theirs) = (heavy.p99_ms, light.p99_ms);
            eprintln!("  round {round}: p99 {ours:.1} ms beside {refused} refused, {theirs:.1} ms");
            fits.push(light);
            over.push(heavy);
        }
    }
    Ok(Pair::of_rounds(&over, &fits))
}

fn run_neighbour(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let pair = runtime.block_on(neighbours(scale))?;
    let unit = "ms of a quiet workspace's code beside a loud one, p99";
    Ok(vec![Row::of_p99("neighbour_p99", unit, "ms alone", pair, Some(NEIGHBOUR_BUDGET_AND_GOAL))])
}

/// Measures the quiet workspace alone and beside the loud one, in turn, on one server.
async fn neighbours(scale: &Scale) -> Result<Pair> {
    let data: TempDir = setup::data_directory()?;
    let mut settings = Settings::default();
    settings.server.listen = "127.0.0.1:0".parse()?;
    settings.server.data_dir = data.path().to_owned();
    settings.limits = setup::high_limits();
    settings.limits.contacts_per_minute = 0;
    settings.sandbox.messages_kept = 1000;
    let server = Server::start(settings).await?;
    let engine = server.engine();
    let demo = "demo".parse()?;
    engine.admin().set_credits(&demo, u64::MAX / 2).await?;
    let quiet = setup::make_workspace(engine).await?;
    let api = Api::new(server.address(), server.demo_key().ok_or("a sandbox has a key")?)?;
    let loud = engine.workspace(&demo).ok_or("a sandbox has a workspace")?;
    let phones = Arc::new(Phones::new());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let time = scale.round;
    for _ in 0..scale.rounds {
        alone.push(Measured::times(codes(&quiet, &phones, time).await?));
        let noise = Noise::start(&api, &loud, &phones);
        beside.push(Measured::times(codes(&quiet, &phones, time).await?));
        let done = noise.stop().await?;
        eprintln!("  beside {done} calls of the loud one");
        quiesce(&loud).await?;
    }
    server.shutdown().await?;
    Ok(Pair::of_rounds(&beside, &alone))
}

/// Cancels the broadcasts of the loud workspace, so that it is quiet when the other runs alone.
async fn quiesce(loud: &Workspace) -> Result<()> {
    for page in 0.. {
        let (broadcasts, _) = loud.broadcasts(page * PAGE, PAGE).await?;
        for broadcast in &broadcasts {
            // A broadcast that has ended by itself cannot be cancelled.
            loud.cancel_broadcast(broadcast.id).await.ok();
        }
        if broadcasts.len() < PAGE {
            break;
        }
    }
    tokio::time::sleep(SETTLING).await;
    Ok(())
}

/// Sends codes at a steady pace, each on schedule whether or not others wait.
async fn codes(quiet: &Workspace, phones: &Phones, time: Duration) -> Result<Latencies> {
    let (since, mut ticks, mut running) = (Stopwatch::start(), interval(BETWEEN), JoinSet::new());
    while since.elapsed() < time {
        // The time counts since the code was due: a late one has waited too.
        let due = ticks.tick().await;
        let (phone, quiet) = (phones.next_phone()?, quiet.clone());
        running.spawn(async move {
            quiet.send_otp(SendOtp::to(phone)).await?;
            Ok::<_, Error>(due.elapsed())
        });
    }
    let mut times = Latencies::new();
    while let Some(ended) = running.join_next().await {
        times.add(ended??);
    }
    Ok(times)
}

/// A workspace that works at full speed.
struct Noise {
    ends: Arc<AtomicBool>,
    running: JoinSet<Result<u64>>,
}

impl Noise {
    fn start(api: &Api, loud: &Workspace, phones: &Arc<Phones>) -> Self {
        let mut noise = Self { ends: Arc::default(), running: JoinSet::new() };
        for _ in 0..IMPORTERS {
            let (api, phones) = (api.clone(), Arc::clone(phones));
            noise.again(move || {
                let (api, body) = (api.clone(), import(&phones));
                async move { api.post("/contacts/batch", body).await.map(drop) }
            });
        }
        for _ in 0..SEARCHERS {
            let api = api.clone();
            noise.again(move || {
                let api = api.clone();
                async move {
                    match api.get("/contacts?search=Nobody").await {
                        // A loud workspace may be refused for too many requests.
                        Err(error) if !error.to_string().starts_with("503") => Err(error),
                        _ => Ok(()),
                    }
                }
            });
        }
        let (loud, phones) = (loud.clone(), Arc::clone(phones));
        noise.again(move || {
            let (loud, new) = (loud.clone(), to_phones(&phones, RECIPIENTS));
            async move {
                let new = NewBroadcast { template: "spring_sale".into(), ..new? };
                loud.create_broadcast(new, None).await?;
                Ok(())
            }
        });
        noise
    }

    /// Repeats an operation until the load must end, and counts the repetitions.
    fn again<F: Future<Output = Result<()>> + Send>(
        &mut self,
        turn: impl Fn() -> F + Send + 'static,
    ) {
        let ends = Arc::clone(&self.ends);
        self.running.spawn(async move {
            let mut done = 0;
            while !ends.load(Ordering::Acquire) {
                turn().await?;
                done += 1;
            }
            Ok(done)
        });
    }

    async fn stop(mut self) -> Result<u64> {
        self.ends.store(true, Ordering::Release);
        let mut done = 0;
        while let Some(ended) = self.running.join_next().await {
            done += ended??;
        }
        Ok(done)
    }
}

/// Makes a body with new contacts.
fn import(phones: &Phones) -> Bytes {
    let contact = |_| json!({"name": "Somebody", "phone": format!("+{}", phones.next())});
    let contacts: Vec<_> = (0..IMPORTED).map(contact).collect();
    Bytes::from(json!({"contacts": contacts}).to_string())
}
