//! The records of a shard on a node of a cluster, whose log and checkpoints are elsewhere.
//!
//! `N` has the view of shard N, and `N.snapshots` the states in the actors' memory. `N.checkpoints`
//! has a checkpoint that is written or fetched, `N.new` a view that is being built, `N.old` one
//! that is being removed. All of it can be rebuilt from a checkpoint and the log behind it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_log::{Header, Log, LogError, Witness, check_witness};

use crate::checkpoints::{Checkpoint, CheckpointDir, CheckpointError, fail_if_given_up};
use crate::fjall::FjallView;
use crate::log_store::recovery::{self, log_applied};
use crate::snapshot::SnapshotDir;
use crate::view::MarkedView;
use crate::whole_file::sync_dir;
use crate::{FjallOptions, LogStore, Position, SnapshotError, StoreError, Writes};

/// The result of fetching a checkpoint.
pub enum Fetched {
    /// The checkpoint was fetched. It may be damaged.
    Here(Checkpoint),
    /// The checkpoint does not arrive, for this reason; the previous one may.
    Slow(String),
    /// There is none: the number is behind the oldest one.
    Nothing,
}

/// The checkpoints of a shard, from the newest one on.
pub trait Bases {
    /// Returns the position of the newest one; [`Position::START`] if there is none.
    ///
    /// # Errors
    /// The position is unknown.
    fn newest(&self) -> Result<Position, StoreError>;

    /// Returns whether the node stops: then no long work continues.
    fn is_stopping(&self) -> bool;

    /// Fetches the checkpoint with this number, 0 for the newest one, into a directory.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for one that is missing or damaged, which is skipped. Another error
    /// if it is unknown whether there is one, or if the fetch is given up.
    fn fetch(
        &self,
        number: usize,
        into: &CheckpointDir,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Fetched, StoreError>;
}

/// The sources of a shard's records.
#[derive(Clone, Copy)]
pub struct ReplicaSource<'a> {
    /// Its log.
    pub log: &'a Arc<dyn Log>,
    /// Its checkpoints.
    pub bases: &'a dyn Bases,
    /// The options to open the view.
    pub options: FjallOptions,
    /// Returns whether to end early: the node stops, or other work comes first.
    pub gives_up: &'a dyn Fn() -> bool,
}

/// The place of a shard's records on this node.
#[derive(Debug, Clone)]
pub struct ReplicaDir {
    parent: PathBuf,
    name: String,
}

/// Open records of a shard.
///
/// They follow the log while another node owns the shard, and stay open meanwhile: opening and
/// closing them costs far more than their usual lag.
pub struct OpenRecords {
    view: FjallView,
    snapshots: SnapshotDir,
    /// The position of the newest whole states.
    states: Position,
    /// The newest checkpoint whose states were requested.
    newest: Position,
}

impl OpenRecords {
    /// Returns whether the log continues from them.
    fn lead_to(&self, log: &dyn Log) -> Result<bool, StoreError> {
        let has_states = self.states.next() >= log.tail()?.first;
        let has_any = self.view.applied()?.position > Position::START;
        Ok(has_states && has_any && misfit(log, &self.view)?.is_none())
    }
}

/// The opened parts for an engine.
pub type OpenedReplica = (LogStore, SnapshotDir, CheckpointDir);

impl From<SnapshotError> for StoreError {
    fn from(error: SnapshotError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<CheckpointError> for StoreError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Archive { .. } | CheckpointError::Source(_) => {
                Self::Damaged(error.to_string())
            }
            CheckpointError::Io { .. } | CheckpointError::GivenUp(_) => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl ReplicaDir {
    /// Returns the replica of a shard below a directory.
    #[must_use]
    pub fn at(parent: &Path, shard: u16) -> Self {
        Self { parent: parent.to_owned(), name: shard.to_string() }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.parent.join(format!("{}{suffix}", self.name))
    }

    /// Opens the store over a log that ends with its writer's claim.
    ///
    /// Records that the log no longer holds come from a checkpoint, if they are not here. `had` are
    /// records that are already open.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while an engine that was given up has the view open;
    /// [`StoreError::Damaged`] if no whole checkpoint leads to the log; others of the disk.
    pub fn open(
        &self,
        had: Option<OpenRecords>,
        from: ReplicaSource<'_>,
        writes: Writes,
    ) -> Result<OpenedReplica, StoreError> {
        let OpenRecords { view, snapshots, .. } = self.records(had, from)?;
        let (commits, is_done) = catch_up(&**from.log, &view, from.gives_up)?;
        if !is_done {
            return Err(StoreError::Failed("the log was not read to its end".to_owned()));
        }
        log_applied(commits);
        let store = LogStore::caught_up(from.log.clone(), Arc::new(view), writes).syncing()?;
        Ok((store, snapshots, CheckpointDir::at(&self.path(".checkpoints"))))
    }

    /// Returns records from which the log continues: the open ones, or else those here.
    fn records(
        &self,
        had: Option<OpenRecords>,
        from: ReplicaSource<'_>,
    ) -> Result<OpenRecords, StoreError> {
        if let Some(had) = had {
            if had.lead_to(&**from.log)? {
                return Ok(had);
            }
            drop(had);
            FjallView::wait_until_closed(&self.path(""))?;
        }
        self.open_or_load(from)
    }

    /// Opens the local records; those that the log no longer holds come from a checkpoint.
    fn open_or_load(&self, from: ReplicaSource<'_>) -> Result<OpenRecords, StoreError> {
        let ReplicaSource { log, bases, options, .. } = from;
        fs::create_dir_all(&self.parent).map_err(failed)?;
        let snapshots = SnapshotDir::open(self.path(".snapshots"))?;
        let checkpoints = CheckpointDir::at(&self.path(".checkpoints"));
        let first = log.tail()?.first;
        let (view, why) = match FjallView::open(&self.path(""), options) {
            Ok(view) => {
                let why = misfit(&**log, &view)?;
                (Some(view), why)
            }
            Err(StoreError::Damaged(why)) => (None, Some(why)),
            Err(error) => return Err(error),
        };
        let has_none =
            view.as_ref().map_or(Ok(true), |it| it.applied().map(|at| at.position.0 == 0));
        let needs_view = why.is_some() || has_none?;
        let mut states = snapshots.load()?.position;
        let keeps = !needs_view && states.next() >= first;
        if let Some(view) = view.filter(|_| keeps) {
            self.clear_fetched()?;
            return Ok(OpenRecords { view, snapshots, states, newest: states });
        }
        if needs_view {
            // They may belong to a state that a repair has given up, and would count once there is
            // a view.
            snapshots.clear()?;
            states = Position::START;
        }
        let place = (&snapshots, &checkpoints);
        let why = why.unwrap_or_else(|| "there is no view that leads to the log".to_owned());
        let loaded = self.load_any(&**log, needs_view.then_some(options), place, bases)?;
        if loaded.is_none() && first > Position::START.next() {
            let what =
                format!("{why}; no whole checkpoint leads to the log, which begins at {first}");
            return Err(StoreError::Damaged(what));
        }
        if loaded.is_none() && needs_view {
            tracing::info!(why, "the view is built of the whole log");
            self.remove_view()?;
        }
        self.clear_fetched()?;
        let view = if FjallView::is_there(&self.path("")) {
            FjallView::open_again(&self.path(""), options)?
        } else {
            FjallView::open(&self.path(""), options)?
        };
        let states = loaded.unwrap_or(states);
        Ok(OpenRecords { view, snapshots, states, newest: states })
    }

    /// Removes the fetched checkpoint, which is in the view and the snapshots by now.
    fn clear_fetched(&self) -> Result<(), StoreError> {
        remove_dir(&self.path(".checkpoints"))
    }

    /// Removes the view. A part of one has another name, so that it is never taken for a view.
    fn remove_view(&self) -> Result<(), StoreError> {
        let old = self.path(".old");
        remove_dir(&old)?;
        if FjallView::is_there(&self.path("")) {
            FjallView::wait_until_closed(&self.path(""))?;
            fs::rename(self.path(""), &old).map_err(failed)?;
        }
        remove_dir(&old)?;
        remove_dir(&self.path(""))
    }

    /// Loads the first checkpoint that is whole and arrives. Returns its position.
    fn load_any(
        &self,
        log: &dyn Log,
        view: Option<FjallOptions>,
        (snapshots, checkpoints): (&SnapshotDir, &CheckpointDir),
        bases: &dyn Bases,
    ) -> Result<Option<Position>, StoreError> {
        let mut slow = None;
        for number in 0.. {
            checkpoints.prepare()?;
            let loaded = match bases.fetch(number, checkpoints, &|| false) {
                Ok(Fetched::Nothing) => break,
                Ok(Fetched::Slow(why)) => {
                    tracing::warn!(why, "a checkpoint does not come and is passed over");
                    slow = slow.or(Some(why));
                    continue;
                }
                Ok(Fetched::Here(checkpoint)) => {
                    self.load(log, view, snapshots, (&checkpoint, bases))
                }
                Err(error) => Err(error),
            };
            match loaded {
                Ok(at) => return Ok(Some(at)),
                Err(error @ StoreError::Damaged(_)) => {
                    tracing::warn!(%error, "a checkpoint cannot be used and is passed over");
                }
                Err(error) => return Err(error),
            }
        }
        // It may be whole, so nothing is given up for it.
        slow.map_or(Ok(None), |why| Err(StoreError::Failed(why)))
    }

    fn load(
        &self,
        log: &dyn Log,
        options: Option<FjallOptions>,
        snapshots: &SnapshotDir,
        (checkpoint, bases): (&Checkpoint, &dyn Bases),
    ) -> Result<Position, StoreError> {
        let at = checkpoint.must_lead_to(log)?;
        let states = checkpoint.states(&|| bases.is_stopping())?;
        if let Some(options) = options {
            self.build(log, options, (checkpoint, bases))?;
        }
        snapshots.write(at.position, states.into_iter())?;
        tracing::info!(position = at.position.0, "a checkpoint was loaded");
        Ok(at.position)
    }

    /// Builds the view beside, and gives it its name once it is whole.
    fn build(
        &self,
        log: &dyn Log,
        options: FjallOptions,
        (checkpoint, bases): (&Checkpoint, &dyn Bases),
    ) -> Result<(), StoreError> {
        let new = self.path(".new");
        remove_dir(&new)?;
        let view = FjallView::open(&new, options)?;
        let goes_on = &mut |_| Ok(fail_if_given_up(&|| bases.is_stopping())?);
        let loaded = checkpoint
            .load_into::<StoreError>(&view, goes_on)
            .and_then(|at| view.begin(log.id(), &at))
            .and_then(|()| view.sync().map(drop));
        drop(view);
        FjallView::wait_until_closed(&new)?;
        loaded?;
        self.remove_view()?;
        fs::rename(&new, self.path("")).map_err(failed)?;
        sync_dir(&self.parent).map_err(failed)
    }

    /// Moves the records towards the end of a log that another node writes, and keeps them open.
    ///
    /// So [`open`](Self::open) has little left to do. Returns the position of the records.
    ///
    /// # Errors
    /// Those of [`open`](Self::open). The records are closed.
    pub fn follow(
        &self,
        had: Option<OpenRecords>,
        from: ReplicaSource<'_>,
    ) -> Result<(OpenRecords, Position), StoreError> {
        let mut records = self.records(had, from)?;
        let (_, is_done) = catch_up(&**from.log, &records.view, from.gives_up)?;
        let at = records.view.sync()?;
        if is_done && let Err(error) = self.renew_states(&mut records, from) {
            // The local ones also work: an engine then reads more of the log.
            tracing::warn!(%error, "the states of the newest checkpoint were not taken");
        }
        self.clear_fetched()?;
        Ok((records, at))
    }

    /// Loads the actors' states from a checkpoint that is newer than the local ones.
    ///
    /// An engine reads the log from there.
    fn renew_states(
        &self,
        records: &mut OpenRecords,
        from: ReplicaSource<'_>,
    ) -> Result<(), StoreError> {
        let newest = from.bases.newest()?;
        if newest <= records.newest {
            return Ok(());
        }
        let checkpoints = CheckpointDir::at(&self.path(".checkpoints"));
        checkpoints.prepare()?;
        let fetched = from.bases.fetch(0, &checkpoints, from.gives_up);
        if (from.gives_up)() {
            return Ok(());
        }
        // This is set whatever the result: the checkpoint is as large as all records.
        records.newest = newest;
        match fetched? {
            Fetched::Here(checkpoint) => {
                let checkpoint = (&checkpoint, from.bases);
                records.states = self.load(&**from.log, None, &records.snapshots, checkpoint)?;
                Ok(())
            }
            Fetched::Slow(why) => Err(StoreError::Failed(why)),
            Fetched::Nothing => Ok(()),
        }
    }

    /// Removes all local data of the shard, including open records.
    ///
    /// # Errors
    /// Those of the disk. The rest can still be removed or opened.
    pub fn remove(&self, had: Option<OpenRecords>) -> Result<(), StoreError> {
        drop(had);
        self.remove_view()?;
        [".snapshots", ".checkpoints", ".new"].iter().try_for_each(|it| remove_dir(&self.path(it)))
    }
}

/// Returns the reason why the log does not continue from a view.
fn misfit(log: &dyn Log, view: &dyn MarkedView) -> Result<Option<String>, StoreError> {
    if view.log()?.is_some_and(|of| of != log.id()) {
        return Ok(Some("the view is of another log".to_owned()));
    }
    let (at, synced, first) = (view.applied()?, view.synced()?, log.tail()?.first);
    let behind = || Ok(Some(format!("the view ends at {synced}, and the log begins at {first}")));
    match check_witness(log, &at) {
        Ok(Witness::Fits) if synced.next() < first => behind(),
        Ok(Witness::Fits) => Ok(None),
        Ok(Witness::OtherHistory) => {
            let at = at.position;
            Ok(Some(format!("the log has another entry at {at} than the view was made of")))
        }
        Err(LogError::Trimmed { .. }) => behind(),
        Err(LogError::Lost { .. }) if begins_later(log, first, at.epoch)? => {
            let at = at.position;
            Ok(Some(format!("the view ends at {at}, which a repair has given up")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the log starts with a later epoch than this one.
///
/// Only a repair starts it again after others have appended more. A log with a loss still starts at
/// its old position.
fn begins_later(log: &dyn Log, first: Position, epoch: u64) -> Result<bool, StoreError> {
    let Some(bytes) = log.entry(first)? else { return Ok(false) };
    let header = Header::decode(&bytes).map_err(|fault| StoreError::Failed(fault.to_string()))?;
    Ok(header.epoch > epoch)
}

fn remove_dir(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// Applies the missing commits to a view.
///
/// Returns their number, and whether it reached the end.
///
/// Only the claim of a repair skips epochs. It is behind the log's old entries, which may have been
/// given up, or be more than a backup has. So nothing is applied across it. After the repair the
/// log starts behind it, and the view is built from the checkpoint there.
fn catch_up(
    log: &dyn Log,
    view: &dyn MarkedView,
    gives_up: &dyn Fn() -> bool,
) -> Result<(u64, bool), StoreError> {
    let (applied, mut is_done) = (view.applied()?, true);
    let mut epoch = applied.epoch;
    let commits = recovery::catch_up(log, view, &mut |commit| {
        if commit.position > applied.position {
            if commit.epoch > epoch + 1 {
                let at = commit.position;
                let what = format!("a repair begins the shard anew at {at}, without what is here");
                return Err(StoreError::Damaged(what));
            }
            epoch = commit.epoch;
        }
        is_done = !gives_up();
        Ok(is_done)
    })?;
    Ok((commits, is_done))
}

#[cfg(test)]
mod tests;
