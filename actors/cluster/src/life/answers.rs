//! What the thread of a shard asks of the log, of the bucket and of other nodes.

use bytes::Bytes;
use postrider_log::{Entry, EntryHash, Header, Kind, Position};

use super::{Life, TICK_MS};
use crate::coordination::{NodeRecord, decode, node_key};
use crate::log::{Ends, settle};
use crate::repair::{is_under_way, repaired_in};
use crate::replica::Replica;
use crate::settle::{Settled, Settlement};
use crate::shard::{Answer, Question};

/// How long a question for entries may take, in milliseconds, and how many are asked for at a time.
const READ_FOR_MS: u64 = 1_000;
const READ_AT_ONCE: u64 = 128;
/// How long an append is tried before it is looked whether the node stops, in milliseconds.
const APPEND_FOR_MS: u64 = 30_000;
/// How long a claim waits before it is looked again whether the shard is repaired, in milliseconds.
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

    /// The replica begins at the newest checkpoint. The log is asked first, so that what is trimmed
    /// of it is in a checkpoint by then.
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
            // A server that no longer leads may say so: the next one is asked then.
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

    /// Appends until it is known how that ended, or the node stops. A shard that is being repaired
    /// is not claimed: that is looked at before each try.
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

    /// Whether a repair keeps nodes from claiming the shard, which is logged once; `None` while the
    /// bucket does not answer.
    fn waits_for_repair(&self) -> Option<bool> {
        let is_marked = is_under_way(&*self.inner.bucket, self.number).ok()?;
        if self.waits_for_repair.replace(is_marked) != is_marked && is_marked {
            let why = Self::waiting(self.number);
            tracing::warn!(shard = self.number, why, "the shard is not claimed");
        }
        Some(is_marked)
    }

    /// Why a shard is not claimed that is marked by a repair.
    pub(super) fn waiting(shard: u16) -> String {
        format!(
            "a repair of the shard has begun and is not finished; if none runs any more, run \
             `postrider cluster repair --shard {shard}` again"
        )
    }
}
