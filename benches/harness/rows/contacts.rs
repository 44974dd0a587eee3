//! These rows measure a workspace with a million contacts.
//!
//! They measure making, paging and searching them, their memory, and a start with them.
//!
//! They are made over HTTP in batches of a thousand, as an import makes them. They are read over
//! HTTP one request after the other, so each time is the wait of one caller on an idle server. The
//! search with few hits is for the digits of one phone, and the one with many for a part of every
//! e-mail address. The memory is the allocation of a process after a restart and a search, less
//! that of a process with an empty workspace. Most of it is the database's cache, which is bounded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::ContactFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Group;
use super::child::{self, Child};
use super::restart::{Restarted, settled};
use crate::bare_client::Api;
use crate::measure::{Latencies, Measured, Phones, Stopwatch, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group {
    rows: &[
        "contacts_create",
        "contacts_first_page",
        "contacts_page_10000",
        "contacts_search_few",
        "contacts_search_many",
        "contacts_memory",
        "contacts_restart",
    ],
    run,
};

/// The milliseconds that a first page may take, and a search: a few, and tens.
const PAGE_BUDGET_AND_GOAL: (f64, f64) = (3.0, 1.0);
const FEW_BUDGET_AND_GOAL: (f64, f64) = (30.0, 10.0);
const MANY_BUDGET_AND_GOAL: (f64, f64) = (100.0, 50.0);
/// The contacts of a batch.
const BATCH: usize = 1000;
/// The number of batches in flight.
const CONCURRENT: usize = 4;
/// The contacts of a page.
const PAGE: usize = 50;
const NAMES: [&str; 8] = ["Ana", "Bo", "Chidi", "Dörte", "Emre", "Fatima", "Иван", "Joana"];
const SURNAMES: [&str; 7] = ["Souza", "Nguyen", "Okafor", "Müller", "Yılmaz", "Петров", "Silva"];

/// The order to a process that starts with contacts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    directory: PathBuf,
}

struct Bench {
    runtime: Runtime,
    server: RunningServer,
    api: Api,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (with, without) = (setup::data_directory()?, setup::data_directory()?);
    Bench::start(without.path())?.stop()?;
    let bench = Bench::start(with.path())?;
    let rate = bench.create(scale.pending)?;
    eprintln!("  {rate:.0} contacts/s");
    let last_page = scale.pending.div_ceil(PAGE);
    let page = 10_000.min(last_page / 2 + 1);
    // The digits of a phone in the middle.
    let digits = Phones::FIRST + scale.pending as u64 / 2;
    let first = bench.read(scale, "/contacts", scale.pending)?;
    let deep = bench.read(scale, &format!("/contacts?page={page}"), scale.pending)?;
    let few = bench.read(scale, &format!("/contacts?search={digits}"), 1)?;
    let many = bench.read(scale, "/contacts?search=example", scale.pending)?;
    bench.stop()?;
    let restart = |directory: &Path| -> Result<Restarted> {
        let order = Order { directory: directory.to_owned() };
        Child::start(&child::Order::Contacts(order))?.says()
    };
    let empty = restart(without.path())?;
    let restarts: Vec<_> =
        (0..scale.restarts).map(|_| restart(with.path())).collect::<Result<_>>()?;
    let of = |figure: fn(&Restarted) -> f64| median(restarts.iter().map(figure).collect());
    let [create, page_1, page_10000, search_few, search_many, memory, started] = GROUP.rows else {
        return Ok(Vec::new());
    };
    let contacts = scale.pending;
    let reading = |name, what: &str, times: Measured, budget_and_goal| {
        let unit = format!("ms, p99, {what} of {contacts} contacts over HTTP");
        Row::of_time(name, unit, times, budget_and_goal)
    };
    let unit = format!("contacts/s of {contacts} over HTTP in batches of {BATCH}");
    Ok(vec![
        Row::of_value(create, unit, rate, None),
        reading(page_1, "the first page", first, Some(PAGE_BUDGET_AND_GOAL)),
        reading(page_10000, &format!("page {page}"), deep, None),
        reading(search_few, "a search that finds one", few, Some(FEW_BUDGET_AND_GOAL)),
        reading(search_many, "a search that finds all", many, Some(MANY_BUDGET_AND_GOAL)),
        Row::of_value(
            memory,
            format!("bytes allocated per contact, after a restart and a search, at {contacts}"),
            (of(|it| it.allocated) - empty.allocated) / contacts as f64,
            None,
        ),
        Row::of_value(
            started,
            format!("s from the start with {contacts} contacts to their first page"),
            of(|it| it.seconds),
            None,
        ),
    ])
}

fn serve(directory: &Path, runtime: &Runtime) -> Result<RunningServer> {
    let mut settings = Settings::default();
    settings.server.listen = "127.0.0.1:0".parse()?;
    settings.server.data_dir = directory.to_owned();
    settings.limits = setup::high_limits();
    settings.limits.contacts_per_minute = 0;
    Ok(runtime.block_on(Server::start(settings))?)
}

impl Bench {
    fn start(directory: &Path) -> Result<Self> {
        let runtime = setup::runtime()?;
        let server = serve(directory, &runtime)?;
        let api = Api::new(server.address(), server.demo_key().ok_or("a sandbox has a key")?)?;
        Ok(Self { runtime, server, api })
    }

    fn stop(self) -> Result<()> {
        Ok(self.runtime.block_on(self.server.shutdown())?)
    }

    /// Makes contacts; returns their number per second.
    fn create(&self, contacts: usize) -> Result<f64> {
        let watch = Stopwatch::start();
        let phones = Arc::new(Phones::new());
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for begin in (0..contacts).step_by(BATCH) {
                if running.len() == CONCURRENT
                    && let Some(ended) = running.join_next().await
                {
                    ended??;
                }
                let (api, phones) = (self.api.clone(), Arc::clone(&phones));
                let count = BATCH.min(contacts - begin);
                running.spawn(async move {
                    let batch: Vec<_> = (0..count).map(|_| contact(phones.next())).collect();
                    let body = serde_json::to_vec(&json!({ "contacts": batch }))?;
                    let made = api.post("/contacts/batch", Bytes::from(body)).await?;
                    // Each answer is checked, but not parsed.
                    match made.windows(12).filter(|it| *it == br#""status":201"#).count() {
                        made if made == count => Ok(()),
                        made => Err(Error::from(format!("{made} of {count} contacts were made"))),
                    }
                });
            }
            while let Some(ended) = running.join_next().await {
                ended??;
            }
            Ok::<_, Error>(())
        })?;
        Ok(contacts as f64 / watch.elapsed().as_secs_f64())
    }

    /// Requests a page repeatedly for a round; it must report this total.
    fn read(&self, scale: &Scale, path: &str, total: usize) -> Result<Measured> {
        let (mut times, start) = (Latencies::new(), Stopwatch::start());
        self.runtime.block_on(async {
            while start.elapsed() < scale.round || times.len() < scale.rounds {
                let watch = Stopwatch::start();
                let found = self.api.get(path).await?;
                times.add(watch.elapsed());
                let found: Value = serde_json::from_slice(&found)?;
                if found["total"] != total {
                    return Err(Error::from(format!("{path} finds {}", found["total"])));
                }
            }
            Ok(())
        })?;
        eprintln!("  {path}: {} times", times.len());
        Ok(Measured::times(times))
    }
}

/// Makes a contact that has a bit of everything.
fn contact(phone: u64) -> Value {
    let place = usize::try_from(phone).unwrap_or_default();
    let (name, surname) = (NAMES[place % NAMES.len()], SURNAMES[place % SURNAMES.len()]);
    json!({
        "name": format!("{name} {surname}"),
        "phone": format!("+{phone}"),
        "email": format!("{phone}@example.com"),
        "tags": ["customer", if place % 10 == 0 { "vip" } else { "regular" }],
        "custom_fields": {"plan": "gold", "visits": place % 100},
    })
}

/// Runs the part of a process that starts with contacts.
///
/// Returns the seconds until it has the first page, and its memory after a search.
pub(crate) fn child(order: &Order) -> Result<Restarted> {
    let runtime = setup::runtime()?;
    let watch = Stopwatch::start();
    let server = serve(&order.directory, &runtime)?;
    let workspace = server.engine().workspace(&"demo".parse()?).ok_or("a sandbox has it")?;
    runtime.block_on(workspace.contacts(ContactFilter::default(), 0, PAGE))?;
    let seconds = watch.elapsed();
    let search = ContactFilter::search(Some("example"));
    runtime.block_on(workspace.contacts(search, 0, PAGE))?;
    let found = settled(seconds)?;
    eprintln!("  {found}");
    runtime.block_on(server.shutdown())?;
    Ok(found)
}
