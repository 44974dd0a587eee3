//! Starts and stops a node of a cluster.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_actors::Clock;
use postrider_actors::store::Writes;
use postrider_cluster::{Access, Identity, Node, NodeName, NodeOptions};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::door::{Door, Shards};
use super::engines::Engines;
use super::error::ClusterError;
use super::figures::{self, Traffic};
use super::front::{Front, Inner};
use super::peers::Peers;
use super::settled::OwnAnswers;
use super::{identity, made};
use crate::banner::Banner;
use crate::boot::{self, BootError, DataDir};
use crate::bound::{Bound, Listening};
use crate::http::{AppOptions, Drain, Help};
use crate::listeners::{exposure, serve_options};
use crate::metrics::Metrics;
use crate::serve::ServeOptions;
use crate::settings::Settings;
use crate::tls::{Tls, TlsError};

/// What an answer of another node may take beside its body and its work.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// A running node of a cluster. Dropping it is like a crash; [`ClusterNode::shutdown`] stops it
/// gracefully.
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

/// Why a stop was not graceful. Everything that was acknowledged is durable nevertheless.
#[derive(Debug, thiserror::Error)]
#[error("the node failed: {0}")]
pub struct NodeStopError(#[from] tokio::task::JoinError);

impl ClusterNode {
    /// Starts a node. When this returns, it is a member, and begins to own shards.
    ///
    /// # Errors
    /// [`ClusterError`] says why it cannot start.
    pub async fn start(settings: Settings) -> Result<Self, ClusterError> {
        let (to_clients, _) = serve_options(&settings, boot::raise_limit())?;
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
        let warnings = [exposure(&settings), door_exposure(door.address)].concat();
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let options = node_options(&settings, door.address, identity, belongs_to)?;
        let peers = Peers::new(made::token(&keys));
        let metrics = Metrics::new().map_err(BootError::from)?;
        let mut app = AppOptions::new(&settings, admin_token.clone(), metrics.clone());
        app.warnings.clone_from(&warnings);
        let (drain, ended) = (app.drain.clone(), Arc::new(Notify::new()));
        let app = (app, metrics.clone());
        let engines = Arc::new(engines(&settings, &directory, app, &peers, &options, &ended));
        let shards = Arc::new(join(access, options, engines, peers).await?);
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
            is_synced: !settings.cluster.assume_synced,
        }));
        let tls = to_clients.tls.clone();
        let door = door.serve(Door(shards.clone()), between_nodes(&to_clients));
        let main = listener.serve(front, to_clients);
        let sampled = figures::sample(shards.clone(), metrics.recorder());
        let upkeep = tokio::spawn(async move {
            tokio::join!(metrics.upkeep(), sampled);
        });
        tracing::info!(address = %main.address, nodes = %door.address, "listening");
        let grace = settings.shutdown.grace_seconds;
        Ok(Self { main, door, shards, banner, grace, drain, upkeep, ended, directory, tls })
    }

    /// The bound address for clients, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// What the command line prints after a start.
    #[must_use]
    pub fn banner(&self) -> &Banner {
        &self.banner
    }

    /// Resolves when an engine has ended by itself, which is a defect: the process must be started
    /// again, and the other nodes go on.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Reads the certificate and the key of TLS anew, for the connections from now on.
    ///
    /// # Errors
    /// [`TlsError`]: what was read before stays in use.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload())
    }

    /// Stops within the grace period: answers what is under way, makes it durable, and gives the
    /// node's shards up, so that others claim them.
    ///
    /// # Errors
    /// [`NodeStopError`] when a part of it failed.
    pub async fn shutdown(self) -> Result<(), NodeStopError> {
        let Self { main, door, shards, grace, drain, upkeep, directory, .. } = self;
        drain.begin();
        shards.engines.begin_drain();
        drop(main.stop(grace / 2).await?);
        let leaving = shards.clone();
        tokio::task::spawn_blocking(move || leaving.node.stop()).await?;
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
    ended: &Arc<Notify>,
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
            // Each log has a claim already, which has a time.
            begun_at: Default::default(),
        },
        peers: peers.clone(),
        runtime: Handle::current(),
        clock: Clock::system(),
        running: Mutex::default(),
        ended: ended.clone(),
    }
}

/// Becomes a member of the cluster, which begins to own shards.
async fn join(
    access: Access,
    options: NodeOptions,
    engines: Arc<Engines>,
    peers: Peers,
) -> Result<Shards, ClusterError> {
    let (host, monitor) = (engines.clone(), Box::new(peers.clone()));
    let joining = move || Node::start(&access, options, host, monitor);
    let node = tokio::task::spawn_blocking(joining).await??;
    let help = engines.app.errors_url.as_deref().map(Help::below).unwrap_or_default();
    let answers = OwnAnswers { clock: engines.clock.clone(), help };
    Ok(Shards { node, engines, peers, answers })
}

/// How the listener for nodes is served: they are few, and each may need many connections.
fn between_nodes(to_clients: &ServeOptions) -> ServeOptions {
    let mut options = to_clients.clone();
    options.places.per_address_max = 0;
    options.tls = None;
    options
}

fn door_exposure(address: SocketAddr) -> Vec<String> {
    let is_own = address.ip().to_canonical().is_loopback();
    let warning = || {
        format!(
            "{address} is for other nodes and is not encrypted, so keys and codes can be read on \
             their way; let only a network reach it that nobody else is in"
        )
    };
    (!is_own).then(warning).into_iter().collect()
}
