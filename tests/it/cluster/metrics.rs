//! The `/metrics` of a cluster's node, checked against the dashboard and the alarms.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::store::postrider_log::{Claim, claim};
use postrider_cluster::NodeName;
use postrider_cluster::clock::BootClock;
use postrider_cluster::log::{ReplicatedLog, ReplicatedOptions};
use postrider_cluster::nats::{Nats, NatsOptions, NatsStream, StreamSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::nodes::{Cluster, read, send, settled, verify, workspace};
use super::repair::{last, lose};
use super::state::{once, owner, owns, workspaces};
use super::trim;
use crate::faults::{Client, Outcome, Process};
use crate::support::eventually;

const PREFIX: &str = "postrider_cluster_";

/// Returns the metrics page of a node.
async fn page(node: &Process) -> String {
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// Returns the value of a series, by its name and a part of its labels.
fn value(page: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{']))
            && labels.iter().all(|label| line.contains(label))
    };
    page.lines().find(is_it)?.rsplit_once(' ')?.1.trim().parse().ok()
}

fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with(PREFIX) && *word != PREFIX).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_shows_its_shards_and_the_figures_of_their_engines() {
    let cluster = Cluster::made();
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let (mut client, _) = workspace(&node, "acme").await;
    let (request, code) = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &request, &code).await.0, 200);
    let text = eventually("the figures of four owned shards", async || {
        let text = page(&node).await;
        let verified = (0..4).filter_map(|shard| {
            let label = format!("shard=\"{shard}\"");
            value(&text, "postrider_otp_verified_total", &[&label])
        });
        let is_owned = |shard| {
            let label = format!("shard=\"{shard}\"");
            let of = |name: &str, more: &str| value(&text, name, &[&label, more]);
            of("postrider_cluster_shard_state", "state=\"owned\"") == Some(1.0)
                && of("postrider_cluster_shard_state", "state=\"stopped\"") == Some(0.0)
                && of("postrider_cluster_follow_lag_entries", "") == Some(0.0)
                // A node that stood still beyond its lease has claimed more than once.
                && of("postrider_cluster_epoch", "") >= Some(1.0)
                && of("postrider_storage_healthy", "") == Some(1.0)
        };
        let is_so = verified.sum::<f64>() >= 1.0 && (0..4).all(is_owned);
        is_so.then_some(text)
    })
    .await;
    let of = |name: &str| value(&text, name, &[]).unwrap_or_else(|| panic!("{name}: {text}"));
    let margin = of("postrider_cluster_lease_margin_seconds");
    assert!((0.0..=11.0).contains(&margin), "{margin}");
    assert_eq!(of("postrider_cluster_nats_connected"), 1.0);
    assert!(of("postrider_cluster_claims_total") >= 4.0, "{text}");
    assert!(of("postrider_cluster_fenced_total") >= 0.0, "{text}");
    assert_eq!(of("postrider_cluster_log_lost_total"), 0.0);
    assert_eq!(of("postrider_cluster_numbers_doubled"), 0.0);
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/monitoring").join(name);
        std::fs::read_to_string(path).unwrap()
    };
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let shown: BTreeSet<_> = described.filter(|name| name.starts_with(PREFIX)).collect();
    assert_eq!(named(&read("dashboard.json")), shown, "the dashboard shows every one");
    for name in ["alerts.yml", "alerts.test.yml"] {
        let read = read(name);
        let unknown: Vec<_> = named(&read).into_iter().filter(|it| !shown.contains(it)).collect();
        assert!(!named(&read).is_empty() && unknown.is_empty(), "{name}: {unknown:?}");
    }
}

/// Returns the value of a series as soon as it is as wished.
async fn shows(node: &Process, name: &str, labels: &[&str], is_so: impl Fn(f64) -> bool) -> f64 {
    eventually(&format!("{name} {labels:?}"), async || {
        value(&page(node).await, name, labels).filter(|value| is_so(*value))
    })
    .await
}

/// Returns the present value of a counter, which is shown from the start on.
async fn count(node: &Process, name: &str, labels: &[&str]) -> f64 {
    shows(node, name, labels, |_| true).await
}

fn shard_of(id: &str) -> usize {
    usize::from(postrider_actors::home_of(&id.parse().unwrap()) >> 14)
}

/// Returns the shard and the key of a workspace that a node owns.
fn at<'a>(state: &Value, workspaces: &'a [(String, String)], node: &str) -> (usize, &'a str) {
    let is_there = |(id, _): &&(String, String)| owner(state, shard_of(id)) == node;
    let (id, key) = workspaces.iter().find(is_there).expect("a workspace in each of its shards");
    (shard_of(id), key)
}

/// Claims a shard without its owner's knowledge, as a node may whose clock stood still.
fn claim_as_another(cluster: &Cluster, shard: usize) {
    let nats = Nats::connect(&NatsOptions {
        servers: vec![cluster.nats.address.clone()],
        credentials: None,
        name: "another".to_owned(),
        connect_within: Duration::from_secs(60),
    });
    let shard = u16::try_from(shard).unwrap();
    let spec = StreamSpec {
        cluster: NodeName::new("test").unwrap(),
        shard,
        replicas: 1,
        bytes_max: trim::STREAM_BYTES.cast_signed(),
    };
    let stream = Arc::new(NatsStream::open(&nats.unwrap(), &spec).unwrap());
    let (id, options) = (stream.id(), ReplicatedOptions::default());
    let log = ReplicatedLog::open(id, shard, stream, Arc::new(BootClock), options).unwrap();
    let (node, program) = ("another".to_owned(), String::new());
    let me = Claim { node, incarnation: [0; 16], program, readable_from: 1 };
    claim(&log, &me, 0).unwrap();
}

/// Two nodes with two shards each, and workspaces in all of them.
struct Pair {
    cluster: Cluster,
    first: Process,
    second: Process,
    workspaces: Vec<(String, String)>,
}

impl Pair {
    async fn start() -> Self {
        let cluster = Cluster::with(&trim::SETTINGS);
        let (first, second) = (cluster.start("pr-1"), cluster.start("pr-2"));
        once(&first, "two shards each", Self::is_even).await;
        let workspaces = workspaces(&first).await;
        Self { cluster, first, second, workspaces }
    }

    fn is_even(state: &Value) -> bool {
        owns(state, "pr-1", 2) && owns(state, "pr-2", 2)
    }

    /// Returns the shard of a workspace that this node owns, and a client of it through the first
    /// node.
    async fn client(&self, node: &str) -> (usize, Client) {
        let state = once(&self.first, "two shards each", Self::is_even).await;
        let (shard, key) = at(&state, &self.workspaces, node);
        (shard, Client::new(self.first.address(), key))
    }
}

const CONTACTS: &str = "/v1/contacts?limit=1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_age_of_a_checkpoint_and_what_becomes_of_requests_and_appends_are_counted() {
    let pair = Pair::start().await;
    let first = &pair.first;
    let (shard, mut near) = pair.client("pr-1").await;
    let label = format!("shard=\"{shard}\"");
    let age = "postrider_checkpoint_age_seconds";
    shows(first, age, &[&label], f64::is_nan).await;
    trim::write(&mut near, 2 << 20, &mut 0).await;
    let age = shows(first, age, &[&label], |age| age.is_finite()).await;
    assert!((0.0..600.0).contains(&age), "{age}");
    // Through the node that does not own the shard, and through the one that does.
    let (_, mut far) = pair.client("pr-2").await;
    let forwarded = "postrider_cluster_forwarded_total";
    let answered = ["result=\"answered\""];
    let [before, of_second] =
        [count(first, forwarded, &answered).await, count(&pair.second, forwarded, &answered).await];
    read(&mut far, CONTACTS).await;
    shows(first, forwarded, &answered, |it| it > before).await;
    let (_, mut near) = pair.client("pr-1").await;
    let before = count(first, forwarded, &answered).await;
    read(&mut near, CONTACTS).await;
    assert_eq!(count(first, forwarded, &answered).await, before, "its own shard");
    assert_eq!(count(&pair.second, forwarded, &answered).await, of_second, "nobody asked it");
    // NATS is stopped: writes then wait until their outcome is unknown.
    let settled = "postrider_cluster_settled_total";
    let unknown = ["outcome=\"unknown\""];
    assert_eq!(count(first, settled, &unknown).await, 0.0);
    let nats = pair.cluster.nats.names();
    pair.cluster.nats.signal(&nats, "STOP");
    let waiting =
        tokio::spawn(
            async move { near.post("/v1/otp/send", &json!({"phone": "+15550100009"})).await },
        );
    shows(first, settled, &unknown, |it| it >= 1.0).await;
    shows(first, "postrider_cluster_nats_connected", &[], |it| it == 0.0).await;
    pair.cluster.nats.signal(&nats, "CONT");
    shows(first, "postrider_cluster_nats_connected", &[], |it| it == 1.0).await;
    let outcome = waiting.await.unwrap();
    let Outcome::Answered(answer) = &outcome else { panic!("{outcome:?}") };
    assert!([200, 503].contains(&answer.status), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_that_are_replaced_or_dead_and_logs_that_lost_something_are_counted() {
    let pair = Pair::start().await;
    let first = &pair.first;
    let [fenced, failovers] =
        ["postrider_cluster_fenced_total", "postrider_cluster_failovers_total"];
    let taken = ["outcome=\"taken\""];
    let settled_total = "postrider_cluster_settled_total";
    let (shard, mut near) = pair.client("pr-1").await;
    assert_eq!(count(first, fenced, &[]).await, 0.0);
    let both =
        async || count(first, failovers, &[]).await + count(&pair.second, failovers, &[]).await;
    let before = both().await;
    claim_as_another(&pair.cluster, shard);
    let phone = json!({"phone": "+15550100009"});
    let refused = near.post("/v1/otp/send", &phone).await;
    let Outcome::Answered(answer) = &refused else { panic!("{refused:?}") };
    assert_eq!(answer.status, 503, "it was replaced: {answer:?}");
    assert_eq!(shows(first, fenced, &[], |it| it >= 1.0).await, 1.0);
    assert!(count(first, settled_total, &taken).await >= 1.0);
    // Nobody renews the other node's key, so a node takes the shard back.
    let (_, mut near) = pair.client("pr-1").await;
    settled(&mut near, "POST", "/v1/otp/send", &phone).await;
    eventually("it is counted", async || (both().await > before).then_some(())).await;
    // A dead owner does not answer, and is then replaced.
    let (_, mut far) = pair.client("pr-2").await;
    let [no_owner, forwarded] =
        ["postrider_cluster_no_owner_total", "postrider_cluster_forwarded_total"];
    let refusals = count(first, no_owner, &[]).await;
    let before = count(first, failovers, &[]).await;
    let Pair { cluster, first, second, workspaces } = pair;
    second.kill();
    let refused = far.get(CONTACTS).await;
    let Outcome::Answered(answer) = &refused else { panic!("{refused:?}") };
    assert_eq!((answer.status, &answer.body["reason"]), (503, &json!("no_owner")), "{answer:?}");
    shows(&first, no_owner, &[], |it| it > refusals).await;
    shows(&first, forwarded, &["result=\"not_taken\""], |it| it >= 1.0).await;
    let state = once(&first, "all shards", |it| owns(it, "pr-1", 4)).await;
    shows(&first, failovers, &[], |it| it >= before + 2.0).await;
    // A log ends before the last acknowledged entry.
    let lost = "postrider_cluster_log_lost_total";
    assert_eq!(count(&first, lost, &[]).await, 0.0);
    let (shard, key) = at(&state, &workspaces, "pr-1");
    let shard = u64::try_from(shard).unwrap();
    let kept = last(&cluster, shard);
    let mut client = Client::new(first.address(), key);
    settled(&mut client, "POST", "/v1/otp/send", &phone).await;
    lose(&cluster, shard, kept);
    drop(client.post("/v1/otp/send", &phone).await);
    assert_eq!(shows(&first, lost, &[], |it| it >= 1.0).await, 1.0);
    let label = format!("shard=\"{shard}\"");
    let stopped = [label.as_str(), "state=\"stopped\""];
    shows(&first, "postrider_cluster_shard_state", &stopped, |it| it == 1.0).await;
}
