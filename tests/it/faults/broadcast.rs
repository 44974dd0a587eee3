//! `kill -9` and SIGSTOP during broadcasts, with a provider that counts accepted messages.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use postrider_actors::domain::MessageId;
use rand::RngExt;
use serde_json::{Value, json};

use crate::fake::FakeCloudApi;
use crate::support::at_size;

use super::client::{Answer, Client, Outcome};
use super::process::{Process, signal, wait_for};

/// The variable for the number of recipients of both broadcasts together.
const RECIPIENTS_VARIABLE: &str = "POSTRIDER_TEST_BROADCAST_RECIPIENTS";
/// The maximum number of each broadcast's messages that are in flight or unrecorded at one moment.
const UNCERTAIN: usize = 1500;
/// Longer than any wait of the server's for the channel, which is a second here.
const STANDSTILL: Duration = Duration::from_secs(4);
/// The server is another process with its own clock: its end is polled for, for ten minutes.
const END_POLL_INTERVAL: Duration = Duration::from_millis(200);
const END_POLLS: usize = 3000;
const PATH: &str = "/v1/messaging/broadcasts";
pub const ACME: &str = "/admin/v1/workspaces/acme";

/// A server that sends through a fake, and is killed now and then.
struct Sender<'a> {
    fake: FakeCloudApi,
    directory: &'a Path,
    process: Option<Process>,
    /// The number of messages that the fake had taken at each stop or kill of the server.
    moments: Vec<u64>,
    key: String,
}

impl<'a> Sender<'a> {
    async fn start(directory: &'a Path, credits: u64) -> Self {
        let (fake, moments, key) = (FakeCloudApi::start(), Vec::new(), String::new());
        let mut sender = Self { fake, directory, process: None, moments, key };
        sender.begin();
        sender.key = prepare(sender.process(), credits).await;
        sender
    }

    fn begin(&mut self) {
        let base_url = self.fake.base_url();
        let settings = [
            ("CLOUD_API__BASE_URL", base_url.as_str()),
            ("CLOUD_API__TIMEOUT_SECONDS", "1"),
            ("CLOUD_API__CONNECT_TIMEOUT_SECONDS", "1"),
            ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
        ];
        self.process = Some(Process::start_with(self.directory, &settings));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    fn api(&self) -> Client {
        Client::new(self.process().address(), &self.key)
    }

    /// Waits until the fake has taken so many messages.
    fn until_taken(&self, count: u64) {
        let taken = || (self.fake.accepted_count() >= count).then_some(());
        wait_for("enough messages", taken);
    }

    fn kill(&mut self) {
        self.process.take().unwrap().kill();
        self.moments.push(self.fake.accepted_count());
        self.begin();
    }

    /// Stops the process for longer than all of its waits.
    async fn stand_still(&mut self) {
        signal(self.process().id(), "STOP");
        tokio::time::sleep(STANDSTILL).await;
        self.moments.push(self.fake.accepted_count());
        signal(self.process().id(), "CONT");
    }

    /// Waits until a broadcast has ended.
    async fn ended(&self, path: &str) -> Value {
        let mut api = self.api();
        for _ in 0..END_POLLS {
            let found = api.fetch(path).await;
            if found["status"] == "completed" {
                return found;
            }
            assert!(["queued", "sending"].contains(&found["status"].as_str().unwrap()), "{found}");
            tokio::time::sleep(END_POLL_INTERVAL).await;
        }
        panic!("the broadcast never ended");
    }

    /// Returns the places of a broadcast's recipients with this status.
    async fn places(&self, path: &str, status: &str) -> HashSet<usize> {
        let (mut api, mut places) = (self.api(), HashSet::new());
        for page in 1.. {
            let rows = format!("{path}/recipients?status={status}&limit=200&page={page}");
            let rows = api.fetch(&rows).await["data"].as_array().unwrap().clone();
            if rows.is_empty() {
                break;
            }
            places.extend(rows.iter().map(|row| place(row["message_id"].as_str().unwrap())));
        }
        places
    }
}

pub async fn made(client: &mut Client, path: &str, body: Value) -> Value {
    match client.post(path, &body).await {
        Outcome::Answered(Answer { status: 200 | 201, body, .. }) => body,
        other => panic!("{path}: {other:?}"),
    }
}

/// Creates a workspace that sends through the fake and can pay for so many; returns its key.
pub async fn prepare(process: &Process, credits: u64) -> String {
    let mut admin = process.admin();
    let acme = json!({"id": "acme", "name": "Acme"});
    made(&mut admin, "/admin/v1/workspaces", acme).await;
    made(&mut admin, &format!("{ACME}/credits"), json!({"add": credits})).await;
    let mut number = crate::channel::cloud_api::number();
    number["messages_per_second"] = 0.into();
    made(&mut admin, &format!("{ACME}/numbers"), number).await;
    let template = json!({
        "name": "sale", "category": "marketing", "components": [{"type": "BODY", "text": "Sale"}],
    });
    made(&mut admin, &format!("{ACME}/templates"), template).await;
    let key = json!({"name": "test", "scopes": ["messaging:send"]});
    let key = made(&mut admin, &format!("{ACME}/keys"), key).await;
    key["key"].as_str().unwrap().to_owned()
}

async fn create(api: &mut Client, policy: &str, recipients: usize) -> String {
    let phones: Vec<_> = (0..recipients).map(|number| format!("+1555{number:07}")).collect();
    let sale = json!({
        "name": "Sale", "template_name": "sale", "recipients": phones, "policy": policy,
    });
    let sale = made(api, PATH, sale).await;
    format!("{PATH}/{}", sale["broadcast_id"].as_str().unwrap())
}

/// Returns a recipient's place, which is in the last four bytes of its message's id.
fn place(message_id: &str) -> usize {
    let id: MessageId = message_id.parse().unwrap();
    u32::from_be_bytes(id.as_bytes()[12..].try_into().unwrap()) as usize
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcasts_go_on_after_kill_9_and_a_standstill() {
    let all = std::env::var(RECIPIENTS_VARIABLE);
    let (recipients, kills) = at_size((20_000, 3), (100_000, 10));
    let all = all.map_or(recipients, |wanted| wanted.parse().expect("a number of recipients"));
    let half = all / 2;
    let dir = tempfile::tempdir().unwrap();
    let mut sender = Sender::start(dir.path(), 2 * half as u64).await;
    let mut api = sender.api();
    let once = create(&mut api, "at_most_once", half).await;
    let again = create(&mut api, "at_least_once", half).await;
    let mut rng = rand::rng();
    let share = u64::try_from(all * 7 / 10).unwrap();
    let mut when: Vec<_> = (0..=kills).map(|_| rng.random_range(0..share)).collect();
    when.sort_unstable();
    for (turn, count) in when.into_iter().enumerate() {
        sender.until_taken(count);
        match turn == kills / 2 {
            true => sender.stand_still().await,
            false => sender.kill(),
        }
    }
    let moments = &sender.moments;
    for (path, policy) in [(&once, "at_most_once"), (&again, "at_least_once")] {
        let done = sender.ended(path).await;
        let of = |name: &str| usize::try_from(done["counts"][name].as_u64().unwrap()).unwrap();
        assert_eq!(of("sent") + of("unknown"), half, "{policy}: {done}");
        assert!(of("unknown") <= (kills + 1) * UNCERTAIN, "{policy}: {done}");
        // Nobody is lost: every recipient with the status `sent` got a message.
        let unknown = sender.places(path, "unknown").await;
        assert_eq!(unknown.len(), of("unknown"), "{policy}");
        for place in 0..half {
            let id = format!("{}:{place}:1555{place:07}", path.rsplit('/').next().unwrap());
            let taken = sender.fake.accepted_of(&id);
            assert!(taken > 0 || unknown.contains(&place), "{policy}: {id} is lost ({moments:?})");
            assert!(taken <= 1 || policy == "at_least_once", "{id} twice ({moments:?})");
        }
    }
    // Nobody got two messages, except recipients whose outcome a kill has swallowed.
    for twice in sender.fake.taken_again() {
        // At that moment it was in flight to or from the fake, or not recorded.
        let swallowed = |moment: &u64| {
            *moment < twice.at && moment.abs_diff(twice.before) <= 2 * UNCERTAIN as u64
        };
        assert!(moments.iter().any(swallowed), "{twice:?} ({moments:?})");
    }
    let left = sender.process().admin().fetch(ACME).await["credits"].clone();
    assert_eq!(left, 0);
}
