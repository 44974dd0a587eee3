//! Starts the engine: the store, then the records in memory, the hot states, and the actors.

use std::sync::Arc;

use dashmap::DashMap;
use postrider_broadcast::{Broadcasts, recover};
use postrider_channel::sandbox::Sandbox;
use postrider_domain::{AuditEntry, WorkspaceId};
use postrider_number::Numbers;
use postrider_number::providers::Providers;
use postrider_people::PeopleOptions;
use postrider_runtime::{Hold, ScanPool};
use postrider_store::directory::DirectoryError;
use postrider_store::{Change, StoreError, View, Writer};
use postrider_webhook::Webhooks;
use postrider_workspace::actor::snapshots::Snapshots;
use postrider_workspace::core::otp::pumping_guard::PumpingGuard;
use postrider_workspace::core::portfolio::Portfolios;
use postrider_workspace::directory::Workspaces;
use postrider_workspace::disk_space::DiskSpace;
use postrider_workspace::inbox::bulk;
use postrider_workspace::mailbox::output_gate::Releaser;
use postrider_workspace::mailbox::slot::WorkspaceEntry;
use postrider_workspace::media::upkeep;
use postrider_workspace::recovered::Recovered;
use postrider_workspace::removal;
use postrider_workspace::services::{Mailer, Services, StepWorkers};
use postrider_workspace::snapshots::KeptAside;
use postrider_workspace::templates::sync as template_sync;
use ractor::{Actor, ActorRef};

use super::callbacks::deliver_sandbox_reports;
use super::checkpoints::Checkpoints;
use super::opening::{OpenedData, open_data, open_media, rebuild_if_unreadable};
use super::root::{Root, RootMessage, SpaceMeter};
use super::{
    Common, Durability, Engine, EngineOptions, Inner, SharedRecorder, StartError, restore_hold,
};
use crate::access::Access;
use crate::admin::{Admin, NumberClaims};
use crate::audit::{AuditLog, AuditOptions};
use crate::copies::DataSource;
use crate::operations::{OnDisk, Operations};

/// Records that one commit of the start changes.
const CHANGES_AT_ONCE: usize = 100;

/// Starts an engine. If a record cannot be read, the view is built anew, once.
pub(super) async fn start(options: EngineOptions) -> Result<Engine, StartError> {
    let again = options.clone();
    match (start_once(options).await, again.durability.clone()) {
        (Err(StartError::Store(damaged @ StoreError::Damaged(_))), Durability::Disk(dir)) => {
            let (bytes, rebuilding) = (again.segment_bytes, again.rebuilding.clone());
            let now = again.clock.now();
            let rebuilt = tokio::task::spawn_blocking(move || {
                rebuild_if_unreadable(&dir, bytes, now, &rebuilding)
            });
            // The damage that the start came upon says more than the failure of the rebuild,
            // unless the view itself is damaged.
            match rebuilt.await {
                Ok(Ok(true)) => start_once(again).await,
                Ok(Err(DirectoryError::Store(error @ StoreError::Damaged(_)))) => Err(error.into()),
                _ => Err(damaged.into()),
            }
        }
        (outcome, _) => outcome,
    }
}

async fn start_once(options: EngineOptions) -> Result<Engine, StartError> {
    let opened = read_data(&options).await?;
    let view: Arc<dyn View> = opened.store.clone();
    let hold = restore_hold::at_start(&options, view.as_ref(), &opened.writer).await?;
    let common = options.common.clone().unwrap_or_else(|| Common::new(&options.webhooks));
    let webhooks = webhooks(&options, &common, &opened, &hold);
    let sandbox = Arc::new(Sandbox::new(options.sandbox.messages_kept, options.clock.clone()));
    commit_keys(&opened).await?;
    let numbers = Arc::new(numbers(&options, &common, &sandbox, &opened, &hold));
    let broadcasts = broadcasts(&options, &opened, &numbers);
    let (data, snapshots) = (opened.data(), snapshots(&options, &opened));
    let (space, disk) = (options.measure().map(SpaceMeter::new), on_disk(&options, &opened));
    let checkpoints = Checkpoints::start(&options, data.as_ref())?;
    let (dir, keys_carry_home) = (opened.snapshots.map(|(dir, _)| dir), options.keys_carry_home);
    let shared = Arc::new(Services {
        media: open_media(&options).await?,
        admission: common.admission(options.admission),
        portfolios: Arc::new(Portfolios::new(&options.master_keys)),
        store: view,
        writer: opened.writer,
        releaser: Releaser::start(Arc::clone(&numbers)),
        started_at: options.clock.now(),
        clock: options.clock,
        master_keys: options.master_keys,
        limits: options.limits,
        prices: options.prices,
        messages: options.messages,
        guard: PumpingGuard::new(options.guard),
        otp: options.otp,
        otps: Default::default(),
        callback_items: Default::default(),
        template_syncs: Default::default(),
        otps_per_workspace_max: options.otps_per_workspace_max,
        scans: ScanPool::for_this_machine(),
        workspaces: workspaces(opened.workspaces, &opened.damaged),
        numbers,
        webhooks,
        step_workers: StepWorkers::new(Arc::clone(&sandbox)),
        mailer: Mailer::new(options.mail),
        sweep_turns: Default::default(),
        events: options.events,
        broadcasts,
        recovered: Recovered::new(opened.hot, opened.store, dir, opened.rebases),
        opt_out: Arc::new(options.opt_out),
        hold,
        traces: options.traces,
        creations: Arc::default(),
        counting: Arc::default(),
        disk: DiskSpace::new(options.free_bytes_min),
        kept_aside: snapshots.as_ref().map(|it| it.kept.clone()).unwrap_or_default(),
    });
    let waiting = opened.damaged.into_iter().chain(opened.deleting).collect();
    let (broadcasts, removed) = (opened.broadcasts, opened.removed);
    let unfinished = UnfinishedWork { broadcasts, removed, waiting };
    let parts =
        EngineParts { shared, sandbox, snapshots, space, data, disk, checkpoints, keys_carry_home };
    let claims = options.number_claims;
    parts.run((options.audit, options.people, options.recorder), claims, unfinished).await
}

/// Reads the data on the disk, if the options allow it. Engine time begins behind it.
async fn read_data(options: &EngineOptions) -> Result<OpenedData, StartError> {
    let of_disk = options.clone();
    let opened = tokio::task::spawn_blocking(move || open_data(&of_disk));
    let opened = opened.await.map_err(|error| StartError::Directory(error.to_string()))??;
    if !options.allow_moved_clock && !opened.clock_offset.is_zero() {
        return Err(StartError::ClockMoved(opened.clock_offset));
    }
    start_clock(options, &opened);
    Ok(opened)
}

/// Starts engine time where the data ends.
fn start_clock(options: &EngineOptions, opened: &OpenedData) {
    let clock = &options.clock;
    // A clock of an earlier engine of this process has the offset already.
    clock.advance(opened.clock_offset.saturating_sub(clock.offset()));
    // The records come first: how old they are says whether the clock may be wrong.
    opened.durable.into_iter().chain(options.begins_after).for_each(|it| clock.start_after(it));
}

/// The parts that are made before anything runs.
struct EngineParts {
    shared: Arc<Services>,
    sandbox: Arc<Sandbox>,
    snapshots: Option<Snapshots>,
    space: Option<SpaceMeter>,
    data: Option<DataSource>,
    disk: Option<OnDisk>,
    checkpoints: Option<Arc<Checkpoints>>,
    keys_carry_home: bool,
}

/// The work that a stop left to be continued.
struct UnfinishedWork {
    broadcasts: recover::Found,
    removed: Vec<WorkspaceId>,
    /// Damaged workspaces, and those whose rows are being deleted.
    waiting: Vec<WorkspaceId>,
}

impl EngineParts {
    /// Starts everything, and resumes the unfinished work.
    async fn run(
        self,
        (audit, people, recorder): (AuditOptions, PeopleOptions, Option<SharedRecorder>),
        claims: Option<Arc<dyn NumberClaims>>,
        unfinished: UnfinishedWork,
    ) -> Result<Engine, StartError> {
        let Self { shared, sandbox, snapshots, space, data, disk, checkpoints, .. } = self;
        SpaceMeter::measure_first(space.as_ref(), &shared).await;
        let access = Access::load(Arc::clone(&shared), self.keys_carry_home).await?;
        let audit = record_start(&shared, audit).await?;
        let people = access.load_people(people).await;
        let people = people
            .map_err(|error| StartError::Directory(format!("people were not read: {error}")))?;
        let admin = Admin::new(Arc::clone(&shared), access.clone(), people.clone(), claims);
        let (access_of, audit_of, of_root) = (access.clone(), audit.clone(), Arc::clone(&shared));
        let root = Root { shared: of_root, snapshots, access: access_of, audit: audit_of, space };
        let root = start_actors(root, unfinished.removed, unfinished.waiting).await?;
        start_metrics(recorder, &shared, checkpoints.as_deref());
        resume_unfinished(unfinished.broadcasts, &shared, &sandbox).await;
        drop(tokio::spawn(upkeep::run(Arc::downgrade(&shared))));
        postrider_workspace::numbers::check_daily::begin(&shared);
        let operations = Operations::new(Arc::clone(&shared), disk);
        let inner = Inner {
            shared,
            access,
            admin,
            operations,
            audit,
            people,
            sandbox,
            data,
            checkpoints,
            root,
        };
        Ok(Engine { inner: Arc::new(inner) })
    }
}

/// Records the start, before anything else is changed by it.
async fn record_start(
    shared: &Arc<Services>,
    options: AuditOptions,
) -> Result<AuditLog, StartError> {
    let audit = AuditLog::new(Arc::clone(shared), options);
    let entry = AuditEntry::new("server.start").change("version", env!("CARGO_PKG_VERSION"));
    let failed = |error| StartError::Directory(format!("the start was not recorded: {error}"));
    audit.record(entry).await.map_err(failed)?;
    Ok(audit)
}

/// Starts the supervisors, and the workspaces and endpoints with work of their own.
async fn start_actors(
    root: Root,
    removed: Vec<WorkspaceId>,
    waiting: Vec<WorkspaceId>,
) -> Result<ActorRef<RootMessage>, StartError> {
    let shared = Arc::clone(&root.shared);
    let spawned = Actor::spawn(None, root, ()).await;
    let (root, _) = spawned.map_err(|error| StartError::Actor(error.to_string()))?;
    removed.into_iter().for_each(|id| removal::begin(&shared, id, None));
    start_workspaces(&shared, waiting.into_iter()).await;
    follow_webhooks(&shared).await?;
    Ok(root)
}

/// Starts the workspaces with work of their own: unsent messages, expiries, deletions. A damaged
/// one is parked, so that it can be seen before somebody needs it.
async fn start_workspaces(shared: &Services, others: impl Iterator<Item = WorkspaceId>) {
    let recovered = shared.recovered.ids();
    for slot in recovered.iter().filter_map(|id| shared.workspaces.slot(id)) {
        slot.hide_messages();
    }
    for id in recovered.into_iter().chain(others) {
        shared.workspaces.start_and_wait(id).await;
    }
}

/// Starts the delivery of events that were not delivered before the start.
async fn follow_webhooks(shared: &Arc<Services>) -> Result<(), StartError> {
    let shared = Arc::clone(shared);
    let following = move || {
        let slots = shared.workspaces.slots();
        shared.webhooks.follow_all(slots.iter().map(|slot| (&slot.id, &slot.subscribers)))
    };
    let followed = tokio::task::spawn_blocking(following).await;
    Ok(followed.map_err(|error| StartError::Directory(error.to_string()))??)
}

/// Samples the figures from now on.
fn start_metrics(
    recorder: Option<SharedRecorder>,
    shared: &Arc<Services>,
    checkpoints: Option<&Checkpoints>,
) {
    let figures = checkpoints.map(Checkpoints::figures).unwrap_or_default();
    recorder.iter().for_each(|it| crate::metrics::start(shared, it, figures.clone()));
}

/// Resumes the work that a stop ended, once everything runs.
async fn resume_unfinished(
    broadcasts: recover::Found,
    shared: &Arc<Services>,
    sandbox: &Arc<Sandbox>,
) {
    broadcasts.resume(&shared.broadcasts).await;
    template_sync::resume(shared);
    bulk::resume(shared);
    deliver_sandbox_reports(sandbox, shared);
}

fn webhooks(
    options: &EngineOptions,
    common: &Common,
    opened: &OpenedData,
    hold: &Hold,
) -> Arc<Webhooks> {
    Arc::new(Webhooks::new(
        options.webhooks.clone(),
        Arc::clone(&common.webhook_requests),
        opened.store.clone(),
        opened.writer.clone(),
        (options.clock.clone(), hold.clone(), options.traces.clone()),
        options.master_keys.clone(),
    ))
}

fn broadcasts(
    options: &EngineOptions,
    opened: &OpenedData,
    numbers: &Arc<Numbers>,
) -> Arc<Broadcasts> {
    let services = postrider_broadcast::Services {
        view: opened.store.clone(),
        writer: opened.writer.clone(),
        clock: options.clock.clone(),
        numbers: Arc::clone(numbers),
        give_up: options.messages.give_up,
        reassign_after: options.messages.reassign_after,
    };
    Arc::new(Broadcasts::new(options.broadcasts, services))
}

/// Returns the connected numbers.
fn numbers(
    options: &EngineOptions,
    common: &Common,
    sandbox: &Arc<Sandbox>,
    opened: &OpenedData,
    hold: &Hold,
) -> Numbers {
    let providers = Providers {
        sandbox: Arc::clone(sandbox),
        custom: options.channel.clone(),
        cloud_api: options.cloud_api.clone(),
        master_keys: options.master_keys.clone(),
        messages_per_second: options.number_messages_per_second,
        pauses: DashMap::new(),
        client: common.cloud_api.clone(),
    };
    let (clock, traces) = (options.clock.clone(), options.traces.clone());
    let numbers = Numbers::new(providers, clock, hold.clone(), traces);
    opened.numbers.iter().for_each(|stored| numbers.connect(stored));
    for (number, facts) in &opened.facts {
        numbers.learn(*number, facts.clone());
    }
    numbers
}

/// Returns the directory of workspaces.
fn workspaces(all: Vec<WorkspaceId>, damaged: &[WorkspaceId]) -> Workspaces {
    let workspaces = Workspaces::default();
    for id in all {
        workspaces.slot_or_insert_with(id.clone(), || WorkspaceEntry::new(id));
    }
    for slot in damaged.iter().filter_map(|id| workspaces.slot(id)) {
        slot.enter();
    }
    workspaces
}

/// Returns the actor that takes the snapshots, if there is a directory for them.
fn snapshots(options: &EngineOptions, opened: &OpenedData) -> Option<Snapshots> {
    let (dir, newest) = opened.snapshots.as_ref()?;
    let journal_bytes_min = options.snapshot_journal_bytes;
    let (dir, log) = (Arc::clone(dir), opened.store.clone());
    let whole_log_bytes_max = match &options.durability {
        Durability::Replica(replica) => Some(replica.whole_log_bytes_max()),
        _ => None,
    };
    let (newest, rebases, kept) = (*newest, opened.rebases.clone(), KeptAside::default());
    Some(Snapshots { dir, log, journal_bytes_min, whole_log_bytes_max, newest, rebases, kept })
}

/// Returns the place of the data, if it is in a directory.
fn on_disk(options: &EngineOptions, opened: &OpenedData) -> Option<OnDisk> {
    let Durability::Disk(dir) = &options.durability else { return None };
    let commits = opened.commits.as_ref()?;
    let (snapshots, _) = opened.snapshots.as_ref()?;
    let (commits, snapshots) = (Arc::clone(commits), Arc::clone(snapshots));
    Some(OnDisk { dir: dir.clone(), snapshots, commits })
}

/// Commits the changes of a new master key, before anything else is written under it.
async fn commit_keys(opened: &OpenedData) -> Result<(), StartError> {
    commit(&opened.writer, &opened.fingerprints).await?;
    commit(&opened.writer, &opened.resealed).await?;
    Ok(())
}

/// Makes changes durable, some at a time.
async fn commit(writer: &Writer, changes: &[Change]) -> Result<(), StartError> {
    for some in changes.chunks(CHANGES_AT_ONCE) {
        let failed = |error| StartError::Directory(format!("keys could not be changed: {error}"));
        writer.commit(some.to_vec()).await.map_err(failed)?;
    }
    Ok(())
}
