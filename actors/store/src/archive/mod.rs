//! An archive is one file with everything at one position of a log.
//!
//! It is an export, the beginning of a backup, and what a view can be built of anew. Secrets are in
//! it as they are stored: what is sealed stays sealed, and the master key is not in it. All numbers
//! are big endian. It begins with a header:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `PRAR` |
//! | 1 | version, 1 |
//! | 3 | zeros |
//! | 4 | length of the fields that follow, up to the checksum |
//! | 16 + 2 | id of the log and its shard |
//! | 8 + 8 + 16 | position, epoch and hash of the entry |
//! | 8 | engine time, in milliseconds |
//! | 1 + 17 n | count of master keys; version and fingerprint of each |
//! | 2 + n | version of the program |
//! | 4 | CRC-32C of all that |
//!
//! Blocks follow. Each has a kind (1 rows, 2 end), three zeros, its number from 0 (u32), the length
//! of its content (u32), the CRC-32C of these twelve bytes, the content, and its CRC-32C. A row is
//! the number of its table, length and bytes of the key (u16), and length and bytes of the value
//! (u32). Rows ascend by table and key. Table 255 is none of the view's: its keys are workspaces,
//! and its values what actors keep in memory of them. The last block is the end: the counts of
//! records, workspaces and states (u64 each), and the SHA-256 of all bytes before the block.

mod reader;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

use std::io;

use postrider_log::{LogId, Mark};

pub use reader::{ArchiveReader, Row};
pub use whole::{WriteArchiveError, write_archive};
pub use writer::ArchiveWriter;

const MAGIC: [u8; 4] = *b"PRAR";
/// The version of the format. Another one is not read.
const VERSION: u8 = 1;
/// Bytes of the header before its fields.
const HEADER_BYTES: usize = 12;
/// Bytes of a block before its content.
const BLOCK_HEADER_BYTES: usize = 16;
/// The kinds of blocks.
const ROWS: u8 = 1;
const END: u8 = 2;
/// Bytes of the content of the last block.
const END_BYTES: usize = 3 * 8 + 32;
/// A block ends with the row that makes it this long.
const BLOCK_BYTES: usize = 4 << 20;
/// The table of the actors' memory.
pub const STATES: u8 = 255;

/// The origin of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveHeader {
    /// The log.
    pub log: LogId,
    /// The shard of the log.
    pub shard: u16,
    /// The last entry that it includes.
    pub at: Mark,
    /// Engine time, in milliseconds.
    pub time_ms: u64,
    /// Versions and fingerprints of the master keys that secrets are sealed with.
    pub keys: Vec<(u8, [u8; 16])>,
    /// The version of the program that wrote it.
    pub program: String,
}

/// The amount of data in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveCounts {
    /// Records of the view.
    pub records: u64,
    /// Workspaces.
    pub workspaces: u64,
    /// Workspaces with a state in the actors' memory.
    pub states: u64,
}

/// The reason why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its bytes are not those that were written.
    #[error("damaged at byte {offset}: {what}")]
    Damaged {
        /// The offset of the unreadable bytes.
        offset: u64,
        /// The problem.
        what: &'static str,
    },
    /// It was written by a newer version of the program.
    #[error("written by a newer version: {what} {number} at byte {offset} is not known")]
    Newer {
        /// The offset.
        offset: u64,
        /// The kind of the unknown element.
        what: &'static str,
        /// Its number.
        number: u8,
    },
    /// A value does not fit into its field.
    #[error("{0} is too long for an archive")]
    TooLong(&'static str),
}
