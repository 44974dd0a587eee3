//! Opens the durable data: the store, the hot states, and the records that a start needs.

use std::sync::Arc;

use postrider_broadcast::recover;
use postrider_store::directory;
use postrider_store::memory::MemoryStore;
use postrider_store::rebase;
use postrider_store::snapshot::{SnapshotDir, SnapshotError};
use postrider_store::{Log, Position, Store, StoreError, Writer, WriterOptions, writer};
use postrider_workspace::core::records;
use postrider_workspace::inbox::deletion;
use postrider_workspace::removal;
use postrider_workspace::snapshots::{self, Rebases, Replay};

use super::opened::Opened;
use super::{Durability, EngineOptions, StartError};
use super::{checkpoints, clock_offset, disk, key_check, reencrypt};
use crate::copies::DataSource;
use crate::metrics::{CommitTimes, RecentCommits};

/// The place of the durable data.
struct Kept {
    store: Arc<dyn Store>,
    /// The same store if it is in a directory, and the durations of its last commits.
    data: Option<DataSource>,
    commits: Option<Arc<RecentCommits>>,
    snapshots: Option<Arc<SnapshotDir>>,
}

impl Kept {
    /// Returns a store that is in no directory.
    fn elsewhere(store: Arc<dyn Store>) -> Self {
        Self { store, data: None, commits: None, snapshots: None }
    }
}

/// Opens and reads everything that a start needs. Blocks.
pub(super) fn open(options: &EngineOptions) -> Result<Opened, StartError> {
    let (keys, clock) = (&options.master_keys, options.clock.clone());
    let Kept { store, data, commits, snapshots } = kept(options)?;
    let fingerprints = key_check::check(store.as_ref(), keys)?;
    let moments = Box::new(move || clock.now());
    let writing = WriterOptions { queued_bytes_max: options.queued_bytes_max };
    let writer = Writer::start_dated(Arc::clone(&store), writing, moments)?;
    let rebases = Rebases::from(rebase::all(store.as_ref())?);
    let begins_after = store.begins_after()?;
    let mut replay = first_replay(snapshots.as_deref(), data.as_ref(), begins_after, &rebases)?;
    let newest = replay.position;
    catch_up(store.as_ref(), &mut replay)?;
    let (mut hot, mut damaged) = replay.into_states();
    let removed = removal::all_marked(store.as_ref())?;
    hot.retain(|id, _| !removed.contains(id));
    damaged.retain(|id| !removed.contains(id));
    let snapshots = snapshots.map(|dir| (dir, newest));
    let durable = writer::last_moment(store.as_ref())?;
    let clock_offset = clock_offset::read(store.as_ref())?;
    let mut workspaces = records::all_ids(store.as_ref())?;
    workspaces.retain(|id| !removed.contains(id));
    let mut numbers = records::all_numbers(store.as_ref())?;
    numbers.retain(|(id, _)| !removed.contains(id));
    let facts = records::all_facts(store.as_ref())?;
    let mut deleting = workspaces.clone();
    // Damaged records are left for the code that needs them.
    deleting.retain(|id| deletion::any_deleted(store.as_ref(), id).unwrap_or_default());
    let broadcasts = recover::find(store.as_ref())?.without(&removed);
    let resealed = reencrypt::changes(store.as_ref(), &workspaces, &numbers, keys)?;
    Ok(Opened {
        store,
        data,
        commits,
        snapshots,
        rebases,
        writer,
        hot,
        damaged,
        workspaces,
        removed,
        deleting,
        numbers,
        facts,
        clock_offset,
        durable,
        broadcasts,
        fingerprints,
        resealed,
    })
}

fn kept(options: &EngineOptions) -> Result<Kept, StartError> {
    let dir = match &options.durability {
        Durability::Memory => {
            return Ok(Kept::elsewhere(Arc::new(MemoryStore::new())));
        }
        Durability::Custom(store) => {
            return Ok(Kept::elsewhere(Arc::clone(&store.0)));
        }
        Durability::Replica(replica) => {
            let data = replica.data.clone();
            let (store, snapshots) = (data.shared_store(), data.snapshots());
            return Ok(Kept { store, data: Some(data), commits: None, snapshots: Some(snapshots) });
        }
        Durability::Disk(dir) => dir,
    };
    let (store, snapshots) =
        disk::open(dir, options.segment_bytes, options.clock.now(), &options.rebuilding)?;
    let (times, commits) = CommitTimes::register(options.recorder.as_deref().map(|it| it as _));
    store.measure(times);
    let (store, snapshots) = (Arc::new(store), Arc::new(snapshots));
    let checkpoints = directory::checkpoints(dir);
    let data = DataSource::new(Arc::clone(&store), Arc::clone(&snapshots), checkpoints);
    Ok(Kept { store, data: Some(data), commits: Some(commits), snapshots: Some(snapshots) })
}

/// Returns a replay that starts at the newest snapshot. If no snapshot from which the log continues
/// is whole, it starts at a checkpoint.
fn first_replay(
    snapshots: Option<&SnapshotDir>,
    data: Option<&DataSource>,
    log_begins_after: Position,
    rebases: &Rebases,
) -> Result<Replay, StartError> {
    let replay = newest_replay(snapshots, rebases.clone())?;
    let (Some(snapshots), Some(data)) = (snapshots, data) else { return Ok(replay) };
    if replay.position >= log_begins_after {
        return Ok(replay);
    }
    let Some(loaded) = checkpoints::hot_states(data)? else { return Ok(replay) };
    // It becomes a snapshot, for this start and for the rebuild of one workspace.
    let entries = loaded.entries.iter().cloned();
    snapshots.write(loaded.position, entries).map_err(snapshot_error)?;
    Ok(snapshots::replay_of(&loaded, rebases.clone()))
}

fn snapshot_error(error: SnapshotError) -> StartError {
    StartError::Directory(error.to_string())
}

/// Returns a replay that starts at the newest snapshot.
fn newest_replay(snapshots: Option<&SnapshotDir>, rebases: Rebases) -> Result<Replay, StartError> {
    match snapshots {
        Some(dir) => snapshots::load(dir, rebases).map_err(snapshot_error),
        None => Ok(Replay::from_start(rebases)),
    }
}

/// Replays the journal after a snapshot.
fn catch_up(store: &dyn Log, replay: &mut Replay) -> Result<(), StoreError> {
    let from = replay.position;
    let frames = replay.catch_up(store)?;
    tracing::debug!(frames, from = from.0, "the journal was replayed");
    Ok(())
}
