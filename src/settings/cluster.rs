//! The section of a cluster: type, parser and allowed values of each key, and what goes with it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_cluster::NodeName;
use postrider_cluster::cluster_record::SHARDS_ALLOWED;

use super::declare::{SectionSpec, section};
use super::error::{Refusal, SettingsError};
use super::value::{self, Raw};

section! {
    /// The cluster that this node is of. Without `nats` it is a single node.
    Cluster = "cluster"
    /// What the cluster is called.
    name: String = name, "1 to 32 of a-z, 0-9 and -";
    /// The NATS servers. Empty: a single node.
    nats: Vec<String> = list("nats://"),
        "empty, or addresses with commas between, such as \"nats://n1:4222, nats://n2:4222\"";
    /// File of NATS credentials.
    credentials: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// Where it is read whether the servers sync always.
    monitor: Vec<String> = list("http://"),
        "empty, or addresses with commas between, such as \"http://n1:8222, http://n2:8222\"";
    /// Whether the servers sync always, although no address shows it.
    assume_synced: bool = value::flag, "true or false";
    /// Whether one NATS server is enough.
    allow_unreplicated: bool = value::flag, "true or false";
    /// What this node is called. `None`: needed in a cluster.
    node: Option<String> = value::optional(name),
        "1 to 32 of a-z, 0-9 and -; it must be given in a cluster";
    /// What fails together with this node.
    zone: String = zone, "a text of at most 64 characters";
    /// Where this node listens for other nodes.
    listen: SocketAddr = value::address, "an IP address and a port, such as \"10.0.0.1:8081\"";
    /// Where other nodes reach it. `None`: at `listen`.
    advertise: Option<String> = value::optional(host_and_port),
        "empty, or a name or an address and a port, such as \"pr-1.internal:8081\"";
    /// How many shards `cluster init` makes.
    shards: u16 = shards, "a power of two from 4 to 512";
    /// How many nodes follow each shard, ready to own it.
    standbys: usize = value::whole(0..=8), "a whole number from 0 to 8";
    /// How long a node's lease lives without a renewal.
    lease_seconds: u64 = value::whole(13..=60), "a whole number from 13 to 60";
    /// How long a request waits for an owner of its shard.
    hold_ms: Duration = hold, "a whole number from 0 to 30000";
    /// Most bytes of a shard's stream, for `cluster init`.
    stream_bytes_max: i64 = stream_bytes, "a whole number from 16777216 to 1099511627776";
}

impl Cluster {
    /// Whether this is a node of a cluster.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !self.nats.is_empty()
    }
}

fn name(raw: &Raw) -> Option<String> {
    NodeName::new(raw.as_text()?).ok().map(|name| name.to_string())
}

/// Addresses with this scheme, with commas between.
fn list(scheme: &'static str) -> impl Fn(&Raw) -> Option<Vec<String>> {
    move |raw| {
        let parts = raw.as_text()?.split(',').map(str::trim).filter(|part| !part.is_empty());
        let address = |part: &str| {
            let (host, port) = part.strip_prefix(scheme)?.trim_end_matches('/').rsplit_once(':')?;
            let is_one = !host.is_empty() && !host.contains(['/', ' ', '@']);
            (is_one && port.parse::<u16>().is_ok()).then(|| part.to_owned())
        };
        parts.map(address).collect()
    }
}

fn zone(raw: &Raw) -> Option<String> {
    raw.as_text().filter(|text| text.chars().count() <= 64).map(str::to_owned)
}

fn host_and_port(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    let (host, port) = text.rsplit_once(':')?;
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
    (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| text.to_owned())
}

fn shards(raw: &Raw) -> Option<u16> {
    value::whole(0..=u64::from(u16::MAX))(raw)
        .filter(|it: &u16| it.is_power_of_two() && SHARDS_ALLOWED.contains(it))
}

fn hold(raw: &Raw) -> Option<Duration> {
    value::whole(0..=30_000)(raw).map(Duration::from_millis)
}

fn stream_bytes(raw: &Raw) -> Option<i64> {
    let bytes: u64 = value::whole(16 << 20..=1 << 40)(raw)?;
    i64::try_from(bytes).ok()
}
