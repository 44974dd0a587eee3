//! Pure: an entry of the log is a checksummed header, a body and an end mark.
//!
//! All numbers are big endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `PRLG` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | kind |
//! | 6 | 2 | shard |
//! | 8 | 16 | id of the log |
//! | 24 | 8 | position |
//! | 32 | 8 | epoch |
//! | 40 | 16 | hash of the previous entry |
//! | 56 | 2 + 2 | part and parts |
//! | 60 | 4 | length of the body |
//! | 64 | 8 | engine time of the writer, in milliseconds |
//! | 72 | 4 | reserved, zero |
//! | 76 | 4 | CRC-32C of bytes 0 to 76 |
//! | 80 | n | body |
//! | 80 + n | 4 | CRC-32C of header and body |
//! | 84 + n | 4 | end mark `gLRP` |
//!
//! The end mark's last byte is not zero, so an entry ends where the zeros behind it begin.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

#[cfg(test)]
mod tests;

/// Bytes of an entry's header.
pub const HEADER_BYTES: usize = 80;
/// Bytes of an entry beside its body.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 8;
/// The version of the format that is written, and the highest one that is read.
pub const VERSION: u8 = 1;

/// The first bytes of every entry.
pub(crate) const MAGIC: [u8; 4] = *b"PRLG";
const END_MARK: [u8; 4] = *b"gLRP";
const HEADER_CHECKED: usize = HEADER_BYTES - 4;

/// The number of an entry. The first one is 1, and [`Position::START`] is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The position before the first entry.
    pub const START: Self = Self(0);

    /// Returns the position right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the position right before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a log: 16 random bytes, drawn once when the log is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

/// The first 16 bytes of the SHA-256 of an entry, by which the next entry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntryHash(pub [u8; 16]);

impl EntryHash {
    /// The previous hash in the first entry of a log, which has no entry before it.
    pub const NONE: Self = Self([0; 16]);

    /// Returns the hash of an entry's bytes.
    #[must_use]
    pub fn of(entry: &[u8]) -> Self {
        let digest: [u8; 32] = Sha256::digest(entry).into();
        Self(field(&digest, 0))
    }
}

/// The kind of an entry. The numbers are stored on disk and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A writer opened the log. The epoch rises only with a claim.
    Claim = 1,
    /// A group commit.
    Group = 2,
    /// An archive holds everything up to a position.
    Checkpoint = 3,
    /// Another node shall write the shard.
    Handoff = 4,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Claim, Self::Group, Self::Checkpoint, Self::Handoff];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// An entry without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The kind of the entry.
    pub kind: Kind,
    /// The shard that the log belongs to; 0 on one node.
    pub shard: u16,
    /// The log that the entry belongs to.
    pub log: LogId,
    /// The entry's place in the log. Positions have no gaps.
    pub position: Position,
    /// The number of openings of the log for writing. It never decreases.
    pub epoch: u64,
    /// The hash of the entry before it.
    pub prev: EntryHash,
    /// The number of this part within its commit, from 0.
    pub part: u16,
    /// The number of the commit's parts; 1 if it is not split.
    pub parts: u16,
    /// The length of the body.
    pub body_bytes: u32,
    /// The writer's engine time, in milliseconds.
    pub time_ms: u64,
}

impl Header {
    /// Returns the length of the whole entry.
    #[must_use]
    pub const fn entry_bytes(&self) -> usize {
        // A u32 fits: the crate is for machines of 64 bits, see below.
        self.body_bytes as usize + OVERHEAD_BYTES
    }

    /// Returns the position of the first part of the entry's commit.
    #[must_use]
    pub const fn commit_begins(&self) -> Position {
        Position(self.position.0.saturating_sub(self.part as u64))
    }

    /// Decodes the header at the start of the bytes.
    ///
    /// # Errors
    /// The first fault. [`EntryFault::Newer`] is only reported for a header that is whole.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryFault> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(EntryFault::Short);
        };
        if header[..4] != MAGIC {
            return Err(EntryFault::Magic);
        }
        if u32_at(header, HEADER_CHECKED) != crc32c::crc32c(&header[..HEADER_CHECKED]) {
            return Err(EntryFault::HeaderChecksum);
        }
        if header[4] != VERSION {
            return Err(EntryFault::Newer { field: "version", number: header[4] });
        }
        let kind = Kind::from_number(header[5])
            .ok_or(EntryFault::Newer { field: "kind", number: header[5] })?;
        let decoded = Self {
            kind,
            shard: u16::from_be_bytes(field(header, 6)),
            log: LogId(field(header, 8)),
            position: Position(u64_at(header, 24)),
            epoch: u64_at(header, 32),
            prev: EntryHash(field(header, 40)),
            part: u16::from_be_bytes(field(header, 56)),
            parts: u16::from_be_bytes(field(header, 58)),
            body_bytes: u32_at(header, 60),
            time_ms: u64_at(header, 64),
        };
        let is_part = decoded.part < decoded.parts;
        if header[72..76] != [0; 4] || !is_part || decoded.position == Position::START {
            return Err(EntryFault::Fields);
        }
        Ok(decoded)
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let fields: [(usize, &[u8]); 13] = [
            (0, &MAGIC),
            (4, &[VERSION]),
            (5, &[self.kind as u8]),
            (6, &self.shard.to_be_bytes()),
            (8, &self.log.0),
            (24, &self.position.0.to_be_bytes()),
            (32, &self.epoch.to_be_bytes()),
            (40, &self.prev.0),
            (56, &self.part.to_be_bytes()),
            (58, &self.parts.to_be_bytes()),
            (60, &self.body_bytes.to_be_bytes()),
            (64, &self.time_ms.to_be_bytes()),
            (72, &[0; 4]),
        ];
        for (at, bytes) in fields {
            out[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let checksum = crc32c::crc32c(&out[..HEADER_CHECKED]);
        out[HEADER_CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        out
    }
}

// Lengths are u32 on disk and usize in memory.
const _: () = assert!(usize::BITS >= 64);

/// One whole entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The header.
    pub header: Header,
    /// All bytes of the entry, as they are stored.
    pub bytes: Bytes,
}

impl Entry {
    /// Decodes an entry from exactly its bytes.
    ///
    /// # Errors
    /// The first fault.
    pub fn decode(bytes: Bytes) -> Result<Self, EntryFault> {
        let header = verify(&bytes)?;
        Ok(Self { header, bytes })
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.bytes.slice(HEADER_BYTES..self.bytes.len() - (OVERHEAD_BYTES - HEADER_BYTES))
    }

    /// Returns the hash by which the next entry names this one.
    #[must_use]
    pub fn hash(&self) -> EntryHash {
        EntryHash::of(&self.bytes)
    }
}

/// Encodes an entry. The header's length must be that of the body.
pub(crate) fn encode(header: &Header, body: &[u8]) -> Bytes {
    debug_assert_eq!(header.body_bytes as usize, body.len(), "the header is of another body");
    let mut out = Vec::with_capacity(body.len() + OVERHEAD_BYTES);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(body);
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&END_MARK);
    out.into()
}

/// Checks that the bytes are exactly one whole entry, and returns its header.
///
/// # Errors
/// The first fault.
pub(crate) fn verify(bytes: &[u8]) -> Result<Header, EntryFault> {
    let header = Header::decode(bytes)?;
    if bytes.len() < header.entry_bytes() {
        return Err(EntryFault::Short);
    }
    if bytes.len() > header.entry_bytes() {
        return Err(EntryFault::Long);
    }
    let body_end = bytes.len() - (OVERHEAD_BYTES - HEADER_BYTES);
    if u32_at(bytes, body_end) != crc32c::crc32c(&bytes[..body_end]) {
        return Err(EntryFault::Checksum);
    }
    if bytes[body_end + 4..] != END_MARK {
        return Err(EntryFault::EndMark);
    }
    Ok(header)
}

/// The reason why bytes are not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// The bytes end before the entry does.
    #[error("the entry is cut off")]
    Short,
    /// There are more bytes than the entry has.
    #[error("the entry has bytes behind its end")]
    Long,
    /// It does not start as an entry does.
    #[error("no entry begins here")]
    Magic,
    /// The header's bytes are not those that were written.
    #[error("the checksum of the entry's header does not match")]
    HeaderChecksum,
    /// The header is whole, and has values that no writer writes.
    #[error("the entry's header has fields that no writer writes")]
    Fields,
    /// The header is whole, and of a format that this version does not know.
    #[error("the entry was written by a newer version: its {field} is {number}")]
    Newer {
        /// The unknown field.
        field: &'static str,
        /// Its value.
        number: u8,
    },
    /// The bytes of header and body are not those that were written.
    #[error("the checksum of the entry does not match")]
    Checksum,
    /// The end mark is missing.
    #[error("the entry has no end mark")]
    EndMark,
}

/// Returns the `N` bytes at an offset, which must exist.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}
