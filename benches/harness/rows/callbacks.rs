//! `callback_intake` and `callback_intake_batched` measure how fast reports are accepted over HTTP.
//!
//! The reports are signed as the provider's are. A callback has one status, or many, as the
//! provider sends them when it is busy. Its reference is the messages sent through that channel.
//!
//! The provider reports three times on a message: sent, delivered, read. So a server that sends at
//! full speed gets three times as many callbacks: that ratio is the goal. Each round sends messages
//! like `cloud_api_send`, through the server's own engine. Then all of them are reported on: first
//! every `sent`, then every `delivered`, then every `read`. A report is answered when its changes
//! are durable.
//!
//! `callback_intake_user_ids` has reports that name the person's id beside the phone. The first on
//! a message teaches it, the others name a known id. The reference is the same reports without ids.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::Workspace;
use postrider_actors::domain::{MessageId, Phone};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::Group;
use super::cloud_api::{CONCURRENT, number, send_one};
use crate::callers::{Ask, in_loops};
use crate::client::{Client, Script};
use crate::cloud_api::{FakeCloudApi, callback, sign};
use crate::measure::{Measured, Pair, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group =
    Group { rows: &["callback_intake", "callback_intake_batched"], run };

/// The row of reports that name a user id each.
pub(crate) const USER_IDS: Group = Group { rows: &["callback_intake_user_ids"], run: run_user_ids };

/// The most that the ids may cost is 5 %.
const USER_IDS_BUDGET_AND_GOAL: (f64, f64) = (0.95, 1.0);
/// The statuses per message.
const BUDGET_AND_GOAL: (f64, f64) = (2.0, 3.0);
const STATUSES: [&str; 3] = ["sent", "delivered", "read"];
/// The statuses in one callback of each row.
const STATUSES_IN_ONE: [usize; 2] = [1, 50];
const APP_SECRET: &str = "secret";

/// The form of callbacks.
#[derive(Clone, Copy)]
struct Form {
    /// The number of statuses in each.
    many: usize,
    /// Set if each status names the person's id.
    user_ids: bool,
}

pub(super) struct Bench {
    pub(super) runtime: Runtime,
    pub(super) server: RunningServer,
    pub(super) workspace: Workspace,
    _fake: FakeCloudApi,
    _data: TempDir,
    /// The path of the number's callbacks.
    path: String,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start()?;
    let mut rows = Vec::new();
    for (name, many) in GROUP.rows.iter().zip(STATUSES_IN_ONE) {
        let pair = rounds(&bench, scale, many)?;
        let connections = scale.connections;
        let unit = format!("statuses/s, {many} in a callback, of {connections} connections");
        let reference = "messages/s sent through the same channel";
        rows.push(Row::of_rates(name, unit, reference, pair, BUDGET_AND_GOAL));
    }
    bench.runtime.block_on(bench.server.shutdown())?;
    Ok(rows)
}

fn run_user_ids(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start()?;
    let take = |time, form: Form| {
        let (_, messages) = bench.send(time)?;
        bench.call_back(&messages, form, scale, 3 * time)
    };
    let (named, plain) = (Form { many: 1, user_ids: true }, Form { many: 1, user_ids: false });
    let pair = alternate(scale, |time| take(time, named), |time| take(time, plain))?;
    let unit = format!("statuses/s with a user id each, of {} connections", scale.connections);
    bench.runtime.block_on(bench.server.shutdown())?;
    let reference = "statuses/s without";
    Ok(vec![Row::of_rates(USER_IDS.rows[0], unit, reference, pair, USER_IDS_BUDGET_AND_GOAL)])
}

/// Runs rounds with this number of statuses in each callback.
fn rounds(bench: &Bench, scale: &Scale, many: usize) -> Result<Pair> {
    let (mut taken, mut sent) = (Vec::new(), Vec::new());
    for round in 0..=scale.rounds {
        let time = if round == 0 { scale.warm_up } else { scale.round };
        let (sends, messages) = bench.send(time)?;
        let form = Form { many, user_ids: false };
        let mut statuses = bench.call_back(&messages, form, scale, 3 * time)?;
        statuses.rate *= many as f64;
        if round > 0 {
            let (ours, theirs) = (statuses.rate, sends.rate);
            eprintln!("  round {round}: {ours:.0} statuses/s after {theirs:.0} messages/s");
            taken.push(statuses);
            sent.push(Measured::rate(sends.rate));
        }
    }
    Ok(Pair::of_rounds(&taken, &sent))
}

impl Bench {
    pub(super) fn start() -> Result<Self> {
        let data = setup::data_directory()?;
        let fake = FakeCloudApi::start();
        let mut settings = Settings::default();
        settings.server.listen = "127.0.0.1:0".parse()?;
        settings.server.data_dir = data.path().to_owned();
        settings.cloud_api.base_url = fake.base_url();
        settings.limits = setup::high_limits();
        let runtime = setup::runtime()?;
        let server = runtime.block_on(Server::start(settings))?;
        let engine = server.engine();
        let new = number(APP_SECRET)?;
        let workspace = runtime.block_on(setup::workspace_with(engine, new))?;
        let numbers = runtime.block_on(engine.admin().numbers(workspace.id()))?;
        let number = numbers.first().ok_or("the number was just connected")?.id;
        let path = format!("/channels/cloud-api/{number}");
        Ok(Self { runtime, server, workspace, _fake: fake, _data: data, path })
    }

    /// Sends messages for this time.
    fn send(&self, time: Duration) -> Result<(Measured, Vec<(MessageId, Phone)>)> {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let send = || Sends { workspace: self.workspace.clone(), sent: Arc::clone(&sent) };
        let measured = in_loops(&self.runtime, CONCURRENT, time, send)?;
        let ids = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((measured, ids))
    }

    /// Reports on messages in this form, for at most this time.
    fn call_back(
        &self,
        messages: &[(MessageId, Phone)],
        form: Form,
        scale: &Scale,
        time: Duration,
    ) -> Result<Measured> {
        // Only whole callbacks, so that each one has the row's number of statuses.
        let of_status = |status| messages.chunks_exact(form.many).map(move |part| (part, status));
        let callbacks = STATUSES.into_iter().flat_map(of_status);
        let requests = callbacks.map(|(part, status)| self.request(part, status, form)).collect();
        self.call(requests, scale, time)
    }

    /// Calls back with each of these requests once, for at most this time.
    pub(super) fn call(
        &self,
        requests: Vec<Vec<u8>>,
        scale: &Scale,
        time: Duration,
    ) -> Result<Measured> {
        let reports = Arc::new(Reports { requests, next: AtomicUsize::new(0) });
        let script = || Report(Arc::clone(&reports));
        Client::connect(self.server.address(), scale.connections)?.drive(time, script)
    }

    fn request(&self, messages: &[(MessageId, Phone)], status: &str, form: Form) -> Vec<u8> {
        let report = |(id, phone): &(MessageId, Phone)| {
            let mut report = json!({
                "id": "wamid.HBgLMTU1NTAxMjM0NTYVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA",
                "status": status,
                "timestamp": "1750857384",
                "recipient_id": phone.as_u64().to_string(),
                "biz_opaque_callback_data": id.to_string(),
                "conversation": {
                    "id": "6ceb9d929c9bdc4f90f967a32f8639b4",
                    "origin": {"type": "marketing"},
                },
                "pricing": {"billable": true, "pricing_model": "PMP", "category": "marketing"},
            });
            if form.user_ids {
                report["recipient_user_id"] = format!("US.{}", phone.as_u64()).into();
            }
            report
        };
        let reports: Vec<_> = messages.iter().map(report).collect();
        self.signed(json!({"statuses": reports}))
    }

    /// Makes the request of a callback with this report.
    pub(super) fn signed(&self, value: Value) -> Vec<u8> {
        let body = callback("106540352242922", value).to_string();
        let (path, signature) = (&self.path, sign(APP_SECRET, body.as_bytes()));
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             x-hub-signature-256: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Sends a message and stores its id.
struct Sends {
    workspace: Workspace,
    sent: Arc<Mutex<Vec<(MessageId, Phone)>>>,
}

impl Ask for Sends {
    async fn ask(&self) -> Result<()> {
        let message = send_one(&self.workspace).await?;
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        Ok(())
    }
}

/// The requests, each of which is used once.
struct Reports {
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
}

/// Sends reports until none are left.
struct Report(Arc<Reports>);

impl Script for Report {
    fn next(&mut self) -> Option<&[u8]> {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.requests.get(next).map(Vec::as_slice)
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        match status {
            200 => Ok(true),
            other => Err(format!("answered {other}: {}", String::from_utf8_lossy(body)).into()),
        }
    }
}
