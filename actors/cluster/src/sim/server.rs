//! The made-up log of one shard: a stream with compare-and-swap on its length.

use bytes::Bytes;
use postrider_log::{EntryHash, Position};

use super::call::End;

/// One stream, with its faults.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) entries: Vec<Bytes>,
    /// The entries as written, without flipped bits.
    pub(super) written: Vec<Bytes>,
    /// The position up to which entries can no longer be read; they are left for the judge.
    pub(super) trimmed: Position,
    /// The time until which the stream has no leader and nothing is answered.
    pub(super) silent_until: u64,
    /// The time until which a replaced server answers reads, and the number of its entries.
    pub(super) stale: (u64, usize),
    /// The time and the number of entries of a follower.
    pub(super) follower: (u64, usize),
    /// The time at which entries were lost last.
    pub(super) lost_at: u64,
    /// Set if entries were lost.
    pub(super) has_lost: bool,
    /// Set if an entry was flipped.
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

    /// Loses the last entries.
    pub(super) fn lose(&mut self, count: usize) {
        let left = self.entries.len().saturating_sub(count);
        self.has_lost |= left < self.entries.len();
        self.entries.truncate(left);
        self.written.truncate(left);
    }

    /// Changes a bit of one of the last entries.
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
