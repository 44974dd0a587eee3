//! `kill -9` while codes go over three channels, each with a fake that counts messages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::channel::cloud_api::{APP_SECRET, number};
use crate::fake::{Callbacks, FakeCloudApi, Scripted};
use crate::inbox::email::MailServer;
use crate::sms_gateway::{Answer as SmsAnswer, Receipts, SmsGateway};
use crate::support::{Api, at_size, eventually};

use super::broadcast::ACME;
use super::client::{Answer, Client, Outcome};
use super::process::{Process, wait_for};

/// Returns the number of rounds. The server is killed in each but the last.
fn rounds() -> usize {
    at_size(3, 6)
}

/// The number of codes that are requested in each round.
const CODES: usize = 24;
const CLIENTS: usize = 4;
const CREDITS: u64 = 10_000;
/// One second more than the timeout of a step.
const STEP_SECONDS: u64 = 11;
const MAIL_FROM: &str = "codes@acme.example";

/// The three channels. The phone and the address of a code determine its outcome there.
struct Fakes {
    chat: FakeCloudApi,
    sms: SmsGateway,
    mail: MailServer,
}

fn phone(code: usize) -> String {
    format!("+1555{code:07}")
}

/// Returns an address: the mail server refuses the first, and hangs up after the second.
fn email(code: usize) -> &'static str {
    ["never@example.com", "silent@example.com", "ana@example.com"][code % 3]
}

impl Fakes {
    fn start() -> Self {
        let (chat, sms) = (FakeCloudApi::start(), SmsGateway::start());
        for code in 0..rounds() * CODES {
            let phone = phone(code);
            let digits = phone.strip_prefix('+');
            // Callbacks report the others as failed.
            match code % 4 {
                0 => chat.script(digits, Scripted::Error { status: 400, code: 131_026 }, None),
                1 => chat.script(digits, Scripted::Lost, None),
                _ => {}
            }
            let answer = match code % 5 {
                0 => SmsAnswer::Refused(30_007),
                1 => SmsAnswer::Lost,
                2 => SmsAnswer::Hang,
                3 => SmsAnswer::Sent,
                _ => SmsAnswer::Delivered,
            };
            sms.answer(Some(&phone), answer);
        }
        Self { chat, sms, mail: MailServer::with(0, &[]) }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CLOUD_API__BASE_URL", self.chat.base_url()),
            ("EMAIL__HOST", "127.0.0.1".to_owned()),
            ("EMAIL__PORT", self.mail.port().to_string()),
            ("EMAIL__TLS", "none".to_owned()),
            ("EMAIL__FROM", MAIL_FROM.to_owned()),
            ("LIMITS__KEY_REQUESTS_PER_HOUR", "0".to_owned()),
        ]
    }

    /// Returns the number of calls to the channels.
    fn calls(&self) -> usize {
        self.chat.requests().len() + self.sms.received().len() + self.mail.mails().len()
    }

    /// Has them call the server back at its present address.
    fn call_back(&self, server: SocketAddr, number_path: &str, sms_secret: &str) {
        self.chat.call_back(Some(Callbacks {
            server,
            path: number_path.to_owned(),
            app_secret: APP_SECRET.to_owned(),
            statuses: vec!["failed 131026".to_owned()],
            delay: Duration::ZERO,
            times: 2,
        }));
        self.sms.report(Some(Receipts {
            server,
            path: "/channels/sms/acme".to_owned(),
            secret: sms_secret.to_owned(),
            failed: Some(30_008),
            delay: Duration::ZERO,
            times: 2,
        }));
    }

    /// Returns the calls of each step to its channel, and the codes in them, by `otp_…:step`.
    fn carried(&self) -> BTreeMap<String, (u32, BTreeSet<String>)> {
        let mut carried = BTreeMap::<_, (u32, BTreeSet<String>)>::new();
        let mut add = |step: String, code: &str| {
            let (times, codes) = carried.entry(step).or_default();
            *times += 1;
            codes.insert(code.to_owned());
        };
        for message in self.chat.accepted() {
            let parameter = "/template/components/0/parameters/0/text";
            add(message.opaque, message.body.pointer(parameter).unwrap().as_str().unwrap());
        }
        for sms in self.sms.received() {
            assert!(sms.is_signed, "{sms:?}");
            add(sms.id, sms.text.split(' ').next().unwrap());
        }
        for mail in self.mail.mails() {
            let id = mail["headers"]["message-id"].as_str().unwrap();
            let id = id.trim_start_matches('<').split('@').next().unwrap();
            let code = mail["text"].as_str().unwrap().split(' ').next().unwrap();
            add(id.replace('.', ":"), code);
        }
        carried
    }
}

/// A server that is killed now and then, and restarts on the same data.
struct Server<'a> {
    directory: &'a Path,
    fakes: &'a Fakes,
    process: Option<Process>,
    address: Arc<Mutex<SocketAddr>>,
    /// The callback path of its number, and the secret of its gateway.
    callbacks: (String, String),
    key: String,
}

impl<'a> Server<'a> {
    async fn start(directory: &'a Path, fakes: &'a Fakes) -> Self {
        let process = spawn(directory, fakes);
        let address = Arc::new(Mutex::new(process.address()));
        let callbacks = (String::new(), String::new());
        let process = Some(process);
        let mut server = Self { directory, fakes, process, address, callbacks, key: String::new() };
        server.prepare().await;
        server
    }

    async fn prepare(&mut self) {
        let admin = self.admin();
        admin.post("/admin/v1/workspaces", json!({"id": "acme", "name": "Acme"})).await.ok();
        admin.post(&format!("{ACME}/credits"), json!({"add": CREDITS})).await.ok();
        let template = json!({"name": "otp_code", "category": "authentication",
            "components": [{"type": "BODY", "text": "{{1}}"}]});
        admin.post(&format!("{ACME}/templates"), template).await.ok();
        let number = admin.post(&format!("{ACME}/numbers"), number()).await.ok();
        let gateway = json!({"kind": "http", "url": self.fakes.sms.url()});
        let gateway = admin.put(&format!("{ACME}/sms"), gateway).await.ok();
        let step = |channel: &str| json!({"channel": channel, "timeout_seconds": 10});
        let chain = json!({"channels": [step("messaging"), step("sms"), step("email")]});
        admin.put(&format!("{ACME}/otp-channels"), chain).await.ok();
        let key = json!({"name": "test", "scopes": ["messaging:send"]});
        let key = admin.post(&format!("{ACME}/keys"), key).await.ok();
        let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        self.key = text(&key, "key");
        self.callbacks = (text(&number, "callback_path"), text(&gateway, "secret"));
        self.fakes.sms.verify_with(&self.callbacks.1);
        self.called_back();
    }

    fn called_back(&self) {
        let (number, secret) = &self.callbacks;
        self.fakes.call_back(*self.address.lock().unwrap(), number, secret);
    }

    fn kill_and_start(&mut self) {
        self.process.take().unwrap().kill();
        let process = spawn(self.directory, self.fakes);
        *self.address.lock().unwrap() = process.address();
        self.process = Some(process);
        self.called_back();
    }

    fn admin(&self) -> Api {
        self.api_of("admin.token")
    }

    fn api_of(&self, file: &str) -> Api {
        let token = std::fs::read_to_string(self.directory.join(file)).unwrap();
        Api::new(&self.address, Some(token.trim()))
    }

    fn api(&self) -> Api {
        Api::new(&self.address, Some(&self.key))
    }

    /// Advances its clock.
    async fn advance(&self, seconds: u64) {
        let body = json!({"advance_seconds": seconds});
        self.api_of("demo.key").post("/v1/sandbox/clock", body).await.ok();
    }

    /// Advances its clock by more than the timeout of a step, and reads all codes in between. A
    /// retry within a step happens then.
    async fn end_steps(&self) {
        self.advance(STEP_SECONDS / 2).await;
        self.codes().await;
        self.advance(STEP_SECONDS.div_ceil(2)).await;
    }

    /// Returns all codes of the workspace.
    async fn codes(&self) -> Vec<Value> {
        let listed = self.api().get("/v1/otp?limit=200").await.ok();
        assert!(listed["next_cursor"].is_null());
        let mut rows = Vec::new();
        for row in listed["data"].as_array().unwrap() {
            let path = format!("/v1/otp/{}", row["request_id"].as_str().unwrap());
            rows.push(self.api().get(&path).await.ok());
        }
        rows
    }
}

fn spawn(directory: &Path, fakes: &Fakes) -> Process {
    let settings = fakes.settings();
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Process::start_with(directory, &settings)
}

/// Requests codes until those of this round are requested or the server has stopped. Returns the
/// acknowledged requests.
async fn send_some(mut api: Client, next: Arc<AtomicUsize>, end: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    loop {
        let code = next.fetch_add(1, Ordering::Relaxed);
        if code >= end {
            return acknowledged;
        }
        let body = json!({"phone": phone(code), "email": email(code)});
        match api.post("/v1/otp/send", &body).await {
            Outcome::Answered(Answer { status: 200, body, .. }) => {
                acknowledged.push(body["request_id"].as_str().unwrap().to_owned());
            }
            Outcome::Answered(answer) => panic!("{answer:?}"),
            Outcome::Lost | Outcome::Refused => return acknowledged,
        }
    }
}

fn tries(row: &Value) -> &[Value] {
    row["tries"].as_array().unwrap()
}

/// Returns whether a chain has ended.
fn is_over(row: &Value) -> bool {
    tries(row).last().is_some_and(|last| !last["ended_at"].is_null())
}

/// Advances the clock until each chain has ended: by one step each time.
async fn until_over(server: &Server<'_>) -> Vec<Value> {
    let mut before = BTreeMap::new();
    let mut looks = 0;
    let id = |row: &Value| row["request_id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        let moved = async || {
            let rows = server.codes().await;
            let is_further = |row: &Value| {
                is_over(row) || tries(row).len() > before.get(&id(row)).copied().unwrap_or(0)
            };
            let still: Vec<_> = rows.iter().filter(|row| !is_further(row)).collect();
            looks += 1;
            if looks % 50 == 0 {
                eprintln!("after {looks} looks these stand still: {still:?}");
            }
            still.is_empty().then_some(rows)
        };
        let rows = eventually("the next step of each chain", moved).await;
        if rows.iter().all(is_over) {
            return rows;
        }
        before = rows.iter().map(|row| (id(row), tries(row).len())).collect();
        server.end_steps().await;
    }
    panic!("there are chains that stand still: {:?}", server.codes().await);
}

/// Checks a code against the messages of its channels. Returns the fault, if there is one.
fn check(row: &Value, carried: &BTreeMap<String, (u32, BTreeSet<String>)>) -> Option<String> {
    let id = row["request_id"].as_str().unwrap();
    let mut codes = BTreeSet::new();
    for (index, it) in tries(row).iter().enumerate() {
        let channel = ["messaging", "sms", "email"][index];
        assert_eq!((&it["step"], &it["channel"]), (&json!(index + 1), &json!(channel)), "{row}");
        assert!(it["price"].as_u64().unwrap() <= 1, "{row}");
        let (times, carried) =
            carried.get(&format!("{id}:{}", index + 1)).cloned().unwrap_or_default();
        // Only the chat channel may get a code again while its answer is unknown.
        assert!(times <= 1 || channel == "messaging", "{times} times: {row}");
        codes.extend(carried);
    }
    let last = tries(row).last().unwrap();
    assert!(tries(row).len() == 3 || last["status"] == "delivered", "it was given up: {row}");
    assert!(codes.len() <= 1, "several codes: {row}");
    codes.pop_first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_each_chain_goes_on_and_calls_no_channel_twice() {
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (dir, fakes) = (tempfile::tempdir().unwrap(), Fakes::start());
    let mut server = Server::start(dir.path(), &fakes).await;
    let mut acknowledged = Vec::new();
    for round in 1..=rounds() {
        let next = Arc::new(AtomicUsize::new((round - 1) * CODES));
        let until = fakes.calls() + rng.random_range(1..CODES);
        let mut sending = JoinSet::new();
        let address = *server.address.lock().unwrap();
        for _ in 0..CLIENTS {
            let api = Client::new(address, &server.key);
            sending.spawn(send_some(api, Arc::clone(&next), round * CODES));
        }
        // The steps of earlier rounds have ended.
        server.advance(STEP_SECONDS).await;
        wait_for("enough calls", || (fakes.calls() >= until).then_some(()));
        if round < rounds() {
            server.kill_and_start();
        }
        acknowledged.extend(sending.join_all().await.concat());
    }
    let rows = until_over(&server).await;
    assert!(acknowledged.len() > rounds(), "{}", acknowledged.len());
    let carried = fakes.carried();
    let (api, mut statuses) = (server.api(), BTreeMap::new());
    for row in &rows {
        let id = row["request_id"].as_str().unwrap();
        acknowledged.retain(|it| it != id);
        for it in tries(row) {
            *statuses.entry(format!("{} {}", it["channel"], it["status"])).or_insert(0) += 1;
        }
        if let Some(code) = check(row, &carried) {
            let body = json!({"request_id": id, "otp": code});
            assert_eq!(api.post("/v1/otp/verify", body).await.ok()["verified"], true, "{row}");
        }
    }
    eprintln!("{statuses:?}");
    assert!(acknowledged.is_empty(), "codes are lost: {acknowledged:?}");
    let prices = rows.iter().flat_map(tries).map(|it| it["price"].as_u64().unwrap());
    let left = server.admin().get(ACME).await.ok()["credits"].as_u64().unwrap();
    assert_eq!(CREDITS - left, prices.sum::<u64>(), "what is paid is what the tries cost");
}
