//! How the settings reach a cluster, and how one is made.

use postrider_actors::{MasterKeys, random};
use postrider_cluster::nats::NatsOptions;
use postrider_cluster::nats::preflight::Requirements;
use postrider_cluster::{Access, ClusterRecord, NodeName, init};

use super::error::ClusterError;
use super::identity::hex;
use super::peers::Peers;
use crate::settings::Settings;

/// The longest that a check of NATS may take at each server.
const CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);
/// What the fingerprint of a master key is derived for.
const FINGERPRINT: &[u8] = b"cluster fingerprint";
/// What the token between nodes is derived for.
const TOKEN: &[u8] = b"cluster token";

/// What `postrider cluster init` made, or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMade {
    /// The cluster's name.
    pub cluster: String,
    /// Its identity.
    pub id: String,
    /// How many shards it has.
    pub shards: u16,
    /// How many servers keep each of its logs.
    pub replicas: usize,
    /// Whether it was made just now.
    pub created: bool,
}

/// Makes the cluster of the settings in NATS, unless it is there with the same settings.
///
/// # Errors
/// [`ClusterError`]: NATS is not what it must be, or the cluster is there with other settings.
pub async fn init_cluster(settings: &Settings) -> Result<ClusterMade, ClusterError> {
    let keys = master_keys(settings).ok_or(ClusterError::NoServers)?;
    let access = access(settings, &keys)?;
    let wanted = ClusterRecord {
        id: hex(&random::bytes::<16>()),
        shards: settings.cluster.shards,
        replicas: access.requirements.replicas(),
        stream_bytes_max: settings.cluster.stream_bytes_max,
        key: access.keys.first().cloned().unwrap_or_default(),
    };
    let peers = Peers::new(token(&keys));
    let cluster = access.cluster.to_string();
    let made = tokio::task::spawn_blocking(move || init(&access, &wanted, &peers)).await?;
    let (ClusterRecord { id, shards, replicas, .. }, created) = made?;
    Ok(ClusterMade { cluster, id, shards, replicas, created })
}

/// The master keys of the settings: a cluster makes none.
pub(super) fn master_keys(settings: &Settings) -> Option<MasterKeys> {
    let secrets = &settings.secrets;
    let current = (secrets.master_key_version, secrets.master_key?);
    let all = secrets.previous_master_keys.iter().copied().chain([current]);
    settings.cluster.is_on().then_some(())?;
    MasterKeys::new(all.map(|(version, key)| (version, key.reveal())))
}

/// What nodes show each other.
pub(super) fn token(keys: &MasterKeys) -> String {
    hex(&keys.current_for(TOKEN).1)
}

/// How the cluster of the settings is reached.
pub(super) fn access(settings: &Settings, keys: &MasterKeys) -> Result<Access, ClusterError> {
    let cluster = &settings.cluster;
    if !cluster.is_on() {
        return Err(ClusterError::NoServers);
    }
    let mut keys: Vec<_> = keys.all_for(FINGERPRINT).map(|(_, key)| hex(&key[..8])).collect();
    keys.reverse();
    Ok(Access {
        cluster: NodeName::new(&cluster.name)?,
        nats: NatsOptions {
            servers: cluster.nats.clone(),
            credentials: cluster.credentials.clone(),
            name: format!("postrider {}", cluster.node.as_deref().unwrap_or_default()),
            connect_within: CONNECT_WITHIN,
        },
        requirements: Requirements {
            monitor: cluster.monitor.clone(),
            assume_synced: cluster.assume_synced,
            allow_unreplicated: cluster.allow_unreplicated,
        },
        keys,
    })
}
