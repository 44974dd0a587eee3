//! The made-up log of one shard: a stream with compare-and-swap on its length.

use bytes::Bytes;
use postrider_log::{EntryHash, Position};

use super::call::End;

/// One stream, and how it fails.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) entries: Vec<Bytes>,
    /// What was written, where what is there was flipped.
    pub(super) written: Vec<Bytes>,
    /// What is up to here can no longer be read; it is left for the judge.
    pub(super) trimmed: Position,
    /// No leader until then: nothing is answered.
    pub(super) silent_until: u64,
    /// A server that no longer leads answers reads from this many entries until then.
    pub(super) stale: (u64, usize),
    /// How much a follower has.
    pub(super) follower: (u64, usize),
    /// When entries were lost last.
    pub(super) lost_at: u64,
    /// Entries were lost.
    pub(super) has_lost: bool,
    /// An entry was flipped.
    pub(super) is_flipped: bool,
}

impl Stream {
    /// Appends an entry whose position is the next one.
    pub(super) fn publish(&mut self, at: Position, bytes: &Bytes) -> bool {
        if at.0 != self.entries.len() as u64 + 1 {
            return false;
        }
        self.entries.push(bytes.clone());
        self.written.push(bytes.clone());
        true
    }

    pub(super) fn end(&self, seen: usize) -> End {
        let seen = seen.min(self.entries.len());
        let hash = self.entries[..seen].last().map_or(EntryHash::NONE, |it| EntryHash::of(it));
        End { last: Position(seen as u64), hash }
    }

    pub(super) fn read(&self, seen: usize, from: Position) -> Vec<Bytes> {
        let seen = seen.min(self.entries.len());
        let from = (from.0 as usize).saturating_sub(1).min(seen);
        self.entries[from..seen.min(from + 16)].to_vec()
    }

    /// The last entries are lost.
    pub(super) fn lose(&mut self, count: usize) {
        let left = self.entries.len().saturating_sub(count);
        self.has_lost |= left < self.entries.len();
        self.entries.truncate(left);
        self.written.truncate(left);
    }

    /// A bit of one of the last entries changes.
    pub(super) fn flip(&mut self, back: usize, byte: usize) {
        let Some(at) = self.entries.len().checked_sub(back) else { return };
        if let Some(entry) = self.entries.get_mut(at) {
            let mut bytes = entry.to_vec();
            let byte = byte % bytes.len();
            bytes[byte] ^= 1;
            *entry = bytes.into();
            self.is_flipped = true;
        }
    }
}
