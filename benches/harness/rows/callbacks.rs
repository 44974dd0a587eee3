//! `callback_intake`: signed reports of the provider that the server takes over HTTP, one status in
//! each, beside the messages that it sends through the same channel.
//!
//! The provider reports three times on a message: sent, delivered, read. So a server that sends as
//! fast as it can is called back three times as often, and the budget is that ratio. Each round
//! sends messages as `cloud_api_send` does, through the server's own engine, and then has all of
//! them reported on: first every `sent`, then every `delivered`, then every `read`. A report is
//! answered when what it changes is durable.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::Workspace;
use postrider_actors::domain::MessageId;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::Group;
use super::cloud_api::{CONCURRENT, number, send_one};
use crate::callers::{Ask, in_loops};
use crate::client::{Client, Script};
use crate::cloud_api::{FakeCloudApi, callback, sign};
use crate::measure::{Measured, Pair};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["callback_intake"], run };

/// Callbacks for each message.
const BUDGET_AND_GOAL: (f64, f64) = (3.0, 3.0);
const STATUSES: [&str; 3] = ["sent", "delivered", "read"];
const APP_SECRET: &str = "secret";

struct Bench {
    runtime: Runtime,
    server: RunningServer,
    workspace: Workspace,
    _fake: FakeCloudApi,
    _data: TempDir,
    /// Where the number is called back.
    path: String,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start()?;
    let (mut taken, mut sent) = (Vec::new(), Vec::new());
    for round in 0..=scale.rounds {
        let time = if round == 0 { scale.warm_up } else { scale.round };
        let (sends, messages) = bench.send(time)?;
        let callbacks = bench.call_back(&messages, scale, 3 * time)?;
        if round > 0 {
            let (ours, theirs) = (callbacks.rate, sends.rate);
            eprintln!("  round {round}: {ours:.0} callbacks/s after {theirs:.0} messages/s");
            taken.push(callbacks);
            sent.push(Measured::rate(sends.rate));
        }
    }
    bench.runtime.block_on(bench.server.shutdown())?;
    let pair = Pair::of_rounds(&taken, &sent);
    let unit = format!("callbacks/s of {} keep-alive connections", scale.connections);
    let reference = "messages/s sent through the same channel";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

impl Bench {
    fn start() -> Result<Self> {
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

    /// Sends messages for that long.
    fn send(&self, time: Duration) -> Result<(Measured, Vec<MessageId>)> {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let send = || Sends { workspace: self.workspace.clone(), sent: Arc::clone(&sent) };
        let measured = in_loops(&self.runtime, CONCURRENT, time, send)?;
        let ids = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((measured, ids))
    }

    /// Reports on messages, for at most that long.
    fn call_back(&self, messages: &[MessageId], scale: &Scale, time: Duration) -> Result<Measured> {
        let reports =
            STATUSES.iter().flat_map(|status| messages.iter().map(move |id| (id, *status)));
        let requests = reports.map(|(id, status)| self.request(id, status)).collect();
        let reports = Arc::new(Reports { requests, next: AtomicUsize::new(0) });
        let script = || Report(Arc::clone(&reports));
        Client::connect(self.server.address(), scale.connections)?.drive(time, script)
    }

    fn request(&self, id: &MessageId, status: &str) -> Vec<u8> {
        let report = json!({
            "id": "wamid.HBgLMTU1NTAxMjM0NTYVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA",
            "status": status,
            "timestamp": "1750857384",
            "recipient_id": "491500000000",
            "biz_opaque_callback_data": id.to_string(),
            "conversation": {
                "id": "6ceb9d929c9bdc4f90f967a32f8639b4",
                "origin": {"type": "marketing"},
            },
            "pricing": {"billable": true, "pricing_model": "PMP", "category": "marketing"},
        });
        let body = callback("106540352242922", json!({"statuses": [report]})).to_string();
        let (path, signature) = (&self.path, sign(APP_SECRET, body.as_bytes()));
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             x-hub-signature-256: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Sends a message and keeps its id.
struct Sends {
    workspace: Workspace,
    sent: Arc<Mutex<Vec<MessageId>>>,
}

impl Ask for Sends {
    async fn ask(&self) -> Result<()> {
        let id = send_one(&self.workspace).await?;
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(())
    }
}

/// Requests that are given out once each.
struct Reports {
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
}

/// Reports until there is nothing left to report.
struct Report(Arc<Reports>);

impl Script for Report {
    fn next(&mut self) -> Option<&[u8]> {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.requests.get(next).map(Vec::as_slice)
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<()> {
        match status {
            200 => Ok(()),
            other => Err(format!("answered {other}: {}", String::from_utf8_lossy(body)).into()),
        }
    }
}
