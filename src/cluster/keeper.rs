//! The checkpoints of a shard: stored in NATS, noted in its log, and fetched from there.

use postrider_actors::domain::Timestamp;
use postrider_actors::store::checkpoints::Made;
use postrider_actors::store::postrider_log::CheckpointNote;
use postrider_actors::store::replica::{Bases, Fetched};
use postrider_actors::store::{
    Checkpoint, CheckpointDir, CheckpointError, LogStore, Position, StoreError, Writes,
};
use postrider_actors::{CheckpointKeeper, KeptCheckpoint};
use postrider_cluster::checkpoints::{
    CheckpointRecord, CheckpointsError, Digest, ShardCheckpoints, needed_after,
};

/// The checkpoints of one shard, for its owner.
pub(super) struct Keeper {
    pub(super) checkpoints: ShardCheckpoints,
    /// The identity under which the shard's owner writes.
    pub(super) writes: Writes,
}

fn given_up(error: CheckpointsError) -> CheckpointError {
    match error {
        CheckpointsError::Failed(why) => CheckpointError::GivenUp(why),
        error @ CheckpointsError::Slow(_) => CheckpointError::GivenUp(error.to_string()),
        error => CheckpointError::Source(error.to_string()),
    }
}

/// Converts an error of a fetch. Only a missing or damaged checkpoint is skipped.
fn not_here(error: &CheckpointsError) -> StoreError {
    match error {
        CheckpointsError::Failed(why) => StoreError::Failed(why.clone()),
        CheckpointsError::Slow(_) => StoreError::Failed(error.to_string()),
        CheckpointsError::Damaged { .. } | CheckpointsError::Replaced => {
            StoreError::Damaged(error.to_string())
        }
    }
}

impl CheckpointKeeper for Keeper {
    fn kept(&self) -> Result<(Option<KeptCheckpoint>, Position), CheckpointError> {
        let listed = self.checkpoints.list().map_err(given_up)?;
        let newest = listed.first().map(|newest| KeptCheckpoint {
            position: Position(newest.position),
            bytes: newest.digest.bytes,
            made: Timestamp::from_millis(newest.time_ms),
        });
        Ok((newest, needed_after(&listed)))
    }

    fn log_bytes_max(&self) -> u64 {
        self.checkpoints.log_bytes_max()
    }

    fn whole_log_bytes_max(&self) -> u64 {
        self.checkpoints.whole_log_bytes_max()
    }

    fn keep(
        &self,
        made: &Made,
        store: &LogStore,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Position, CheckpointError> {
        let (at, file) = (&made.header.at, &made.checkpoint.path);
        let record = CheckpointRecord {
            position: at.position.0,
            epoch: at.epoch,
            hash: at.hash.0,
            time_ms: made.header.time_ms,
            node: self.writes.node.clone(),
            incarnation: self.writes.incarnation,
            digest: Digest::of_file(file).map_err(given_up)?,
        };
        let needed_after = self.checkpoints.keep(&record, file, gives_up).map_err(given_up)?;
        let note = CheckpointNote {
            position: at.position,
            archive: self.checkpoints.name(&record),
            sha256: record.digest.sha256,
            bytes: record.digest.bytes,
        };
        let noted = store.note_checkpoint(&note, record.time_ms);
        noted.map_err(|error| CheckpointError::Source(error.to_string()))?;
        Ok(needed_after)
    }
}

impl Bases for Keeper {
    fn newest(&self) -> Result<Position, StoreError> {
        let listed = self.checkpoints.list().map_err(|error| not_here(&error))?;
        Ok(listed.first().map_or(Position::START, |newest| Position(newest.position)))
    }

    fn is_stopping(&self) -> bool {
        self.checkpoints.is_stopping()
    }

    fn fetch(
        &self,
        number: usize,
        into: &CheckpointDir,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Fetched, StoreError> {
        let listed = self.checkpoints.list().map_err(|error| not_here(&error))?;
        let Some(record) = listed.get(number) else { return Ok(Fetched::Nothing) };
        let checkpoint = into.place_for(Position(record.position));
        match self.checkpoints.fetch(record, &checkpoint.path, gives_up) {
            Ok(()) => Ok(Fetched::Here(Checkpoint { bytes: record.digest.bytes, ..checkpoint })),
            Err(error @ CheckpointsError::Slow(_)) => Ok(Fetched::Slow(error.to_string())),
            Err(error) => Err(not_here(&error)),
        }
    }
}
