//! `kill -9` in the middle of many single messages, with a provider that counts accepted messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fake::FakeCloudApi;
use crate::support::at_size;

use super::broadcast::{ACME, prepare};
use super::client::{Answer, Client, Outcome};
use super::process::Process;

const CLIENTS: usize = 16;
const SEND: &str = "/v1/messaging/send";

/// The progress of the clients, over all lives of the server.
struct Clients {
    /// The next message's number; each is tried once.
    next: watch::Sender<usize>,
    /// The number of messages.
    messages: usize,
}

impl Clients {
    fn take_next(&self) -> usize {
        let mut number = 0;
        self.next.send_modify(|next| {
            number = *next;
            *next += 1;
        });
        number
    }
}

/// Sends until nothing is left to send or the server has stopped. Returns the acknowledged
/// messages.
async fn send_some(clients: Arc<Clients>, mut api: Client) -> Vec<String> {
    let mut acknowledged = Vec::new();
    loop {
        let number = clients.take_next();
        if number >= clients.messages {
            break;
        }
        let template = json!({"name": "sale", "language": "en"});
        let message =
            json!({"to": format!("+1555{number:07}"), "type": "template", "template": template});
        match api.post(SEND, &message).await {
            Outcome::Answered(Answer { status: 200, body, .. }) => {
                acknowledged.push(body["message_id"].as_str().unwrap().to_owned());
            }
            Outcome::Answered(answer) => panic!("{answer:?}"),
            Outcome::Lost | Outcome::Refused => break,
        }
    }
    acknowledged
}

/// Returns the status of each of these messages, as soon as none is queued any more.
async fn settled(api: &Client, messages: Vec<String>) -> Vec<(String, String)> {
    let mut shares = JoinSet::new();
    for share in messages.chunks(messages.len().div_ceil(CLIENTS)) {
        let (share, mut api) = (share.to_vec(), api.another());
        shares.spawn(async move {
            let mut statuses = Vec::new();
            for message in share {
                let path = format!("/v1/messaging/messages/{message}");
                let mut state = api.fetch(&path).await;
                while state["status"] == "queued" {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    state = api.fetch(&path).await;
                }
                statuses.push((message, state["status"].as_str().unwrap().to_owned()));
            }
            statuses
        });
    }
    shares.join_all().await.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_every_message_comes_to_an_end_and_none_is_sent_twice() {
    let (messages, kills) = at_size((3_000, 2), (10_000, 4));
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeCloudApi::start();
    let base_url = fake.base_url();
    let settings =
        [("CLOUD_API__BASE_URL", base_url.as_str()), ("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
    let mut process = Process::start_with(dir.path(), &settings);
    let key = prepare(&process, messages as u64).await;
    let clients = Arc::new(Clients { next: watch::Sender::default(), messages });
    let mut acknowledged = Vec::new();
    for kill in 1..=kills {
        let mut sending = JoinSet::new();
        for _ in 0..CLIENTS {
            sending.spawn(send_some(Arc::clone(&clients), Client::new(process.address(), &key)));
        }
        // The kill comes somewhere in the next part.
        let part = messages / (kills + 1);
        let until = kill * part + rng.random_range(0..part);
        clients.next.subscribe().wait_for(|next| *next >= until).await.unwrap();
        process.kill();
        acknowledged.extend(sending.join_all().await.concat());
        process = Process::start_with(dir.path(), &settings);
    }
    let mut sending = JoinSet::new();
    for _ in 0..CLIENTS {
        sending.spawn(send_some(Arc::clone(&clients), Client::new(process.address(), &key)));
    }
    acknowledged.extend(sending.join_all().await.concat());
    assert!(acknowledged.len() > messages / 2, "{}", acknowledged.len());

    let api = Client::new(process.address(), &key);
    let ended = settled(&api, acknowledged).await;
    let mut counts = BTreeMap::new();
    for (message, status) in &ended {
        *counts.entry(status.as_str()).or_insert(0) += 1;
        let taken = fake.accepted_of(message);
        match status.as_str() {
            "sent" => assert_eq!(taken, 1, "{message}"),
            "unknown" => assert!(taken <= 1, "{message}"),
            other => panic!("{message} is {other}"),
        }
    }
    assert_eq!(fake.most_of_one(), 1, "somebody got it twice");
    let unknown = counts.get("unknown").copied().unwrap_or_default();
    eprintln!("{counts:?}, taken {}", fake.accepted_count());
    // This is the maximum number of messages at the provider at once.
    assert!(unknown <= kills * 1000, "{counts:?}");
    let left: Value = process.admin().fetch(ACME).await["credits"].clone();
    let spent = messages as u64 - left.as_u64().unwrap();
    assert!(spent >= ended.len() as u64, "{spent} for {}", ended.len());
}
