//! A node that stands by has the records, so that a takeover has little to apply.

use serde_json::{Value, json};

use super::nodes::{Cluster, read, send, verify, workspace};
use super::state::{once, owns};
use crate::faults::{Client, Process};
use crate::support::eventually;

/// The number of calls that write, for each of the workspaces.
const CALLS: usize = 60;
const WORKSPACES: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// Returns the fields of a line of the log, if it has this message.
fn said(line: &str, message: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = &line["fields"];
    (fields["message"] == message).then(|| fields.clone())
}

/// Returns the last reported position of the records of each shard that a node stands by for.
fn followed(node: &Process) -> [u64; 4] {
    let mut at = [0; 4];
    for line in node.log().lines() {
        if let Some(fields) = said(line, "the records follow the log") {
            let shard = fields["shard"].as_u64().unwrap() as usize;
            at[shard] = fields["position"].as_u64().unwrap();
        }
    }
    at
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_has_the_records_and_applies_little_when_it_takes_over() {
    let cluster = Cluster::made();
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| owns(state, "pr-1", 4)).await;
    let debug = [("LOG__LEVEL", "debug")];
    let second = cluster.start_with("pr-2", &cluster.directory("pr-2"), &debug).unwrap();
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    let state = once(&first, "two shards each", both).await;
    let mut keys = Vec::new();
    for id in WORKSPACES {
        let (mut client, key) = workspace(&first, id).await;
        for number in 0..CALLS {
            let contact = json!({"name": "n", "phone": format!("+1555040{number:04}")});
            super::nodes::done(&mut client, "/v1/contacts", contact).await;
        }
        keys.push((key, send(&mut client, "+15550100001").await));
    }
    let position = |state: &Value, shard: usize| state["shards"][shard]["position"].as_u64();
    let of_first = |shard: &usize| state["shards"][*shard]["owner"] == "pr-1";
    let shards: Vec<_> = (0..4).filter(of_first).collect();
    let written = once(&first, "the cluster", |state| state["ready"] == true).await;
    let written: Vec<_> = shards.iter().map(|it| position(&written, *it).unwrap()).collect();
    assert!(written.iter().sum::<u64>() > CALLS as u64, "{written:?}");
    let is_warm = async || {
        let at = followed(&second);
        shards.iter().zip(&written).all(|(shard, end)| at[*shard] >= *end).then_some(())
    };
    eventually("the records of the standby", is_warm).await;
    for shard in &shards {
        let view = cluster.directory("pr-2").join("replicas").join(shard.to_string());
        assert!(view.is_dir(), "{}", view.display());
    }
    let before = second.log().lines().count();
    first.kill();
    once(&second, "all shards of the node that is left", |it| owns(it, "pr-2", 4)).await;
    let log = second.log();
    let lines = log.lines().skip(before);
    let applied = lines.filter_map(|line| said(line, "the view has applied what it may have lost"));
    let applied: u64 = applied.map(|fields| fields["entries"].as_u64().unwrap()).sum();
    println!("{applied} entries were applied of {} written", written.iter().sum::<u64>());
    assert!(applied < CALLS as u64 / 2, "{applied} entries were applied: {log}");
    for (key, (request, code)) in keys {
        let mut client = Client::new(second.address(), &key);
        assert_eq!(verify(&mut client, &request, &code).await.0, 200);
        let listed = read(&mut client, "/v1/contacts?limit=1").await;
        assert_eq!(listed["total"], CALLS, "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_stays_with_its_owner_until_the_next_one_has_its_records() {
    let cluster = Cluster::made();
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| owns(state, "pr-1", 4)).await;
    let (mut client, _) = workspace(&first, "acme").await;
    // Nothing can be created below a file.
    let data = cluster.directory("pr-2");
    let blocked: Vec<_> =
        (0..4).map(|shard| data.join("replicas").join(shard.to_string())).collect();
    std::fs::create_dir_all(data.join("replicas")).unwrap();
    blocked.iter().for_each(|path| std::fs::write(path, b"").unwrap());
    let second = cluster.start_with("pr-2", &data, &[]).unwrap();
    let refused = async || {
        let failed = |line| said(line, "the records do not follow the log");
        (second.log().lines().filter_map(failed).count() >= 2).then_some(())
    };
    eventually("the records that cannot be made", refused).await;
    let says_why = |state: &Value| {
        let problems = state["problems"].as_array().unwrap().iter().filter_map(Value::as_str);
        let why = |it: &str| it.starts_with("pr-2 cannot take over shard ");
        owns(state, "pr-1", 4) && problems.filter(|it| why(it)).count() == 4
    };
    once(&first, "the first node has everything", says_why).await;
    assert!(!second.log().contains("the shard is owned"), "{}", second.log());
    let code = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &code.0, &code.1).await.0, 200);
    blocked.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    once(&first, "two shards each", both).await;
}
