//! The event stream of a workspace through any node, and over a move of its shard.

use serde_json::{Value, json};

use super::nodes::{Cluster, admin, done, send};
use super::state::{once, owner, owns, postrider};
use crate::faults::Client;
use crate::webhooks::event_stream::Stream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_through_any_node_goes_on_behind_its_last_event_after_a_move() {
    let cluster = Cluster::made();
    let nodes = [cluster.start("pr-1"), cluster.start("pr-2")];
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    let state = once(&nodes[0], "two shards each", both).await;
    super::nodes::workspace(&nodes[0], "acme").await;
    let scopes = ["messaging:send", "webhooks:manage"];
    let key = json!({"name": "stream", "scopes": scopes});
    let key = done(&mut admin(&nodes[0]), "/admin/v1/workspaces/acme/keys", key).await;
    let key = key["key"].as_str().unwrap();
    let shard = usize::from(postrider_actors::home_of(&"acme".parse().unwrap()) >> 14);
    let at = usize::from(owner(&state, shard) == "pr-2");
    let (owning, other) = (&nodes[at], &nodes[1 - at]);
    // Through the node that does not own the shard.
    let mut stream = Stream::at(other.address(), key, None).await;
    let mut client = Client::new(owning.address(), key);
    let (first, _) = send(&mut client, "+15550100001").await;
    let (_, kind, sent) = stream.event().await;
    assert_eq!((kind.as_str(), &sent["data"]["request_id"]), ("otp.sent", &json!(first)));
    let mut last = sent;
    let to = ["pr-2", "pr-1"][at];
    let (output, moved) = postrider(other, &["move", &shard.to_string(), "--to", to]).await;
    assert!(output.status.success() && moved["to"] == to, "{output:?}");
    // Later events are still delivered before the end.
    while let Some(message) = stream.message().await {
        let data = message.lines().find_map(|line| line.strip_prefix("data: "));
        last = data.map_or(last, |data| serde_json::from_str(data).unwrap());
    }
    let (second, _) = send(&mut client, "+15550100002").await;
    let all = client.fetch("/v1/events?limit=200").await["data"].as_array().unwrap().clone();
    let seen = all.iter().position(|event| event["id"] == last["id"]).unwrap();
    assert!(all[seen + 1..].iter().any(|event| event["data"]["request_id"] == second.as_str()));
    for node in &nodes {
        let last = last["id"].as_str();
        let mut again = Stream::at(node.address(), key, last).await;
        for expected in &all[seen + 1..] {
            assert_eq!(again.event().await.2, *expected, "a gap, or one twice");
        }
    }
}
