//! Opens the durable data: the store, the hot states, the files, and the records of a start.
//!
//! It also carries out the repair of a data directory that no engine uses.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_broadcast::recover;
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::{NumberId, Timestamp, WorkspaceId};
use postrider_number::record::Stored;
use postrider_runtime::random;
use postrider_store::blobs::{BlobStore, FileBlobs, MemoryBlobs};
use postrider_store::directory::{self, DirectoryError, DirectoryOptions, MEDIA};
use postrider_store::memory::MemoryStore;
use postrider_store::repair::{self, Plan, RepairError, Repaired};
use postrider_store::snapshot::{SnapshotDir, SnapshotError};
use postrider_store::{
    Change, Log, LogStore, Position, Rebuilding, Store, StoreError, Writer, WriterOptions, Writes,
    log, rebase, writer,
};
use postrider_workspace::core::hot_state::HotState;
use postrider_workspace::core::records;
use postrider_workspace::inbox::deletion;
use postrider_workspace::snapshots::{self, Rebases, Replay};
use postrider_workspace::{MediaFiles, removal};

use super::stored_clock::read_clock_offset;
use super::{Durability, EngineOptions, StartError, checkpoints, master_keys};
use crate::copies::DataSource;
use crate::metrics::{CommitTimes, RecentCommits};

/// The data that a start reads from the disk, before anything runs.
pub(super) struct OpenedData {
    pub(super) store: Arc<dyn Store>,
    /// The same store, if it is in a directory.
    pub(super) data: Option<DataSource>,
    /// The durations of its last commits, if it is in a directory.
    pub(super) commits: Option<Arc<RecentCommits>>,
    /// The snapshots and the position of the newest one.
    pub(super) snapshots: Option<(Arc<SnapshotDir>, Position)>,
    /// The rebases of the clock in the journal.
    pub(super) rebases: Rebases,
    pub(super) writer: Writer,
    /// The hot states of the workspaces that have one.
    pub(super) hot: HashMap<WorkspaceId, HotState>,
    /// Workspaces whose events cannot be read: their actors find and report the damage.
    pub(super) damaged: Vec<WorkspaceId>,
    pub(super) workspaces: Vec<WorkspaceId>,
    /// Deleted workspaces of which rows are left.
    pub(super) removed: Vec<WorkspaceId>,
    /// Workspaces in which conversations are being deleted.
    pub(super) deleting: Vec<WorkspaceId>,
    pub(super) numbers: Vec<Stored>,
    /// The providers' facts about them.
    pub(super) facts: Vec<(NumberId, NumberFacts)>,
    /// The changes that store fingerprints of the master keys.
    pub(super) fingerprints: Vec<Change>,
    /// Changes that encrypt secrets under the current master key instead of an earlier one.
    pub(super) resealed: Vec<Change>,
    pub(super) clock_offset: Duration,
    /// The latest time in the durable data.
    pub(super) durable: Option<Timestamp>,
    pub(super) broadcasts: recover::Found,
}

impl OpenedData {
    /// Returns the source of copies and checkpoints.
    pub(super) fn data(&self) -> Option<DataSource> {
        self.data.clone()
    }
}

/// The place of the durable data.
struct OpenedStore {
    store: Arc<dyn Store>,
    /// The same store if it is in a directory, and the durations of its last commits.
    data: Option<DataSource>,
    commits: Option<Arc<RecentCommits>>,
    snapshots: Option<Arc<SnapshotDir>>,
}

impl OpenedStore {
    /// Returns a store that is in no directory.
    fn elsewhere(store: Arc<dyn Store>) -> Self {
        Self { store, data: None, commits: None, snapshots: None }
    }
}

/// Opens and reads everything that a start needs. Blocks.
pub(super) fn open_data(options: &EngineOptions) -> Result<OpenedData, StartError> {
    let (keys, clock) = (&options.master_keys, options.clock.clone());
    let OpenedStore { store, data, commits, snapshots } = open_store(options)?;
    let fingerprints = master_keys::check(store.as_ref(), keys)?;
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
    let clock_offset = read_clock_offset(store.as_ref())?;
    let mut workspaces = records::all_ids(store.as_ref())?;
    workspaces.retain(|id| !removed.contains(id));
    let mut numbers = records::all_numbers(store.as_ref())?;
    numbers.retain(|(id, _)| !removed.contains(id));
    let facts = records::all_facts(store.as_ref())?;
    let mut deleting = workspaces.clone();
    // Damaged records are left for the code that needs them.
    deleting.retain(|id| deletion::any_deleted(store.as_ref(), id).unwrap_or_default());
    let broadcasts = recover::find(store.as_ref())?.without(&removed);
    let resealed = master_keys::reencrypted(store.as_ref(), &workspaces, &numbers, keys)?;
    Ok(OpenedData {
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

fn open_store(options: &EngineOptions) -> Result<OpenedStore, StartError> {
    let dir = match &options.durability {
        Durability::Memory => {
            return Ok(OpenedStore::elsewhere(Arc::new(MemoryStore::new())));
        }
        Durability::Custom(store) => {
            return Ok(OpenedStore::elsewhere(Arc::clone(&store.0)));
        }
        Durability::Replica(replica) => {
            let data = replica.data.clone();
            let (store, snapshots) = (data.shared_store(), data.snapshots());
            return Ok(OpenedStore {
                store,
                data: Some(data),
                commits: None,
                snapshots: Some(snapshots),
            });
        }
        Durability::Disk(dir) => dir,
    };
    let (store, snapshots) =
        open_directory(dir, options.segment_bytes, options.clock.now(), &options.rebuilding)?;
    let (times, commits) = CommitTimes::register(options.recorder.as_deref().map(|it| it as _));
    store.measure(times);
    let (store, snapshots) = (Arc::new(store), Arc::new(snapshots));
    let checkpoints = directory::checkpoints(dir);
    let data = DataSource::new(Arc::clone(&store), Arc::clone(&snapshots), checkpoints);
    Ok(OpenedStore { store, data: Some(data), commits: Some(commits), snapshots: Some(snapshots) })
}

/// Opens the directory.
pub(super) fn open_directory(
    dir: &Path,
    segment_bytes: u64,
    begun_at: Timestamp,
    rebuilding: &Rebuilding,
) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    directory::open_reporting(dir, &directory_options(segment_bytes, begun_at), rebuilding)
}

/// Builds the view anew if a record of it cannot be read. Returns whether it did.
pub(super) fn rebuild_if_unreadable(
    dir: &Path,
    segment_bytes: u64,
    begun_at: Timestamp,
    rebuilding: &Rebuilding,
) -> Result<bool, DirectoryError> {
    directory::rebuild_if_unreadable(dir, &directory_options(segment_bytes, begun_at), rebuilding)
}

fn directory_options(segment_bytes: u64, begun_at: Timestamp) -> DirectoryOptions {
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let writes = Writes { node: "local".into(), incarnation: random::bytes(), program, begun_at };
    let log_id = random::bytes();
    DirectoryOptions { writes, log_id, segment_bytes, view: Default::default() }
}

/// Opens the files. With a store of the caller's there are none: a later engine may have that
/// store, but not the files beside it.
pub(super) async fn open_media(options: &EngineOptions) -> Result<MediaFiles, StartError> {
    let blobs = match &options.durability {
        Durability::Disk(dir) => Some(open_media_dir(dir.join(MEDIA)).await?),
        Durability::Memory => Some(BlobStore::new(Arc::new(MemoryBlobs::default()))),
        Durability::Replica(replica) => replica.files.clone().map(BlobStore::new),
        Durability::Custom(_) => None,
    };
    Ok(MediaFiles::new(blobs, options.media))
}

async fn open_media_dir(dir: PathBuf) -> Result<BlobStore, StartError> {
    let opening = tokio::task::spawn_blocking(move || FileBlobs::open(&dir));
    match opening.await {
        Ok(Ok(files)) => Ok(BlobStore::new(Arc::new(files))),
        Ok(Err(error)) => Err(StartError::Media(error.to_string())),
        Err(error) => Err(StartError::Media(error.to_string())),
    }
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

fn snapshot_error(error: SnapshotError) -> StartError {
    StartError::Directory(error.to_string())
}

/// Carries out a repair of a directory that no engine uses: the state that is kept becomes a
/// snapshot and a view, and a new log begins behind it. Blocks.
///
/// # Errors
/// [`RepairError`]: what is whole cannot be read, or nothing can be written.
pub fn repair_directory(dir: &Path, plan: &Plan) -> Result<Repaired, RepairError> {
    repair::carry_out(dir, plan, random::bytes(), &write_folded_snapshot)
}

/// Writes the snapshot that takes the place of a journal.
fn write_folded_snapshot(dir: &SnapshotDir, journal: &dyn Store) -> Result<(), DirectoryError> {
    let base = dir.load()?;
    let rebases = Rebases::from(rebase::all(journal)?);
    let folded = snapshots::fold(&base, rebases, &|visit| {
        log::replay(journal, base.position, &mut |frame| {
            visit(&frame);
            ControlFlow::Continue(())
        })
    })?;
    let position = folded.position;
    dir.write(position, folded.encode().into_iter())?;
    Ok(())
}
