//! The file that records the end of the log at a clean stop.
//!
//! It holds the magic `PRCL`, the version 1, three zeros, the id of the log, the last position, the
//! hash of the last entry, and the CRC-32C of all that.

use std::io;

use super::disk::Disk;
use crate::chain::Chain;
use crate::entry::{EntryHash, LogId, Position, field, u32_at, u64_at};

/// The name of the file.
pub(super) const CLOSED: &str = "closed";
/// Its name while it is written.
pub(super) const CLOSED_TMP: &str = "closed.tmp";

const MAGIC: [u8; 8] = *b"PRCL\x01\0\0\0";
const BYTES: usize = 52;
const CHECKED: usize = BYTES - 4;

/// The end of a log that was stopped cleanly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) log: LogId,
    pub(super) last: Position,
    pub(super) hash: EntryHash,
}

impl Closed {
    pub(super) const fn of(chain: &Chain) -> Self {
        Self { log: chain.log(), last: chain.last(), hash: chain.hash() }
    }

    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..24].copy_from_slice(&self.log.0);
        out[24..32].copy_from_slice(&self.last.0.to_be_bytes());
        out[32..48].copy_from_slice(&self.hash.0);
        let checksum = crc32c::crc32c(&out[..CHECKED]);
        out[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == BYTES && bytes[..8] == MAGIC;
        if !is_whole || u32_at(bytes, CHECKED) != crc32c::crc32c(&bytes[..CHECKED]) {
            return None;
        }
        let (log, hash) = (LogId(field(bytes, 8)), EntryHash(field(bytes, 32)));
        Some(Self { log, last: Position(u64_at(bytes, 24)), hash })
    }

    /// Creates the file, durably.
    pub(super) fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let file = disk.create(CLOSED_TMP)?;
        file.write_at(0, &self.encode())?;
        file.sync()?;
        disk.rename(CLOSED_TMP, CLOSED)?;
        disk.sync_names()
    }

    /// Reads the file.
    ///
    /// A damaged file is ignored: the log is then repaired as after a crash.
    pub(super) fn read(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let file = disk.open(CLOSED)?;
        let mut bytes = [0; BYTES + 1];
        let read = file.read_at(0, &mut bytes)?;
        Ok(Self::decode(&bytes[..read]))
    }
}
