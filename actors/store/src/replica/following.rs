//! The records of a shard that another node owns: they follow its log, and stay open meanwhile.

use postrider_log::Log;

use super::{Fetched, ReplicaDir, ReplicaSource, clear, misfit};
use crate::checkpoints::CheckpointDir;
use crate::fjall::FjallView;
use crate::log_store::open;
use crate::snapshot::SnapshotDir;
use crate::view::MarkedView;
use crate::{Position, StoreError};

/// Open records. Opening and closing them costs far more than their usual lag.
pub struct OpenRecords {
    pub(super) view: FjallView,
    pub(super) snapshots: SnapshotDir,
    /// The position of the newest whole states.
    pub(super) states: Position,
    /// The newest checkpoint whose states were requested.
    pub(super) newest: Position,
}

impl OpenRecords {
    /// Returns whether the log continues from them.
    pub(super) fn lead_to(&self, log: &dyn Log) -> Result<bool, StoreError> {
        let has_states = self.states.next() >= log.tail()?.first;
        let has_any = self.view.applied()?.position > Position::START;
        Ok(has_states && has_any && misfit(log, &self.view)?.is_none())
    }
}

impl ReplicaDir {
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
        [".snapshots", ".checkpoints", ".new"].iter().try_for_each(|it| clear(&self.path(it)))
    }
}

/// Applies the missing commits to a view.
///
/// Returns their number, and whether it reached the end.
///
/// Only the claim of a repair skips epochs. It is behind the log's old entries, which may have been
/// given up, or be more than a backup has. So nothing is applied across it. After the repair the
/// log starts behind it, and the view is built from the checkpoint there.
pub(super) fn catch_up(
    log: &dyn Log,
    view: &dyn MarkedView,
    gives_up: &dyn Fn() -> bool,
) -> Result<(u64, bool), StoreError> {
    let (applied, mut is_done) = (view.applied()?, true);
    let mut epoch = applied.epoch;
    let commits = open::catch_up(log, view, &mut |commit| {
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
