//! A shard whose log lost something, or is damaged, begins anew behind what is whole.
//!
//! It owns what is found out about such a shard, and the order in which it is written anew: a mark
//! that keeps nodes from claiming it, a claim, a checkpoint that stands at the claim, the log
//! trimmed behind it, and the mark once more. A repair that ends in the midst is run again.

mod finding;
mod mark;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use postrider_log::{
    CheckpointNote, Claim, Commit, EncodeError, EntryHash, Kind, LogId, Mark, Next, Position,
    encode_commit,
};

use crate::checkpoints::{CheckpointRecord, CheckpointsError, Digest, ShardCheckpoints};
use crate::clock::{BootClock, SteadyClock};
use crate::cluster_record::{Access, GoneStream, JoinError, open_without};
use crate::coordination::{Coordination, CoordinationError, Standing, read_nodes};
use crate::import::must_be_finished;
use crate::log::{FakeStream, Stream, StreamError, settle};
use crate::name::NodeName;
use crate::nats::preflight::Monitor;
use crate::settle::{Settled, Settlement};
pub use finding::{Base, Finding};
use mark::{RepairMark, was_gone};
pub(crate) use mark::{is_under_way, repaired_in};

/// Who claims a shard that is repaired.
const REPAIRER: &str = "repair";
/// How many epochs are left out: what was lost may have had claims that nobody alive knows of, and
/// whoever has applied one must see that the shard was begun anew since.
const EPOCHS: u64 = 1_000;
/// How long an append is tried, in milliseconds.
const APPEND_FOR_MS: u64 = 30_000;
/// More than a claim or a note has.
const ENTRY_BYTES_MAX: usize = 4_096;

/// Why a shard is not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The cluster cannot be reached, or is not what it must be.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The bucket did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Bucket(#[from] CoordinationError),
    /// The stream did not answer.
    #[error("NATS_UNREACHABLE: {0}")]
    Stream(#[from] StreamError),
    /// There is no such shard.
    #[error("NO_SUCH_SHARD: the cluster has the shards 0 to {last}, and no shard {asked}")]
    NoSuchShard {
        /// What was asked for.
        asked: u16,
        /// The last one.
        last: u16,
    },
    /// A node serves it.
    #[error(
        "IN_USE: the node {node} serves shard {shard}, so it has what its log lacks; have it hand \
         the shard over first (`postrider cluster move {shard} --to NODE`), or stop it"
    )]
    InUse {
        /// The node.
        node: NodeName,
        /// The shard.
        shard: u16,
    },
    /// Nothing whole is left that the shard could begin with.
    #[error(
        "LOST: no whole checkpoint of shard {shard} is left, and its log begins at {first}; give a \
         backup of the cluster with --from"
    )]
    NothingLeft {
        /// The shard.
        shard: u16,
        /// Where the log begins.
        first: Position,
    },
    /// Something was written meanwhile.
    #[error("REPLACED: shard {0} was written meanwhile, by a node or another repair; run it again")]
    Replaced(u16),
    /// What was read a moment ago cannot be read.
    #[error("LOST: the log of shard {shard} has changed: {what}; run it again")]
    Changed {
        /// The shard.
        shard: u16,
        /// What is wrong.
        what: String,
    },
    /// The checkpoint was not fetched or not stored, or the log not written.
    #[error("NOT_STORED: shard {shard}: {what}")]
    NotStored {
        /// The shard.
        shard: u16,
        /// Why.
        what: String,
    },
}

/// One shard that may need a repair.
#[derive(Debug)]
pub struct ShardRepair {
    shard: u16,
    id: LogId,
    stream: Arc<dyn Stream>,
    gone: Option<GoneStream>,
    bucket: Arc<dyn Coordination>,
    checkpoints: ShardCheckpoints,
    clock: Arc<dyn SteadyClock>,
    incarnation: [u8; 16],
}

/// What is known of a shard beside its log.
#[derive(Debug, Default)]
struct Seen {
    known: Position,
    epoch: u64,
    problems: Vec<String>,
}

/// The claim of a repair, at which everything stands.
#[derive(Debug)]
pub struct RepairClaim {
    /// The log's identity.
    pub id: LogId,
    /// The claim.
    pub at: Mark,
    time_ms: u64,
    mark: RepairMark,
}

impl ShardRepair {
    /// Opens a shard, whose stream may be gone. `incarnation` is of this repair alone.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn open(
        access: &Access,
        monitor: &dyn Monitor,
        shard: u16,
        incarnation: [u8; 16],
    ) -> Result<Self, RepairError> {
        let (opened, stream) = open_without(access, monitor, shard)?;
        must_be_finished(&*opened.bucket)?;
        let no_such = RepairError::NoSuchShard { asked: shard, last: opened.record.shards - 1 };
        let id = opened.record.log_id(shard).filter(|_| shard < opened.record.shards);
        let id = id.ok_or(no_such)?;
        let (stream, gone): (Arc<dyn Stream>, _) = match stream {
            Ok(stream) => (stream, None),
            // It reads as one that has nothing, until it is made anew.
            Err(gone) => (Arc::new(FakeStream::default()), Some(gone)),
        };
        let bucket: Arc<dyn Coordination> = opened.bucket;
        let bytes_max = opened.record.stream_bytes_max.unsigned_abs();
        let archives = opened.archives;
        let checkpoints = ShardCheckpoints::new(shard, bucket.clone(), archives, bytes_max);
        let clock = Arc::new(BootClock);
        Ok(Self { shard, id, stream, gone, bucket, checkpoints, clock, incarnation })
    }

    /// The identity of the shard's log.
    #[must_use]
    pub const fn id(&self) -> LogId {
        self.id
    }

    /// Finds out what is whole, and what is not. A whole checkpoint is left in the file `into`,
    /// unless it is better to begin with a backup that ends at `backup`. Nothing is written to the
    /// cluster.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn find(&self, into: &Path, backup: Option<Mark>) -> Result<Finding, RepairError> {
        let mut seen = self.seen_by_nodes()?;
        let not_fetched = |error: CheckpointsError| self.not_stored(&error);
        let mut base = Base::Nothing;
        for record in self.checkpoints.list().map_err(not_fetched)? {
            seen.known = seen.known.max(Position(record.position));
            seen.epoch = seen.epoch.max(record.epoch);
            if matches!(base, Base::Checkpoint(_)) {
                continue;
            }
            match self.checkpoints.fetch(&record, into) {
                Ok(()) => base = Base::Checkpoint(record),
                Err(error @ CheckpointsError::Damaged { .. }) => {
                    seen.problems.push(error.to_string());
                }
                Err(error) => return Err(not_fetched(error)),
            }
        }
        let is_unfinished = is_under_way(&*self.bucket, self.shard)?;
        let is_gone = self.gone.is_some() || was_gone(&*self.bucket, self.shard)?;
        let walk = |base| -> Result<Finding, RepairError> {
            let found = finding::walk(&*self.stream, self.id, self.shard, base)?;
            Ok(Finding { is_unfinished, is_gone, ..found })
        };
        let mut finding = walk(base)?;
        if let Some(end) = backup.filter(|_| finding.needs_repair()) {
            let other = walk(Base::Backup(end))?;
            if other.end > finding.end || !finding.has_base() {
                finding = other;
            }
        }
        finding.known = finding.known.max(seen.known);
        finding.epoch = finding.epoch.max(seen.epoch);
        if self.gone.is_some() {
            seen.problems.push("the log is gone".to_owned());
        }
        if is_unfinished {
            seen.problems.push("a repair did not come to its end".to_owned());
        }
        finding.problems.splice(0..0, seen.problems);
        if !finding.has_base() {
            let (shard, first) = (self.shard, finding.first);
            return Err(RepairError::NothingLeft { shard, first });
        }
        Ok(finding)
    }

    /// What the nodes that live tell of the shard, since it was repaired last.
    fn seen_by_nodes(&self) -> Result<Seen, RepairError> {
        let repaired = repaired_in(&*self.bucket, self.shard)?.unwrap_or(0);
        let mut seen = Seen::default();
        for (node, record) in read_nodes(&*self.bucket)? {
            let mut reports = record.shards.iter().filter(|it| it.epoch >= repaired);
            let Some(report) = reports.find(|it| it.shard == self.shard) else { continue };
            seen.known = seen.known.max(Position(report.position));
            seen.epoch = seen.epoch.max(report.epoch);
            let reason = report.reason.as_ref();
            seen.problems.extend(reason.map(|reason| format!("{node} has stopped: {reason}")));
        }
        Ok(seen)
    }

    fn not_stored(&self, what: &dyn std::fmt::Display) -> RepairError {
        RepairError::NotStored { shard: self.shard, what: what.to_string() }
    }

    /// Visits the commits behind the base of a finding, as far as they are whole.
    ///
    /// # Errors
    /// Those of `visit`, and of [`RepairError`].
    pub fn commits<E: From<RepairError>>(
        &self,
        finding: &Finding,
        visit: &mut dyn FnMut(Commit) -> Result<(), E>,
    ) -> Result<(), E> {
        finding::commits(&*self.stream, (self.id, self.shard), finding, visit)
    }

    /// Keeps nodes away and claims the shard behind everything that its log has, if nothing was
    /// written since this was found.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn claim(&mut self, finding: &Finding, time_ms: u64) -> Result<RepairClaim, RepairError> {
        self.must_be_unserved()?;
        let is_gone = finding.is_gone;
        let mut mark = RepairMark::begin(&*self.bucket, self.shard, self.incarnation, is_gone)?
            .ok_or(RepairError::Replaced(self.shard))?;
        if let Some(gone) = self.gone.take() {
            self.stream = gone.make()?;
        }
        // A node that claimed it meanwhile tells so, or has written, and the claim is refused.
        self.must_be_unserved()?;
        let at = self.append_claim(finding, time_ms)?;
        mark.epoch = at.epoch;
        Ok(RepairClaim { id: self.id, at, time_ms, mark })
    }

    /// Appends an entry, if nothing else was written.
    fn append(&self, at: Position, bytes: Bytes) -> Result<(), RepairError> {
        let mut settlement = Settlement::new(at, bytes);
        let until = self.clock.now_ms() + APPEND_FOR_MS;
        match settle(&*self.stream, &*self.clock, &mut settlement, until) {
            Ok(Some(Settled::Durable)) => Ok(()),
            Ok(Some(Settled::Taken(_) | Settled::Lost { .. } | Settled::Damaged(_))) => {
                Err(RepairError::Replaced(self.shard))
            }
            Ok(None) => Err(self.not_stored(&"the log did not answer in time")),
            Err(error) => Err(self.not_stored(&error)),
        }
    }

    /// Encodes and appends what is one entry, and returns its mark.
    fn append_one(
        &self,
        next: &Next,
        kind: Kind,
        time_ms: u64,
        body: Result<Vec<u8>, EncodeError>,
    ) -> Result<Mark, RepairError> {
        let too_long = |error: EncodeError| self.not_stored(&error);
        let body = body.map_err(too_long)?;
        let entries = encode_commit(next, kind, time_ms, &body, ENTRY_BYTES_MAX);
        // Names and versions are short, so it is one.
        let bytes = entries.map_err(too_long)?.into_iter().next().unwrap_or_default();
        let (position, epoch, hash) = (next.position, next.epoch, EntryHash::of(&bytes));
        self.append(position, bytes)?;
        Ok(Mark { position, epoch, hash })
    }

    fn must_be_unserved(&self) -> Result<(), RepairError> {
        let owns = |state| state == Standing::Owned;
        for (node, record) in read_nodes(&*self.bucket)? {
            if record.shards.iter().any(|it| it.shard == self.shard && owns(it.state)) {
                return Err(RepairError::InUse { node, shard: self.shard });
            }
        }
        Ok(())
    }

    /// Claims the shard behind the last entry, whatever that is: nobody reads it any more.
    fn append_claim(&self, finding: &Finding, time_ms: u64) -> Result<Mark, RepairError> {
        let before = match finding.last {
            Position::START => None,
            last => self.stream.message(last.0)?,
        };
        let prev = before.map_or(EntryHash::NONE, |bytes| EntryHash::of(&bytes));
        let (position, epoch) = (finding.last.next(), finding.epoch + EPOCHS);
        let next = Next { log: self.id, shard: self.shard, position, epoch, prev };
        let claim = Claim {
            node: REPAIRER.to_owned(),
            incarnation: self.incarnation,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            readable_from: 1,
        };
        self.append_one(&next, Kind::Claim, time_ms, claim.encode())
    }

    /// Notes the checkpoint behind the claim.
    fn append_note(&self, claimed: Mark, record: &CheckpointRecord) -> Result<(), RepairError> {
        let Mark { position, epoch, hash: prev } = claimed;
        let next = Next { log: self.id, shard: self.shard, position: position.next(), epoch, prev };
        let Digest { sha256, bytes } = record.digest;
        let archive = self.checkpoints.name(record);
        let note = CheckpointNote { position, archive, sha256, bytes };
        self.append_one(&next, Kind::Checkpoint, record.time_ms, note.encode()).map(drop)
    }

    /// Keeps the shard's archive, which stands at the claim, as its only checkpoint, trims the log
    /// behind it, and lets the nodes go on.
    ///
    /// # Errors
    /// See [`RepairError`]; the repair may be run again.
    pub fn finish(&self, claimed: RepairClaim, file: &Path) -> Result<(), RepairError> {
        let RepairClaim { at, time_ms, mark, .. } = claimed;
        let failed = |what: &dyn std::fmt::Display| self.not_stored(what);
        let record = CheckpointRecord {
            position: at.position.0,
            epoch: at.epoch,
            hash: at.hash.0,
            time_ms,
            node: REPAIRER.to_owned(),
            incarnation: self.incarnation,
            digest: Digest::of_file(file).map_err(|error| failed(&error))?,
        };
        let still = || mark.is_mine(&*self.bucket).unwrap_or(false);
        let kept = self.checkpoints.keep_alone(&record, file, &still);
        kept.map_err(|error| match error {
            CheckpointsError::Replaced => RepairError::Replaced(self.shard),
            error => failed(&error),
        })?;
        self.append_note(at, &record)?;
        self.stream.purge_before(at.position.next().0)?;
        mark.finish(&*self.bucket)?.then_some(()).ok_or(RepairError::Replaced(self.shard))
    }
}
