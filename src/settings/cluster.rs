//! The section of a cluster: its keys, and the other settings that a node of a cluster needs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "cluster")]
use postrider_cluster::NodeName;

use super::Settings;
use super::layers::{Layers, SectionSpec, SettingsError, ValueRefusal, section};
use super::value::{self, Raw};

section! {
    /// The cluster that this node is of. Without `nats` it is a single node.
    Cluster = "cluster"
    /// What the cluster is called.
    name: String = name, "1 to 32 of a-z, 0-9 and -";
    /// The NATS servers. Empty: a single node.
    nats: Vec<String> = servers,
        "empty, or addresses with commas between, such as \"nats://n1:4222, nats://n2:4222\", \
         each with nats:// or each with tls://";
    /// File of NATS credentials.
    credentials: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// Roots of the certificates of the NATS servers.
    nats_ca: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// Where it is read whether the servers sync always.
    monitor: Vec<String> = list(&["http://", "https://"]),
        "empty, or addresses with commas between, such as \"http://n1:8222, https://n2:8222\"";
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
    /// The node's certificate, for other nodes.
    tls_cert: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// The private key of that.
    tls_key: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// Roots of the certificates of all nodes.
    tls_ca: Option<PathBuf> = value::optional(value::path), "empty, or a path";
    /// How many shards `cluster init` makes.
    shards: u16 = shards, "a power of two from 4 to 512";
    /// How many nodes follow each shard, ready to own it.
    standbys: usize = value::whole(0..=8), "a whole number from 0 to 8";
    /// How long a node's lease lives without a renewal.
    lease_seconds: u64 = value::whole(13..=60), "a whole number from 13 to 60";
    /// How long a request waits for an owner of its shard.
    hold_ms: Duration = hold, "a whole number from 0 to 30000";
    /// The directory of the checkpoints of shards. `None`: they are in NATS.
    checkpoints: Option<PathBuf> = checkpoints,
        "\"nats\", or a directory that all nodes share, such as \"file:///mnt/checkpoints\"; nothing \
         else, such as s3://, can keep them";
    /// Most bytes of a shard's stream, for `cluster init`.
    stream_bytes_max: i64 = stream_bytes, "a whole number from 16777216 to 1099511627776";
    /// Most bytes of the contents of all files, for whoever makes their stream.
    files_bytes_max: i64 = files_bytes, "a whole number from 16777216 to 1125899906842624";
}

impl Cluster {
    /// Returns whether this is a node of a cluster.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !self.nats.is_empty()
    }

    /// Returns the node's certificate, its key, and the roots of the nodes' certificates.
    ///
    /// `None` if the traffic between nodes is not encrypted.
    #[must_use]
    pub fn tls(&self) -> Option<[&PathBuf; 3]> {
        Some([self.tls_cert.as_ref()?, self.tls_key.as_ref()?, self.tls_ca.as_ref()?])
    }
}

fn name(raw: &Raw) -> Option<String> {
    let text = raw.as_text()?;
    #[cfg(feature = "cluster")]
    NodeName::new(text).ok()?;
    Some(text.to_owned())
}

/// Parses NATS servers: with or without TLS, but all of them the same.
fn servers(raw: &Raw) -> Option<Vec<String>> {
    list(&["nats://"])(raw).or_else(|| list(&["tls://"])(raw))
}

/// Parses addresses with one of these schemes, separated by commas.
fn list(schemes: &'static [&'static str]) -> impl Fn(&Raw) -> Option<Vec<String>> {
    move |raw| {
        let parts = raw.as_text()?.split(',').map(str::trim).filter(|part| !part.is_empty());
        let address = |part: &str| {
            let rest = schemes.iter().find_map(|scheme| part.strip_prefix(scheme))?;
            let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
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
        .filter(|it: &u16| it.is_power_of_two() && (4..=512).contains(it))
}

fn hold(raw: &Raw) -> Option<Duration> {
    value::whole(0..=30_000)(raw).map(Duration::from_millis)
}

fn checkpoints(raw: &Raw) -> Option<Option<PathBuf>> {
    match raw.as_text()? {
        "nats" => Some(None),
        text => {
            let path = text.strip_prefix("file://").filter(|path| path.starts_with('/'))?;
            Some(Some(path.into()))
        }
    }
}

fn stream_bytes(raw: &Raw) -> Option<i64> {
    let bytes: u64 = value::whole(16 << 20..=1 << 40)(raw)?;
    i64::try_from(bytes).ok()
}

fn files_bytes(raw: &Raw) -> Option<i64> {
    let bytes: u64 = value::whole(16 << 20..=1 << 50)(raw)?;
    i64::try_from(bytes).ok()
}

impl Settings {
    /// Checks the settings that a cluster requires, and those that it does not support.
    ///
    /// # Errors
    /// [`SettingsError::BadValue`] of the first setting that does not fit.
    pub(super) fn check_cluster(&self, layers: &Layers) -> Result<(), SettingsError> {
        if !self.cluster.is_on() {
            return Ok(());
        }
        #[cfg(not(feature = "cluster"))]
        return Err(SettingsError::BadValue {
            origin: layers.origin("cluster", "nats"),
            key: "cluster.nats".to_owned(),
            allowed: "empty: this program was built without the feature `cluster`".to_owned(),
        });
        #[cfg(feature = "cluster")]
        self.check_node(layers)
    }

    /// Checks the settings of a node of a cluster.
    #[cfg(feature = "cluster")]
    fn check_node(&self, layers: &Layers) -> Result<(), SettingsError> {
        let Cluster { tls_cert, tls_key, tls_ca, .. } = &self.cluster;
        let is_clear = [tls_cert, tls_key, tls_ca].iter().all(|file| file.is_none());
        let fits = |file: &Option<PathBuf>| file.is_some() || is_clear;
        let needs = [
            (self.cluster.node.is_some(), "cluster", "node", "1 to 32 of a-z, 0-9 and -"),
            (
                self.secrets.master_key.is_some(),
                "secrets",
                "master_key",
                "given in a cluster: the same 64 hexadecimal digits for every node",
            ),
            (self.admin.token.is_some(), "admin", "token", "given, the same text for every node"),
            (
                self.admin.listen.is_none(),
                "admin",
                "listen",
                "empty in a cluster, where operators have no listener of their own yet",
            ),
            (
                fits(tls_cert),
                "cluster",
                "tls_cert",
                "a path, as for cluster.tls_key and cluster.tls_ca: all three are given, or none",
            ),
            (
                fits(tls_key),
                "cluster",
                "tls_key",
                "a path, as for cluster.tls_cert and cluster.tls_ca: all three are given, or none",
            ),
            (
                fits(tls_ca),
                "cluster",
                "tls_ca",
                "a path, as for cluster.tls_cert and cluster.tls_key: all three are given, or none",
            ),
            (
                self.traces.endpoint.is_none(),
                "traces",
                "endpoint",
                "empty in a cluster, where no request is followed yet",
            ),
        ];
        match needs.into_iter().find(|(is_kept, ..)| !is_kept) {
            None => Ok(()),
            Some((_, section, key, allowed)) => Err(SettingsError::BadValue {
                origin: layers.origin(section, key),
                key: format!("{section}.{key}"),
                allowed: allowed.to_owned(),
            }),
        }
    }
}
