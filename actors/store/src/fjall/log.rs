//! Reads fjall's write-ahead log to find the end of its whole batches.
//!
//! Every entry of the log is a batch: a start with its number of items, the items, an end with
//! their checksum. A crash can tear those that were not synced, and their parts may reach the disk
//! in any order. fjall refuses a log whose last batch has its end and lacks something before it. On
//! the other hand fjall silently drops everything behind a batch whose first bytes are invalid. So
//! this module finds the end, and fjall reads only whole batches. What was synced must not be taken
//! for torn: a batch that writes [`SYNCED_KEY`] follows each sync, and proves it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::StoreError;

/// The name and version of fjall's format. The end of each batch closes with it.
pub(super) const FORMAT: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// The key under which a view stores its synced position. No record has such a key.
pub(super) const SYNCED_KEY: &[u8; 26] = b"\0synced view of postrider\0";
/// Bytes of a start: its tag, the number of items, the number of the batch.
const START_BYTES: usize = 1 + 4 + 8;

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogEnd {
    /// The bytes of the whole batches at its start.
    pub(super) whole: u64,
    /// The bytes of an unfinished batch behind them, without the zeros at the very end.
    pub(super) torn: u64,
}

/// Finds the end of a log.
///
/// # Errors
/// [`StoreError::Damaged`] when something follows an incomplete batch that shows that it had been
/// synced, so that it is damaged and not unfinished.
pub(super) fn end_of(log: &Path) -> Result<LogEnd, StoreError> {
    let io_failed = |error: io::Error| StoreError::Failed(error.to_string());
    let mut file = BufReader::with_capacity(128 * 1024, File::open(log).map_err(io_failed)?);
    let mut whole = 0;
    while let Some(length) = batch(&mut file).map_err(io_failed)? {
        whole += length.bytes;
    }
    file.seek(SeekFrom::Start(whole)).map_err(io_failed)?;
    let rest = read_without_zeros(&mut file).map_err(io_failed)?;
    if marks_sync(rest.get(1..).unwrap_or_default()) {
        let log = log.display();
        return Err(StoreError::Damaged(format!("{log} makes no sense from byte {whole} on")));
    }
    Ok(LogEnd { whole, torn: rest.len() as u64 })
}

/// A whole batch.
struct WholeBatch {
    bytes: u64,
    /// Set if it writes [`SYNCED_KEY`].
    marks_sync: bool,
}

/// Reads one batch. Returns `None` if there is no whole one.
fn batch(log: &mut impl Read) -> io::Result<Option<WholeBatch>> {
    let mut log = CountingReader { log, count: 0, hasher: None, marks_sync: false };
    let read = read_batch(&mut log);
    match read {
        Ok(true) => Ok(Some(WholeBatch { bytes: log.count, marks_sync: log.marks_sync })),
        Ok(false) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_batch<R: Read>(log: &mut CountingReader<'_, R>) -> io::Result<bool> {
    if log.bytes::<1>()? != [START] {
        return Ok(false);
    }
    let items = u32::from_le_bytes(log.bytes()?);
    log.bytes::<8>()?;
    log.hasher = Some(Box::default());
    for _ in 0..items {
        if !read_item(log)? {
            return Ok(false);
        }
    }
    let checksum = log.hasher.take().map(|hasher| hasher.digest());
    let end = log.bytes::<1>()?;
    let written = u64::from_le_bytes(log.bytes()?);
    Ok(end == [END] && Some(written) == checksum && log.bytes()? == FORMAT)
}

fn read_item<R: Read>(log: &mut CountingReader<'_, R>) -> io::Result<bool> {
    match log.bytes()? {
        [CLEAR] => log.bytes::<8>().map(|_| true),
        [ITEM] => {
            let [_kind, compression] = log.bytes()?;
            log.bytes::<8>()?;
            let key = u16::from_le_bytes(log.bytes()?);
            let value = u32::from_le_bytes(log.bytes()?);
            let on_disk = u32::from_le_bytes(log.bytes()?);
            if compression != 0 || value != on_disk {
                // fjall is built without compression, so this is no batch of ours.
                return Ok(false);
            }
            if usize::from(key) == SYNCED_KEY.len() {
                log.marks_sync |= log.bytes::<{ SYNCED_KEY.len() }>()? == *SYNCED_KEY;
                return log.skip(u64::from(value));
            }
            log.skip(u64::from(key) + u64::from(value))
        }
        _ => Ok(false),
    }
}

/// Reads the rest, without the zeros at its end.
///
/// fjall preallocates a log with zeros, mostly some 64 MiB at each start. So whole blocks of zeros
/// are found by one comparison of memory.
fn read_without_zeros(log: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    let mut block = vec![0; 128 * 1024];
    let no_bytes = vec![0; block.len()];
    // The zeros that were read and not added yet. They are added once another byte follows.
    let mut zeros = 0;
    loop {
        let read = log.read(&mut block)?;
        let block = &block[..read];
        if read == 0 {
            return Ok(rest);
        }
        if *block == no_bytes[..read] {
            zeros += read;
            continue;
        }
        match block.iter().rposition(|&byte| byte != 0) {
            Some(last) => {
                rest.resize(rest.len() + zeros, 0);
                rest.extend_from_slice(&block[..=last]);
                zeros = block.len() - last - 1;
            }
            None => zeros += read,
        }
    }
}

/// Returns whether a whole batch that writes [`SYNCED_KEY`] begins anywhere.
fn marks_sync(bytes: &[u8]) -> bool {
    let may_begin = |at: &usize| {
        bytes[*at] == START
            && bytes.get(at + START_BYTES).is_some_and(|&tag| tag == ITEM || tag == CLEAR)
    };
    (0..bytes.len())
        .filter(may_begin)
        .any(|at| batch(&mut &bytes[at..]).is_ok_and(|it| it.is_some_and(|it| it.marks_sync)))
}

/// A reader that counts its bytes, and hashes them while it has a hasher.
struct CountingReader<'a, R> {
    log: &'a mut R,
    count: u64,
    hasher: Option<Box<Xxh3>>,
    marks_sync: bool,
}

impl<R: Read> CountingReader<'_, R> {
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.log.read_exact(&mut bytes)?;
        self.count += N as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
        }
        Ok(bytes)
    }

    /// Skips this many bytes. Returns whether there were as many.
    fn skip(&mut self, length: u64) -> io::Result<bool> {
        let Some(hasher) = &mut self.hasher else { return Ok(false) };
        let read = io::copy(&mut self.log.take(length), &mut HashingWriter(hasher))?;
        self.count += read;
        Ok(read == length)
    }
}

struct HashingWriter<'a>(&'a mut Xxh3);

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
