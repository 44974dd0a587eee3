//! A server that is held records everything and sends nothing, through `kill -9` too.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_actors::Clock;
use serde_json::{Value, json};

use crate::fake::FakeCloudApi;
use crate::inbox::email::MailServer;
use crate::support::{Api, Sink, eventually};

use super::broadcast::{made, prepare};
use super::client::{Answer, Client, Outcome};
use super::mails::{AT_ONCE, write};
use super::process::Process;

const MESSAGES: usize = 5;
const RECIPIENTS: usize = 40;
/// The number of mails that wait behind those that hang.
const WAITING: usize = 2;
/// Several beats of everything that looks for something to send.
const A_WHILE: Duration = Duration::from_secs(4);

/// The receivers of a server's messages, which count them.
struct World {
    fake: FakeCloudApi,
    smtp: MailServer,
    sink: Sink,
}

impl World {
    fn start(&self, data: &Path) -> Process {
        let (base_url, port) = (self.fake.base_url(), self.smtp.port().to_string());
        let settings = [
            ("CLOUD_API__BASE_URL", base_url.as_str()),
            ("EMAIL__HOST", "127.0.0.1"),
            ("EMAIL__PORT", port.as_str()),
            ("EMAIL__TLS", "none"),
            ("EMAIL__FROM", "help@acme.example"),
        ];
        Process::start_with(data, &settings)
    }

    /// Returns the counts of messages, mails and webhooks that have come.
    fn counts(&self) -> (usize, usize, usize) {
        let calls = self.fake.requests().len();
        (calls, self.smtp.mails().len(), self.sink.received("/hook").len())
    }
}

async fn asked(client: &mut Client, path: &str, body: Value) -> Answer {
    match client.post(path, &body).await {
        Outcome::Answered(answer) => answer,
        other => panic!("{path}: {other:?}"),
    }
}

/// Has unclaimed mails wait, behind as many hanging mails as are handed over at once.
async fn queue_mails(process: &Process, data: &Path, smtp: &MailServer) {
    let address = Arc::new(Mutex::new(process.address()));
    let secret = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let api = Api::new(&address, Some(secret("demo.key").trim()));
    let admin = Api::new(&address, Some(secret("admin.token").trim()));
    let opened = admin.post("/admin/v1/workspaces/demo/email", json!({})).await.json();
    let channel = opened["secret"].as_str().unwrap();
    for number in 0..AT_ONCE + WAITING {
        let name = if number < AT_ONCE { "hanging" } else { "ana" };
        let from = format!("{name}@example{number}.com");
        write(&Api::new(&address, None), channel, &from).await;
        let all = api.get("/v1/conversations?limit=1").await.ok();
        let path = format!("/v1/conversations/{}/messages", all["data"][0]["id"].as_str().unwrap());
        api.post(&path, json!({"type": "text", "text": "Hello"})).await.ok();
    }
    assert_eq!(smtp.after(AT_ONCE).await.len(), AT_ONCE, "the others have no place yet");
}

/// Checks that sends are refused, reads are not, and a code can be verified.
async fn check_held(process: &Process, key: &str, otp: Option<(&str, &str)>) {
    let mut stranger = Client::new(process.address(), "none");
    let ready = stranger.fetch("/readyz").await;
    assert_eq!((&ready["status"], &ready["held"]), (&json!("ready"), &json!(true)), "{ready}");
    assert!(ready["view_position"].as_u64() <= ready["log_position"].as_u64(), "{ready}");
    let (mut demo, mut acme) = (process.demo(), Client::new(process.address(), key));
    let sends = [
        ("/v1/otp/send", json!({"phone": "+15550009999"})),
        ("/v1/messaging/send", message(99)),
        ("/v1/messaging/broadcasts", broadcast(None)),
    ];
    for (path, body) in sends {
        let answer = asked(&mut acme, path, body).await;
        let outcome = (answer.status, &answer.body["code"], &answer.body["reason"]);
        assert_eq!(outcome, (503, &json!("SERVICE_UNAVAILABLE"), &json!("held")), "{path}");
        assert!(answer.retry_after.is_some());
    }
    demo.fetch("/v1/contacts").await;
    if let Some((request, code)) = otp {
        let answer =
            asked(&mut demo, "/v1/otp/verify", json!({"request_id": request, "otp": code})).await;
        assert_eq!((answer.status, &answer.body["verified"]), (200, &json!(true)), "{answer:?}");
    }
}

fn message(number: usize) -> Value {
    let template = json!({"name": "sale", "language": "en"});
    json!({"to": format!("+1555100{number:04}"), "type": "template", "template": template})
}

fn broadcast(schedule_at: Option<String>) -> Value {
    let phones: Vec<_> = (0..RECIPIENTS).map(|number| format!("+1555200{number:04}")).collect();
    json!({
        "name": "Sale", "template_name": "sale", "recipients": phones, "schedule_at": schedule_at,
    })
}

/// The things that wait when the server is killed.
struct Waiting {
    key: String,
    /// The paths of messages.
    messages: Vec<String>,
    /// The path of a broadcast that is due soon.
    sale: String,
    /// A code in flight.
    request: String,
    code: String,
}

/// Makes messages, mails and a broadcast wait, and registers a webhook.
async fn prepare_all(world: &World, process: &Process, data: &Path) -> Waiting {
    let key = prepare(process, 1_000).await;
    // The provider takes nothing, and asks for a pause that outlasts the test. Once all messages
    // have been refused, none is under way when the server is killed.
    world.fake.throttle(600);
    let (mut acme, mut demo) = (Client::new(process.address(), &key), process.demo());
    let mut messages = Vec::new();
    for number in 0..MESSAGES {
        let sent = made(&mut acme, "/v1/messaging/send", message(number)).await;
        messages.push(format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap()));
    }
    let hook = json!({"url": world.sink.url("/hook"), "events": ["otp.verified"]});
    made(&mut demo, "/v1/webhooks", hook).await;
    let otp = made(&mut demo, "/v1/otp/send", json!({"phone": "+15550123456"})).await;
    let request = otp["request_id"].as_str().unwrap().to_owned();
    let code = eventually("the code", async || {
        let path = "/v1/sandbox/messages?limit=1&to=%2B15550123456";
        let mut demo = process.demo();
        demo.fetch(path).await["data"][0]["code"].as_str().map(str::to_owned)
    })
    .await;
    queue_mails(process, data, &world.smtp).await;
    let soon = Clock::system().now().plus(Duration::from_secs(2));
    let sale = made(&mut acme, "/v1/messaging/broadcasts", broadcast(Some(soon.to_string()))).await;
    let sale = format!("/v1/messaging/broadcasts/{}", sale["broadcast_id"].as_str().unwrap());
    Waiting { key, messages, sale, request, code }
}

/// Waits until all of these messages were sent.
async fn sent(acme: &Client, messages: &[String]) {
    for path in messages {
        let ended = eventually("the message's end", async || {
            let found = acme.another().fetch(path).await;
            found["status"].as_str().filter(|status| *status != "queued").map(str::to_owned)
        })
        .await;
        assert_eq!(ended, "sent", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaves_a_held_server_and_all_of_it_once_it_is_released() {
    let world =
        World { fake: FakeCloudApi::start(), smtp: MailServer::with(0, &[]), sink: Sink::start() };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let process = world.start(data);
    let Waiting { key, messages, sale, request, code } = prepare_all(&world, &process, data).await;
    process.kill();

    std::fs::write(data.join("held"), "").unwrap();
    world.fake.heal();
    let before = world.counts();
    let process = world.start(data);
    assert!(!data.join("held").exists(), "the record takes its place");
    check_held(&process, &key, Some((&request, &code))).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.counts(), before, "something left");
    process.kill();
    let process = world.start(data);
    check_held(&process, &key, None).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.counts(), before, "something left after a restart");
    let mut acme = Client::new(process.address(), &key);
    assert!(["scheduled", "queued"].contains(&acme.fetch(&sale).await["status"].as_str().unwrap()));

    let mut admin = process.admin();
    for _ in 0..2 {
        let answer = asked(&mut admin, "/admin/v1/release", json!({})).await;
        assert_eq!((answer.status, answer.body), (200, json!({"held": false})));
    }
    world.sink.wait("/hook", 1).await;
    sent(&acme, &messages).await;
    eventually("the broadcast's end", async || {
        (acme.another().fetch(&sale).await["status"] == "completed").then_some(())
    })
    .await;
    let all = (MESSAGES + RECIPIENTS) as u64;
    assert_eq!(world.fake.accepted_count(), all);
    let mails = before.1 + WAITING;
    eventually("all mails", async || (world.smtp.mails().len() == mails).then_some(())).await;
    process.kill();
    let process = world.start(data);
    let ready = Client::new(process.address(), "none").fetch("/readyz").await;
    assert_eq!(ready["held"], false, "{ready}");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!((world.fake.accepted_count(), world.fake.most_of_one()), (all, 1));
    assert_eq!(world.sink.received("/hook").len(), 1);
    made(&mut Client::new(process.address(), &key), "/v1/messaging/send", message(98)).await;
}
