//! The repair of a shard whose log lost something or is damaged: it starts again from the whole
//! part.
//!
//! It owns the finding about such a shard, and the order of the writes. They are a mark that
//! prevents nodes from claiming it, a claim, a checkpoint at the claim, the trimmed log, and the
//! mark again. A repair that ends midway is run again.

mod error;
mod finding;
mod looking;
mod mark;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use postrider_log::body::DATA_FORMAT;
use postrider_log::{
    CheckpointNote, Claim, Commit, EncodeError, EntryHash, Kind, LogId, Mark, Next, Position,
    encode_commit,
};

use crate::checkpoints::{CheckpointRecord, CheckpointsError, Digest, ShardCheckpoints};
use crate::clock::{BootClock, SteadyClock};
use crate::cluster_record::{Access, MissingStream, open_without};
use crate::coordination::{Coordination, Standing, read_nodes};
use crate::import::must_be_finished;
use crate::log::{Appends, FakeStream, Stream, settle};
use crate::name::NodeName;
use crate::nats::preflight::Monitor;
use crate::settle::{Settled, Settlement};
pub use error::RepairError;
use finding::Beside;
pub use finding::{Base, Finding, NodeEntries};
use mark::RepairMark;
pub(crate) use mark::{is_under_way, repaired_in};

/// The node name under which a repair claims a shard.
const REPAIRER: &str = "repair";
/// The number of epochs that a repair skips.
///
/// The lost part may have had claims that no living node knows of. A node that has applied one must
/// notice that the shard was started again since.
const EPOCHS: u64 = 1_000;
/// The maximum time for which an append is tried, in milliseconds.
const APPEND_FOR_MS: u64 = 30_000;
/// The maximum number of bytes of an entry, more than a claim or a note has.
const ENTRY_BYTES_MAX: usize = 4_096;

/// One shard that may need a repair.
#[derive(Debug)]
pub struct ShardRepair {
    shard: u16,
    id: LogId,
    stream: Arc<dyn Stream>,
    missing: Option<MissingStream>,
    bucket: Arc<dyn Coordination>,
    checkpoints: ShardCheckpoints,
    clock: Arc<dyn SteadyClock>,
    incarnation: [u8; 16],
    nodes: Vec<Arc<dyn NodeEntries>>,
}

/// The claim of a repair, at which all data of the shard is.
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
    /// Opens a shard, whose stream may be missing. `incarnation` belongs to this repair alone.
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
        let (stream, missing): (Arc<dyn Stream>, _) = match stream {
            Ok(stream) => (stream, None),
            // A missing stream reads as an empty one until it is made again.
            Err(missing) => (Arc::new(FakeStream::default()), Some(missing)),
        };
        let bucket: Arc<dyn Coordination> = opened.bucket;
        let bytes_max = opened.record.stream_bytes_max.unsigned_abs();
        let archives = opened.archives;
        let checkpoints = ShardCheckpoints::new(shard, bucket.clone(), archives, bytes_max);
        let clock = Arc::new(BootClock);
        let nodes = Vec::new();
        Ok(Self { shard, id, stream, missing, bucket, checkpoints, clock, incarnation, nodes })
    }

    /// Reads the entries of these nodes too.
    #[must_use]
    pub fn with_nodes(self, nodes: Vec<Arc<dyn NodeEntries>>) -> Self {
        Self { nodes, ..self }
    }

    fn beside(&self, is_unfinished: bool) -> Beside<'_> {
        Beside { nodes: &self.nodes, is_first: is_unfinished }
    }

    /// Returns the running nodes and the addresses at which others reach them.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn running_nodes(&self) -> Result<Vec<(NodeName, String)>, RepairError> {
        let nodes = read_nodes(&*self.bucket)?.into_iter();
        Ok(nodes.map(|(name, record)| (name, record.advertise)).collect())
    }

    /// Returns the identity of the shard's log.
    #[must_use]
    pub const fn id(&self) -> LogId {
        self.id
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
        let log = (self.id, self.shard);
        finding::commits(&*self.stream, self.beside(finding.is_unfinished), log, finding, visit)
    }

    /// Keeps nodes away and claims the shard behind all entries of its log.
    ///
    /// It fails if anything was written since the finding.
    ///
    /// # Errors
    /// See [`RepairError`].
    pub fn claim(&mut self, finding: &Finding, time_ms: u64) -> Result<RepairClaim, RepairError> {
        self.must_be_unserved(finding)?;
        let is_missing = finding.is_missing;
        let mut mark = RepairMark::begin(&*self.bucket, self.shard, self.incarnation, is_missing)?
            .ok_or(RepairError::Replaced(self.shard))?;
        match self.claim_marked(finding, time_ms) {
            Ok(at) => {
                mark.epoch = at.epoch;
                Ok(RepairClaim { id: self.id, at, time_ms, mark })
            }
            Err(error) => {
                // A claim with an unknown outcome may still be appended. A stream that was made
                // again must not be taken for the old one. In both cases the shard stays marked.
                let may_come = matches!(error, RepairError::NotStored { .. });
                if !may_come && !is_missing && !mark.withdraw(&*self.bucket).unwrap_or(false) {
                    tracing::warn!(shard = self.shard, "the mark of the repair stays");
                }
                Err(error)
            }
        }
    }

    fn claim_marked(&mut self, finding: &Finding, time_ms: u64) -> Result<Mark, RepairError> {
        if let Some(missing) = self.missing.take() {
            self.stream = missing.make()?;
        }
        // A node that claimed the shard meanwhile reports it or has written, and then the claim is
        // refused.
        self.must_be_unserved(finding)?;
        self.append_claim(finding, time_ms)
    }

    /// Appends an entry, if nothing else was written.
    fn append(&self, at: Position, bytes: Bytes) -> Result<(), RepairError> {
        let mut settlement = Settlement::new(at, bytes);
        let until = self.clock.now_ms() + APPEND_FOR_MS;
        match settle(&*self.stream, &*self.clock, &mut settlement, until, &Appends::default()) {
            Ok(Some(Settled::Durable)) => Ok(()),
            Ok(Some(Settled::Taken(_) | Settled::Lost { .. } | Settled::Damaged(_))) => {
                Err(RepairError::Replaced(self.shard))
            }
            Ok(None) => Err(self.not_stored(&"the log did not answer in time")),
            Err(error) => Err(self.not_stored(&error)),
        }
    }

    /// Encodes and appends a commit of one entry, and returns its mark.
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
        // Names and versions are short, so the commit has one entry.
        let bytes = entries.map_err(too_long)?.into_iter().next().unwrap_or_default();
        let (position, epoch, hash) = (next.position, next.epoch, EntryHash::of(&bytes));
        self.append(position, bytes)?;
        Ok(Mark { position, epoch, hash })
    }

    fn must_be_unserved(&self, finding: &Finding) -> Result<(), RepairError> {
        let owns = |state| state == Standing::Owned;
        for (node, record) in read_nodes(&*self.bucket)? {
            if record.shards.iter().any(|it| it.shard == self.shard && owns(it.state)) {
                let behind = finding.last.max(finding.known);
                return Err(RepairError::InUse { node, shard: self.shard, behind });
            }
        }
        Ok(())
    }

    /// Claims the shard behind the last entry, whatever that is: no node reads that entry any more.
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
            readable_from: DATA_FORMAT,
        };
        self.append_one(&next, Kind::Claim, time_ms, claim.encode())
    }

    /// Appends the note of the checkpoint behind the claim.
    fn append_note(&self, claimed: Mark, record: &CheckpointRecord) -> Result<(), RepairError> {
        let Mark { position, epoch, hash: prev } = claimed;
        let next = Next { log: self.id, shard: self.shard, position: position.next(), epoch, prev };
        let Digest { sha256, bytes } = record.digest;
        let archive = self.checkpoints.name(record);
        let note = CheckpointNote { position, archive, sha256, bytes };
        self.append_one(&next, Kind::Checkpoint, record.time_ms, note.encode()).map(drop)
    }

    /// Stores the shard's archive, made at the claim, as its only checkpoint.
    ///
    /// It then trims the log behind the claim, and lets the nodes continue.
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
