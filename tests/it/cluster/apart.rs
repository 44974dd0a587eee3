//! Servers of NATS, and nodes, that do not reach each other, while clients work.

use serde_json::{Value, json};

use super::load::{Load, total};
use super::nats::{Nats, free_port};
use super::nodes::{Cluster, settled};
use super::state::{NODES, is_spread, once, owner, workspaces};
use super::ways::Way;
use crate::faults::{Client, Outcome};
use crate::support::eventually;

/// The number of codes that are acknowledged between two faults, with any owners.
const CODES: usize = 60;

/// Cuts off the server that leads a log; nodes reach all servers all the time. At the end every
/// answer is true, and no shard has stopped.
async fn cut_off_a_leader(sends: bool, hears: bool) {
    let (nats, ways) = Nats::apart().await;
    let cluster = Cluster::made_over(nats);
    let nodes = cluster.start_all(NODES);
    once(&nodes[0], "shards for each", is_spread).await;
    let workspaces = workspaces(&nodes[0]).await;
    let load = Load::begin(&[&nodes[0], &nodes[1], &nodes[2]], &workspaces);
    load.acknowledges(CODES).await;
    let leader = tokio::task::block_in_place(|| cluster.nats.leader_of(0)).expect("a leader");
    ways.cut(&leader, sends, hears);
    let is_whole = |it: &Value| it["log"]["reachable"] == true && is_spread(it);
    if sends {
        let elsewhere = async || {
            let leads = || cluster.nats.leader_without(&leader, 0);
            tokio::task::block_in_place(leads).filter(|now| *now != leader)
        };
        eventually("another leader", elsewhere).await;
        load.acknowledges(CODES).await;
        once(&nodes[0], "all shards without that server", is_whole).await;
    } else {
        // A server that the others hear prevents another leader, as long as it asks for votes.
        let gives_up = async || {
            let leads = || cluster.nats.leader_as_seen_by(&leader, 0);
            (tokio::task::block_in_place(leads).as_ref() != Some(&leader)).then_some(())
        };
        eventually("its own end as a leader", gives_up).await;
    }
    ways.cut(&leader, false, false);
    load.acknowledges(CODES).await;
    let state = once(&nodes[0], "all shards", is_whole).await;
    assert!(!state.to_string().contains("stopped"), "{state}");
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    eprintln!("{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}");
    for (at, it) in reports.iter().enumerate() {
        it.check(&nodes[at % nodes.len()]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_cut_off_from_the_others_costs_time_and_nothing_else() {
    cut_off_a_leader(true, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_the_others_do_not_hear_costs_time_and_nothing_else() {
    cut_off_a_leader(true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_hear_the_others_costs_time_and_nothing_else() {
    cut_off_a_leader(false, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_the_others_do_not_reach_keeps_its_shards_and_its_answers() {
    let cluster = Cluster::made();
    let listen = format!("127.0.0.1:{}", free_port());
    let way = Way::to(listen.clone()).await;
    let own = [("CLUSTER__LISTEN", listen), ("CLUSTER__ADVERTISE", way.address.to_string())];
    let own = own.each_ref().map(|(name, value)| (*name, value.as_str()));
    let first = cluster.start_with("pr-1", &cluster.directory("pr-1"), &own).unwrap();
    let [second, third] = ["pr-2", "pr-3"].map(|node| cluster.start(node));
    let before = once(&third, "shards for each", is_spread).await;
    let workspaces = workspaces(&third).await;
    let load = Load::begin(&[&first, &second, &third], &workspaces);
    load.acknowledges(CODES).await;
    // The workspace of that node, and its key.
    let home = |id: &str| usize::from(postrider_actors::home_of(&id.parse().unwrap()) >> 14);
    let own = workspaces.iter().find(|(id, _)| owner(&before, home(id)) == "pr-1");
    let (_, key) = own.expect("each of four shards has a workspace");
    for direction in 0..2 {
        way.set(direction, true);
        let mut through_another = Client::new(second.address(), key);
        let waiting = tokio::spawn(async move {
            let phone = json!({ "phone": format!("+1555777000{direction}") });
            through_another.post("/v1/otp/send", &phone).await
        });
        // Requests through the node itself succeed; the other nodes serve their own shards.
        load.acknowledges(CODES).await;
        let body = json!({ "phone": format!("+1555778000{direction}") });
        let mut direct = Client::new(first.address(), key);
        assert_eq!(settled(&mut direct, "POST", "/v1/otp/send", &body).await.status, 200);
        let state = once(&second, "all shards", |it| it["ready"] == true).await;
        for shard in 0..4 {
            assert_eq!(owner(&state, shard), owner(&before, shard), "nobody takes over: {state}");
        }
        assert!(!waiting.is_finished(), "nothing comes through");
        way.set(direction, false);
        match waiting.await.unwrap() {
            Outcome::Answered(answer) => assert_eq!(answer.status, 200, "{answer:?}"),
            other => panic!("{other:?}"),
        }
    }
    load.acknowledges(CODES).await;
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    println!("{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}");
    for (it, node) in reports.iter().zip([&first, &second, &third].into_iter().cycle()) {
        it.check(node).await;
    }
    let state = once(&first, "all shards", |it| it["ready"] == true).await;
    assert_eq!(state["problems"], json!([]), "{state}");
}
