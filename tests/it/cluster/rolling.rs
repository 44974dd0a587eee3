//! Each node is stopped and started again, one after the other, while clients work.

use postrider_actors::Clock;
use serde_json::{Value, json};

use super::jetstream::publish;
use super::load::{Load, total};
use super::nodes::{Cluster, admin, read};
use super::state::{NODES, is_spread, once, owned, postrider, workspaces};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_restarted_and_no_client_loses_an_answer() {
    // A shard changes hands in about a second, and in more where all nodes share a machine.
    let cluster = Cluster::with(&[("CLUSTER__HOLD_MS", "5000")]);
    let mut nodes: Vec<_> = NODES.iter().map(|node| cluster.start(node)).collect();
    once(&nodes[2], "shards for each", is_spread).await;
    let workspaces = workspaces(&nodes[2]).await;
    // Clients use the two others, as behind a balancer that checks `/readyz`.
    for (at, name) in NODES.iter().enumerate() {
        let others: Vec<_> = (0..3).filter(|other| *other != at).map(|it| &nodes[it]).collect();
        let load = Load::begin(&others, &workspaces);
        let (output, _) = postrider(&nodes[(at + 1) % 3], &["drain", name]).await;
        assert!(output.status.success(), "{output:?}");
        let old = nodes.remove(at);
        old.terminate();
        assert!(old.ended().status.success());
        nodes.insert(at, cluster.start(name));
        let (output, _) = postrider(&nodes[(at + 1) % 3], &["undrain", name]).await;
        assert!(output.status.success(), "{output:?}");
        once(&nodes[(at + 1) % 3], "shards for each again", is_spread).await;
        let reports = load.end().await;
        let (codes, unanswered, refused, slowest) = total(&reports);
        // After a refusal, nobody owned the shard for so long, and the request had no effect.
        println!("{name}: {codes} codes, {refused} refused, slowest {slowest:?}");
        assert!(codes > 6 && reports.iter().all(|it| it.acknowledged() > 0), "{reports:?}");
        assert_eq!(unanswered, 0, "everything that began is answered");
        for it in &reports {
            it.check(&nodes[at]).await;
        }
    }
    let state = once(&nodes[0], "all shards", |state| state["ready"] == true).await;
    assert_eq!(state["problems"], json!([]), "{state}");
}

/// A member of an earlier version, which reads only the earlier data format.
struct Older {
    nats: String,
    renewal: u64,
}

impl Older {
    /// Has it renew its key, as each second.
    fn renews(&mut self, is_draining: bool) {
        self.renewal += 1;
        let id = [9; 16];
        let record = json!({
            "directory": id, "incarnation": id, "renewal": self.renewal,
            "advertise": "127.0.0.1:9", "zone": "", "is_draining": is_draining,
            "version": "0.0.1", "wall_ms": Clock::system().wall().as_millis(), "reads": 0,
        });
        publish(&self.nats, "$KV.PR_test.node.older", record.to_string().as_bytes());
    }
}

/// Returns whether a node reports that it waits for the member.
fn waits(state: &Value) -> bool {
    let problems = state["problems"].as_array().unwrap();
    let mut problems = problems.iter().filter_map(Value::as_str);
    problems.any(|it| it.contains("pr-1 is given no shards") && it.contains("older"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_what_an_older_member_cannot_read_waits_until_that_drains() {
    let cluster = Cluster::made();
    let mut older = Older { nats: cluster.nats.address.clone(), renewal: 0 };
    older.renews(false);
    let node = cluster.start("pr-1");
    let mut client = admin(&node);
    let mut looks = 0;
    let waited = async || {
        older.renews(false);
        let state = read(&mut client, "/admin/v1/cluster").await;
        assert_eq!(owned(&state, "pr-1"), 0, "{state}");
        looks += i32::from(waits(&state));
        (looks == 40).then_some(())
    };
    eventually("a node that waits", waited).await;
    let owns = async || {
        older.renews(true);
        let state = read(&mut client, "/admin/v1/cluster").await;
        (owned(&state, "pr-1") == 4).then_some(())
    };
    eventually("all shards", owns).await;
    // Written data cannot be taken back: nobody waits for a member that comes now.
    for _ in 0..20 {
        older.renews(false);
        let state = read(&mut client, "/admin/v1/cluster").await;
        assert!(owned(&state, "pr-1") == 4 && !waits(&state), "{state}");
    }
}
