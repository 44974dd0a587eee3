//! `find_by_phone` measures how fast the messages to one phone are found among a million.
//!
//! One phone has a thousandth of the messages, and all others have one each. The first and the last
//! page of that phone are requested over HTTP, one request after the other. So each time is the
//! wait of one caller on an idle server. The reference is the same page read bare, on the same
//! data: the entries of the index, and the records they name, without a server and without parsing
//! them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::domain::{MessageContent, Phone, SenderNotes, TemplateMessage};
use postrider_actors::store::{Direction, FjallView, Table, View};
use postrider_actors::{SendMessage, Workspace};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Group;
use crate::bare_client::Api;
use crate::measure::{Latencies, Measured, Phones, Stopwatch};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["find_by_phone", "find_by_phone_last_page"], run };

/// The milliseconds that a page may take.
const BUDGET_AND_GOAL: (f64, f64) = (5.0, 1.0);
/// One of this many messages goes to the phone that is searched for.
const ONE_OF: usize = 1_000;
/// The messages of a page.
const PAGE: usize = 50;
/// The time for which the threads of a stopped server may keep its files, and between two tries.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The number of messages in flight.
const CONCURRENT: usize = 256;

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (data, runtime) = (setup::data_directory()?, setup::runtime()?);
    let server = serve(data.path(), &runtime)?;
    let engine = server.engine();
    let demo = "demo".parse()?;
    runtime.block_on(engine.admin().set_credits(&demo, u64::MAX / 2))?;
    let workspace = engine.workspace(&demo).ok_or("a sandbox has it")?;
    let to = Phone::from_digits(Phones::FIRST - 1)?;
    let watch = Stopwatch::start();
    runtime.block_on(fill(&workspace, to, scale.pending))?;
    let rate = scale.pending as f64 / watch.elapsed().as_secs_f64();
    eprintln!("  {rate:.0} messages/s");
    let api = Api::new(server.address(), server.demo_key().ok_or("a sandbox has a key")?)?;
    let path = format!("/messaging/messages?to=%2B{}&limit={PAGE}", to.as_u64());
    let (last, of_last) = runtime.block_on(last_page(&api, &path, scale.pending))?;
    let first = read(scale, &runtime, &api, &path, PAGE.min(scale.pending.div_ceil(ONE_OF)))?;
    let last = read(scale, &runtime, &api, &last, of_last)?;
    drop(workspace);
    runtime.block_on(server.shutdown())?;
    drop(runtime);
    let view = opened(&data.path().join("view"))?;
    let bare_first = bare(scale, &view, to, Direction::Backward)?;
    let bare_last = bare(scale, &view, to, Direction::Forward)?;
    let [first_name, last_name] = GROUP.rows else { return Ok(Vec::new()) };
    let row = |name, what: &str, times: Measured, bare: Measured| {
        let unit = format!("ms, p99, the {what} page of a phone, of {} messages", scale.pending);
        Row {
            reference: Some("ms, p99, the same entries and records read bare".to_owned()),
            reference_value: Some(bare.p99_ms),
            reference_p50_ms: Some(bare.p50_ms),
            reference_p99_ms: Some(bare.p99_ms),
            ..Row::of_time(name, unit, times, Some(BUDGET_AND_GOAL))
        }
    };
    Ok(vec![row(first_name, "first", first, bare_first), row(last_name, "last", last, bare_last)])
}

/// Opens the view once the threads of the server have released it.
fn opened(view: &Path) -> Result<FjallView> {
    let watch = Stopwatch::start();
    loop {
        match FjallView::open(view, Default::default()) {
            Err(_) if watch.elapsed() < LET_GO_WITHIN => std::thread::sleep(LOOK_AGAIN_AFTER),
            opened => return Ok(opened?),
        }
    }
}

fn serve(directory: &Path, runtime: &Runtime) -> Result<RunningServer> {
    let mut settings = Settings::default();
    settings.server.listen = "127.0.0.1:0".parse()?;
    settings.server.data_dir = directory.to_owned();
    settings.limits = setup::high_limits();
    Ok(runtime.block_on(Server::start(settings))?)
}

/// Sends this many messages, of which one in a thousand goes to this phone.
async fn fill(workspace: &Workspace, to: Phone, messages: usize) -> Result<()> {
    let (next, phones) = (Arc::new(AtomicUsize::new(0)), Arc::new(Phones::new()));
    let mut running = JoinSet::new();
    for _ in 0..CONCURRENT {
        let (workspace, next, phones) = (workspace.clone(), Arc::clone(&next), Arc::clone(&phones));
        running.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= messages {
                    return Ok::<_, Error>(());
                }
                let is_wanted = number.is_multiple_of(ONE_OF);
                let to = if is_wanted { to } else { phones.next_phone()? };
                let sent =
                    workspace.send_message_and_wait(message(to), None, std::future::pending());
                sent.await?;
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

fn message(to: Phone) -> SendMessage {
    let content = MessageContent::Template(TemplateMessage {
        name: "welcome".into(),
        language: "en".into(),
        components: Vec::new(),
    });
    let notes = SenderNotes::default();
    SendMessage { to: to.into(), content, answers: None, notes, from: None }
}

/// Returns the path of the last page, and its number of messages.
///
/// All pages together must have the sent messages.
async fn last_page(api: &Api, path: &str, messages: usize) -> Result<(String, usize)> {
    let (mut page, mut total) = (path.to_owned(), 0);
    loop {
        let found: Value = serde_json::from_slice(&api.get(&page).await?)?;
        let rows = found["data"].as_array().map_or(0, Vec::len);
        total += rows;
        let Some(next) = found["next_cursor"].as_str() else {
            return match total == messages.div_ceil(ONE_OF) {
                true => Ok((page, rows)),
                false => Err(format!("{total} messages are found").into()),
            };
        };
        page = format!("{path}&cursor={next}");
    }
}

/// Requests a page repeatedly for a round; it must have this many messages.
fn read(scale: &Scale, runtime: &Runtime, api: &Api, path: &str, rows: usize) -> Result<Measured> {
    let (mut times, start) = (Latencies::new(), Stopwatch::start());
    runtime.block_on(async {
        while start.elapsed() < scale.round || times.len() < scale.rounds {
            let watch = Stopwatch::start();
            let found = api.get(path).await?;
            times.add(watch.elapsed());
            let found: Value = serde_json::from_slice(&found)?;
            if found["data"].as_array().map_or(0, Vec::len) != rows {
                return Err(Error::from(format!("{path} finds {found}")));
            }
        }
        Ok(())
    })?;
    eprintln!("  {path}: {} times", times.len());
    Ok(Measured::times(times))
}

/// Reads the entries of a page and the records that they name, repeatedly for a round.
fn bare(scale: &Scale, view: &FjallView, to: Phone, direction: Direction) -> Result<Measured> {
    let prefix = [b"demo\0t", to.to_string().as_bytes(), &[0]].concat();
    let (mut times, start) = (Latencies::new(), Stopwatch::start());
    while start.elapsed() < scale.round || times.len() < scale.rounds {
        let (watch, mut ids) = (Stopwatch::start(), Vec::new());
        view.scan(Table::MessageIndex, &prefix, None, direction, &mut |key, _| {
            ids.push(key[prefix.len()..].to_vec());
            if ids.len() < PAGE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for id in &ids {
            let record = view.get(Table::Messages, &[b"demo\0", &**id].concat())?;
            record.ok_or("an entry names no record")?;
        }
        times.add(watch.elapsed());
        if ids.is_empty() {
            return Err("nothing is found bare".into());
        }
    }
    Ok(Measured::times(times))
}
