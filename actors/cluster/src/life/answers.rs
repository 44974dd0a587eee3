//! The questions of a shard's thread to the log, the bucket and other nodes.

use bytes::Bytes;
use postrider_log::{Entry, EntryHash, Header, Kind, Position};

use super::{Life, TICK_MS};
use crate::coordination::{NodeRecord, decode, node_key};
use crate::log::{Ends, settle};
use crate::repair::{is_under_way, repaired_in};
use crate::replica::Replica;
use crate::settle::{Settled, Settlement};
use crate::shard::{Answer, Question};

/// The maximum time of a question for entries, in milliseconds, and the number read at a time.
const READ_FOR_MS: u64 = 1_000;
const READ_AT_ONCE: u64 = 128;
/// The time an append is tried before a check whether the node stops, in milliseconds.
const APPEND_FOR_MS: u64 = 30_000;
/// The time a claim waits before the next check of a repair, in milliseconds.
const REPAIR_PAUSE_MS: u64 = 500;

impl Life {
    pub(super) fn ask(&self, question: Question) -> Option<Answer> {
        let stream = &*self.inner.streams[usize::from(self.number)];
        match question {
            Question::Restore => self.restore(),
            Question::Entries { from } => self.entries(from),
            Question::Tail => {
                let last = stream.ends().ok()?.last;
                let hash = match stream.message(last) {
                    _ if last == 0 => EntryHash::NONE,
                    Ok(Some(bytes)) => Entry::decode(bytes).ok()?.hash(),
                    Ok(None) | Err(_) => return None,
                };
                Some(Answer::Tail { last: Position(last), hash })
            }
            Question::Lease { node } => {
                let key = node_key(&node);
                let kept = self.inner.bucket.read(&key).ok()?;
                let record = kept.map(|kept| decode::<NodeRecord>(&key, &kept.value)).transpose();
                Some(Answer::Lease(record.ok()?.map(|record| record.incarnation)))
            }
            Question::Release { node } => {
                let seen = self.inner.seen.lock().clone();
                let address = &seen.nodes.get(&node)?.advertise;
                let me = &self.inner.options.node;
                self.inner.host.ask_release(address, self.number, me).map(Answer::Release)
            }
            Question::Repaired => {
                let repaired = repaired_in(&*self.inner.bucket, self.number).ok()?;
                repaired.map(|epoch| Answer::Repaired { epoch })
            }
            Question::Append { at, bytes } => self.append(at, &bytes).map(Answer::Settled),
        }
    }

    /// Returns the replica at the newest checkpoint.
    ///
    /// The log is read first, so that any part trimmed from it is in a checkpoint by then.
    fn restore(&self) -> Option<Answer> {
        let log = self.inner.logs[usize::from(self.number)];
        let first = self.inner.streams[usize::from(self.number)].ends().ok()?.first;
        let newest = self.inner.checkpoints(self.number).newest();
        let newest = newest.map_err(|error| {
            tracing::warn!(shard = self.number, %error, "the checkpoints cannot be read");
        });
        let newest = newest.ok()?.and_then(|(it, format)| it.replica(log, self.number, format));
        let replica = newest.unwrap_or_else(|| Replica::empty(log, self.number));
        if replica.chain().last().0 + 1 < first {
            return Some(Answer::Unrestorable { first: Position(first) });
        }
        Some(Answer::Restored(Box::new(replica)))
    }

    fn entries(&self, from: Position) -> Option<Answer> {
        let stream = &*self.inner.streams[usize::from(self.number)];
        let Ends { first, last, .. } = stream.ends().ok()?;
        if from.0 < first {
            return Some(Answer::Trimmed);
        }
        if last + 1 < from.0 {
            // A server that no longer leads may answer this: the next one is asked then.
            stream.switch_server();
        }
        let until = self.inner.clock.now_ms() + READ_FOR_MS;
        let (mut entries, mut next) = (Vec::new(), from.0);
        while next <= last && self.inner.clock.now_ms() < until && !self.inner.is_stopping() {
            for (sequence, bytes) in
                stream.messages(next, READ_AT_ONCE.min(last - next + 1)).ok()?
            {
                if sequence != next {
                    break;
                }
                entries.push(bytes);
                next += 1;
            }
        }
        Some(Answer::Entries { entries, last: Position(last) })
    }

    /// Appends until the outcome is known, or the node stops.
    ///
    /// A shard under repair is not claimed: that is checked before each attempt.
    fn append(&self, at: Position, bytes: &Bytes) -> Option<Settled> {
        let is_claim = Header::decode(bytes).is_ok_and(|it| it.kind == Kind::Claim);
        let stream = &*self.inner.streams[usize::from(self.number)];
        let mut settlement = Settlement::new(at, bytes.clone());
        while !self.inner.is_stopping() {
            if is_claim && self.waits_for_repair()? {
                self.inner.pause(REPAIR_PAUSE_MS);
                return None;
            }
            let until = self.inner.clock.now_ms() + APPEND_FOR_MS;
            let appends = &self.inner.counters.appends;
            match settle(stream, &*self.inner.clock, &mut settlement, until, appends) {
                Ok(Some(settled)) => return Some(settled),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(shard = self.number, %error, "the log takes nothing");
                    self.inner.pause(TICK_MS);
                    return None;
                }
            }
        }
        None
    }

    /// Returns whether a repair prevents nodes from claiming the shard, and logs a change once.
    ///
    /// Returns `None` while the bucket does not answer.
    fn waits_for_repair(&self) -> Option<bool> {
        let is_marked = is_under_way(&*self.inner.bucket, self.number).ok()?;
        if self.waits_for_repair.replace(is_marked) != is_marked && is_marked {
            let why = Self::waiting(self.number);
            tracing::warn!(shard = self.number, why, "the shard is not claimed");
        }
        Some(is_marked)
    }

    /// Returns the reason why a shard that a repair has marked is not claimed.
    pub(super) fn waiting(shard: u16) -> String {
        format!(
            "a repair of the shard has begun and is not finished; if none runs any more, run \
             `postrider cluster repair --shard {shard}` again"
        )
    }
}
