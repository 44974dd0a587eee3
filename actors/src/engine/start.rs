//! Starting: the store, the records that are held in memory, the hot states, the actors.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use ractor::{Actor, ActorRef};

use crate::access::Access;
use crate::admin::Admin;
use crate::audit::AuditLog;
use crate::metrics::CommitTimes;
use postrider_broadcast::{Broadcasts, recover};
use postrider_channel::sandbox::Sandbox;
use postrider_domain::{AuditEntry, WorkspaceId};
use postrider_number::Numbers;
use postrider_number::providers::Providers;
use postrider_number::record::Stored;
use postrider_people::{People, PeopleOptions};
use postrider_runtime::clock::Clock;
use postrider_runtime::{Hold, ScanPool};
use postrider_store::memory::MemoryStore;
use postrider_store::rebase;
use postrider_store::snapshot::{SnapshotDir, SnapshotError};
use postrider_store::{Change, Log, Store, StoreError, View, Writer, WriterOptions};
use postrider_webhook::Webhooks;
use postrider_workspace::snapshots;
use postrider_workspace::snapshots::{Rebases, Replay};

use postrider_workspace::actor::snapshots::Snapshots;
use postrider_workspace::contacts;
use postrider_workspace::core::otp::pumping_guard::Guard;
use postrider_workspace::core::records;
use postrider_workspace::inbox::deletion;
use postrider_workspace::mailbox::admission::Admission;
use postrider_workspace::mailbox::release::Releaser;
use postrider_workspace::mailbox::slot::WorkspaceEntry;
use postrider_workspace::mailer_state::Mailer;
use postrider_workspace::recovered::Recovered;
use postrider_workspace::removal;
use postrider_workspace::templates::sync as template_sync;

use super::opened::Opened;
use super::root::{Root, RootMessage};
use super::sandbox_reports;
use super::space::Space;
use super::stored_clock::latest_moment;
use super::{
    AdmissionOptions, Durability, Engine, EngineOptions, Inner, SharedRecorder, StartError,
};
use super::{clock_offset, disk, hold, key_check, reencrypt};
use postrider_workspace::directory::Workspaces;
use postrider_workspace::disk_space::DiskSpace;
use postrider_workspace::see_to_counts;
use postrider_workspace::services::Services;

/// Records that one commit of the start changes.
const CHANGES_AT_ONCE: usize = 100;

pub(super) async fn start(options: EngineOptions) -> Result<Engine, StartError> {
    let opened = read(&options).await?;
    start_clock(&options.clock, &opened);
    let view: Arc<dyn View> = opened.store.clone();
    let hold = hold::at_start(&options, view.as_ref(), &opened.writer).await?;
    let webhooks = webhooks(&options, &opened, &hold);
    let sandbox = Arc::new(Sandbox::new(options.sandbox.messages_kept, options.clock.clone()));
    see_to_records(&view, &opened).await?;
    let numbers = Arc::new(numbers(&options, &sandbox, &opened.numbers, &hold));
    let (admission, snapshots) = (admission(&options), snapshots(&options, &opened));
    let broadcasts = broadcasts(&options, &opened, &numbers);
    let space = options.measure().map(Space::new);
    let (data, snapshot_dir) = (opened.data(), opened.snapshots.map(|(dir, _)| dir));
    let shared = Arc::new(Services {
        store: view,
        writer: opened.writer,
        releaser: Releaser::start(Arc::clone(&numbers)),
        clock: options.clock,
        master_keys: options.master_keys,
        limits: options.limits,
        prices: options.prices,
        messages: options.messages,
        guard: Guard::new(options.guard),
        otps: Default::default(),
        callback_items: Default::default(),
        template_syncs: Default::default(),
        otps_per_workspace_max: options.otps_per_workspace_max,
        admission: Arc::new(admission),
        scans: ScanPool::for_this_machine(),
        workspaces: workspaces(opened.workspaces, &opened.damaged),
        numbers,
        webhooks,
        mailer: Mailer::new(options.mail),
        sweep_turns: Default::default(),
        events: options.events,
        broadcasts,
        recovered: Recovered::new(opened.hot, opened.store, snapshot_dir, opened.rebases),
        opt_out: Arc::new(options.opt_out),
        hold,
        creations: Arc::default(),
        counting: Arc::default(),
        disk: DiskSpace::new(options.free_bytes_min),
    });
    if let Some(space) = &space {
        space.measure(&shared).await;
    }
    let access = Access::load(Arc::clone(&shared)).await?;
    let audit = AuditLog::new(Arc::clone(&shared), options.audit);
    record_start(&audit).await?;
    let people = people(&shared, options.people).await?;
    let admin = Admin::new(Arc::clone(&shared), access.clone(), people.clone());
    let (access_of, audit_of) = (access.clone(), audit.clone());
    let root =
        Root { shared: Arc::clone(&shared), snapshots, access: access_of, audit: audit_of, space };
    let waiting = opened.damaged.into_iter().chain(opened.deleting);
    let root = begin(root, options.recorder, opened.removed, waiting).await?;
    go_on(opened.broadcasts, &shared, &sandbox).await;
    let inner = Inner { shared, access, admin, audit, people, sandbox, data, root };
    Ok(Engine { inner: Arc::new(inner) })
}

/// Goes on with what a stop ended, once everything runs.
async fn go_on(broadcasts: recover::Found, shared: &Arc<Services>, sandbox: &Arc<Sandbox>) {
    broadcasts.resume(&shared.broadcasts).await;
    template_sync::resume(shared);
    sandbox_reports::begin(sandbox, shared);
}

/// Everybody who may sign in.
async fn people(shared: &Services, options: PeopleOptions) -> Result<People, StartError> {
    let (store, writer) = (Arc::clone(&shared.store), shared.writer.clone());
    let (clock, keys) = (shared.clock.clone(), shared.master_keys.clone());
    let loaded = People::load(store, writer, clock, keys, options).await;
    loaded.map_err(|error| StartError::Directory(format!("people were not read: {error}")))
}

/// Starts the supervisors, and what must go on by itself.
async fn begin(
    root: Root,
    recorder: Option<SharedRecorder>,
    removed: impl IntoIterator<Item = WorkspaceId>,
    waiting: impl Iterator<Item = WorkspaceId>,
) -> Result<ActorRef<RootMessage>, StartError> {
    let shared = Arc::clone(&root.shared);
    let spawned = Actor::spawn(None, root, ()).await;
    let (root, _) = spawned.map_err(|error| StartError::Actor(error.to_string()))?;
    recorder.iter().for_each(|recorder| crate::metrics::start(&shared, recorder));
    removed.into_iter().for_each(|id| removal::begin(&shared, id, None));
    start_workspaces(&shared, waiting).await;
    follow_webhooks(&shared).await?;
    Ok(root)
}

/// Records the start, before anything else is changed by it.
async fn record_start(audit: &AuditLog) -> Result<(), StartError> {
    let entry = AuditEntry::new("server.start").change("version", env!("CARGO_PKG_VERSION"));
    let failed = |error| StartError::Directory(format!("the start was not recorded: {error}"));
    audit.record(entry).await.map_err(failed)
}

/// Brings records up to date that an earlier version kept otherwise, or not at all.
async fn see_to_records(view: &Arc<dyn View>, opened: &Opened) -> Result<(), StartError> {
    // First, before anything is written under a new master key.
    commit(&opened.writer, &opened.fingerprints).await?;
    commit(&opened.writer, &opened.resealed).await?;
    contacts::see_to_index(view, &opened.writer, &opened.workspaces).await?;
    see_to_counts(view, &opened.writer, &opened.workspaces).await?;
    Ok(())
}

/// Starts the workspaces that hold what must go on by itself: unsent messages, expiries, deletions.
/// A damaged one is parked, so that it can be seen before somebody needs it.
async fn start_workspaces(shared: &Services, others: impl Iterator<Item = WorkspaceId>) {
    for id in shared.recovered.ids().into_iter().chain(others) {
        shared.workspaces.start_and_wait(id).await;
    }
}

/// What the disk has, if the options go with it.
async fn read(options: &EngineOptions) -> Result<Opened, StartError> {
    let of_disk = options.clone();
    let opened = tokio::task::spawn_blocking(move || open(&of_disk));
    let opened = opened.await.map_err(|error| StartError::Directory(error.to_string()))??;
    if !options.allow_moved_clock && !opened.clock_offset.is_zero() {
        return Err(StartError::ClockMoved(opened.clock_offset));
    }
    Ok(opened)
}

/// Has engine time begin where the data ends.
fn start_clock(clock: &Clock, opened: &Opened) {
    // A clock that an engine before this one ran on is there already.
    clock.advance(opened.clock_offset.saturating_sub(clock.offset()));
    if let Some(durable) = opened.durable {
        clock.start_after(durable);
    }
}

/// What takes the snapshots, where there is a directory for them.
fn snapshots(options: &EngineOptions, opened: &Opened) -> Option<Snapshots> {
    let (dir, newest) = opened.snapshots.as_ref()?;
    let journal_bytes_min = options.snapshot_journal_bytes;
    let (dir, log) = (Arc::clone(dir), opened.store.clone());
    let rebases = opened.rebases.clone();
    Some(Snapshots { dir, log, journal_bytes_min, newest: *newest, rebases })
}

fn webhooks(options: &EngineOptions, opened: &Opened, hold: &Hold) -> Arc<Webhooks> {
    Arc::new(Webhooks::new(
        options.webhooks.clone(),
        opened.store.clone(),
        opened.writer.clone(),
        (options.clock.clone(), hold.clone()),
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

/// The bound on commands under way.
fn admission(options: &EngineOptions) -> Admission {
    let AdmissionOptions { in_flight_per_workspace, in_flight_total, .. } = options.admission;
    Admission::new(in_flight_per_workspace, in_flight_total)
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
    sandbox: &Arc<Sandbox>,
    stored: &[Stored],
    hold: &Hold,
) -> Numbers {
    let providers = Providers {
        sandbox: Arc::clone(sandbox),
        custom: options.channel.clone(),
        cloud_api: options.cloud_api.clone(),
        master_keys: options.master_keys.clone(),
        messages_per_second: options.number_messages_per_second,
        pauses: DashMap::new(),
        client: OnceLock::new(),
    };
    let numbers = Numbers::new(providers, options.clock.clone(), hold.clone());
    stored.iter().for_each(|stored| numbers.connect(stored));
    numbers
}

fn open(options: &EngineOptions) -> Result<Opened, StartError> {
    let (keys, clock) = (&options.master_keys, options.clock.clone());
    let (store, on_disk, snapshots): (Arc<dyn Store>, _, _) = match &options.durability {
        Durability::Memory => (Arc::new(MemoryStore::new()), None, None),
        Durability::Custom(store) => (Arc::clone(&store.0), None, None),
        Durability::Disk(dir) => {
            let (store, snapshots) = disk::open(dir, options.segment_bytes)?;
            let times = options.recorder.as_deref().map(|it| CommitTimes::register(it));
            times.into_iter().for_each(|times| store.measure(times));
            let store = Arc::new(store);
            (store.clone(), Some(store), Some(snapshots))
        }
    };
    let fingerprints = key_check::check(store.as_ref(), keys)?;
    let moments = Box::new(move || clock.now());
    let writing = WriterOptions { queued_bytes_max: options.queued_bytes_max };
    let writer = Writer::start_dated(Arc::clone(&store), writing, moments)?;
    let rebases = Rebases::from(rebase::all(store.as_ref())?);
    let mut replay = newest_replay(snapshots.as_ref(), rebases.clone())?;
    let newest = replay.position;
    catch_up(store.as_ref(), &mut replay)?;
    let (mut hot, mut damaged) = replay.into_states();
    let removed = removal::all_marked(store.as_ref())?;
    hot.retain(|id, _| !removed.contains(id));
    damaged.retain(|id| !removed.contains(id));
    let snapshots = snapshots.map(|dir| (Arc::new(dir), newest));
    let durable = latest_moment(store.as_ref(), &hot)?;
    let clock_offset = clock_offset::read(store.as_ref())?;
    let mut workspaces = records::all_ids(store.as_ref())?;
    workspaces.retain(|id| !removed.contains(id));
    let mut numbers = records::all_numbers(store.as_ref())?;
    numbers.retain(|(id, _)| !removed.contains(id));
    let mut deleting = workspaces.clone();
    // One whose records cannot be read is for whoever needs it to find.
    deleting.retain(|id| deletion::any_gone(store.as_ref(), id).unwrap_or_default());
    let broadcasts = recover::find(store.as_ref())?.without(&removed);
    let resealed = reencrypt::changes(store.as_ref(), &workspaces, &numbers, keys)?;
    Ok(Opened {
        store,
        on_disk,
        snapshots,
        rebases,
        writer,
        hot,
        damaged,
        workspaces,
        removed,
        deleting,
        numbers,
        clock_offset,
        durable,
        broadcasts,
        fingerprints,
        resealed,
    })
}

/// Makes changes durable, some at a time.
async fn commit(writer: &Writer, changes: &[Change]) -> Result<(), StartError> {
    for some in changes.chunks(CHANGES_AT_ONCE) {
        let failed = |error| StartError::Directory(format!("keys could not be changed: {error}"));
        writer.commit(some.to_vec()).await.map_err(failed)?;
    }
    Ok(())
}

pub(super) fn snapshot_error(error: SnapshotError) -> StartError {
    StartError::Directory(error.to_string())
}

/// A replay that stands at the newest snapshot.
pub(super) fn newest_replay(
    snapshots: Option<&SnapshotDir>,
    rebases: Rebases,
) -> Result<Replay, StartError> {
    match snapshots {
        Some(dir) => snapshots::load(dir, rebases).map_err(snapshot_error),
        None => Ok(Replay::from_start(rebases)),
    }
}

/// Replays the journal after a snapshot.
pub(super) fn catch_up(store: &dyn Log, replay: &mut Replay) -> Result<(), StoreError> {
    let mut frames = 0_u64;
    let from = replay.position;
    let end = postrider_store::log::replay(store, from, &mut |frame| {
        frames += 1;
        replay.apply(&frame);
        ControlFlow::Continue(())
    })?;
    replay.reach(end);
    tracing::debug!(frames, from = from.0, "the journal was replayed");
    Ok(())
}
