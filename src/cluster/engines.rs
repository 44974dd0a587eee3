//! The engines of a node: one with its router for each shard that it owns.
//!
//! The node owns the local views in `DATA/replicas/`, which can always be rebuilt from the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_actors::domain::Timestamp;
use postrider_actors::store::postrider_log::Entry;
use postrider_actors::store::replica::{OpenRecords, ReplicaDir, ReplicaSource};
use postrider_actors::store::{DirectorySpace, FjallOptions, Position, StoreError, Writes};
use postrider_actors::{
    Clock, Common, Durability, Engine, EngineOptions, PeopleOptions, Replica, Tenure,
};
use postrider_cluster::checkpoints::ShardCheckpoints;
use postrider_cluster::nats::FilesOf;
use postrider_cluster::shard::ReleaseAnswer;
use postrider_cluster::{Host, Log, NodeName, ShardTenure};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::disk::Disk;
use super::figures::ShardRecorder;
use super::files::{NodeFiles, ShardFiles};
use super::keeper::Keeper;
use super::kept::KeptEntries;
use super::late::LateShards;
use super::numbers::{Numbers, ShardNumbers, keep_claims};
use super::peers::Peers;
use crate::boot::DataDir;
use crate::engine_options::engine_options;
use crate::http::elsewhere::Elsewhere;
use crate::http::{App, AppOptions, Drain, app};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The directory of the views.
const REPLICAS: &str = "replicas";
/// The tries to open a view that an abandoned engine may still have open, and the wait between.
const OPEN_TRIES: usize = 100;
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The interval between checks whether an engine can write.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The cache and memtables of all views of a node together.
const CACHE_BYTES: u64 = 256 << 20;
const MEMTABLE_BYTES: u64 = 128 << 20;
/// The minimum for each view.
const CACHE_BYTES_MIN: u64 = 2 << 20;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;

/// The engines, and the parts that each is started with.
pub(super) struct Engines {
    pub(super) settings: Settings,
    pub(super) directory: Arc<DataDir>,
    pub(super) metrics: Metrics,
    pub(super) app: AppOptions,
    pub(super) writes: Writes,
    pub(super) peers: Peers,
    pub(super) runtime: Handle,
    pub(super) clock: Clock,
    pub(super) disk: Disk,
    pub(super) running: Mutex<BTreeMap<u16, Running>>,
    /// The records of the shards that this node follows.
    pub(super) followed: Mutex<BTreeMap<u16, OpenRecords>>,
    pub(super) numbers: Numbers,
    pub(super) others: LateShards,
    /// The identifier of the data of people, for the names of cookies.
    pub(super) people: [u8; 4],
    pub(super) files: Arc<NodeFiles>,
    /// The newest entries of the logs.
    pub(super) kept: KeptEntries,
    /// The bounds and clients that they share.
    pub(super) common: Common,
    /// Notified when an engine has ended by itself.
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

    /// The engine of a shard, if it runs here.
    pub(super) fn engine(&self, shard: u16) -> Option<Engine> {
        self.running(|running| running.get(&shard).map(|it| it.engine.clone()))
    }

    /// Returns the part of the names of people's cookies that is the same at every node of a
    /// cluster.
    pub(super) fn people_name(&self) -> String {
        self.people.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The engines that run here, by shard.
    pub(super) fn engines(&self) -> Vec<(u16, Engine)> {
        let engine = |(shard, it): (&u16, &Running)| (*shard, it.engine.clone());
        self.running(|running| running.iter().map(engine).collect())
    }

    /// Ends work that would outlast a stop of the node: event streams, and bodies that are awaited.
    pub(super) fn begin_drain(&self) {
        self.running(|running| running.values().for_each(|it| it.drain.begin()));
    }

    /// Removes the engine, so that its end does not count as a failure.
    fn take(&self, shard: u16) -> Option<Engine> {
        let running = self.running(|running| running.remove(&shard))?;
        running.watch.abort();
        running.drain.begin();
        running.figures.end();
        Some(running.engine)
    }

    /// Removes and returns the open records of a shard that this node follows.
    fn take_followed(&self, shard: u16) -> Option<OpenRecords> {
        // Nobody panics while holding it.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard)
    }

    /// Closes the records of followed shards, before the lock of the data directory is released.
    pub(super) fn close_followed(&self) {
        // Nobody panics while holding it.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn records(&self, shard: u16) -> ReplicaDir {
        ReplicaDir::at(&self.directory.file(REPLICAS), shard)
    }

    /// Opens the store over a log. A checkpoint supplies what the store lacks.
    fn replica(
        &self,
        shard: u16,
        log: &Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
    ) -> Result<Replica, StoreError> {
        let keeper = Keeper { checkpoints, writes: self.writes.clone() };
        let gives_up = || keeper.checkpoints.is_stopping();
        let opened = self.opened(shard, log, &keeper, &gives_up, |dir, had, from| {
            dir.open(had, from, self.writes.clone())
        })?;
        Ok(Replica::new(opened, Arc::new(keeper)))
    }

    /// Opens the records of a shard with `open`, once no abandoned engine has them.
    fn opened<T>(
        &self,
        shard: u16,
        log: &Arc<dyn Log>,
        bases: &Keeper,
        gives_up: &dyn Fn() -> bool,
        open: impl Fn(&ReplicaDir, Option<OpenRecords>, ReplicaSource<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (dir, mut had) = (self.records(shard), self.take_followed(shard));
        let shards = u64::from(self.settings.cluster.shards.max(1));
        let options = FjallOptions {
            cache_bytes: (CACHE_BYTES / shards).max(CACHE_BYTES_MIN),
            memtable_bytes: (MEMTABLE_BYTES / shards).max(MEMTABLE_BYTES_MIN),
            log_bytes: LOG_BYTES,
        };
        for _ in 0..OPEN_TRIES {
            match open(&dir, had.take(), ReplicaSource { log, bases, options, gives_up }) {
                Err(StoreError::Locked) if !gives_up() => std::thread::sleep(OPEN_AGAIN_AFTER),
                opened => return opened,
            }
        }
        Err(StoreError::Locked)
    }

    /// A read or write error may come from a failing disk, so the disk is doubted.
    fn not_opened(&self, error: &StoreError) -> String {
        match error {
            StoreError::Failed(_) => self.disk.doubt(),
            StoreError::Locked => return "the view is still in use".to_owned(),
            StoreError::Damaged(_) | StoreError::Newer(_) | StoreError::Lost { .. } => {}
        }
        error.to_string()
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
        let options = options.map_err(|error| error.to_string())?;
        let storage = &self.settings.storage;
        Ok(EngineOptions {
            durability: Durability::Replica(replica),
            // The log is trimmed to the older of two snapshots, if that is before a checkpoint.
            snapshot_journal_bytes: storage.snapshot_journal_bytes.min(log_bytes_max / 4),
            checkpoint_log_bytes: Some(storage.checkpoint_log_bytes),
            free_space: Some(Arc::new(DirectorySpace(self.directory.path().to_owned()))),
            keys_carry_home: true,
            recorder: Some(Arc::new(figures.clone())),
            begins_after,
            tenure: Some(Arc::new(EngineTenure(tenure))),
            common: Some(self.common.clone()),
            people: PeopleOptions {
                name: Some(self.people),
                admin_token: Some(self.app.admin_token.hash()),
                ..options.people
            },
            ..options
        })
    }
}

/// The right to act for a shard, in the form that its engine needs.
#[derive(Debug)]
struct EngineTenure(ShardTenure);

impl Tenure for EngineTenure {
    fn holds(&self) -> bool {
        self.0.holds()
    }
}

/// Doubts the disk whenever the engine cannot write. Never returns.
async fn doubt(engine: &Engine, disk: &Disk) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !engine.can_write() {
            disk.doubt();
        }
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
        // The last entry is the claim, which no record reports.
        let tail = log.tail().map_err(|error| error.to_string())?;
        let begins_after = tail.header.map(|claim| Timestamp::from_millis(claim.time_ms));
        let log_bytes_max = checkpoints.log_bytes_max();
        let figures = ShardRecorder::new(self.metrics.recorder(), shard);
        let opened = self.replica(shard, &log, checkpoints);
        let replica = opened.map_err(|error| self.not_opened(&error))?;
        let of = FilesOf { shard, epoch: tail.epoch };
        let files = ShardFiles::new(self.files.clone(), of, Arc::new(EngineTenure(tenure.clone())));
        let replica = replica.with_files(Arc::new(files));
        let holder = tenure.clone();
        let options = self.options(replica, begins_after, log_bytes_max, tenure, &figures)?;
        let claims = ShardNumbers { numbers: self.numbers.clone(), shard };
        let options = EngineOptions { number_claims: Some(Arc::new(claims)), ..options };
        let starting = Engine::start(options);
        let started = self.runtime.block_on(starting).inspect_err(|_| self.disk.doubt());
        let engine = started.map_err(|error| error.to_string())?;
        let (watched, ended, disk) = (engine.clone(), self.ended.clone(), self.disk.clone());
        let watch = self.runtime.spawn(async move {
            tokio::select! {
                () = watched.ended() => {}
                () = doubt(&watched, &disk) => {}
            }
            tracing::error!(shard, "the shard's engine ended by itself");
            ended.notify_one();
        });
        let drain = Drain::default();
        let elsewhere: Arc<dyn Elsewhere> = Arc::new(self.others.clone());
        let options =
            AppOptions { drain: drain.clone(), elsewhere: Some(elsewhere), ..self.app.clone() };
        let (app, started) = (app(engine.clone(), options), engine.clone());
        self.running(|running| {
            running.insert(shard, Running { engine, app, drain, watch, figures })
        });
        // Before the node is a member nothing is known; then it checks the running engines. Nobody
        // waits for this: there may be a thousand numbers to claim after an import.
        let numbers = self.numbers.clone();
        self.runtime.spawn(async move {
            keep_claims(&numbers, (shard, &started), move || holder.holds()).await
        });
        Ok(())
    }

    fn follow(
        &self,
        shard: u16,
        log: Arc<dyn Log>,
        checkpoints: ShardCheckpoints,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, String> {
        let keeper = Keeper { checkpoints, writes: self.writes.clone() };
        let followed =
            self.opened(shard, &log, &keeper, gives_up, |dir, had, from| dir.follow(had, from));
        let (records, at) = followed.map_err(|error| self.not_opened(&error))?;
        // Nobody panics while holding it.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, records);
        Ok(at)
    }

    fn keep(&self, shard: u16, entry: Entry) {
        self.kept.keep(shard, entry);
    }

    fn forget(&self, shard: u16) -> bool {
        self.kept.forget(shard);
        let removed = self.records(shard).remove(self.take_followed(shard));
        if let Err(error) = &removed {
            tracing::warn!(shard, %error, "the records of the shard stay for now");
        }
        removed.is_ok()
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

    fn is_failing(&self) -> bool {
        self.disk.is_failing()
    }

    fn lacks_space(&self) -> bool {
        self.disk.lacks_space()
    }
}
