//! What a node of a cluster shows at `/metrics`, held against the dashboard and the alarms.

use std::collections::BTreeSet;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::nodes::{Cluster, send, verify, workspace};
use super::state::once;
use crate::faults::Process;
use crate::support::eventually;

const PREFIX: &str = "postrider_cluster_";

/// The page of a node.
async fn page(node: &Process) -> String {
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The value of a series, by its name and what its labels have.
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
                && of("postrider_cluster_follow_lag_entries", "") == Some(0.0)
        };
        let is_so = verified.sum::<f64>() >= 1.0 && (0..4).all(is_owned);
        is_so.then_some(text)
    })
    .await;
    for shard in 0..4 {
        let label = format!("shard=\"{shard}\"");
        let of = |name: &str, more: &str| value(&text, name, &[&label, more]);
        assert_eq!(of("postrider_cluster_shard_state", "state=\"stopped\""), Some(0.0));
        // One that stood still beyond its lease has claimed more than once.
        assert!(of("postrider_cluster_epoch", "") >= Some(1.0), "{text}");
        assert_eq!(of("postrider_storage_healthy", ""), Some(1.0));
    }
    let of = |name: &str| value(&text, name, &[]).unwrap_or_else(|| panic!("{name}: {text}"));
    let margin = of("postrider_cluster_lease_margin_seconds");
    assert!((0.0..=11.0).contains(&margin), "{margin}");
    assert_eq!(of("postrider_cluster_nats_connected"), 1.0);
    assert!(of("postrider_cluster_claims_total") >= 4.0, "{text}");
    assert!(of("postrider_cluster_fenced_total") >= 0.0, "{text}");
    assert_eq!(of("postrider_cluster_log_lost_total"), 0.0);
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
