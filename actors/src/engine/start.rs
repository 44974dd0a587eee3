//! Starting: the store, the records that are held in memory, the hot states, the actors.

use std::sync::Arc;

use dashmap::DashMap;
use ractor::{Actor, ActorRef};

use crate::access::Access;
use crate::admin::{Admin, NumberClaims};
use crate::audit::{AuditLog, AuditOptions};
use crate::copies::DataSource;
use crate::operations::{OnDisk, Operations};
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
use postrider_workspace::core::otp::pumping_guard::Guard;
use postrider_workspace::core::portfolio::Portfolios;
use postrider_workspace::courier_state::Courier;
use postrider_workspace::inbox::bulk;
use postrider_workspace::mailbox::release::Releaser;
use postrider_workspace::mailbox::slot::WorkspaceEntry;
use postrider_workspace::mailer_state::Mailer;
use postrider_workspace::media::upkeep;
use postrider_workspace::recovered::Recovered;
use postrider_workspace::removal;
use postrider_workspace::snapshots::KeptAside;
use postrider_workspace::templates::sync as template_sync;

use super::checkpoints::Checkpoints;
use super::common::Common;
use super::opened::Opened;
use super::opening::open;
use super::root::{Root, RootMessage};
use super::sandbox_reports;
use super::space::Space;
use super::{
    Durability, Engine, EngineOptions, Inner, SharedRecorder, StartError, disk, hold, media,
};
use postrider_workspace::directory::Workspaces;
use postrider_workspace::disk_space::DiskSpace;
use postrider_workspace::services::Services;

/// Records that one commit of the start changes.
const CHANGES_AT_ONCE: usize = 100;

/// Starts. If that comes upon a record that cannot be read, the view is built anew, once.
pub(super) async fn start(options: EngineOptions) -> Result<Engine, StartError> {
    let again = options.clone();
    match (start_once(options).await, again.durability.clone()) {
        (Err(StartError::Store(damaged @ StoreError::Damaged(_))), Durability::Disk(dir)) => {
            let (bytes, rebuilding) = (again.segment_bytes, again.rebuilding.clone());
            let now = again.clock.now();
            let rebuilt = tokio::task::spawn_blocking(move || {
                disk::rebuild_if_unreadable(&dir, bytes, now, &rebuilding)
            });
            // What the start came upon says more than why nothing can be done about it, unless
            // the view is what is damaged.
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
    let opened = read(&options).await?;
    let view: Arc<dyn View> = opened.store.clone();
    let hold = hold::at_start(&options, view.as_ref(), &opened.writer).await?;
    let common = options.common.clone().unwrap_or_else(|| Common::new(&options.webhooks));
    let webhooks = webhooks(&options, &common, &opened, &hold);
    let sandbox = Arc::new(Sandbox::new(options.sandbox.messages_kept, options.clock.clone()));
    commit_keys(&opened).await?;
    let numbers = Arc::new(numbers(&options, &common, &sandbox, &opened, &hold));
    let broadcasts = broadcasts(&options, &opened, &numbers);
    let (data, snapshots) = (opened.data(), snapshots(&options, &opened));
    let (space, on_disk) = (options.measure().map(Space::new), on_disk(&options, &opened));
    let checkpoints = Checkpoints::start(&options, data.as_ref())?;
    let (dir, keys_carry_home) = (opened.snapshots.map(|(dir, _)| dir), options.keys_carry_home);
    let shared = Arc::new(Services {
        media: media::open(&options).await?,
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
        guard: Guard::new(options.guard),
        otp: options.otp,
        otps: Default::default(),
        callback_items: Default::default(),
        template_syncs: Default::default(),
        otps_per_workspace_max: options.otps_per_workspace_max,
        scans: ScanPool::for_this_machine(),
        workspaces: workspaces(opened.workspaces, &opened.damaged),
        numbers,
        webhooks,
        courier: Courier::new(Arc::clone(&sandbox)),
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
    let unfinished = Unfinished { broadcasts, removed, waiting };
    let prepared =
        Prepared { shared, sandbox, snapshots, space, data, on_disk, checkpoints, keys_carry_home };
    let claims = options.number_claims;
    prepared.run((options.audit, options.people, options.recorder), claims, unfinished).await
}

/// Commits what a new master key changes, before anything else is written under it.
async fn commit_keys(opened: &Opened) -> Result<(), StartError> {
    commit(&opened.writer, &opened.fingerprints).await?;
    commit(&opened.writer, &opened.resealed).await?;
    Ok(())
}

/// What a stop left to be continued.
struct Unfinished {
    broadcasts: recover::Found,
    removed: Vec<WorkspaceId>,
    /// Damaged ones, and such whose rows are being deleted.
    waiting: Vec<WorkspaceId>,
}

/// What is made before anything runs.
struct Prepared {
    shared: Arc<Services>,
    sandbox: Arc<Sandbox>,
    snapshots: Option<Snapshots>,
    space: Option<Space>,
    data: Option<DataSource>,
    on_disk: Option<OnDisk>,
    checkpoints: Option<Arc<Checkpoints>>,
    keys_carry_home: bool,
}

impl Prepared {
    /// Starts everything, and goes on with what is not finished.
    async fn run(
        self,
        (audit, people, recorder): (AuditOptions, PeopleOptions, Option<SharedRecorder>),
        claims: Option<Arc<dyn NumberClaims>>,
        unfinished: Unfinished,
    ) -> Result<Engine, StartError> {
        let Self { shared, sandbox, snapshots, space, data, on_disk, checkpoints, .. } = self;
        Space::measure_first(space.as_ref(), &shared).await;
        let access = Access::load(Arc::clone(&shared), self.keys_carry_home).await?;
        let audit = recorded_start(&shared, audit).await?;
        let people = access.load_people(people).await;
        let people = people
            .map_err(|error| StartError::Directory(format!("people were not read: {error}")))?;
        let admin = Admin::new(Arc::clone(&shared), access.clone(), people.clone(), claims);
        let (access_of, audit_of, of_root) = (access.clone(), audit.clone(), Arc::clone(&shared));
        let root = Root { shared: of_root, snapshots, access: access_of, audit: audit_of, space };
        let root = begin(root, unfinished.removed, unfinished.waiting).await?;
        show(recorder, &shared, checkpoints.as_deref());
        go_on(unfinished.broadcasts, &shared, &sandbox).await;
        drop(tokio::spawn(upkeep::run(Arc::downgrade(&shared))));
        postrider_workspace::numbers::check_daily::begin(&shared);
        let operations = Operations::new(Arc::clone(&shared), on_disk);
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

/// Samples the figures from now on.
fn show(
    recorder: Option<SharedRecorder>,
    shared: &Arc<Services>,
    checkpoints: Option<&Checkpoints>,
) {
    let figures = checkpoints.map(Checkpoints::figures).unwrap_or_default();
    recorder.iter().for_each(|it| crate::metrics::start(shared, it, figures.clone()));
}

/// Goes on with what a stop ended, once everything runs.
async fn go_on(broadcasts: recover::Found, shared: &Arc<Services>, sandbox: &Arc<Sandbox>) {
    broadcasts.resume(&shared.broadcasts).await;
    template_sync::resume(shared);
    bulk::resume(shared);
    sandbox_reports::begin(sandbox, shared);
}

/// Starts the supervisors, and what must go on by itself.
async fn begin(
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

/// Records the start, before anything else is changed by it.
async fn recorded_start(
    shared: &Arc<Services>,
    options: AuditOptions,
) -> Result<AuditLog, StartError> {
    let audit = AuditLog::new(Arc::clone(shared), options);
    let entry = AuditEntry::new("server.start").change("version", env!("CARGO_PKG_VERSION"));
    let failed = |error| StartError::Directory(format!("the start was not recorded: {error}"));
    audit.record(entry).await.map_err(failed)?;
    Ok(audit)
}

/// Starts the workspaces that hold what must go on by itself: unsent messages, expiries, deletions.
/// A damaged one is parked, so that it can be seen before somebody needs it.
async fn start_workspaces(shared: &Services, others: impl Iterator<Item = WorkspaceId>) {
    for id in shared.recovered.ids().into_iter().chain(others) {
        shared.workspaces.start_and_wait(id).await;
    }
}

/// What the disk has, if the options go with it. Engine time begins behind it.
async fn read(options: &EngineOptions) -> Result<Opened, StartError> {
    let of_disk = options.clone();
    let opened = tokio::task::spawn_blocking(move || open(&of_disk));
    let opened = opened.await.map_err(|error| StartError::Directory(error.to_string()))??;
    if !options.allow_moved_clock && !opened.clock_offset.is_zero() {
        return Err(StartError::ClockMoved(opened.clock_offset));
    }
    start_clock(options, &opened);
    Ok(opened)
}

/// Has engine time begin where the data ends.
fn start_clock(options: &EngineOptions, opened: &Opened) {
    let clock = &options.clock;
    // A clock that an engine before this one ran on is there already.
    clock.advance(opened.clock_offset.saturating_sub(clock.offset()));
    // The records come first: how old they are says whether the clock may be wrong.
    opened.durable.into_iter().chain(options.begins_after).for_each(|it| clock.start_after(it));
}

/// Where the data is, if it is in a directory.
fn on_disk(options: &EngineOptions, opened: &Opened) -> Option<OnDisk> {
    let Durability::Disk(dir) = &options.durability else { return None };
    let commits = opened.commits.as_ref()?;
    let (snapshots, _) = opened.snapshots.as_ref()?;
    let (commits, snapshots) = (Arc::clone(commits), Arc::clone(snapshots));
    Some(OnDisk { dir: dir.clone(), snapshots, commits })
}

/// What takes the snapshots, where there is a directory for them.
fn snapshots(options: &EngineOptions, opened: &Opened) -> Option<Snapshots> {
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

fn webhooks(
    options: &EngineOptions,
    common: &Common,
    opened: &Opened,
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

fn broadcasts(options: &EngineOptions, opened: &Opened, numbers: &Arc<Numbers>) -> Arc<Broadcasts> {
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

/// Has what was not delivered before the start go out.
async fn follow_webhooks(shared: &Arc<Services>) -> Result<(), StartError> {
    let shared = Arc::clone(shared);
    let following = move || {
        let slots = shared.workspaces.slots();
        shared.webhooks.follow_all(slots.iter().map(|slot| (&slot.id, &slot.subscribers)))
    };
    let followed = tokio::task::spawn_blocking(following).await;
    Ok(followed.map_err(|error| StartError::Directory(error.to_string()))??)
}

/// The directory of workspaces.
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

/// The numbers that are connected.
fn numbers(
    options: &EngineOptions,
    common: &Common,
    sandbox: &Arc<Sandbox>,
    opened: &Opened,
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

/// Makes changes durable, some at a time.
async fn commit(writer: &Writer, changes: &[Change]) -> Result<(), StartError> {
    for some in changes.chunks(CHANGES_AT_ONCE) {
        let failed = |error| StartError::Directory(format!("keys could not be changed: {error}"));
        writer.commit(some.to_vec()).await.map_err(failed)?;
    }
    Ok(())
}
