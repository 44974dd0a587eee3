//! Pure: a segment's file, which has its first position as its name, and starts with a header.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `PRSG` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | zero |
//! | 6 | 2 | shard |
//! | 8 | 16 | id of the log |
//! | 24 | 8 | position of the first entry |
//! | 32 | 16 | hash of the entry before it |
//! | 48 | 8 | epoch of the entry before it |
//! | 56 | 8 | first position of the segment before, or 0 |
//! | 64 | 4028 | zeros |
//! | 4092 | 4 | CRC-32C of bytes 0 to 4092 |
//!
//! The previous segment is named so that a missing segment is found without reading entries.

use crate::chain::Chain;
use crate::entry::{EntryHash, LogId, Position, field, u32_at, u64_at};

/// Bytes of a segment before its first entry.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 4096;
const CHECKED: usize = SEGMENT_HEADER_BYTES - 4;
const MAGIC: [u8; 4] = *b"PRSG";
const VERSION: u8 = 1;
const SUFFIX: &str = ".log";
const DIGITS: usize = 20;

/// The header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log: LogId,
    pub(crate) shard: u16,
    /// The position of the segment's first entry.
    pub(crate) first: Position,
    /// The hash of the entry before.
    pub(crate) prev: EntryHash,
    /// The epoch of the entry before.
    pub(crate) epoch: u64,
    /// The first position of the segment before this one; 0 for a log's first segment.
    pub(crate) segment_before: Position,
}

impl SegmentHeader {
    /// Returns the header of a segment that continues a chain.
    pub(crate) const fn after(chain: &Chain, segment_before: Position) -> Self {
        Self {
            log: chain.log(),
            shard: chain.shard(),
            first: chain.last().next(),
            prev: chain.hash(),
            epoch: chain.epoch(),
            segment_before,
        }
    }

    /// Returns the chain that the segment's first entry must continue.
    pub(crate) const fn chain(&self) -> Chain {
        Chain::new(self.log, self.shard, self.first.previous(), self.epoch, self.prev)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; SEGMENT_HEADER_BYTES];
        let fields: [(usize, &[u8]); 8] = [
            (0, &MAGIC),
            (4, &[VERSION]),
            (6, &self.shard.to_be_bytes()),
            (8, &self.log.0),
            (24, &self.first.0.to_be_bytes()),
            (32, &self.prev.0),
            (48, &self.epoch.to_be_bytes()),
            (56, &self.segment_before.0.to_be_bytes()),
        ];
        for (at, bytes) in fields {
            out[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let checksum = crc32c::crc32c(&out[..CHECKED]);
        out[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SegmentFault> {
        let Some((header, _)) = bytes.split_first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(SegmentFault::Short);
        };
        if header[..4] != MAGIC || u32_at(header, CHECKED) != crc32c::crc32c(&header[..CHECKED]) {
            return Err(SegmentFault::Checksum);
        }
        if header[4] != VERSION {
            return Err(SegmentFault::Newer(header[4]));
        }
        Ok(Self {
            log: LogId(field(header, 8)),
            shard: u16::from_be_bytes(field(header, 6)),
            first: Position(u64_at(header, 24)),
            prev: EntryHash(field(header, 32)),
            epoch: u64_at(header, 48),
            segment_before: Position(u64_at(header, 56)),
        })
    }
}

/// The reason why bytes are not a segment's header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SegmentFault {
    #[error("the segment is shorter than its header")]
    Short,
    #[error("the segment's header is not what was written")]
    Checksum,
    #[error("the segment was written by a newer version: its version is {0}")]
    Newer(u8),
}

/// Returns the name of the segment that starts at a position.
pub(crate) fn segment_name(first: Position) -> String {
    format!("{:0DIGITS$}{SUFFIX}", first.0)
}

/// Returns the position in a segment's name; `None` if the file is no segment.
///
/// A name with a segment's suffix but without its digits is an error.
pub(crate) fn position_in_name(name: &str) -> Option<Result<Position, ()>> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_whole = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let position = digits.parse().ok().filter(|_| is_whole).map(Position);
    Some(position.ok_or(()))
}
