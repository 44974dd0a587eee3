//! The records of a shard that another node owns follow its log, and stay open meanwhile.

use postrider_log::Log;

use super::{Fetched, ReplicaDir, ReplicaSource, clear, misfit};
use crate::checkpoints::CheckpointDir;
use crate::fjall::FjallView;
use crate::log_store::open;
use crate::snapshot::SnapshotDir;
use crate::view::MarkedView;
use crate::{Position, StoreError};

/// Records that are open. To open and to close them costs far more than what they lack mostly does.
pub struct OpenRecords {
    pub(super) view: FjallView,
    pub(super) snapshots: SnapshotDir,
    /// Where the newest whole states stand.
    pub(super) states: Position,
    /// The newest checkpoint of which the states were asked for.
    pub(super) newest: Position,
}

impl OpenRecords {
    /// Whether the log leads on from them.
    pub(super) fn lead_to(&self, log: &dyn Log) -> Result<bool, StoreError> {
        let has_states = self.states.next() >= log.tail()?.first;
        let has_any = self.view.applied()?.position > Position::START;
        Ok(has_states && has_any && misfit(log, &self.view)?.is_none())
    }
}

impl ReplicaDir {
    /// Brings the records towards the end of a log that another node writes, and keeps them open:
    /// then [`open`](Self::open) has little left to do. Returns the position that they have.
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
            // Those that are here do as well: an engine reads more of the log.
            tracing::warn!(%error, "the states of the newest checkpoint were not taken");
        }
        self.clear_fetched()?;
        Ok((records, at))
    }

    /// Takes what actors keep in memory from a checkpoint that is newer than what is here: an
    /// engine reads the log from there.
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
        // Whatever comes of it: it is as large as all records.
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

    /// Removes all that is here of the shard, also the records that are open.
    ///
    /// # Errors
    /// Those of the disk. What is left can be removed or opened still.
    pub fn remove(&self, had: Option<OpenRecords>) -> Result<(), StoreError> {
        drop(had);
        self.remove_view()?;
        [".snapshots", ".checkpoints", ".new"].iter().try_for_each(|it| clear(&self.path(it)))
    }
}

/// Has a view apply what it lacks. Returns how many commits that were, and whether it came to the
/// end.
///
/// Only the claim of a repair leaves epochs out, and it stands behind whatever the log had: what
/// was given up, or less than a backup has. So nothing is applied across it. The log begins behind
/// it when the repair is done, and the view is made of the checkpoint that stands there.
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
