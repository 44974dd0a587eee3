//! Limits hold over all nodes, also while the owner of a shard dies.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::nodes::{Cluster, workspace};
use super::state::{NODES, is_spread, once};
use crate::faults::{Client, Outcome, Process};

/// The number of codes that one phone may have in ten minutes.
const LIMIT: usize = 4;
const PHONES: usize = 12;
/// The maximum number of requests for one phone through each node: one is held for two seconds.
const TRIES: usize = 60;

/// Returns the number of codes that a node sent to a phone, and of those with an unknown outcome.
async fn send_all(node: SocketAddr, key: &str, phone: &str) -> (usize, usize) {
    let mut client = Client::new(node, key);
    let (mut sent, mut unknown) = (0, 0);
    for _ in 0..TRIES {
        match client.post("/v1/otp/send", &json!({ "phone": phone })).await {
            Outcome::Answered(answer) => match answer.status {
                200 => sent += 1,
                429 => return (sent, unknown),
                503 => match answer.body["reason"].as_str() {
                    Some("no_owner") => client.close(),
                    _ => unknown += 1,
                },
                _ => panic!("{phone}: {answer:?}"),
            },
            Outcome::Lost => unknown += 1,
            // The node was killed.
            Outcome::Refused => return (sent, unknown),
        }
    }
    panic!("{phone}: it was never refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_gets_no_more_codes_than_its_limit_whichever_nodes_are_asked_and_die() {
    let limit = LIMIT.to_string();
    let cluster = Cluster::with(&[("LIMITS__OTP_PER_PHONE_10M", &limit)]);
    let [first, second, third] = NODES.map(|node| cluster.start(node));
    let state = once(&third, "shards for each", is_spread).await;
    let (_, key) = workspace(&third, "acme").await;
    let nodes = [&first, &second, &third].map(Process::address);
    let phone = |number: usize| format!("+1555030{number:04}");
    let ask = |phone: String| {
        let asked = nodes.map(|node| {
            let (key, phone) = (key.clone(), phone.clone());
            tokio::spawn(async move { send_all(node, &key, &phone).await })
        });
        async move {
            let (mut sent, mut unknown) = (0, 0);
            for it in asked {
                let (one, other) = it.await.unwrap();
                (sent, unknown) = (sent + one, unknown + other);
            }
            (sent, unknown)
        }
    };
    assert_eq!(ask(phone(0)).await, (LIMIT, 0), "all nodes live");
    // The owner of the workspace's shard dies among the requests for these.
    let owner = owner_of(&state, &key);
    let asked: Vec<_> = (1..PHONES).map(|number| tokio::spawn(ask(phone(number)))).collect();
    let mut left = Vec::new();
    for (name, node) in NODES.into_iter().zip([first, second, third]) {
        if name == owner { node.kill() } else { left.push(node) }
    }
    let (mut all, mut doubtful) = (0, 0);
    for it in asked {
        let (sent, unknown) = it.await.unwrap();
        assert!(sent <= LIMIT && sent + unknown >= LIMIT, "{sent} sent, {unknown} unknown");
        (all, doubtful) = (all + sent, doubtful + unknown);
    }
    println!("{all} codes to {} phones, {doubtful} unknown", PHONES - 1);
    let refused = Client::new(left[0].address(), &key);
    for number in 0..PHONES {
        let mut client = refused.another();
        let body = json!({ "phone": phone(number) });
        let answer = super::nodes::settled(&mut client, "POST", "/v1/otp/send", &body).await;
        assert_eq!(answer.status, 429, "{answer:?}");
    }
}

/// Returns the node that owns the shard of a key, whose last two bytes name it.
fn owner_of(state: &Value, key: &str) -> String {
    let bytes = data_encoding::BASE64URL_NOPAD.decode(&key.as_bytes()["pr_".len()..]).unwrap();
    let shard = usize::from(bytes[bytes.len() - 2] >> 6);
    super::state::owner(state, shard).to_owned()
}
