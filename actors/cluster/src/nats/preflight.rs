//! The requirements that the servers must meet before a log is entrusted to them.
//!
//! It owns the conditions and the codes of their refusals. It promises that a server which may lose
//! acknowledged data is refused, unless a setting accepts that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Nats, NatsError, NatsOptions, NatsStream};

/// The oldest version without the faults that lose data.
const VERSION_MIN: (u64, u64, u64) = (2, 15, 1);
/// The smallest bound on messages into which entries fit.
const PAYLOAD_BYTES_MIN: usize = 1_048_576;
/// The number of servers that store each stream.
pub const REPLICAS: usize = 3;

/// Reads a page of a monitoring address.
pub trait Monitor {
    /// Returns the body of the page.
    ///
    /// # Errors
    /// The reason why there is none.
    fn page(&self, url: &str) -> Result<String, String>;
}

/// The demands and the exceptions of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// The monitoring addresses, `http://host:port`.
    pub monitor: Vec<String>,
    /// Set if the servers always sync, although no monitoring address shows it.
    pub assume_synced: bool,
    /// Set if one server is enough.
    pub allow_unreplicated: bool,
}

impl Requirements {
    /// Returns the number of servers that store each stream.
    #[must_use]
    pub const fn replicas(&self) -> usize {
        if self.allow_unreplicated { 1 } else { REPLICAS }
    }
}

/// The reason why the servers are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// A server is too old.
    #[error("NATS_VERSION: the NATS server {server} has version {version}; 2.15.1 is needed")]
    Version {
        /// The server.
        server: String,
        /// Its version.
        version: String,
    },
    /// A server accepts only smaller messages.
    #[error(
        "NATS_PAYLOAD: the NATS server {server} takes {bytes} bytes; max_payload must be 1 MiB"
    )]
    Payload {
        /// The server.
        server: String,
        /// Its bound.
        bytes: usize,
    },
    /// A stream has too few replicas.
    #[error(
        "NATS_UNREPLICATED: the stream {stream} has {replicas} replicas; 3 are needed, or \
         cluster.allow_unreplicated = true"
    )]
    Unreplicated {
        /// The stream.
        stream: String,
        /// The number of its replicas.
        replicas: usize,
    },
    /// A server is not known to sync each message before it acknowledges it.
    #[error(
        "NATS_NOT_SYNCED: {0}; set sync_interval: always in the servers' jetstream block and name \
         their monitoring addresses in cluster.monitor, or set cluster.assume_synced = true"
    )]
    NotSynced(String),
    /// A server did not answer, or a stream does not exist.
    #[error(transparent)]
    Nats(#[from] NatsError),
}

/// The findings of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NatsFacts {
    /// The servers that answered, with their versions.
    pub servers: BTreeMap<String, String>,
    /// The addresses of the settings that did not answer, with the reasons. Others did answer.
    pub silent: Vec<String>,
}

/// Checks each server of the settings and each stream.
///
/// # Errors
/// The first condition that does not hold.
pub fn preflight(
    options: &NatsOptions,
    requirements: &Requirements,
    streams: &[&NatsStream],
    monitor: &dyn Monitor,
) -> Result<NatsFacts, PreflightError> {
    let mut facts = NatsFacts::default();
    for address in &options.servers {
        let alone = NatsOptions { servers: vec![address.clone()], ..options.clone() };
        match Nats::connect(&alone) {
            Ok(nats) => {
                let info = nats.server();
                check_server(&info.server_name, &info.version, info.max_payload)?;
                facts.servers.insert(info.server_name, info.version);
            }
            Err(error) => facts.silent.push(format!("{address}: {error}")),
        }
    }
    if facts.servers.is_empty() {
        return Err(NatsError::Unreachable(facts.silent.join("; ")).into());
    }
    let mut peers: BTreeSet<String> = facts.servers.keys().cloned().collect();
    for stream in streams {
        let info = stream.info()?;
        let replicas = info.config.num_replicas;
        if replicas < requirements.replicas() {
            return Err(PreflightError::Unreplicated { stream: info.config.name, replicas });
        }
        let cluster = info.cluster.unwrap_or_default();
        peers.extend(cluster.leader);
        peers.extend(cluster.replicas.into_iter().map(|peer| peer.name));
    }
    if !requirements.assume_synced {
        check_synced(&peers, &requirements.monitor, monitor)?;
    }
    Ok(facts)
}

fn check_server(server: &str, version: &str, max_payload: usize) -> Result<(), PreflightError> {
    let server = server.to_owned();
    if !is_new_enough(version) {
        return Err(PreflightError::Version { server, version: version.to_owned() });
    }
    if max_payload < PAYLOAD_BYTES_MIN {
        return Err(PreflightError::Payload { server, bytes: max_payload });
    }
    Ok(())
}

/// Returns whether a version is trusted. A pre-release of the oldest trusted version is not.
fn is_new_enough(version: &str) -> bool {
    let (numbers, is_early) =
        version.split_once('-').map_or((version, false), |(numbers, _)| (numbers, true));
    let mut parts = numbers.trim_start_matches('v').split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => {
            let found = (major, minor, patch);
            found > VERSION_MIN || (found == VERSION_MIN && !is_early)
        }
        _ => false,
    }
}

fn check_synced(
    peers: &BTreeSet<String>,
    addresses: &[String],
    monitor: &dyn Monitor,
) -> Result<(), PreflightError> {
    let refused = PreflightError::NotSynced;
    if addresses.is_empty() {
        return Err(refused("cluster.monitor is empty".to_owned()));
    }
    let mut synced = BTreeSet::new();
    for address in addresses {
        let address = address.trim_end_matches('/');
        let page = |path: &str| {
            let text = monitor.page(&format!("{address}{path}"));
            let text =
                text.map_err(|error| refused(format!("{address} does not answer: {error}")))?;
            serde_json::from_str::<Value>(&text)
                .map_err(|error| refused(format!("{address}{path} is not JSON: {error}")))
        };
        let varz = page("/varz")?;
        let name = varz.get("server_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The field is missing when the setting is off.
        if page("/jsz")?.pointer("/config/sync_always") != Some(&Value::Bool(true)) {
            return Err(refused(format!("the server {name} does not sync always")));
        }
        synced.insert(name);
    }
    match peers.difference(&synced).next() {
        Some(peer) => Err(refused(format!("no address of cluster.monitor is of {peer}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pages(Vec<(&'static str, &'static str)>);

    impl Monitor for Pages {
        fn page(&self, url: &str) -> Result<String, String> {
            let found = self.0.iter().find(|(of, _)| *of == url);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "refused".to_owned())
        }
    }

    const SYNCED: &str = r#"{"config": {"sync_always": true}}"#;

    #[test]
    fn old_versions_and_small_messages_are_refused() {
        for version in ["2.15.1", "2.15.2", "2.16.0", "2.16.0-RC.1", "v3.0.0"] {
            assert_eq!(check_server("a", version, PAYLOAD_BYTES_MIN), Ok(()), "{version}");
        }
        for version in ["2.15.0", "2.14.9", "2.15.1-beta", "1.99.99", "", "2.15", "new"] {
            let error = check_server("a", version, PAYLOAD_BYTES_MIN).unwrap_err().to_string();
            assert!(error.starts_with("NATS_VERSION: "), "{version}: {error}");
        }
        let error = check_server("a", "2.15.1", PAYLOAD_BYTES_MIN - 1).unwrap_err().to_string();
        assert!(error.starts_with("NATS_PAYLOAD: ") && error.contains("max_payload"), "{error}");
    }

    #[test]
    fn every_peer_must_be_seen_to_sync() {
        let pages = Pages(vec![
            ("http://a/varz", r#"{"server_name": "a"}"#),
            ("http://a/jsz", SYNCED),
            ("http://b/varz", r#"{"server_name": "b"}"#),
            ("http://b/jsz", r#"{"config": {}}"#),
            ("http://c/varz", "<html>"),
        ]);
        let check = |peers: &[&str], addresses: &[&str]| {
            let peers = peers.iter().map(|it| (*it).to_owned()).collect();
            let addresses: Vec<_> = addresses.iter().map(|it| (*it).to_owned()).collect();
            check_synced(&peers, &addresses, &pages).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a"], &["http://a/"]), Ok(()));
        for (peers, addresses, word) in [
            (&["a"][..], &[][..], "cluster.monitor is empty"),
            (&["a", "b"], &["http://a"], "of b"),
            (&["a", "b"], &["http://a", "http://b"], "b does not sync"),
            (&["a"], &["http://c"], "not JSON"),
            (&["a"], &["http://d"], "does not answer"),
        ] {
            let error = check(peers, addresses).unwrap_err();
            assert!(error.starts_with("NATS_NOT_SYNCED: ") && error.contains(word), "{error}");
            assert!(error.contains("assume_synced"), "{error}");
        }
    }
}
