//! An archive is one file with everything at one position of a log.
//!
//! It serves as an export, as the beginning of a backup, and as the source of a rebuilt view. It
//! has secrets in their stored form: sealed ones stay sealed, and it does not have the master key.
//! All numbers are big endian. It begins with a header:
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
//! (u32). Rows ascend by table and key. Table 255 is not in the view: its keys are workspaces, and
//! its values are their states in the actors' memory. The last block is the end: the counts of
//! records, workspaces and states (u64 each), and the SHA-256 of all bytes before the block.

mod reader;

use std::io::{self, Write};

use postrider_domain::WorkspaceId;
use postrider_log::{LogId, Mark};
use sha2::{Digest, Sha256};

use crate::{StoreError, Table, ViewSnapshot};

pub use reader::{ArchiveReader, Row};

const MAGIC: [u8; 4] = *b"PRAR";
/// The version of the format. The reader refuses every other version.
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

/// Writes an archive.
pub struct ArchiveWriter<W> {
    out: W,
    hasher: Sha256,
    block: Vec<u8>,
    blocks: u32,
    counts: ArchiveCounts,
    /// The workspace of the last record of a workspace.
    workspace: Vec<u8>,
}

impl<W: Write> ArchiveWriter<W> {
    /// Starts an archive.
    ///
    /// # Errors
    /// [`ArchiveError::Io`], [`ArchiveError::TooLong`].
    pub fn new(out: W, header: &ArchiveHeader) -> Result<Self, ArchiveError> {
        let (hasher, counts) = (Sha256::new(), ArchiveCounts::default());
        let (block, workspace) = (Vec::new(), Vec::new());
        let mut writer = Self { out, hasher, block, blocks: 0, counts, workspace };
        writer.put(&encode_header(header)?)?;
        Ok(writer)
    }

    /// Adds a record. They must ascend by the numbers of their tables and by their keys.
    ///
    /// # Errors
    /// [`ArchiveError::Io`], [`ArchiveError::TooLong`].
    pub fn record(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        self.counts.records += 1;
        if table == Table::Workspaces {
            let workspace = key.split(|byte| *byte == 0).next().unwrap_or_default();
            if self.counts.workspaces == 0 || self.workspace != workspace {
                self.counts.workspaces += 1;
                self.workspace = workspace.to_vec();
            }
        }
        self.row(table.number(), key, value)
    }

    /// Adds a workspace's state in the actors' memory. States ascend too, and follow all records.
    ///
    /// # Errors
    /// [`ArchiveError::Io`], [`ArchiveError::TooLong`].
    pub fn state(&mut self, workspace: &str, state: &[u8]) -> Result<(), ArchiveError> {
        self.counts.states += 1;
        self.row(STATES, workspace.as_bytes(), state)
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn finish(mut self) -> Result<ArchiveCounts, ArchiveError> {
        self.end_block()?;
        let ArchiveCounts { records, workspaces, states } = self.counts;
        let mut content = Vec::with_capacity(END_BYTES);
        for count in [records, workspaces, states] {
            content.extend_from_slice(&count.to_be_bytes());
        }
        content.extend_from_slice(&self.hasher.clone().finalize());
        self.put_block(END, &content)?;
        self.out.flush()?;
        Ok(self.counts)
    }

    fn row(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        let key_bytes = u16::try_from(key.len()).map_err(|_| ArchiveError::TooLong("a key"))?;
        let too_long = |_| ArchiveError::TooLong("a value");
        // The whole block must fit into its length.
        let value_bytes = u32::try_from(value.len()).ok().filter(|bytes| *bytes < u32::MAX / 2);
        let value_bytes = value_bytes.ok_or(()).map_err(too_long)?;
        self.block.push(table);
        self.block.extend_from_slice(&key_bytes.to_be_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(&value_bytes.to_be_bytes());
        self.block.extend_from_slice(value);
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), ArchiveError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        self.put_block(ROWS, &block)?;
        // Its memory is reused, unless one large value made it large.
        if block.capacity() <= 2 * BLOCK_BYTES {
            self.block = block;
            self.block.clear();
        }
        Ok(())
    }

    fn put_block(&mut self, kind: u8, content: &[u8]) -> Result<(), ArchiveError> {
        let too_long = |_| ArchiveError::TooLong("a block");
        let length = u32::try_from(content.len()).map_err(too_long)?;
        let mut header = [0; BLOCK_HEADER_BYTES];
        header[0] = kind;
        header[4..8].copy_from_slice(&self.blocks.to_be_bytes());
        header[8..12].copy_from_slice(&length.to_be_bytes());
        let checksum = crc32c::crc32c(&header[..12]);
        header[12..].copy_from_slice(&checksum.to_be_bytes());
        self.blocks = self.blocks.checked_add(1).ok_or(ArchiveError::TooLong("the view"))?;
        self.put(&header)?;
        self.put(content)?;
        self.put(&crc32c::crc32c(content).to_be_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.hasher.update(bytes);
        Ok(self.out.write_all(bytes)?)
    }
}

fn encode_header(header: &ArchiveHeader) -> Result<Vec<u8>, ArchiveError> {
    let ArchiveHeader { log, shard, at, time_ms, keys, program } = header;
    let key_count = u8::try_from(keys.len()).map_err(|_| ArchiveError::TooLong("the keys"))?;
    let program_bytes = u16::try_from(program.len());
    let program_bytes = program_bytes.map_err(|_| ArchiveError::TooLong("the version"))?;
    let mut out = [&MAGIC[..], &[VERSION, 0, 0, 0], &[0; 4]].concat();
    out.extend_from_slice(&log.0);
    out.extend_from_slice(&shard.to_be_bytes());
    out.extend_from_slice(&at.position.0.to_be_bytes());
    out.extend_from_slice(&at.epoch.to_be_bytes());
    out.extend_from_slice(&at.hash.0);
    out.extend_from_slice(&time_ms.to_be_bytes());
    out.push(key_count);
    for (version, fingerprint) in keys {
        out.push(*version);
        out.extend_from_slice(fingerprint);
    }
    out.extend_from_slice(&program_bytes.to_be_bytes());
    out.extend_from_slice(program.as_bytes());
    // At most 255 keys and a text of 64 KiB.
    let length = (out.len() - HEADER_BYTES) as u32;
    out[8..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    Ok(out)
}

/// The reason why a whole archive was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteArchiveError {
    /// It cannot be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The view cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes all records of a view, and the states of the workspaces, which must ascend.
pub fn write_archive(
    view: &dyn ViewSnapshot,
    states: &[(WorkspaceId, Vec<u8>)],
    header: &ArchiveHeader,
    out: &mut dyn Write,
) -> Result<ArchiveCounts, WriteArchiveError> {
    let mut writer = ArchiveWriter::new(out, header)?;
    let mut tables = Table::ALL.to_vec();
    tables.sort_unstable_by_key(|table| table.number());
    for table in tables {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = view.page(table, after.as_deref())?;
            for (key, value) in &page {
                writer.record(table, key, value)?;
            }
            match page.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
    }
    for (workspace, state) in states {
        writer.state(workspace.as_str(), state)?;
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests;
