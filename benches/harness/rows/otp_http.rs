//! `otp_send_http` and `otp_verify_http`: the whole server, against an echo that is durable too.
//!
//! `otp_send_http_echo` is the same against an echo that makes nothing durable, `otp_send_http_256`
//! the first with 256 connections. `message_send_http` sends templates in the same way, up to the
//! outcome of the last one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::settings::Settings;
use postrider::{RunningServer, Server};
use postrider_actors::domain::event::chain::{ChainStep, OtpChannel};
use postrider_actors::domain::{AuditContext, Phone, Timestamp};
use postrider_actors::{AutoDeliver, Login, Role, Secret, SendOtp, SmsRoute};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::durable::Durable;
use super::{Group, echo, pending};
use crate::client::{Client, Request, Script};
use crate::cpu::CpuTime;
use crate::measure::{Measured, Pair, Phones, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The row of sends.
pub(crate) const SEND: Group =
    Group { rows: &["otp_send_http"], run: |scale| run_send("otp_send_http", scale, &DURABLE) };
/// The row of sends with more connections.
pub(crate) const SEND_256: Group = Group {
    rows: &["otp_send_http_256"],
    run: |scale| {
        let scale = Scale { connections: 256, ..*scale };
        run_send("otp_send_http_256", &scale, &DURABLE_256)
    },
};
/// The row of sends against an echo that makes nothing durable.
pub(crate) const SEND_ECHO: Group = Group {
    rows: &["otp_send_http_echo"],
    run: |scale| run_send("otp_send_http_echo", scale, &BARE),
};
/// The row of messages.
pub(crate) const MESSAGE: Group = Group { rows: &["message_send_http"], run: run_message };
/// The row of verifications.
pub(crate) const VERIFY: Group = Group { rows: &["otp_verify_http"], run: run_verify };

/// An echo to compare with.
pub(super) struct Reference {
    /// The bytes that it syncs for each request, if any.
    durable_bytes: Option<usize>,
    name: &'static str,
    budget_and_goal: (f64, f64),
}

const DURABLE_NAME: &str = "requests/s of an axum JSON echo that syncs a record for each";
/// The reference with the bytes that the engine writes for a code.
pub(super) const DURABLE: Reference =
    Reference { durable_bytes: Some(190), name: DURABLE_NAME, budget_and_goal: (0.8, 0.9) };
const DURABLE_256: Reference = Reference { budget_and_goal: (0.75, 0.9), ..DURABLE };
/// The reference with the bytes that it writes for a message.
const DURABLE_MESSAGE: Reference =
    Reference { durable_bytes: Some(500), budget_and_goal: (0.5, 0.6), ..DURABLE };
/// The disk alone bounds this ratio to about 0.66.
pub(super) const BARE: Reference = Reference {
    durable_bytes: None,
    name: "requests/s of a bare axum JSON echo",
    budget_and_goal: (0.55, 0.62),
};
/// The p99 of the goal, in multiples of the echo's p99.
const GOAL_P99_RATIO: f64 = 1.5;
const PHONE: &str = "491500000000";
const REQUEST_ID: &str = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y";
const CODE: &str = "123456";
/// The verifications per second for which codes are prepared in the first round.
const FIRST_GUESS: f64 = 50_000.0;
/// The time after which the outcomes of a round are missing.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// The messages that the sandbox retains: at least as many as a round verifies.
const KEPT: usize = 1_000_000;

/// The server and the echo, each on a runtime like the server's.
pub(super) struct Servers {
    runtime: Runtime,
    server: RunningServer,
    key: String,
    echo_runtime: Runtime,
    echo: SocketAddr,
    _data: TempDir,
}

impl Servers {
    pub(super) fn start(reference: &Reference) -> Result<Self> {
        Self::start_with(reference, |_| {})
    }

    /// Starts both, after `change` has changed the server's settings.
    pub(super) fn start_with(
        reference: &Reference,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Self> {
        let data = setup::data_directory()?;
        let mut settings = Settings::default();
        settings.server.listen = "127.0.0.1:0".parse()?;
        settings.server.data_dir = data.path().join("server");
        settings.server.max_connections_per_address = 0;
        settings.sandbox.messages_kept = KEPT;
        settings.limits = setup::high_limits();
        change(&mut settings);
        let runtime = setup::runtime()?;
        let server = runtime.block_on(Server::start(settings))?;
        let key = server.demo_key().ok_or("a sandbox has a key")?.to_owned();
        let demo = demo()?;
        runtime.block_on(server.engine().admin().set_credits(&demo, u64::MAX / 2))?;
        let echo_runtime = setup::runtime()?;
        let file = data.path().join("echo");
        let durable =
            reference.durable_bytes.map(|bytes| Durable::start(&file, bytes)).transpose()?;
        let echo = echo_runtime.block_on(echo::start(durable))?;
        Ok(Self { runtime, server, key, echo_runtime, echo, _data: data })
    }

    /// Returns the address of the server.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Makes a link that signs in one of the workspace's owners, once.
    ///
    /// Each number is a person, who has a bounded number of event streams.
    pub(super) fn link(&self, person: usize) -> Result<Secret> {
        let people = self.server.engine().people();
        let (member, by) = ((demo()?, Role::Owner), Arc::new(AuditContext::system()));
        let login = Login::new(&format!("watcher-{person}@example.com"))?;
        let made = people.create_link(login, false, Some(member), by);
        Ok(self.runtime.block_on(made)?.token)
    }

    /// Makes the sandbox report each code as delivered, as real channels do.
    pub(super) fn set_reports(&self) -> Result<()> {
        self.server.engine().sandbox().set_auto_deliver(&demo()?, AutoDeliver::Delivered);
        Ok(())
    }

    /// Lets codes of the workspace continue by SMS.
    pub(super) fn set_chain(&self) -> Result<()> {
        let (engine, demo) = (self.server.engine(), demo()?);
        let workspace = engine.workspace(&demo).ok_or("a sandbox has a workspace")?;
        self.runtime.block_on(workspace.set_sms(SmsRoute::Sandbox, None, None))?;
        let step = |channel| ChainStep { channel, timeout_seconds: 30 };
        let steps = vec![step(OtpChannel::Messaging), step(OtpChannel::Sms)];
        self.runtime.block_on(engine.admin().set_otp_channels(&demo, steps))?;
        Ok(())
    }

    /// Returns the address of the echo.
    pub(super) const fn echo(&self) -> SocketAddr {
        self.echo
    }

    /// Makes a request for a code, with a place for the phone.
    pub(super) fn send_request(&self) -> Result<Request> {
        let body = format!(r#"{{"phone":"+{PHONE}"}}"#);
        Request::post("/v1/otp/send", &self.key, &body, &[PHONE])
    }

    pub(super) fn stop(self) -> Result<()> {
        self.echo_runtime.shutdown_background();
        Ok(self.runtime.block_on(self.server.shutdown())?)
    }
}

/// Returns the id of a sandbox's workspace.
fn demo() -> Result<postrider_actors::domain::WorkspaceId> {
    Ok("demo".parse()?)
}

fn row(name: &'static str, what: &str, scale: &Scale, reference: &Reference, pair: Pair) -> Row {
    let unit = format!("{what}/s of {} keep-alive connections", scale.connections);
    let row = Row::of_rates(name, unit, reference.name, pair, reference.budget_and_goal);
    Row { goal_p99_ratio: Some(GOAL_P99_RATIO), ..row }
}

/// Sends to a new phone each time.
pub(super) struct Sends {
    request: Request,
    phones: Arc<Phones>,
    /// The start of each answer.
    expected: &'static [u8],
}

impl Sends {
    /// The starts of the answers of the server and of the echo.
    pub(super) const ANSWER: &[u8] = br#"{"request_id":"otp_"#;
    pub(super) const ECHO: &[u8] = br#"{"phone":"+4915"#;

    pub(super) fn new(request: &Request, phones: &Arc<Phones>, expected: &'static [u8]) -> Self {
        Self { request: request.clone(), phones: Arc::clone(phones), expected }
    }
}

impl Script for Sends {
    fn next(&mut self) -> Option<&[u8]> {
        self.request.set_digits(0, Phones::DIGITS, self.phones.next());
        Some(self.request.bytes())
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        check(status, body, self.expected)
    }
}

fn check(status: u16, body: &[u8], expected: &[u8]) -> Result<bool> {
    match status == 200 && body.starts_with(expected) {
        true => Ok(true),
        false => Err(format!("answered {status}: {}", String::from_utf8_lossy(body)).into()),
    }
}

fn run_send(name: &'static str, scale: &Scale, reference: &Reference) -> Result<Vec<Row>> {
    let servers = Servers::start(reference)?;
    let request = servers.send_request()?;
    let pair = sends(&servers, &request, scale, (Sends::ANSWER, Sends::ECHO))?;
    servers.stop()?;
    Ok(vec![row(name, "sends", scale, reference, pair)])
}

fn run_message(scale: &Scale) -> Result<Vec<Row>> {
    let servers = Servers::start(&DURABLE_MESSAGE)?;
    let template = r#"{"name":"spring_sale","language":"en"}"#;
    let body = format!(r#"{{"to":"+{PHONE}","type":"template","template":{template}}}"#);
    let request = Request::post("/v1/messaging/send", &servers.key, &body, &[PHONE])?;
    let (answer, echo) = (&br#"{"message_id":"msg_"#[..], &br#"{"message_id":"+4915"#[..]);
    let phones = Arc::new(Phones::new());
    let connect = |server| Client::connect(server, scale.connections);
    let pair = alternate(
        scale,
        |time| {
            let mut client = connect(servers.address())?;
            let round = || drive_sends(&mut client, (&request, &phones, answer), time);
            servers.settled(&phones, round)
        },
        |time| drive_sends(&mut connect(servers.echo())?, (&request, &phones, echo), time),
    )?;
    servers.stop()?;
    Ok(vec![row(MESSAGE.rows[0], "messages", scale, &DURABLE_MESSAGE, pair)])
}

/// Measures both sides, which differ in the start of their answers.
fn sends(
    servers: &Servers,
    request: &Request,
    scale: &Scale,
    (answer, echo): (&'static [u8], &'static [u8]),
) -> Result<Pair> {
    let phones = Arc::new(Phones::new());
    let drive = |server, expected, time| {
        let mut client = Client::connect(server, scale.connections)?;
        drive_sends(&mut client, (request, &phones, expected), time)
    };
    alternate(
        scale,
        |time| drive(servers.address(), answer, time),
        |time| drive(servers.echo(), echo, time),
    )
}

/// Sends a request for this time over all connections.
fn drive_sends(
    client: &mut Client,
    (request, phones, expected): (&Request, &Arc<Phones>, &'static [u8]),
    time: Duration,
) -> Result<Measured> {
    client.drive(time, || Sends::new(request, phones, expected))
}

/// A request and its code.
type Code = ([u8; REQUEST_ID.len()], [u8; CODE.len()]);

/// The codes, each of which is used once.
struct Codes {
    codes: Vec<Code>,
    next: AtomicUsize,
}

/// Verifies codes until none are left.
struct Verifies {
    request: Request,
    codes: Arc<Codes>,
}

impl Script for Verifies {
    fn next(&mut self) -> Option<&[u8]> {
        let (id, code) = self.codes.codes.get(self.codes.next.fetch_add(1, Ordering::Relaxed))?;
        self.request.set(0, id);
        self.request.set(1, code);
        Some(self.request.bytes())
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        check(status, body, br#"{"verified":true"#)
    }
}

fn run_verify(scale: &Scale) -> Result<Vec<Row>> {
    let servers = Servers::start(&DURABLE)?;
    let body = format!(r#"{{"request_id":"{REQUEST_ID}","otp":"{CODE}"}}"#);
    let request = Request::post("/v1/otp/verify", &servers.key, &body, &[REQUEST_ID, CODE])?;
    let drive = |server, codes: &Arc<Codes>, time| {
        let script = || Verifies { request: request.clone(), codes: Arc::clone(codes) };
        Client::connect(server, scale.connections)?.drive(time, script)
    };
    let mut fastest = FIRST_GUESS;
    let pair = alternate(
        scale,
        |time| {
            // A round that uses up its codes ends early: its rate is right even so.
            let wanted = (fastest * time.as_secs_f64()) as usize;
            let codes = servers.codes(wanted.min(KEPT))?;
            let measured: Measured = drive(servers.server.address(), &codes, time)?;
            fastest = fastest.max(measured.rate * 1.3);
            Ok(measured)
        },
        |time| {
            // The echo accepts any code, so the same ones are repeated.
            let codes = vec![([b'0'; REQUEST_ID.len()], [b'1'; CODE.len()]); KEPT];
            drive(servers.echo, &Arc::new(Codes { codes, next: AtomicUsize::new(0) }), time)
        },
    )?;
    servers.stop()?;
    Ok(vec![row(VERIFY.rows[0], "verifications", scale, &DURABLE, pair)])
}

impl Servers {
    /// Measures a round of messages up to the outcome of the last one.
    ///
    /// An outcome costs about as much as the acceptance, and may come long after it. So rate and
    /// processor time include it; latencies are of the acceptance.
    fn settled(
        &self,
        phones: &Phones,
        round: impl FnOnce() -> Result<Measured>,
    ) -> Result<Measured> {
        let (engine, id) = (self.server.engine(), demo()?);
        let workspace = engine.workspace(&id).ok_or("a sandbox has a workspace")?;
        let last_event = || Ok::<_, Error>(self.runtime.block_on(workspace.last_event())?);
        let (first_phone, first_event) = (phones.next(), last_event()?);
        let (watch, cpu) = (Stopwatch::start(), CpuTime::now()?);
        let measured = round()?;
        let sent = phones.next() - first_phone - 1;
        // `message.queued` and `message.sent`.
        while last_event()? < first_event + 2 * sent {
            if watch.elapsed() > SETTLED_WITHIN {
                return Err("messages have no outcome".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let rate = sent as f64 / watch.elapsed().as_secs_f64();
        Ok(Measured { rate, cpu_us: cpu.of_others_per_operation(sent as usize)?, ..measured })
    }

    /// Sends this number of codes and reads them where the sandbox delivered them.
    fn codes(&self, wanted: usize) -> Result<Arc<Codes>> {
        let (engine, id) = (self.server.engine(), demo()?);
        let workspace = engine.workspace(&id).ok_or("a sandbox has a workspace")?;
        // Wait for more than the clock's resolution after the earlier round.
        std::thread::sleep(Duration::from_millis(10));
        let since = engine.clock().now();
        self.runtime.block_on(pending::send(&workspace, wanted))?;
        let codes = self.delivered(wanted, since)?.into_iter().map(|(request, code)| {
            Ok((request.as_bytes().try_into()?, code.as_bytes().try_into()?))
        });
        let codes = codes.collect::<std::result::Result<_, Error>>()?;
        Ok(Arc::new(Codes { codes, next: AtomicUsize::new(0) }))
    }

    /// Waits until the sandbox has delivered this many since a moment; returns requests and codes.
    fn delivered(&self, wanted: usize, since: Timestamp) -> Result<Vec<(String, String)>> {
        let (engine, id) = (self.server.engine(), demo()?);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(100));
            let delivered = engine.sandbox().messages(&id, None, wanted);
            if delivered.len() >= wanted && delivered.iter().all(|message| message.at >= since) {
                let codes = delivered.into_iter().map(pending::code_of);
                return codes.collect::<Option<_>>().ok_or("a message has no code".into());
            }
        }
        Err("the sandbox did not deliver in time".into())
    }

    /// Sends codes to these phones, and verifies all of them.
    pub(super) fn verify_all(&self, phones: &[Phone]) -> Result<()> {
        let engine = self.server.engine();
        let workspace = engine.workspace(&demo()?).ok_or("a sandbox has a workspace")?;
        let since = engine.clock().now();
        self.runtime.block_on(async {
            for phone in phones {
                workspace.send_otp(SendOtp::to(*phone)).await?;
            }
            Ok::<_, Error>(())
        })?;
        let codes = self.delivered(phones.len(), since)?;
        self.runtime.block_on(async {
            for (request, code) in codes {
                workspace.verify_otp(request.parse()?, &code).await?;
            }
            Ok(())
        })
    }
}
