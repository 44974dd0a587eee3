//! Checkpoints of a simulation: the owner stores and lists its records, and trims the log.

use postrider_log::{CheckpointNote, EntryHash, Kind, Next, Position, encode_commit};

use super::World;
use super::call::{Input, NodeNumber};
use super::engine::View;
use crate::checkpoints::{CheckpointRecord, Digest, needed_after};
use crate::planted::Planted;
use crate::shard::{Answer, ShardInput};

/// The number of entries since the last checkpoint after which the next one is made.
const DUE_AFTER: u64 = 12;

/// One checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Archive {
    record: CheckpointRecord,
    view: View,
    pub(super) is_damaged: bool,
}

impl World {
    /// Starts to store a checkpoint if one is due. None is made of a log that has lost entries.
    pub(super) fn consider_checkpoint(&mut self, node: NodeNumber, shard: usize) {
        let since = self.archives[shard].first().map_or(0, |newest| newest.record.position);
        let it = &self.nodes[node];
        let replica = it.shards[shard].shard.replica();
        let (mark, time_ms) = (replica.mark(), replica.time_ms());
        let (name, incarnation) = (it.name.to_string(), it.identity.incarnation);
        let view = it.shards[shard].view.clone();
        let due = mark.position.0 > since + DUE_AFTER && !self.streams[shard].has_lost;
        let within = 100 + self.draw(2_000);
        let engine = self.nodes[node].shards[shard].engine.as_mut();
        let Some(engine) = engine.filter(|it| due && !it.is_storing && !it.is_closed) else {
            return;
        };
        engine.is_storing = true;
        let record = CheckpointRecord {
            position: mark.position.0,
            epoch: mark.epoch,
            hash: mark.hash.0,
            time_ms,
            node: name,
            incarnation,
            digest: Digest { sha256: [0; 32], bytes: 0 },
        };
        let archive = Box::new(Archive { record, view, is_damaged: false });
        let epoch = engine.epoch;
        self.after_a_while(node, within, Input::Stored { shard, epoch, archive });
    }

    /// Lists a stored archive beside the newest whole one, unless another was listed since.
    ///
    /// A replaced owner may do so too; the log then refuses its note.
    pub(super) fn stored(&mut self, node: NodeNumber, shard: usize, epoch: u64, new: Archive) {
        let it = &self.nodes[node];
        let is_heard = !it.is_cut() && !it.has_no_bucket && self.now >= self.silent_until;
        let before = &self.archives[shard];
        let is_newest = before.first().is_none_or(|it| it.record.position < new.record.position);
        let is_listed = is_heard && is_newest && !self.streams[shard].has_lost;
        let note = CheckpointNote {
            position: Position(new.record.position),
            archive: String::new(),
            sha256: [0; 32],
            bytes: 0,
        };
        if is_listed {
            let older = before.iter().find(|it| !it.is_damaged).cloned();
            self.archives[shard] = [new].into_iter().chain(older).collect();
        }
        let listed: Vec<_> = self.archives[shard].iter().map(|it| it.record.clone()).collect();
        let engine = self.nodes[node].shards[shard].engine.as_mut();
        let Some(engine) = engine.filter(|it| it.epoch == epoch) else { return };
        engine.is_storing = false;
        if is_listed {
            let past_older = self.options.planted == Some(Planted::TrimsPastOlder);
            let through = if past_older { note.position } else { needed_after(&listed) };
            engine.note = Some((note, through));
            self.flush(node, shard);
        }
    }

    /// Appends the note of a checkpoint.
    pub(super) fn append_checkpoint(
        &mut self,
        node: NodeNumber,
        shard: usize,
        note: &CheckpointNote,
    ) {
        let engine_ms = self.nodes[node].engine_ms(shard, self.now);
        let it = &self.nodes[node].shards[shard];
        let Some(epoch) = it.engine.as_ref().map(|it| it.epoch) else { return };
        let next = Next::after(it.shard.chain(), epoch);
        let body = note.encode().unwrap();
        let entry = encode_commit(&next, Kind::Checkpoint, engine_ms, &body, 100_000);
        let bytes = entry.unwrap().remove(0);
        let append = self.begin_append(node, shard, next.position, bytes);
        if let Some(engine) = self.nodes[node].shards[shard].engine.as_mut() {
            engine.flight = Some((append, Vec::new()));
        }
    }

    /// Trims a log at the servers.
    pub(super) fn trim(&mut self, shard: usize, through: Position) {
        let stream = &mut self.streams[shard];
        if stream.has_lost || through <= stream.trimmed {
            return;
        }
        stream.trimmed = through;
        let listed: Vec<_> =
            self.archives[shard].iter().map(|it| Position(it.record.position)).collect();
        self.judge.trimmed(shard, through, &listed);
    }

    /// Opens a replica from the disk, or from the newest whole checkpoint.
    ///
    /// The checkpoint is used if the log no longer continues from the disk.
    pub(super) fn restore(&mut self, node: NodeNumber, shard: usize, ticket: u64) {
        let answer = self.restored(node, shard);
        self.step(node, shard, ShardInput::Answered(ticket, answer));
    }

    fn restored(&mut self, node: NodeNumber, shard: usize) -> Answer {
        let is_silent = self.now < self.silent_until.max(self.streams[shard].silent_until);
        if self.nodes[node].is_cut() || self.nodes[node].has_no_bucket || is_silent {
            return Answer::Nothing;
        }
        let (log, trimmed) = (self.logs[shard], self.streams[shard].trimmed);
        let replica = self.nodes[node].opened(shard, log);
        let has_all = replica.chain().last() >= trimmed;
        if has_all && replica.chain().hash() != EntryHash::NONE {
            return Answer::Restored(Box::new(replica));
        }
        let whole = self.archives[shard].iter().find(|it| !it.is_damaged);
        let whole = whole.filter(|it| Position(it.record.position) >= trimmed);
        let Some(Archive { record, view, .. }) = whole else {
            let first = trimmed.next();
            let unrestorable = Answer::Unrestorable { first };
            return if has_all { Answer::Restored(Box::new(replica)) } else { unrestorable };
        };
        let mut replica = record.replica(log, shard as u16, 2).unwrap();
        replica.planted = self.options.planted;
        self.nodes[node].shards[shard].view = view.clone();
        self.judge.summary.restored += 1;
        Answer::Restored(Box::new(replica))
    }
}
