//! Messages, a broadcast and webhooks, while the owner of their shard dies and the next is emptied.
//!
//! Each recipient has one outcome. Nothing was sent twice unless its outcome is unknown, and each
//! event came under its id.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::nodes::{Cluster, done, read};
use super::standstill::{ended_once, sender};
use super::state::{NODES, is_spread, once, owner, postrider};
use crate::fake::FakeCloudApi;
use crate::faults::{Client, Process};
use crate::support::{Received, Sink, eventually};

const RECIPIENTS: usize = 200;
const MESSAGES: usize = 60;
const BROADCASTS: &str = "/v1/messaging/broadcasts";
const SCOPES: [&str; 2] = ["messaging:send", "webhooks:manage"];

/// Sends single messages through a node; returns their ids.
async fn send_some(node: &Process, key: &str, from: usize) -> Vec<String> {
    let (mut client, mut messages) = (Client::new(node.address(), key), Vec::new());
    for number in from..from + MESSAGES / 3 {
        let template = json!({"name": "sale", "language": "en"});
        let to = format!("+1556{number:07}");
        let body = json!({"to": to, "type": "template", "template": template});
        let sent = done(&mut client, "/v1/messaging/send", body).await;
        messages.push(sent["message_id"].as_str().unwrap().to_owned());
    }
    messages
}

/// Returns every event of the log, by its id.
async fn events(client: &mut Client) -> BTreeMap<String, Value> {
    let (mut events, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = read(client, &format!("/v1/events?limit=200{cursor}")).await;
        let data = page["data"].as_array().unwrap();
        if data.is_empty() {
            return events;
        }
        events.extend(data.iter().map(|it| (it["id"].as_str().unwrap().to_owned(), it.clone())));
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
    }
}

/// Checks that every recipient has one outcome, and got one message unless the outcome is unknown.
async fn check_broadcast(client: &mut Client, path: &str, fake: &FakeCloudApi) {
    let completed = async || {
        let found = read(client, path).await;
        (found["status"] == "completed").then_some(found)
    };
    let found = eventually("the end of the broadcast", completed).await;
    let of = |name: &str| usize::try_from(found["counts"][name].as_u64().unwrap()).unwrap();
    assert_eq!(of("sent") + of("unknown"), RECIPIENTS, "{found}");
    let mut outcomes = BTreeMap::new();
    for page in 1.. {
        let rows = read(client, &format!("{path}/recipients?limit=200&page={page}")).await;
        let rows = rows["data"].as_array().unwrap();
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let (id, status) = (row["message_id"].as_str().unwrap(), row["status"].clone());
            let before = outcomes.insert(id.to_owned(), status);
            assert_eq!(before, None, "{id} has two outcomes");
        }
    }
    assert_eq!(outcomes.len(), RECIPIENTS);
    let unknown = outcomes.values().filter(|it| **it == "unknown").count();
    assert_eq!(unknown, of("unknown"), "{found}");
    let broadcast = path.rsplit('/').next().unwrap();
    let taken =
        (0..RECIPIENTS).map(|at| fake.accepted_of(&format!("{broadcast}:{at}:{}", phone(at))));
    let taken: Vec<_> = taken.collect();
    assert!(taken.iter().all(|it| *it <= 1), "somebody got it twice: {taken:?}");
    let missed = taken.iter().filter(|it| **it == 0).count();
    assert!(missed <= unknown, "{missed} did not get it, and {unknown} are unknown");
}

fn phone(at: usize) -> String {
    format!("1555{at:07}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_has_one_outcome_when_owners_die_and_are_emptied() {
    let (fake, sink) = (FakeCloudApi::start(), Sink::start());
    let base_url = fake.base_url();
    let cluster = Cluster::with(&[
        ("CLOUD_API__BASE_URL", base_url.as_str()),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ]);
    let mut nodes: Vec<_> = NODES.iter().map(|node| cluster.start(node)).collect();
    once(&nodes[2], "shards for each", is_spread).await;
    let key = sender(&nodes[0], "globex", &SCOPES).await;
    let shard = usize::from(postrider_actors::home_of(&"globex".parse().unwrap()) >> 14);
    let owning = |state: &Value| NODES.iter().position(|it| *it == owner(state, shard));
    let mut client = Client::new(nodes[0].address(), &key);
    done(&mut client, "/v1/webhooks", json!({"url": sink.url("/all"), "events": []})).await;
    let to: Vec<_> = (0..RECIPIENTS).map(|at| format!("+{}", phone(at))).collect();
    let sale = json!({
        "name": "Sale", "template_name": "sale", "recipients": to, "policy": "at_most_once",
    });
    let sale = done(&mut client, BROADCASTS, sale).await;
    let path = format!("{BROADCASTS}/{}", sale["broadcast_id"].as_str().unwrap());
    let mut messages = send_some(&nodes[1], &key, 0).await;
    // The owner dies in the middle.
    let state = once(&nodes[0], "an owner", |it| owning(it).is_some()).await;
    let first = owning(&state).unwrap();
    assert!(fake.accepted_count() < (RECIPIENTS + messages.len()) as u64, "some are left to send");
    nodes.remove(first).kill();
    let other = |state: &Value| owning(state).is_some_and(|it| it != first);
    let state = once(&nodes[0], "the next owner", other).await;
    messages.extend(send_some(&nodes[1], &key, MESSAGES / 3).await);
    // The next owner is drained.
    let (output, _) = postrider(&nodes[0], &["drain", owner(&state, shard)]).await;
    assert!(output.status.success(), "{output:?}");
    messages.extend(send_some(&nodes[0], &key, 2 * MESSAGES / 3).await);
    let unknown = ended_once(&nodes[1], &key, &messages, &fake).await;
    let mut client = Client::new(nodes[1].address(), &key);
    check_broadcast(&mut client, &path, &fake).await;
    let all = async || {
        let events = events(&mut client).await;
        let received = sink.received("/all");
        let ids: BTreeSet<_> = received.iter().map(Received::id).collect();
        let is_complete = events.keys().all(|id| ids.contains(id.as_str()));
        is_complete.then_some((events, received))
    };
    let (events, received) = eventually("every event at the webhook", all).await;
    for it in &received {
        assert_eq!(events.get(it.id()), Some(&it.json()), "another body, or another id");
    }
    let twice = received.len() - events.len();
    println!("{unknown} of {MESSAGES} unknown, {} events, {twice} of them twice", events.len());
}
