//! The engines of a node: one with its router for each shard that it owns.
//!
//! It owns the local views in `DATA/replicas/`, which the log can always make anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_actors::domain::Timestamp;
use postrider_actors::store::replica::ReplicaDir;
use postrider_actors::store::{DirectorySpace, FjallOptions, StoreError, Writes};
use postrider_actors::{Clock, Durability, Engine, EngineOptions, Replica, Tenure};
use postrider_cluster::checkpoints::ShardCheckpoints;
use postrider_cluster::shard::ReleaseAnswer;
use postrider_cluster::{Host, Log, NodeName, ShardTenure};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::figures::ShardRecorder;
use super::keeper::Keeper;
use super::peers::Peers;
use crate::boot::DataDir;
use crate::engine_options::engine_options;
use crate::http::{App, AppOptions, Drain, app};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Where the views are.
const REPLICAS: &str = "replicas";
/// How often a view is tried that an engine which was given up may still have open, and how long
/// it is waited between.
const OPEN_TRIES: usize = 100;
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What the views of a node have for all of them: cache and memtables.
const CACHE_BYTES: u64 = 256 << 20;
const MEMTABLE_BYTES: u64 = 128 << 20;
/// What each has at least.
const CACHE_BYTES_MIN: u64 = 2 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;

/// The engines, and what each is started with.
pub(super) struct Engines {
    pub(super) settings: Settings,
    pub(super) directory: Arc<DataDir>,
    pub(super) metrics: Metrics,
    pub(super) app: AppOptions,
    pub(super) writes: Writes,
    pub(super) peers: Peers,
    pub(super) runtime: Handle,
    pub(super) clock: Clock,
    pub(super) running: Mutex<BTreeMap<u16, Running>>,
    /// Told when an engine has ended by itself.
    pub(super) ended: Arc<Notify>,
}

/// An engine that answers.
pub(super) struct Running {
    engine: Engine,
    app: App,
    /// Ends its event streams, which would keep the engine.
    drain: Drain,
    watch: tokio::task::JoinHandle<()>,
    figures: ShardRecorder,
}

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engines")
    }
}

impl Engines {
    fn running<T>(&self, look: impl FnOnce(&mut BTreeMap<u16, Running>) -> T) -> T {
        // Nobody panics while holding it.
        look(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The interface of a shard's engine, if it runs here.
    pub(super) fn app(&self, shard: u16) -> Option<App> {
        self.running(|running| running.get(&shard).map(|it| it.app.clone()))
    }

    /// The interface of any engine that runs here.
    pub(super) fn any(&self) -> Option<u16> {
        self.running(|running| running.keys().next().copied())
    }

    /// Ends what would outlast a stop of the node: event streams, and bodies that are awaited.
    pub(super) fn begin_drain(&self) {
        self.running(|running| running.values().for_each(|it| it.drain.begin()));
    }

    /// Takes the engine away, so that its end is none of its own.
    fn take(&self, shard: u16) -> Option<Engine> {
        let running = self.running(|running| running.remove(&shard))?;
        running.watch.abort();
        running.drain.begin();
        running.figures.end();
        Some(running.engine)
    }

    /// The store over a log, with what it lacks taken from a checkpoint.
    fn replica(
        &self,
        shard: u16,
        log: &Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
    ) -> Result<Replica, String> {
        let dir = ReplicaDir::at(&self.directory.file(REPLICAS), shard);
        let shards = u64::from(self.settings.cluster.shards.max(1));
        let options = FjallOptions {
            cache_bytes: (CACHE_BYTES / shards).max(CACHE_BYTES_MIN),
            memtable_bytes: (MEMTABLE_BYTES / shards).max(MEMTABLE_BYTES_MIN),
            log_bytes: LOG_BYTES,
        };
        let keeper = Keeper { checkpoints, writes: self.writes.clone() };
        for _ in 0..OPEN_TRIES {
            match dir.open(log, options, self.writes.clone(), &keeper) {
                Err(StoreError::Locked) => std::thread::sleep(OPEN_AGAIN_AFTER),
                opened => {
                    let opened = opened.map_err(|error| error.to_string())?;
                    return Ok(Replica::new(opened, Arc::new(keeper)));
                }
            }
        }
        Err("the view is still in use".to_owned())
    }

    fn options(
        &self,
        replica: Replica,
        begins_after: Option<Timestamp>,
        log_bytes_max: u64,
        tenure: ShardTenure,
        figures: &ShardRecorder,
    ) -> Result<EngineOptions, String> {
        let options = engine_options(&self.settings, &self.directory, &self.metrics);
        let storage = &self.settings.storage;
        Ok(EngineOptions {
            durability: Durability::Replica(replica),
            // The log is trimmed to the older of two snapshots, if that is before a checkpoint.
            snapshot_journal_bytes: storage.snapshot_journal_bytes.min(log_bytes_max / 4),
            checkpoint_log_bytes: Some(storage.checkpoint_log_bytes),
            free_space: Some(Arc::new(DirectorySpace(self.directory.path().to_owned()))),
            keys_tell_home: true,
            recorder: Some(Arc::new(figures.clone())),
            begins_after,
            tenure: Some(Arc::new(EngineTenure(tenure))),
            ..options.map_err(|error| error.to_string())?
        })
    }
}

/// The right to act for a shard, as its engine asks for it.
#[derive(Debug)]
struct EngineTenure(ShardTenure);

impl Tenure for EngineTenure {
    fn holds(&self) -> bool {
        self.0.holds()
    }
}

impl Host for Engines {
    fn start(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        tenure: ShardTenure,
    ) -> Result<(), String> {
        // The last entry is the claim, which no record tells of.
        let claim = log.tail().map_err(|error| error.to_string())?.header;
        let begins_after = claim.map(|claim| Timestamp::from_millis(claim.time_ms));
        let log_bytes_max = checkpoints.log_bytes_max();
        let figures = ShardRecorder::new(self.metrics.recorder(), shard);
        let replica = self.replica(shard, &log, checkpoints)?;
        let options = self.options(replica, begins_after, log_bytes_max, tenure, &figures)?;
        let starting = Box::pin(Engine::start(options));
        let engine = self.runtime.block_on(starting).map_err(|error| error.to_string())?;
        let (watched, ended) = (engine.clone(), self.ended.clone());
        let watch = self.runtime.spawn(async move {
            watched.ended().await;
            tracing::error!(shard, "the shard's engine ended by itself");
            ended.notify_one();
        });
        let drain = Drain::default();
        let options = AppOptions { drain: drain.clone(), ..self.app.clone() };
        let app = app(engine.clone(), options);
        self.running(|running| {
            running.insert(shard, Running { engine, app, drain, watch, figures })
        });
        Ok(())
    }

    fn drain(&self, shard: u16) {
        let Some(engine) = self.take(shard) else { return };
        let grace = self.settings.shutdown.grace_seconds / 2;
        if let Err(error) = self.runtime.block_on(engine.shutdown(grace)) {
            tracing::warn!(shard, %error, "the shard was left before everything was finished");
        }
    }

    fn abandon(&self, shard: u16) {
        if let Some(engine) = self.take(shard) {
            engine.abandon();
        }
    }

    fn ask_release(&self, address: &str, shard: u16, by: &NodeName) -> Option<ReleaseAnswer> {
        self.peers.ask_release(address, shard, by)
    }

    fn wall_ms(&self) -> u64 {
        self.clock.wall().as_millis()
    }
}
