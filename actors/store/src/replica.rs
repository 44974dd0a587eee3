//! The records of a shard on a node of a cluster, whose log and checkpoints are elsewhere.
//!
//! `N` has the view of shard N, `N.snapshots` what actors keep in memory, `N.checkpoints` a
//! checkpoint that is made or fetched, `N.new` a view that is being built. All of it can be made
//! anew of a checkpoint and the log behind it.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_log::{Header, Log, LogError, Witness, check_witness};

use crate::checkpoints::{Checkpoint, CheckpointDir, CheckpointError};
use crate::fjall::FjallView;
use crate::snapshot::SnapshotDir;
use crate::view::MarkedView;
use crate::whole_file::sync_dir;
use crate::{FjallOptions, LogStore, Position, SnapshotError, StoreError, Writes};

/// The checkpoints of a shard, from the newest one on.
pub trait Bases {
    /// Fetches the checkpoint with this number, 0 for the newest one, into a directory; `None`
    /// behind the oldest one. It need not be whole.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for one that is gone or not what was written, and is passed over;
    /// another when it cannot be told whether there is one.
    fn fetch(&self, number: usize, into: &CheckpointDir) -> Result<Option<Checkpoint>, StoreError>;
}

/// Where a shard's records are on this node.
#[derive(Debug, Clone)]
pub struct ReplicaDir {
    parent: PathBuf,
    name: String,
}

/// What was opened of it.
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
    /// The replica of a shard below a directory.
    #[must_use]
    pub fn at(parent: &Path, shard: u16) -> Self {
        Self { parent: parent.to_owned(), name: shard.to_string() }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.parent.join(format!("{}{suffix}", self.name))
    }

    /// Opens the store over a log that ends with its writer's claim. What the log no longer holds
    /// is taken from a checkpoint, if it is not here.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while an engine that was given up has the view open;
    /// [`StoreError::Damaged`] when no whole checkpoint leads to the log; others of the disk.
    pub fn open(
        &self,
        log: &Arc<dyn Log>,
        options: FjallOptions,
        writes: Writes,
        bases: &dyn Bases,
    ) -> Result<OpenedReplica, StoreError> {
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
        let has_states = snapshots.load()?.position.next() >= first;
        if !needs_view && has_states {
            return self.opened(log, view, options, writes, (snapshots, checkpoints));
        }
        drop(view);
        if needs_view {
            // They may be of what a repair has given up, and would count once there is a view.
            snapshots.clear()?;
        }
        let place = (&snapshots, &checkpoints);
        let why = why.unwrap_or_else(|| "there is no view that leads to the log".to_owned());
        if !self.load_any(&**log, needs_view.then_some(options), place, bases)? {
            if first > Position::START.next() {
                let what =
                    format!("{why}; no whole checkpoint leads to the log, which begins at {first}");
                return Err(StoreError::Damaged(what));
            }
            if needs_view {
                tracing::info!(why, "the view is built of the whole log");
                self.remove_view()?;
            }
        }
        self.opened(log, None, options, writes, (snapshots, checkpoints))
    }

    fn opened(
        &self,
        log: &Arc<dyn Log>,
        view: Option<FjallView>,
        options: FjallOptions,
        writes: Writes,
        (snapshots, checkpoints): (SnapshotDir, CheckpointDir),
    ) -> Result<OpenedReplica, StoreError> {
        // What was fetched is in the view and the snapshots by now.
        clear(&self.path(".checkpoints"))?;
        let view = match view {
            Some(view) => view,
            None => {
                if FjallView::is_there(&self.path("")) {
                    FjallView::open_again(&self.path(""), options)?
                } else {
                    FjallView::open(&self.path(""), options)?
                }
            }
        };
        let store = LogStore::open(log.clone(), Arc::new(view), writes)?;
        Ok((store.syncing()?, snapshots, checkpoints))
    }

    fn remove_view(&self) -> Result<(), StoreError> {
        if FjallView::is_there(&self.path("")) {
            FjallView::wait_until_closed(&self.path(""))?;
        }
        clear(&self.path(""))
    }

    /// Loads the first checkpoint that is whole. Returns whether there was one.
    fn load_any(
        &self,
        log: &dyn Log,
        view: Option<FjallOptions>,
        (snapshots, checkpoints): (&SnapshotDir, &CheckpointDir),
        bases: &dyn Bases,
    ) -> Result<bool, StoreError> {
        for number in 0.. {
            checkpoints.prepare()?;
            let loaded = match bases.fetch(number, checkpoints) {
                Ok(None) => return Ok(false),
                Ok(Some(checkpoint)) => self.load(log, view, snapshots, &checkpoint),
                Err(error) => Err(error),
            };
            match loaded {
                Ok(()) => return Ok(true),
                Err(error @ StoreError::Damaged(_)) => {
                    tracing::warn!(%error, "a checkpoint cannot be used and is passed over");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn load(
        &self,
        log: &dyn Log,
        options: Option<FjallOptions>,
        snapshots: &SnapshotDir,
        checkpoint: &Checkpoint,
    ) -> Result<(), StoreError> {
        let at = checkpoint.must_lead_to(log)?;
        let states = checkpoint.states()?;
        if let Some(options) = options {
            self.build(log, options, checkpoint)?;
        }
        snapshots.write(at.position, states.into_iter())?;
        tracing::info!(position = at.position.0, "a checkpoint was loaded");
        Ok(())
    }

    /// Builds the view beside, and gives it its name when it is whole.
    fn build(
        &self,
        log: &dyn Log,
        options: FjallOptions,
        checkpoint: &Checkpoint,
    ) -> Result<(), StoreError> {
        let new = self.path(".new");
        clear(&new)?;
        let view = FjallView::open(&new, options)?;
        let loaded = checkpoint
            .load_into::<StoreError>(&view, &mut |_| ())
            .and_then(|at| view.begin(log.id(), &at))
            .and_then(|()| view.sync().map(drop));
        drop(view);
        FjallView::wait_until_closed(&new)?;
        loaded?;
        self.remove_view()?;
        fs::rename(&new, self.path("")).map_err(failed)?;
        sync_dir(&self.parent).map_err(failed)
    }
}

/// Why a view is not one that the log leads on from.
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

/// Whether the log begins with a later epoch than this one. Only a repair begins it anew where
/// somebody has gone further: a log that lost something still begins where it did.
fn begins_later(log: &dyn Log, first: Position, epoch: u64) -> Result<bool, StoreError> {
    let Some(bytes) = log.entry(first)? else { return Ok(false) };
    let header = Header::decode(&bytes).map_err(|fault| StoreError::Failed(fault.to_string()))?;
    Ok(header.epoch > epoch)
}

fn clear(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}
