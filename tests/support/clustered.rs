//! Servers of tests as one-node clusters, where `POSTRIDER_TEST_CLUSTER` names NATS servers.

use std::sync::OnceLock;

use postrider::settings::Settings;
use postrider::{BootError, ClusterError, ClusterNode, init_cluster};
use postrider_actors::random;
use serde_json::json;

use super::{TestServer, eventually};

/// The address of a NATS server that always syncs, a space, and the address of its monitor.
const NATS: &str = "POSTRIDER_TEST_CLUSTER";
/// Every cluster has a name of its own in the same NATS.
const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Returns the addresses of NATS and of its monitor, if servers are to be nodes.
pub fn nats() -> Option<(&'static str, &'static str)> {
    static ADDRESSES: OnceLock<Option<String>> = OnceLock::new();
    ADDRESSES.get_or_init(|| std::env::var(NATS).ok()).as_deref()?.split_once(' ')
}

/// Returns the settings that make a server the only node of a cluster of its own.
pub fn settings() -> Vec<(String, String)> {
    let Some((nats, monitor)) = nats() else { return Vec::new() };
    let name: String = random::bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    [
        ("CLUSTER__NAME", &*name),
        ("CLUSTER__NATS", nats),
        ("CLUSTER__MONITOR", monitor),
        ("CLUSTER__ALLOW_UNREPLICATED", "true"),
        ("CLUSTER__NODE", "pr-1"),
        ("CLUSTER__LISTEN", "127.0.0.1:0"),
        ("CLUSTER__SHARDS", "4"),
        ("CLUSTER__STREAM_BYTES_MAX", "67108864"),
        ("CLUSTER__FILES_BYTES_MAX", "134217728"),
        ("SECRETS__MASTER_KEY", MASTER_KEY),
        ("ADMIN__TOKEN", "the-token-of-administrators"),
    ]
    .map(|(key, value)| (format!("POSTRIDER__{key}"), value.to_owned()))
    .into()
}

/// Creates the cluster, unless it exists, and starts its node.
pub async fn start(settings: Settings) -> Result<ClusterNode, ClusterError> {
    init_cluster(&settings).await?;
    ClusterNode::start(settings).await
}

/// Returns whether the previous process still holds the data.
pub fn is_held(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Boot(BootError::InUse(_)))
}

impl TestServer {
    /// Waits until it owns all shards, and creates the demo workspace, which a node does not.
    pub(super) async fn complete(&self) {
        let admin = self.admin();
        eventually("all shards", async || {
            let mut connection = self.connect().await;
            connection.send(admin.request("GET", "/admin/v1/cluster", &[], &[])).await;
            let state = connection.reply().await?.ok();
            (state["ready"] == true).then_some(())
        })
        .await;
        let file = self.data_dir().join("demo.key");
        if file.exists() {
            return self.link_owner().await;
        }
        self.workspace("demo").await;
        let path = "/admin/v1/workspaces/demo";
        admin.put(&format!("{path}/credits"), json!({"credits": 1_000_000})).await.ok();
        for (name, category, status, text) in TEMPLATES {
            let components = json!([{"type": "BODY", "text": text}]);
            let template = json!({"name": name, "language": "en", "category": category,
                "status": status, "components": components});
            admin.post(&format!("{path}/templates"), template).await.ok();
        }
        let key = json!({"name": "demo", "scopes": super::SCOPES});
        let key = admin.post(&format!("{path}/keys"), key).await.ok();
        std::fs::write(file, key["key"].as_str().unwrap()).unwrap();
        self.link_owner().await;
    }

    /// Creates the link that a single node has in its banner, if there are people.
    async fn link_owner(&self) {
        let owner = json!({"email": "owner@localhost", "operator": true, "workspace": "demo",
            "role": "owner"});
        let made = self.admin().post("/admin/v1/users/link", owner).await;
        if made.status == 201 {
            let link = made.ok()["url"].as_str().unwrap().replace("/ui/#", "/ui/phone#");
            *self.link.lock().unwrap() = format!("\n  dashboard     {link}\n");
        }
    }
}

impl TestServer {
    /// Moves the clocks of the other shards as far as that of the demo workspace. Each shard has
    /// its own.
    pub(super) async fn follow(&self, offset: u64) {
        if nats().is_none() {
            return;
        }
        let clients = self.clients.lock().unwrap().clone();
        for client in clients {
            let clock = client.get("/v1/sandbox/clock").await;
            if clock.status != 200 {
                // Its key was revoked, or has no scope for it.
                continue;
            }
            let own = clock.ok()["offset_seconds"].as_u64().unwrap();
            let body = json!({"advance_seconds": offset.saturating_sub(own)});
            client.post("/v1/sandbox/clock", body).await.ok();
        }
    }
}

/// Returns the value of a series on a page of metrics: for a node, the sum of all its engines.
pub fn figure(page: &str, series: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let (of, value) = line.rsplit_once(' ')?;
        let is_it = without_shard(of) == series;
        is_it.then(|| value.parse::<f64>().ok()).flatten()
    });
    values.filter(|value| !value.is_nan()).reduce(|all, one| all + one)
}

/// Returns the name of a series without the label that distinguishes engines.
fn without_shard(series: &str) -> String {
    let Some((name, labels)) = series.strip_suffix('}').and_then(|it| it.split_once('{')) else {
        return series.to_owned();
    };
    let labels: Vec<_> = labels.split(',').filter(|it| !it.starts_with("shard=")).collect();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// The templates of a single node's demo workspace.
const TEMPLATES: [(&str, &str, &str, &str); 6] = [
    ("otp_code", "authentication", "approved", "{{1}} is your verification code."),
    ("welcome", "utility", "approved", "Welcome! We are glad that you are here."),
    ("order_update", "utility", "approved", "Hello {{1}}, your order {{2}} is on its way."),
    ("spring_sale", "marketing", "approved", "Our spring sale has begun: 20% off everything."),
    ("promo_pending", "marketing", "pending", "A promotion that the channel has not decided on."),
    ("promo_rejected", "marketing", "rejected", "A promotion that the channel has refused."),
];
