//! Pure: each entry must follow the one before it, by position, epoch, hash and part.

use crate::entry::{Entry, EntryHash, Header, Kind, LogId, Position};

/// The end of a chain of entries, which decides the entries that may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    log: LogId,
    shard: u16,
    last: Position,
    epoch: u64,
    hash: EntryHash,
    /// The commit whose last part is still missing.
    open: Option<OpenCommit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenCommit {
    first: Position,
    kind: Kind,
    next_part: u16,
    parts: u16,
}

impl Chain {
    /// Returns a chain that ends with a whole commit at `last`.
    #[must_use]
    pub const fn new(log: LogId, shard: u16, last: Position, epoch: u64, hash: EntryHash) -> Self {
        Self { log, shard, last, epoch, hash, open: None }
    }

    /// Returns the log of the entries.
    #[must_use]
    pub const fn log(&self) -> LogId {
        self.log
    }

    /// Returns the shard of the entries.
    #[must_use]
    pub const fn shard(&self) -> u16 {
        self.shard
    }

    /// Returns the last entry's position.
    #[must_use]
    pub const fn last(&self) -> Position {
        self.last
    }

    /// Returns the last entry's epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the last entry's hash.
    #[must_use]
    pub const fn hash(&self) -> EntryHash {
        self.hash
    }

    /// Returns whether the last commit has all of its parts.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.open.is_none()
    }

    /// Returns the start of the next commit, or of the present one if it is not whole.
    #[must_use]
    pub fn commit_begins(&self) -> Position {
        self.open.as_ref().map_or(self.last.next(), |open| open.first)
    }

    /// Checks that an entry with this header may follow.
    ///
    /// The epoch rises only with a claim, so an entry of a writer that missed a later claim is
    /// refused. A claim also ends a commit whose last part is missing.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, header: &Header) -> Result<(), ChainFault> {
        if header.log != self.log {
            return Err(ChainFault::Log);
        }
        if header.shard != self.shard {
            return Err(ChainFault::Shard { found: header.shard, expected: self.shard });
        }
        let expected = self.last.next();
        if header.position != expected {
            return Err(ChainFault::Position { found: header.position, expected });
        }
        if header.prev != self.hash {
            return Err(ChainFault::Hash);
        }
        let is_claim = header.kind == Kind::Claim;
        let fits = if is_claim { header.epoch > self.epoch } else { header.epoch == self.epoch };
        if !fits || header.epoch == 0 {
            return Err(ChainFault::Epoch { found: header.epoch, last: self.epoch });
        }
        let fits = match &self.open {
            _ if is_claim => header.parts == 1,
            Some(open) => {
                header.kind == open.kind
                    && header.parts == open.parts
                    && header.part == open.next_part
            }
            None => header.part == 0,
        };
        if fits { Ok(()) } else { Err(ChainFault::Part) }
    }

    /// Adds an entry that [`check`](Self::check) accepted.
    pub fn push(&mut self, entry: &Entry) {
        let Header { kind, position, epoch, part, parts, .. } = entry.header;
        self.open = (part + 1 < parts).then(|| OpenCommit {
            first: entry.header.commit_begins(),
            kind,
            next_part: part + 1,
            parts,
        });
        (self.last, self.epoch, self.hash) = (position, epoch, entry.hash());
    }

    /// Checks an entry, then adds it.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), which leave the chain unchanged.
    pub fn check_and_push(&mut self, entry: &Entry) -> Result<(), ChainFault> {
        self.check(&entry.header)?;
        self.push(entry);
        Ok(())
    }
}

/// The reason why an entry does not follow the one before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// It belongs to another log.
    #[error("the entry belongs to another log")]
    Log,
    /// It belongs to another shard.
    #[error("the entry belongs to shard {found}, not {expected}")]
    Shard {
        /// The shard of the entry.
        found: u16,
        /// The shard of the log.
        expected: u16,
    },
    /// Its position is not the next one.
    #[error("the entry has position {found}, not {expected}")]
    Position {
        /// The position of the entry.
        found: Position,
        /// The next position.
        expected: Position,
    },
    /// It names another entry as the one before it.
    #[error("the entry follows another one than the one before it")]
    Hash,
    /// A claim must raise the epoch; anything else must keep it.
    #[error("the entry has epoch {found} behind epoch {last}")]
    Epoch {
        /// The epoch of the entry.
        found: u64,
        /// The epoch of the entry before it.
        last: u64,
    },
    /// It is not the next part of a commit.
    #[error("the entry is not the part of a commit that comes next")]
    Part,
}
