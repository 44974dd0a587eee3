//! Alarms and the dashboard use only existing metrics, and every metric is watched.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestServer, eventually};

/// The suffixes that Prometheus adds to the name of a histogram.
const PARTS: [&str; 3] = ["_bucket", "_count", "_sum"];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the names of metrics in a text: words with the prefix of ours.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let ours = words.filter(|word| word.starts_with("postrider_"));
    // A crate and a function of the examples have such names. The further metrics of a cluster's
    // node are compared in the tests of a cluster.
    let others = ["postrider_actors", "postrider_cluster"];
    ours.filter(|word| !others.iter().any(|other| word.starts_with(other))).collect()
}

/// Returns the metrics of a server in use, as series and as they are described.
async fn metrics() -> (BTreeSet<String>, BTreeSet<String>) {
    let server = TestServer::start().await;
    let demo = server.demo();
    let numbers = "/admin/v1/workspaces/demo/numbers";
    let found = server.admin().get(numbers).await.ok();
    let number = format!("{numbers}/{}", found["data"][0]["id"].as_str().unwrap());
    // Messages through the number then count.
    let change = json!({"portfolio_id": "demo"});
    server.admin().send_json("PATCH", &number, &change).await.ok();
    demo.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    server.admin().put("/admin/v1/workspaces/demo/sms", json!({"kind": "sandbox"})).await.ok();
    demo.post("/v1/sandbox/outcomes", json!({"to": "*", "outcome": "failed"})).await.ok();
    let chain = json!({"phone": "+15550123456", "channels": ["messaging", "sms"]});
    demo.post("/v1/otp/send", chain).await.ok();
    let text = eventually("a step that followed another", async || {
        let text = server.stranger().get("/metrics").await.text();
        let is_there = |series| text.contains(series);
        let is_all = is_there("postrider_otp_failover_seconds_count 1")
            && is_there("postrider_portfolio_used{");
        is_all.then_some(text)
    });
    let text = text.await;
    let samples = text.lines().filter(|line| line.starts_with("postrider_"));
    let series = samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned);
    let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    (series.collect(), described.map(str::to_owned).collect())
}

fn base(series: &str) -> &str {
    PARTS.iter().find_map(|part| series.strip_suffix(part)).unwrap_or(series)
}

#[tokio::test]
async fn alarms_the_dashboard_and_the_documents_name_metrics_that_exist() {
    let (series, described) = metrics().await;
    assert!(described.len() > 20, "{described:?}");
    let dashboard = read("packaging/monitoring/dashboard.json");
    let alerts = read("packaging/monitoring/alerts.yml");
    let tests = read("packaging/monitoring/alerts.test.yml");
    for (name, text) in [("dashboard", &dashboard), ("alerts", &alerts), ("tests", &tests)] {
        let unknown: Vec<_> = named(text).into_iter().filter(|it| !series.contains(*it)).collect();
        assert!(!named(text).is_empty() && unknown.is_empty(), "{name}: {unknown:?}");
    }
    let operating = read("docs/operating.md");
    let unknown: Vec<_> =
        named(&operating).into_iter().filter(|it| !described.contains(*it)).collect();
    assert!(unknown.is_empty(), "docs/operating.md: {unknown:?}");
    let shown: BTreeSet<_> = named(&dashboard).into_iter().map(base).collect();
    let missing: Vec<_> = described.iter().filter(|it| !shown.contains(it.as_str())).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
}

#[test]
fn the_dashboard_is_one_that_can_be_imported() {
    let dashboard: Value =
        serde_json::from_str(&read("packaging/monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let targets = panel["targets"].as_array().map_or(0, Vec::len);
        assert!(targets > 0 || panel["type"] == "row", "{} shows nothing", panel["title"]);
    }
    assert!(panels.len() > 20);
}

#[test]
fn every_alarm_leads_to_what_is_to_be_done() {
    let alerts = read("packaging/monitoring/alerts.yml");
    let operating = read("docs/operating.md").to_lowercase();
    let mut count = 0;
    for (at, line) in alerts.lines().enumerate() {
        if let Some(link) = line.trim().strip_prefix("runbook: ") {
            let (path, anchor) = link.split_once('#').unwrap();
            assert_eq!(path, "docs/operating.md");
            let heading = format!("\n## {}\n", anchor.replace('-', " "));
            assert!(operating.contains(&heading), "alerts.yml:{}: {link}", at + 1);
            count += 1;
        }
    }
    assert_eq!(count, alerts.matches("- alert: ").count());
    assert_eq!(count, alerts.matches("summary: ").count());
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let row = format!("| `{}` |", name.to_lowercase());
        assert!(operating.contains(&row), "docs/operating.md has no row for {name}");
    }
}
