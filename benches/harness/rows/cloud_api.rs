//! `cloud_api_send` and `broadcast_through_cloud_api` measure messages through the real channel.
//!
//! The reference is the same client library, which posts the same bytes to the same fake and does
//! nothing else.
//!
//! The fake is in this process, on its own thread, and both sides share it, so its cost is part of
//! both. A single message is made by a caller that waits for the channel's answer. The message is
//! durable before it is sent, and its outcome before the caller gets it, which is two commits each.
//! The messages of a broadcast share their commits, a window at a time.

use std::time::Duration;

use bytes::Bytes;
use postrider_actors::domain::{MessageId, Phone, SenderNotes};
use postrider_actors::{
    CloudApiAccount, CloudApiSecrets, Engine, MessageContent, MessageStatus, NewNumber,
    NewProvider, Secret, SendMessage, TemplateMessage, Workspace,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::Group;
use super::broadcast::{to_phones, wait};
use crate::bare_client::Posts;
use crate::callers::{Ask, in_loops};
use crate::cloud_api::FakeCloudApi;
use crate::measure::{Measured, Phones, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const SEND: Group = Group { rows: &["cloud_api_send"], run: run_send };
pub(crate) const BROADCAST: Group =
    Group { rows: &["broadcast_through_cloud_api"], run: run_broadcast };

const BUDGET_AND_GOAL: (f64, f64) = (0.55, 0.75);
/// The callers of single messages, and the requests that the reference has in flight.
pub(super) const CONCURRENT: usize = 1024;
/// The expected messages per second of the first round.
const FIRST_GUESS: f64 = 10_000.0;
/// The interval between checks whether a broadcast is over.
const LOOK: Duration = Duration::from_millis(5);
const REFERENCE: &str = "requests/s of a bare hyper client loop to the same fake";

/// The phones, each of which gets its first message here.
static PHONES: Phones = Phones::new();

/// An engine whose number leads to a fake.
struct Bench {
    runtime: Runtime,
    fake: FakeCloudApi,
    engine: Engine,
    workspace: Workspace,
    _data: TempDir,
}

impl Bench {
    fn start(scale: &Scale) -> Result<Self> {
        let (data, runtime) = (setup::data_directory()?, setup::runtime()?);
        let fake = FakeCloudApi::start();
        let mut options = setup::options(data.path(), 1000);
        options.cloud_api.base_url = fake.base_url();
        options.broadcasts.recipients_max = 10 * scale.pending;
        let engine = runtime.block_on(Engine::start(options))?;
        let workspace = runtime.block_on(setup::workspace_with(&engine, number("secret")?))?;
        Ok(Self { runtime, fake, engine, workspace, _data: data })
    }

    /// Makes a loop of the requests that the engine has just made.
    fn reference(&self) -> Result<Posts> {
        let request = self.fake.requests().pop().ok_or("the fake was asked nothing")?;
        let uri = format!("{}{}", self.fake.base_url(), request.path);
        let headers = [("authorization", request.authorization.as_str())];
        Posts::new(&uri, &headers, Bytes::from(request.body))
    }

    fn stop(self) -> Result<()> {
        Ok(self.runtime.block_on(self.engine.shutdown(Duration::from_secs(30)))?)
    }
}

/// Makes a number of the Cloud API without a limit of its own.
pub(super) fn number(app_secret: &str) -> Result<NewNumber> {
    let account = CloudApiAccount {
        phone: "+15550001111".parse()?,
        phone_number_id: "106540352242922".parse()?,
        account_id: "102290129340398".parse()?,
    };
    let secrets = CloudApiSecrets {
        token: Secret::new("token"),
        app_secret: Secret::new(app_secret),
        verify_token: Secret::new("verify"),
    };
    let provider = NewProvider::CloudApi(account, secrets);
    Ok(NewNumber { messages_per_second: Some(0), ..NewNumber::of(provider) })
}

/// Sends a template to a new phone and waits until the channel has it. Returns both ids.
pub(super) async fn send_one(workspace: &Workspace) -> Result<(MessageId, Phone)> {
    let template = TemplateMessage {
        name: setup::TEMPLATE.into(),
        language: "en".into(),
        components: Vec::new(),
    };
    let content = MessageContent::Template(template);
    let to = PHONES.next_phone()?;
    let notes = SenderNotes::default();
    let message = SendMessage { to: to.into(), content, answers: None, notes, from: None };
    // The channel answers in time, or its own timeout ends the wait.
    let sent = workspace.send_message_and_wait(message, None, std::future::pending()).await?;
    match sent.answer.status {
        MessageStatus::Sent => Ok((sent.answer.message_id, to)),
        other => Err(format!("a message is {}", other.as_str()).into()),
    }
}

struct SendOne(Workspace);

impl Ask for SendOne {
    async fn ask(&self) -> Result<()> {
        send_one(&self.0).await.map(drop)
    }
}

fn run_send(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start(scale)?;
    let send = || SendOne(bench.workspace.clone());
    bench.runtime.block_on(send().ask())?;
    let reference = bench.reference()?;
    let pair = alternate(
        scale,
        |time| in_loops(&bench.runtime, CONCURRENT, time, send),
        |time| in_loops(&bench.runtime, CONCURRENT, time, || reference.clone()),
    )?;
    bench.stop()?;
    let unit = format!("messages/s of {CONCURRENT} callers, each answered by the channel");
    Ok(vec![Row::of_rates(SEND.rows[0], unit, REFERENCE, pair, BUDGET_AND_GOAL)])
}

fn run_broadcast(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start(scale)?;
    bench.send_to(1)?;
    let reference = bench.reference()?;
    let mut rate = FIRST_GUESS;
    let pair = alternate(
        scale,
        |time| {
            let wanted = (rate * time.as_secs_f64()) as usize;
            let measured = bench.send_to(wanted.clamp(1, 10 * scale.pending))?;
            rate = measured.rate;
            Ok(measured)
        },
        |time| {
            Ok(Measured::rate(
                in_loops(&bench.runtime, CONCURRENT, time, || reference.clone())?.rate,
            ))
        },
    )?;
    bench.stop()?;
    let unit = "messages/s of one broadcast";
    Ok(vec![Row::of_rates(BROADCAST.rows[0], unit, REFERENCE, pair, BUDGET_AND_GOAL)])
}

impl Bench {
    /// Sends a broadcast to this many, measured from its creation until the last outcome is
    /// durable.
    fn send_to(&self, recipients: usize) -> Result<Measured> {
        let before = self.fake.accepted_count();
        let new = to_phones(&PHONES, recipients)?;
        self.runtime.block_on(async {
            let id = self.workspace.create_broadcast(new, None).await?.answer.broadcast_id;
            let watch = Stopwatch::start();
            wait(&self.workspace, id, LOOK).await?;
            let elapsed = watch.elapsed();
            match self.fake.accepted_count() - before {
                sent if sent == recipients as u64 => {
                    Ok(Measured::rate(sent as f64 / elapsed.as_secs_f64()))
                }
                sent => Err(format!("{sent} messages went to {recipients} recipients").into()),
            }
        })
    }
}
