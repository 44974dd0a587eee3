//! Writes an archive, block by block.

use std::io::Write;

use sha2::{Digest, Sha256};

use super::{
    ArchiveCounts, ArchiveError, ArchiveHeader, BLOCK_BYTES, BLOCK_HEADER_BYTES, END, END_BYTES,
    HEADER_BYTES, MAGIC, ROWS, STATES, VERSION,
};
use crate::Table;

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
