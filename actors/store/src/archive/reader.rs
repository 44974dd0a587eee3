//! Reads an archive, and checks every byte of it.

use std::io::Read;

use bytes::{Buf, Bytes};
use postrider_log::{EntryHash, LogId, Mark};
use sha2::{Digest, Sha256};

use super::{
    ArchiveCounts, ArchiveError, ArchiveHeader, BLOCK_HEADER_BYTES, END, END_BYTES, HEADER_BYTES,
    MAGIC, ROWS, STATES, VERSION,
};
use crate::{Position, Table};

/// The maximum bytes of the header's fields.
const FIELDS_BYTES_MAX: u32 = 128 * 1024;

/// A row of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A record of the view.
    Record(Table, Bytes, Bytes),
    /// A workspace, and its state in the actors' memory.
    State(Bytes, Bytes),
}

/// Reads an archive block by block. Its rows are valid only once it has returned the end.
pub struct ArchiveReader<R> {
    input: R,
    offset: u64,
    hasher: Sha256,
    header: ArchiveHeader,
    blocks: u32,
    /// The last row.
    last: (u8, Bytes),
    found: ArchiveCounts,
    workspace: Bytes,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads the header.
    pub fn new(mut input: R) -> Result<Self, ArchiveError> {
        let mut bytes = read_exactly(&mut input, HEADER_BYTES, 0)?;
        let damaged = |what| ArchiveError::Damaged { offset: 0, what };
        if bytes[..4] != MAGIC {
            return Err(damaged("no archive begins here"));
        }
        let length = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if length > FIELDS_BYTES_MAX {
            return Err(damaged("the header is not what was written"));
        }
        bytes.extend(read_exactly(&mut input, length as usize + 4, HEADER_BYTES as u64)?);
        let (checked, checksum) = bytes.split_at(bytes.len() - 4);
        if checksum != crc32c::crc32c(checked).to_be_bytes() {
            return Err(damaged("the checksum of the header does not match"));
        }
        if checked[4] != VERSION {
            return Err(ArchiveError::Newer { offset: 4, what: "version", number: checked[4] });
        }
        let fields = Bytes::copy_from_slice(&checked[HEADER_BYTES..]);
        let header = decode_fields(fields).ok_or(damaged("the header is not what was written"))?;
        let mut hasher = Sha256::new();
        hasher.update(&bytes);
        Ok(Self {
            input,
            offset: bytes.len() as u64,
            hasher,
            header,
            blocks: 0,
            last: (0, Bytes::new()),
            found: ArchiveCounts::default(),
            workspace: Bytes::new(),
        })
    }

    /// Returns the origin of the archive.
    #[must_use]
    pub const fn header(&self) -> &ArchiveHeader {
        &self.header
    }

    /// Returns the amount of data that was read. At the end it is the amount that was written.
    #[must_use]
    pub const fn counts(&self) -> ArchiveCounts {
        self.found
    }

    /// Returns the number of bytes that were read.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the rows of the next block; `None` at the end, once the whole archive is verified.
    pub fn next_rows(&mut self) -> Result<Option<Vec<Row>>, ArchiveError> {
        let begins = self.offset;
        let before = self.hasher.clone();
        let header = self.take(BLOCK_HEADER_BYTES)?;
        let word = |at: usize| header.slice(at..at + 4).get_u32();
        if word(12) != crc32c::crc32c(&header[..12]) {
            let what = "the checksum of a block's header does not match";
            return Err(ArchiveError::Damaged { offset: begins, what });
        }
        if word(4) != self.blocks || header[1..4] != [0; 3] {
            let what = "another block must be here";
            return Err(ArchiveError::Damaged { offset: begins, what });
        }
        let content = self.take(word(8) as usize)?;
        let checksum = self.take(4)?;
        if checksum[..] != crc32c::crc32c(&content).to_be_bytes() {
            let what = "the checksum of a block does not match";
            return Err(ArchiveError::Damaged { offset: begins, what });
        }
        self.blocks = self.blocks.wrapping_add(1);
        let begins = begins + BLOCK_HEADER_BYTES as u64;
        match header[0] {
            ROWS => self.rows(content, begins).map(Some),
            END => self.end(content, begins, before).map(|()| None),
            number => Err(ArchiveError::Newer { offset: begins, what: "block", number }),
        }
    }

    /// Reads everything that is left, and returns the amount of data.
    pub fn verify(mut self) -> Result<ArchiveCounts, ArchiveError> {
        while self.next_rows()?.is_some() {}
        Ok(self.found)
    }

    fn take(&mut self, count: usize) -> Result<Bytes, ArchiveError> {
        let bytes = read_exactly(&mut self.input, count, self.offset)?;
        self.hasher.update(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.into())
    }

    fn rows(&mut self, mut content: Bytes, begins: u64) -> Result<Vec<Row>, ArchiveError> {
        let mut rows = Vec::new();
        let whole = content.len();
        while !content.is_empty() {
            let offset = begins + (whole - content.len()) as u64;
            let damaged = |what| ArchiveError::Damaged { offset, what };
            let (number, key, value) =
                decode_row(&mut content).ok_or(damaged("a row is not what was written"))?;
            let is_next = (self.last.0, &self.last.1[..]) < (number, &key[..]);
            if !is_next {
                return Err(damaged("a row does not follow the one before it"));
            }
            self.last = (number, key.clone());
            let table = Table::of_number(number);
            rows.push(match table {
                Some(table) => {
                    self.count(table, &key);
                    Row::Record(table, key, value)
                }
                None if number == STATES => {
                    self.found.states += 1;
                    Row::State(key, value)
                }
                None => return Err(ArchiveError::Newer { offset, what: "table", number }),
            });
        }
        Ok(rows)
    }

    fn count(&mut self, table: Table, key: &Bytes) {
        self.found.records += 1;
        if table == Table::Workspaces {
            let bytes = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
            let workspace = key.slice(..bytes);
            if self.found.workspaces == 0 || self.workspace != workspace {
                self.found.workspaces += 1;
                self.workspace = workspace;
            }
        }
    }

    fn end(&mut self, content: Bytes, offset: u64, before: Sha256) -> Result<(), ArchiveError> {
        let damaged = |offset, what| ArchiveError::Damaged { offset, what };
        if content.len() != END_BYTES {
            return Err(damaged(offset, "the end is not what was written"));
        }
        let mut counts = content.slice(..END_BYTES - 32);
        let [records, workspaces, states] = [(); 3].map(|()| counts.get_u64());
        if self.found != (ArchiveCounts { records, workspaces, states }) {
            return Err(damaged(offset, "it does not hold as much as was written"));
        }
        if content[END_BYTES - 32..] != before.finalize()[..] {
            return Err(damaged(offset, "the SHA-256 does not match"));
        }
        let mut more = [0];
        let read = std::io::Read::by_ref(&mut self.input).take(1).read(&mut more)?;
        if read > 0 { Err(damaged(self.offset, "there is more behind its end")) } else { Ok(()) }
    }
}

/// Reads exactly so many bytes. A wrong length takes no memory that the file does not fill.
fn read_exactly(input: &mut impl Read, count: usize, offset: u64) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    input.by_ref().take(count as u64).read_to_end(&mut bytes)?;
    if bytes.len() < count {
        return Err(ArchiveError::Damaged {
            offset: offset + bytes.len() as u64,
            what: "it ends before its end",
        });
    }
    Ok(bytes)
}

fn decode_row(content: &mut Bytes) -> Option<(u8, Bytes, Bytes)> {
    let table = content.try_get_u8().ok()?;
    let key_bytes = usize::from(content.try_get_u16().ok()?);
    let key = (content.len() >= key_bytes).then(|| content.split_to(key_bytes))?;
    let value_bytes = content.try_get_u32().ok()? as usize;
    let value = (content.len() >= value_bytes).then(|| content.split_to(value_bytes))?;
    Some((table, key, value))
}

fn decode_fields(mut fields: Bytes) -> Option<ArchiveHeader> {
    let log = LogId(take_array(&mut fields)?);
    let shard = fields.try_get_u16().ok()?;
    let position = Position(fields.try_get_u64().ok()?);
    let epoch = fields.try_get_u64().ok()?;
    let at = Mark { position, epoch, hash: EntryHash(take_array(&mut fields)?) };
    let time_ms = fields.try_get_u64().ok()?;
    let mut keys = Vec::new();
    for _ in 0..fields.try_get_u8().ok()? {
        keys.push((fields.try_get_u8().ok()?, take_array(&mut fields)?));
    }
    let program_bytes = usize::from(fields.try_get_u16().ok()?);
    let program = (fields.len() == program_bytes).then(|| fields.to_vec())?;
    let program = String::from_utf8(program).ok()?;
    Some(ArchiveHeader { log, shard, at, time_ms, keys, program })
}

fn take_array<const N: usize>(fields: &mut Bytes) -> Option<[u8; N]> {
    let mut out = [0; N];
    fields.try_copy_to_slice(&mut out).ok()?;
    Some(out)
}
