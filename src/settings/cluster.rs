//! The section of a cluster: its keys, and the other settings that a node of a cluster needs.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "cluster")]
use postrider_cluster::NodeName;

use super::Settings;
use super::layers::{KeySpec, Layers, SectionSpec, SettingsError, section};
use super::value::{self, Raw, Rule};

section! {
    /// The cluster that this node is of. Without `nats` the server is a single node.
    Cluster = "cluster"
    /// Name of the cluster.
    name: String = "postrider", name();
    /// NATS servers that keep the cluster's logs. With `tls://` nothing is sent that is not
    /// encrypted. Empty: a single node, and the rest of this section is unused.
    nats: Vec<String> = "", servers();
    /// File of NATS credentials. Empty: none.
    credentials: Option<PathBuf> = "", value::path().or("");
    /// Roots, in PEM, of the certificates of the NATS servers and of their monitoring addresses.
    /// With it nothing is sent to NATS that is not encrypted. Empty: those of the system.
    nats_ca: Option<PathBuf> = "", value::path().or("");
    /// Monitoring addresses of the NATS servers. A node reads there that each server syncs every
    /// message.
    monitor: Vec<String> = "", monitor();
    /// Assumes that every server syncs every message, although no address of `monitor` shows it.
    assume_synced: bool = false, value::flag();
    /// Accepts a single NATS server, for trying a cluster. When its disk is lost, all is lost.
    allow_unreplicated: bool = false, value::flag();
    /// Name of this node, which no other node may have. A cluster needs it.
    node: Option<String> = "", name().or("");
    /// Zone that fails together with this node, such as its data centre. Shards are followed from
    /// other zones first.
    zone: String = "", zone();
    /// Address at which this node listens for the other nodes. Without the three settings of TLS
    /// below it is not encrypted: let nobody else reach it.
    listen: SocketAddr = "127.0.0.1:8081", value::address("\"10.0.0.1:8081\"");
    /// Address at which the other nodes reach this one. Empty: at `listen`.
    advertise: Option<String> = "", host_and_port().or("");
    /// Certificate of this node and its chain, in PEM. It is for the name or address by which the
    /// other nodes reach this one. Nodes show theirs to each other, and to NATS servers that ask
    /// for one. All three settings of TLS are given, for all nodes, or none.
    tls_cert: Option<PathBuf> = "", value::path().or("");
    /// Private key of `tls_cert`, in PEM. A key that every local user may read stops the start.
    tls_key: Option<PathBuf> = "", value::path().or("");
    /// Roots, in PEM, of the certificates of all nodes, and of nothing else.
    tls_ca: Option<PathBuf> = "", value::path().or("");
    /// Shards that `postrider cluster init` creates. Their number is fixed from then on.
    shards: u16 = 32, shards();
    /// Nodes that follow each shard, ready to own it.
    standbys: usize = 1, value::whole(0..=8);
    /// Time that other nodes wait for a silent one before they take its shards over.
    lease_seconds: u64 = 13, value::number("seconds", 13..=60);
    /// Time that a request waits for an owner of its shard; then 503 with the reason `no_owner`.
    hold_ms: Duration = 2000, value::number("milliseconds", 0..=30_000).map(Duration::from_millis);
    /// Place of the checkpoints of shards: "nats", beside the logs, or a directory that all nodes
    /// share. `postrider cluster init` fixes it.
    checkpoints: Option<PathBuf> = "nats", checkpoints().or("nats");
    /// Most bytes of a shard's stream, all of which NATS reserves. `postrider cluster init` fixes
    /// it. A checkpoint is made each quarter at the latest, and always once the stream is half
    /// full. Then the log is trimmed to the checkpoint before. A shard that is written faster
    /// refuses more until the next checkpoint.
    stream_bytes_max: i64 = 2_147_483_648, value::bytes(16 << 20..=1 << 40);
    /// Most bytes of the contents of all files in the cluster, all of which NATS reserves. Uploads
    /// beyond them are answered 503. `postrider cluster init` makes the room, and more of it after
    /// this was raised. The room is never made smaller.
    files_bytes_max: i64 = 17_179_869_184, value::bytes(16 << 20..=1 << 50);
}

/// The numbers of shards that a cluster may have, if they are powers of two.
const SHARDS_ALLOWED: RangeInclusive<u16> = 4..=512;

/// The allowed names of clusters and nodes.
const NAME_ALLOWED: &str = "1 to 32 of a-z, 0-9 and -";

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

fn name() -> Rule<String> {
    Rule::new(NAME_ALLOWED, |raw| {
        let text = raw.as_text()?;
        #[cfg(feature = "cluster")]
        NodeName::new(text).ok()?;
        Some(text.to_owned())
    })
}

/// Allows NATS servers: with or without TLS, but all of them the same.
fn servers() -> Rule<Vec<String>> {
    let items = "addresses with commas between, such as \"nats://n1:4222, nats://n2:4222, \
                 nats://n3:4222\", each with nats:// or each with tls://";
    let clear = addresses(items, &["nats://"]);
    let encrypted = addresses(items, &["tls://"]);
    Rule::new(clear.allowed.clone(), move |raw| clear.read(raw).or_else(|| encrypted.read(raw)))
}

fn monitor() -> Rule<Vec<String>> {
    let items = "addresses with commas between, such as \"http://n1:8222, \
                 http://n2:8222, http://n3:8222\"";
    addresses(items, &["http://", "https://"])
}

/// Allows addresses with one of these schemes, separated by commas.
fn addresses(items: &str, schemes: &'static [&'static str]) -> Rule<Vec<String>> {
    value::list(items, |part| {
        let rest = schemes.iter().find_map(|scheme| part.strip_prefix(scheme))?;
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
        let is_one = !host.is_empty() && !host.contains(['/', ' ', '@']);
        (is_one && port.parse::<u16>().is_ok()).then(|| part.to_owned())
    })
}

fn zone() -> Rule<String> {
    Rule::new("a text of at most 64 characters", |raw| {
        raw.as_text().filter(|text| text.chars().count() <= 64).map(str::to_owned)
    })
}

fn host_and_port() -> Rule<String> {
    let allowed = "a name or an address and a port, such as \"pr-1.internal:8081\"";
    Rule::new(allowed, |raw| {
        let text = raw.as_text()?;
        let (host, port) = text.rsplit_once(':')?;
        let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
        (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| text.to_owned())
    })
}

fn shards() -> Rule<u16> {
    let (least, most) = (*SHARDS_ALLOWED.start(), *SHARDS_ALLOWED.end());
    let number = value::whole(least.into()..=most.into());
    Rule::new(format!("a power of two from {least} to {most}"), move |raw| {
        number.read(raw).filter(|shards: &u16| shards.is_power_of_two())
    })
}

fn checkpoints() -> Rule<PathBuf> {
    let allowed = "a directory that all nodes share, such as \"file:///mnt/checkpoints\"; nothing \
                   else, such as s3://, can keep them";
    Rule::new(allowed, |raw| {
        let path = raw.as_text()?.strip_prefix("file://").filter(|path| path.starts_with('/'))?;
        Some(path.into())
    })
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
            (self.cluster.node.is_some(), "cluster", "node", NAME_ALLOWED),
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
