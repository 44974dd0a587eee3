//! An owner stands still beyond its lease and comes back: another node has continued.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::nodes::{Cluster, admin, done, send, settled, verify, workspace};
use super::state::{once, owner};
use crate::fake::FakeCloudApi;
use crate::faults::{Client, Outcome, Process, signal};
use crate::support::eventually;

const MESSAGES: usize = 300;

/// Creates a workspace that sends through the fake; returns its key, with these scopes.
pub(super) async fn sender(node: &Process, id: &str, scopes: &[&str]) -> String {
    let mut admin = admin(node);
    let path = format!("/admin/v1/workspaces/{id}");
    done(&mut admin, "/admin/v1/workspaces", json!({"id": id, "name": id})).await;
    done(&mut admin, &format!("{path}/credits"), json!({"add": 10_000})).await;
    let mut number = crate::channel::cloud_api::number();
    number["messages_per_second"] = 40.into();
    done(&mut admin, &format!("{path}/numbers"), number).await;
    let components = json!([{"type": "BODY", "text": "Sale"}]);
    let sale = json!({"name": "sale", "category": "marketing", "components": components});
    done(&mut admin, &format!("{path}/templates"), sale).await;
    let key = json!({"name": "test", "scopes": scopes});
    let key = done(&mut admin, &format!("{path}/keys"), key).await;
    key["key"].as_str().unwrap().to_owned()
}

/// Moves all shards to the node that will stand still.
async fn all_to_first(second: &Process) {
    for shard in 0..4 {
        let path = format!("/admin/v1/cluster/shards/{shard}/move");
        // Two moves that are already under way delay a further one.
        let moved = async || {
            let answer = settled(&mut admin(second), "POST", &path, &json!({"to": "pr-1"})).await;
            (answer.status == 200).then_some(())
        };
        eventually("a move", moved).await;
    }
    let all = |it: &Value| it["ready"] == true && (0..4).all(|at| owner(it, at) == "pr-1");
    once(second, "all shards of one", all).await;
}

/// Returns the bytes, over all connections, that the kernel holds for a node that does not read.
fn unread(node: SocketAddr) -> u64 {
    let SocketAddr::V4(node) = node else { panic!("{node} has another table") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(node.ip().octets()), node.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let is_it = columns.next()? == local;
        // A connection's state: 01 is established. Those that wait to be accepted do not count.
        let is_open = columns.nth(1)? == "01";
        let (_, waiting) = columns.next()?.split_once(':')?;
        u64::from_str_radix(waiting, 16).ok().filter(|_| is_it && is_open)
    };
    table.lines().filter_map(of).sum()
}

/// Returns the answer of a node, if it gives one.
async fn answer(client: &mut Client, path: &str, body: &Value) -> Option<(u16, Value)> {
    match client.post(path, body).await {
        Outcome::Answered(answer) => Some((answer.status, answer.body)),
        Outcome::Lost | Outcome::Refused => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_stood_still_answers_nothing_of_its_own_and_sends_nothing_twice() {
    let fake = FakeCloudApi::start();
    let base_url = fake.base_url();
    let cluster = Cluster::with(&[
        ("CLOUD_API__BASE_URL", base_url.as_str()),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ]);
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| state["ready"] == true).await;
    let (mut client, key) = workspace(&first, "acme").await;
    let code = send(&mut client, "+15550100001").await;
    let sending = sender(&first, "globex", &["messaging:send"]).await;
    let second = cluster.start("pr-2");
    let both = |it: &Value| it["ready"] == true && (0..4).any(|at| owner(it, at) == "pr-2");
    once(&second, "shards for the other", both).await;
    all_to_first(&second).await;
    // Both clients have their connections, and a request of one is under way when it stands still.
    let mut old = Client::new(first.address(), &key);
    let path = format!("/v1/otp/{}", code.0);
    assert_eq!(settled(&mut old, "GET", &path, &Value::Null).await.status, 200);
    let mut messages = Vec::new();
    let mut sender = Client::new(first.address(), &sending);
    for number in 0..MESSAGES {
        let template = json!({"name": "sale", "language": "en"});
        let to = format!("+1555{number:07}");
        let body = json!({"to": to, "type": "template", "template": template});
        let sent = done(&mut sender, "/v1/messaging/send", body).await;
        messages.push(sent["message_id"].as_str().unwrap().to_owned());
    }
    let sent = fake.accepted_count();
    assert!(sent < MESSAGES as u64, "some must be left to send: {sent}");
    signal(first.id(), "STOP");
    let taken = |it: &Value| it["ready"] == true && (0..4).all(|at| owner(it, at) == "pr-2");
    once(&second, "all shards of the other", taken).await;
    let mut new = Client::new(second.address(), &key);
    assert_eq!(verify(&mut new, &code.0, &code.1).await.0, 200);
    let waiting = tokio::spawn(async move {
        let body = json!({"request_id": code.0, "otp": code.1});
        (answer(&mut old, "/v1/otp/verify", &body).await, old, body)
    });
    // The request is in the connection when the node continues.
    let arrived = async || (unread(first.address()) > 0).then_some(());
    eventually("the request of the node that stands still", arrived).await;
    signal(first.id(), "CONT");
    let (answered, mut old, body) = waiting.await.unwrap();
    let is_right = |answered: &Option<(u16, Value)>| match answered {
        Some((status, _)) => [422, 503].contains(status),
        None => true,
    };
    assert!(is_right(&answered), "the code was used: {answered:?}");
    let used = async || {
        let answered = answer(&mut old, "/v1/otp/verify", &body).await;
        assert!(is_right(&answered), "the code was used: {answered:?}");
        answered.filter(|(status, _)| *status == 422)
    };
    eventually("an answer of the new owner", used).await;
    let unknown = ended_once(&second, &sending, &messages, &fake).await;
    println!("{sent} of {MESSAGES} were sent before, {unknown} are unknown");
    assert!(unknown < MESSAGES / 10, "{unknown}");
}

/// Checks that every message ended and was sent once. Returns the number of unknown outcomes.
pub(super) async fn ended_once(
    node: &Process,
    key: &str,
    messages: &[String],
    fake: &FakeCloudApi,
) -> usize {
    let mut api = Client::new(node.address(), key);
    let mut unknown = 0;
    for message in messages {
        let path = format!("/v1/messaging/messages/{message}");
        let ended = async || {
            let state = settled(&mut api, "GET", &path, &Value::Null).await;
            assert_eq!(state.status, 200, "lost: {message}: {state:?}");
            let status = state.body["status"].as_str().unwrap().to_owned();
            (status != "queued").then_some(status)
        };
        let status = eventually("an end of a message", ended).await;
        let taken = fake.accepted_of(message);
        match status.as_str() {
            "unknown" => {
                unknown += 1;
                assert!(taken <= 1, "{message} was sent {taken} times");
            }
            _ => assert_eq!(taken, 1, "{message} is {status}"),
        }
    }
    unknown
}
