//! Pure: a commit as entries: cut into parts where it is too large for one, checked, joined again.

use bytes::Bytes;

use crate::chain::Chain;
use crate::entry::{Entry, EntryHash, Header, Kind, LogId, OVERHEAD_BYTES, Position, encode};

/// The place of the next commit, and the entry that it names as the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The log.
    pub log: LogId,
    /// The shard.
    pub shard: u16,
    /// The position of its first entry.
    pub position: Position,
    /// The epoch of its writer.
    pub epoch: u64,
    /// The hash of the last entry.
    pub prev: EntryHash,
}

impl Next {
    /// Returns the place behind a chain, for a writer of this epoch.
    #[must_use]
    pub fn after(chain: &Chain, epoch: u64) -> Self {
        Self {
            log: chain.log(),
            shard: chain.shard(),
            position: chain.last().next(),
            epoch,
            prev: chain.hash(),
        }
    }
}

/// The reason why a commit cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A length does not fit into its field.
    #[error("{field} of a commit has {length} bytes, more than {max}")]
    TooLong {
        /// The field that is too long.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The largest length.
        max: usize,
    },
    /// It would need more parts than the maximum number.
    #[error("a commit of {bytes} bytes needs {parts} parts; at most {max} are possible")]
    TooManyParts {
        /// The length of the body.
        bytes: usize,
        /// The parts that it needs.
        parts: usize,
        /// The maximum number of parts.
        max: usize,
    },
}

/// Returns the bytes of a body that fit into one entry.
fn capacity(entry_bytes_max: usize) -> usize {
    entry_bytes_max.saturating_sub(OVERHEAD_BYTES).clamp(1, u32::MAX as usize)
}

/// Returns the number of entries for a commit with a body of this length.
#[must_use]
pub fn parts_of(body_bytes: usize, entry_bytes_max: usize) -> usize {
    body_bytes.div_ceil(capacity(entry_bytes_max)).max(1)
}

/// Encodes a commit as one entry or as parts, none larger than `entry_bytes_max`.
///
/// # Errors
/// [`EncodeError::TooManyParts`] when the parts cannot be numbered, or a claim needs more than one.
pub fn encode_commit(
    next: &Next,
    kind: Kind,
    time_ms: u64,
    body: &[u8],
    entry_bytes_max: usize,
) -> Result<Vec<Bytes>, EncodeError> {
    let capacity = capacity(entry_bytes_max);
    let count = parts_of(body.len(), entry_bytes_max);
    let max = if kind == Kind::Claim { 1 } else { u16::MAX };
    let bytes = body.len();
    let too_many = EncodeError::TooManyParts { bytes, parts: count, max: max.into() };
    let parts = u16::try_from(count).ok().filter(|parts| *parts <= max).ok_or(too_many)?;
    let mut prev = next.prev;
    let mut entries = Vec::with_capacity(count);
    for part in 0..parts {
        let from = usize::from(part) * capacity;
        let slice = &body[from..bytes.min(from + capacity)];
        let header = Header {
            kind,
            shard: next.shard,
            log: next.log,
            position: Position(next.position.0 + u64::from(part)),
            epoch: next.epoch,
            prev,
            part,
            parts,
            // `capacity` is at most the largest u32, and no part is longer.
            body_bytes: slice.len() as u32,
            time_ms,
        };
        let entry = encode(&header, slice);
        if part + 1 < parts {
            prev = EntryHash::of(&entry);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// A checked commit: its entries are one whole commit, which follows the last one.
#[derive(Debug)]
pub struct Checked {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The chain behind it.
    pub chain: Chain,
}

impl Checked {
    /// Returns the header of the last entry.
    #[must_use]
    pub fn last_header(&self) -> Option<Header> {
        self.entries.last().map(|entry| entry.header.clone())
    }

    /// Returns the bytes of all entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes.len()).sum()
    }

    /// Returns the bytes for the disk: the entries, one behind the other.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.entries.as_slice() {
            [only] => only.bytes.clone(),
            all => all.iter().fold(Vec::new(), appended).into(),
        }
    }
}

fn appended(mut all: Vec<u8>, entry: &Entry) -> Vec<u8> {
    all.extend_from_slice(&entry.bytes);
    all
}

/// Checks that the entries are one whole commit that may follow the chain, at position `at`.
///
/// `claimed` is set once the writer has claimed the log; without it only a claim is accepted.
///
/// # Errors
/// The reason for the refusal.
pub fn check_commit(
    chain: &Chain,
    at: Position,
    entries: &[Bytes],
    claimed: bool,
    entry_bytes_max: usize,
) -> Result<Checked, String> {
    let next = chain.last().next();
    if at != next {
        return Err(format!("position {at} is not the next one, which is {next}"));
    }
    let mut chain = chain.clone();
    let mut checked = Vec::with_capacity(entries.len());
    for bytes in entries {
        if bytes.len() > entry_bytes_max {
            let length = bytes.len();
            return Err(format!("an entry of {length} bytes is larger than {entry_bytes_max}"));
        }
        let entry = Entry::decode(bytes.clone()).map_err(|fault| fault.to_string())?;
        if !claimed && entry.header.kind != Kind::Claim {
            return Err("the writer has not claimed the log since it was opened".to_owned());
        }
        if !checked.is_empty() && entry.header.part == 0 {
            return Err("the entries are of more than one commit".to_owned());
        }
        chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
        checked.push(entry);
    }
    if checked.is_empty() {
        return Err("there are no entries".to_owned());
    }
    if !chain.is_whole() {
        return Err("the last part of the commit is missing".to_owned());
    }
    Ok(Checked { entries: checked, chain })
}

/// One commit, with its parts joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The kind.
    pub kind: Kind,
    /// The position of its first part.
    pub first: Position,
    /// The position of its last part, which is the commit's.
    pub position: Position,
    /// The epoch of its writer.
    pub epoch: u64,
    /// The writer's engine time, in milliseconds.
    pub time_ms: u64,
    /// The joined body.
    pub body: Bytes,
    /// The last entry.
    last: Entry,
}

impl Commit {
    /// Returns the hash of its last entry. It is computed at each call.
    #[must_use]
    pub fn hash(&self) -> EntryHash {
        self.last.hash()
    }
}

/// A part was read without the parts before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {0} is part of a commit that begins before the entries that were read")]
pub struct PartWithoutStart(pub Position);

/// Joins the entries of a chain into commits. A commit without its last part is void and dropped.
#[derive(Debug, Default)]
pub struct Joiner {
    open: Option<(Position, Vec<u8>)>,
}

impl Joiner {
    /// Takes the next entry, and returns the commit that it completes.
    ///
    /// The entries must be those of a checked chain.
    ///
    /// # Errors
    /// [`PartWithoutStart`] when the first entry is not the first part of its commit.
    pub fn push(&mut self, entry: &Entry) -> Result<Option<Commit>, PartWithoutStart> {
        let header = &entry.header;
        if header.part == 0 {
            self.open = None;
        }
        if header.parts == 1 {
            return Ok(Some(commit(entry, header.position, entry.body())));
        }
        let (first, body) = match &mut self.open {
            Some(open) => open,
            None if header.part == 0 => self.open.insert((header.position, Vec::new())),
            None => return Err(PartWithoutStart(header.position)),
        };
        body.extend_from_slice(&entry.body());
        if header.part + 1 < header.parts {
            return Ok(None);
        }
        let joined = commit(entry, *first, std::mem::take(body).into());
        self.open = None;
        Ok(Some(joined))
    }
}

fn commit(last: &Entry, first: Position, body: Bytes) -> Commit {
    let Header { kind, position, epoch, time_ms, .. } = last.header;
    Commit { kind, first, position, epoch, time_ms, body, last: last.clone() }
}

#[cfg(test)]
mod tests;
