//! Converts the settings for a cluster, and makes a cluster.

use postrider_actors::{MasterKeys, random};
use postrider_cluster::nats::preflight::Requirements;
use postrider_cluster::nats::{NatsCredentials, NatsOptions};
use postrider_cluster::{Access, CheckpointStore, ClusterRecord, NodeName, init};

use sha2::{Digest as _, Sha256};

use super::error::ClusterError;
use super::identity::hex;
use super::peers::Peers;
use crate::settings::Settings;

/// The maximum time of a check of NATS at each server.
const CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);
/// The purpose for which the fingerprint of a master key is derived.
const FINGERPRINT: &[u8] = b"cluster fingerprint";
/// The purpose for which the token between nodes is derived.
const TOKEN: &[u8] = b"cluster token";

/// The result of `postrider cluster init`: the cluster that it made or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMade {
    /// The cluster's name.
    pub cluster: String,
    /// Its identity.
    pub id: String,
    /// The number of its shards.
    pub shards: u16,
    /// The number of servers that store each of its logs.
    pub replicas: usize,
    /// Set if it was made just now.
    pub created: bool,
}

/// Makes the cluster of the settings in NATS, unless it exists with the same settings.
///
/// # Errors
/// [`ClusterError`]: NATS does not meet the requirements, or the cluster has other settings.
pub async fn init_cluster(settings: &Settings) -> Result<ClusterMade, ClusterError> {
    let keys = master_keys(settings).ok_or(ClusterError::NoServers)?;
    let access = access(settings, &keys)?;
    let wanted = ClusterRecord {
        id: hex(&random::bytes::<16>()),
        shards: settings.cluster.shards,
        replicas: access.requirements.replicas(),
        stream_bytes_max: settings.cluster.stream_bytes_max,
        key: access.keys.first().cloned().unwrap_or_default(),
        checkpoints: access.checkpoints.kind(),
    };
    let peers = Peers::new(token(&keys), &settings.cluster)?;
    let cluster = access.cluster.to_string();
    let made = tokio::task::spawn_blocking(move || init(&access, &wanted, &peers)).await?;
    let (ClusterRecord { id, shards, replicas, .. }, created) = made?;
    Ok(ClusterMade { cluster, id, shards, replicas, created })
}

/// Returns the master keys of the settings, because a cluster makes none.
pub(super) fn master_keys(settings: &Settings) -> Option<MasterKeys> {
    let secrets = &settings.secrets;
    let current = (secrets.master_key_version, secrets.master_key?);
    let all = secrets.previous_master_keys.iter().copied().chain([current]);
    settings.cluster.is_on().then_some(())?;
    MasterKeys::new(all.map(|(version, key)| (version, key.reveal())))
}

/// Returns the token that nodes show each other.
pub(super) fn token(keys: &MasterKeys) -> String {
    hex(&keys.current_for(TOKEN).1)
}

/// Returns the identifier of the cluster in the names of people's cookies, the same at all nodes.
///
/// The key that the cluster was made with stays among the earlier ones, so a change of the key
/// signs nobody out.
pub(super) fn people_name(settings: &Settings, keys: &MasterKeys) -> [u8; 4] {
    let first = keys.all_for(TOKEN).next().map(|(_, key)| hex(&key));
    let text = format!("{} {}", first.unwrap_or_default(), settings.cluster.name);
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    digest.first_chunk().copied().unwrap_or_default()
}

/// Returns the access to the cluster of the settings.
pub(super) fn access(settings: &Settings, keys: &MasterKeys) -> Result<Access, ClusterError> {
    let cluster = &settings.cluster;
    if !cluster.is_on() {
        return Err(ClusterError::NoServers);
    }
    let (key_version, _) = keys.current_for(FINGERPRINT);
    let mut keys: Vec<_> = keys.all_for(FINGERPRINT).map(|(_, key)| hex(&key[..8])).collect();
    keys.reverse();
    Ok(Access {
        cluster: NodeName::new(&cluster.name)?,
        nats: NatsOptions {
            servers: cluster.nats.clone(),
            credentials: Some(NatsCredentials {
                file: cluster.credentials.clone(),
                ca: cluster.nats_ca.clone(),
                certificate: cluster.tls().map(|[own, key, _]| (own.clone(), key.clone())),
            }),
            name: format!("postrider {}", cluster.node.as_deref().unwrap_or_default()),
            connect_within: CONNECT_WITHIN,
        },
        requirements: Requirements {
            monitor: cluster.monitor.clone(),
            assume_synced: cluster.assume_synced,
            allow_unreplicated: cluster.allow_unreplicated,
        },
        keys,
        key_version,
        files_bytes_max: cluster.files_bytes_max,
        checkpoints: match &cluster.checkpoints {
            None => CheckpointStore::Nats,
            Some(dir) => CheckpointStore::Directory(dir.clone()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_keep_their_name_when_the_master_key_is_changed() {
        let settings = Settings::default();
        let name = |keys: &[(u8, [u8; 32])]| {
            let keys = MasterKeys::new(keys.iter().copied()).unwrap();
            people_name(&settings, &keys)
        };
        let made = name(&[(1, [7; 32])]);
        assert_eq!(name(&[(1, [7; 32]), (2, [8; 32])]), made);
        assert_eq!(name(&[(1, [7; 32]), (2, [8; 32]), (3, [9; 32])]), made);
        assert_ne!(name(&[(1, [8; 32])]), made);
        let token =
            |keys: &[(u8, [u8; 32])]| token(&MasterKeys::new(keys.iter().copied()).unwrap());
        // The token between nodes is derived from the current key.
        assert_ne!(token(&[(1, [7; 32]), (2, [8; 32])]), token(&[(1, [7; 32])]));
    }
}
