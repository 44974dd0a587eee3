//! Starts and stops a node of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_actors::copies::CopyError;
use postrider_actors::store::Writes;
use postrider_actors::{BoxFuture, Clock, Common};
use postrider_cluster::{Access, Identity, JoinError, Node, NodeName, NodeOptions, open_files};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::asking::OtherShards;
use super::disk::Disk;
use super::door::{Door, Shards};
use super::engines::Engines;
use super::error::ClusterError;
use super::figures::{self, Traffic};
use super::files::NodeFiles;
use super::front::{Front, Inner};
use super::kept::KeptEntries;
use super::late::LateShards;
use super::numbers::{NumberDirectory, Numbers, keep_claims};
use super::peers::Peers;
use super::settled::OwnAnswers;
use super::{identity, made};
use crate::banner::Banner;
use crate::boot::{self, BootError, DataDir};
use crate::engine_options::{free_bytes_min, webhook_options};
use crate::http::{AppOptions, BodyBudget, Drain, Help};
use crate::listeners::{Bound, Listening, exposure, raise_open_files_limit, serve_options};
use crate::metrics::Metrics;
use crate::serve::ServeOptions;
use crate::settings::Settings;
use crate::tls::{Tls, TlsError};

/// The time for an answer of another node beyond its body and its work.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// The interval of tries to store contents of files, while NATS has no room for them.
const FILES_TRIED_EVERY: Duration = Duration::from_secs(60);
/// The interval of checks that the list of numbers has those of the node's engines.
const NUMBERS_KEPT_EVERY: Duration = Duration::from_secs(10);
/// The timeout for one shard to settle connections that failed.
const NUMBERS_SETTLED_WITHIN: Duration = Duration::from_secs(2);
/// The wait after a failed check: callbacks may depend on it.
const NUMBERS_TRIED_AFTER: Duration = Duration::from_millis(500);

/// A running node of a cluster.
///
/// Dropping it is like a crash; [`ClusterNode::shutdown`] stops it gracefully.
pub struct ClusterNode {
    main: Listening,
    door: Listening,
    shards: Arc<Shards>,
    banner: Banner,
    grace: Duration,
    drain: Drain,
    upkeep: JoinHandle<()>,
    ended: Arc<Notify>,
    directory: Arc<DataDir>,
    tls: Option<Arc<Tls>>,
}

/// The reason why a stop was not graceful. All acknowledged data is durable nevertheless.
#[derive(Debug, thiserror::Error)]
#[error("the node failed: {0}")]
pub struct NodeStopError(#[from] tokio::task::JoinError);

impl ClusterNode {
    /// Starts a node. When this returns, it is a member, and starts to own shards.
    ///
    /// # Errors
    /// [`ClusterError`] is the reason why it cannot start.
    pub fn start(settings: Settings) -> BoxFuture<'static, Result<Self, ClusterError>> {
        Box::pin(Self::start_here(settings))
    }

    async fn start_here(settings: Settings) -> Result<Self, ClusterError> {
        let (to_clients, _) = serve_options(&settings, raise_open_files_limit())?;
        let keys = made::master_keys(&settings).ok_or(ClusterError::NoServers)?;
        let access = made::access(&settings, &keys)?;
        let path = &settings.server.data_dir;
        let directory = DataDir::open(path, settings.server.data_group_access)?;
        identity::check_empty(path)?;
        let directory = Arc::new(directory);
        let (identity, belongs_to) = identity::read(&directory)?;
        let listener = Bound::to(settings.server.listen).await?;
        let door = Bound::to(settings.cluster.listen).await?;
        let (admin_token, token_source) =
            boot::admin_token(&directory, settings.admin.token.as_ref())?;
        let peers = Peers::new(made::token(&keys), &settings.cluster)?;
        let door_exposure = door_exposure(door.address, peers.tls.is_some());
        let warnings = [exposure(&settings), door_exposure.clone()].concat();
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let options = node_options(&settings, door.address, identity, belongs_to)?;
        let metrics = Metrics::new().map_err(BootError::from)?;
        let mut app = AppOptions::new(&settings, admin_token.clone(), metrics.clone());
        app.warnings.clone_from(&warnings);
        app.dashboard.address = listener.address;
        let (drain, ended) = (app.drain.clone(), Arc::new(Notify::new()));
        let app = (app, metrics.clone());
        let files = files(&access, directory.path().to_owned()).await?;
        let files_access = access.clone();
        let kept = KeptEntries::begin(path).map_err(|error| CopyError::io(path, &error))?;
        let others = (files, kept, made::people_name(&settings, &keys), &ended);
        let engines = Arc::new(engines(&settings, &directory, app, &peers, &options, others));
        let shards = join(access, options, engines, (peers, door_exposure)).await?;
        identity::belongs_to(&directory, &shards.node.cluster().1.id)?;
        let banner = Banner::new(listener.address, directory.path(), token_source, None);
        let banner = banner.with_warnings(warnings.clone()).with_settings(&settings);
        let front = Front(Arc::new(Inner {
            shards: shards.clone(),
            admin_token,
            metrics: metrics.clone(),
            traffic: Traffic::register(metrics.recorder().as_ref()),
            warnings,
            hold: settings.cluster.hold_ms,
            body_timeout: settings.server.body_timeout_seconds,
            answer_within: settings.server.body_timeout_seconds
                + settings.server.handler_timeout_seconds
                + ON_THE_WAY,
            bodies: BodyBudget::new(settings.server.bodies_bytes_max),
            drain: drain.clone(),
        }));
        let tls = to_clients.tls.clone();
        let door = door.serve(Door(shards.clone()), between_nodes(&to_clients, &shards.peers));
        let main = listener.serve(front, to_clients);
        let sampled = figures::sample(shards.clone(), metrics.recorder());
        let kept = keep_numbers(shards.clone());
        let files = keep_files(files_access, shards.engines.files.clone());
        let upkeep = tokio::spawn(async move {
            tokio::join!(metrics.upkeep(), sampled, kept, files);
        });
        tracing::info!(address = %main.address, nodes = %door.address, "listening");
        let grace = settings.shutdown.grace_seconds;
        Ok(Self { main, door, shards, banner, grace, drain, upkeep, ended, directory, tls })
    }

    /// Returns the bound address for clients, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// Returns the text that the command line prints after a start.
    #[must_use]
    pub fn banner(&self) -> &Banner {
        &self.banner
    }

    /// Resolves when an engine has ended by itself, which is a defect.
    ///
    /// The process must be restarted, and the other nodes go on.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Reloads the TLS certificates and keys, for clients and between nodes.
    ///
    /// New connections use them from now on.
    ///
    /// # Errors
    /// [`TlsError`]: where the new ones cannot be used, the earlier ones stay in use.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload())?;
        self.shards.peers.tls.as_ref().map_or(Ok(()), |tls| tls.reload())
    }

    /// Stops within the grace period, and releases the node's shards, so that others claim them.
    ///
    /// Requests under way are answered and made durable.
    ///
    /// # Errors
    /// [`NodeStopError`] when a part of it failed.
    pub fn shutdown(self) -> BoxFuture<'static, Result<(), NodeStopError>> {
        Box::pin(self.stop())
    }

    async fn stop(self) -> Result<(), NodeStopError> {
        let Self { main, door, shards, grace, drain, upkeep, directory, .. } = self;
        drain.begin();
        shards.engines.begin_drain();
        drop(main.stop(grace / 2).await?);
        let leaving = shards.clone();
        let leaves = move || {
            leaving.node.stop();
            leaving.engines.close_followed();
            leaving.engines.kept.end();
        };
        tokio::task::spawn_blocking(leaves).await?;
        drop(door.stop(Duration::from_secs(1)).await?);
        upkeep.abort();
        drop((shards, directory));
        Ok(())
    }
}

fn node_options(
    settings: &Settings,
    bound: SocketAddr,
    identity: Identity,
    belongs_to: Option<String>,
) -> Result<NodeOptions, ClusterError> {
    let cluster = &settings.cluster;
    Ok(NodeOptions {
        node: NodeName::new(cluster.node.as_deref().unwrap_or_default())?,
        identity,
        belongs_to,
        advertise: cluster.advertise.clone().unwrap_or_else(|| bound.to_string()),
        zone: cluster.zone.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lease_seconds: cluster.lease_seconds,
        standbys: cluster.standbys,
    })
}

fn engines(
    settings: &Settings,
    directory: &Arc<DataDir>,
    (app, metrics): (AppOptions, Metrics),
    peers: &Peers,
    node: &NodeOptions,
    (files, kept, people, ended): (NodeFiles, KeptEntries, [u8; 4], &Arc<Notify>),
) -> Engines {
    Engines {
        settings: settings.clone(),
        directory: directory.clone(),
        metrics,
        app,
        writes: Writes {
            node: node.node.to_string(),
            incarnation: node.identity.incarnation,
            program: node.version.clone(),
            // Each log already has a claim, which has a time.
            begun_at: Default::default(),
        },
        peers: peers.clone(),
        runtime: Handle::current(),
        clock: Clock::system(),
        disk: Disk::watched(directory.path(), free_bytes_min(settings, directory)),
        running: Mutex::default(),
        followed: Mutex::default(),
        numbers: Numbers::default(),
        others: LateShards::default(),
        people,
        files: Arc::new(files),
        kept,
        common: Common::new(&webhook_options(settings)),
        ended: ended.clone(),
    }
}

/// Opens the store for the contents of files.
async fn files(access: &Access, data: PathBuf) -> Result<NodeFiles, ClusterError> {
    let access = access.clone();
    let opening = move || {
        let stored = match open_files(&access) {
            // Everything else works without contents.
            Err(error @ JoinError::FilesNotMade { .. }) => {
                tracing::warn!(%error, "no contents of files are kept");
                Err(error.to_string())
            }
            opened => Ok(opened?),
        };
        let failed = |error: std::io::Error| CopyError::io(&data, &error);
        Ok(NodeFiles::new(stored, &data).map_err(failed)?)
    };
    tokio::task::spawn_blocking(opening).await?
}

/// Starts storing contents of files once NATS has room for them.
async fn keep_files(access: Access, files: Arc<NodeFiles>) {
    while files.problem().is_some() {
        tokio::time::sleep(FILES_TRIED_EVERY).await;
        let access = access.clone();
        if let Ok(Ok(stored)) = tokio::task::spawn_blocking(move || open_files(&access)).await {
            tracing::info!("contents of files are kept from now on");
            files.begin(stored);
        }
    }
}

/// Joins the cluster as a member, which starts to own shards.
async fn join(
    access: Access,
    options: NodeOptions,
    engines: Arc<Engines>,
    (peers, exposure): (Peers, Vec<String>),
) -> Result<Arc<Shards>, ClusterError> {
    let (host, monitor) = (engines.clone(), Box::new(peers.clone()));
    let joining = move || Node::start(&access, options, host, monitor);
    let node = tokio::task::spawn_blocking(joining).await??;
    // It is set once, here.
    drop(engines.numbers.set(NumberDirectory::new(node.numbers())));
    let help = engines.app.errors_url.as_deref().map(Help::below).unwrap_or_default();
    let answers = OwnAnswers { clock: engines.clock.clone(), help };
    let known = Mutex::default();
    let shards = Arc::new(Shards { node, engines, peers, exposure, answers, known });
    shards.engines.others.set(Box::new(OtherShards(Arc::downgrade(&shards))));
    Ok(shards)
}

/// Repeatedly corrects the list of numbers to those of this node's engines.
async fn keep_numbers(shards: Arc<Shards>) {
    loop {
        let (mut is_all, engines) = (true, shards.engines.engines());
        if let Some(numbers) = shards.engines.numbers.get() {
            numbers.doubled().retain(|shard, _| engines.iter().any(|(it, _)| it == shard));
        }
        for (shard, engine) in engines {
            // A shard whose log does not answer does not delay the others.
            let settling = engine.admin().settle_numbers();
            drop(tokio::time::timeout(NUMBERS_SETTLED_WITHIN, settling).await);
            let owner = shards.clone();
            let may = move || owner.node.gate().answers(shard);
            is_all &= keep_claims(&shards.engines.numbers, (shard, &engine), may).await;
        }
        let wait = if is_all { NUMBERS_KEPT_EVERY } else { NUMBERS_TRIED_AFTER };
        tokio::time::sleep(wait).await;
    }
}

/// Returns the options of the listener for nodes: they are few, and each may need many connections.
fn between_nodes(to_clients: &ServeOptions, peers: &Peers) -> ServeOptions {
    let mut options = to_clients.clone();
    options.places.per_address_max = 0;
    options.tls = peers.tls.as_ref().map(|tls| tls.door.clone());
    options
}

/// Returns a warning if the traffic between nodes to this address can be read on its way.
fn door_exposure(address: SocketAddr, is_encrypted: bool) -> Vec<String> {
    let is_safe = is_encrypted || address.ip().to_canonical().is_loopback();
    let warning = || {
        format!(
            "{address} is for other nodes and is not encrypted, so keys and codes can be read on \
             their way; set `cluster.tls_cert`, or let only a network reach it that nobody else is \
             in"
        )
    };
    (!is_safe).then(warning).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_nodes_that_others_reach_in_clear_is_warned_of() {
        for (address, is_encrypted, warnings) in [
            ("127.0.0.1:8081", false, 0),
            ("[::1]:8081", false, 0),
            ("10.0.0.1:8081", false, 1),
            ("0.0.0.0:8081", false, 1),
            ("0.0.0.0:8081", true, 0),
        ] {
            let warned = door_exposure(address.parse().unwrap(), is_encrypted);
            assert_eq!(warned.len(), warnings, "{address} {is_encrypted}");
        }
    }
}
