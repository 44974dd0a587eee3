//! The content of a generation's sled database: each entry in chunks, and a summary.
//!
//! Key: the entry's number and the chunk's number in it (u32 each, big endian). Value of chunk 0:
//! the entry's length (u64, big endian) and its workspace's id; of the others: up to
//! [`CHUNK_BYTES`] of the entry each. The last entry is followed by the summary at [`SUMMARY_KEY`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use sled::{Config, Db};

use crate::Position;
use postrider_domain::WorkspaceId;

use super::SnapshotError;
use super::files::damaged;

/// sled puts values above 512 KiB into files of their own, and performs best far below that.
const CHUNK_BYTES: usize = 32 * 1024;
/// Greater than any chunk's key, by its length.
const SUMMARY_KEY: [u8; 9] = [0xff; 9];
/// sled's default is 1 GiB. Everything here is written and read once, in order.
const CACHE_BYTES: u64 = 16 << 20;
/// sled's threads may hold a database's lock a moment longer than its last handle.
const LOCK_ATTEMPTS: (u32, Duration) = (3000, Duration::from_millis(10));
/// The maximum bytes that are allocated in advance for an entry.
///
/// A damaged length must not exhaust the memory.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// Called with each entry.
pub(super) type Visit<'a> = &'a mut dyn FnMut(WorkspaceId, Vec<u8>);

/// The totals of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    entries: u64,
    bytes: u64,
    checksum: u32,
}

/// Computes the summary of a position and of all records in the order of their keys.
struct Sum {
    summary: Summary,
    hasher: crc32fast::Hasher,
}

impl Sum {
    fn new(position: Position) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&position.0.to_be_bytes());
        Self { summary: Summary { entries: 0, bytes: 0, checksum: 0 }, hasher }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.hasher.update(key);
        self.hasher.update(&(value.len() as u64).to_be_bytes());
        self.hasher.update(value);
        self.summary.bytes += value.len() as u64;
        self.summary.entries += u64::from(key.ends_with(&[0; 4]));
    }

    fn finish(self) -> Summary {
        Summary { checksum: self.hasher.finalize(), ..self.summary }
    }
}

impl Summary {
    fn encode(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.entries.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_be_bytes());
        bytes
    }
}

/// Writes a database, one chunk at a time, and closes it.
pub(super) fn write(
    dir: &Path,
    position: Position,
    entries: impl Iterator<Item = (WorkspaceId, Vec<u8>)>,
) -> Result<Summary, SnapshotError> {
    unpanicked(|| {
        let db = open(dir)?;
        let mut sum = Sum::new(position);
        let mut put = |entry: u32, chunk: u32, value: &[u8]| {
            let key = key(entry, chunk);
            sum.add(&key, value);
            db.insert(key, value).map(drop).map_err(sled_failed)
        };
        for (at, (workspace, state)) in (0..).zip(entries) {
            let mut head = (state.len() as u64).to_be_bytes().to_vec();
            head.extend_from_slice(workspace.as_str().as_bytes());
            put(at, 0, &head)?;
            for (chunk, bytes) in (1..).zip(state.chunks(CHUNK_BYTES)) {
                put(at, chunk, bytes)?;
            }
        }
        let summary = sum.finish();
        db.insert(SUMMARY_KEY, &summary.encode()).map_err(sled_failed)?;
        db.flush().map_err(sled_failed)?;
        drop(db);
        wait_until_closed(dir)?;
        Ok(summary)
    })
}

/// Reads a database and checks it against its own summary.
///
/// The caller must discard the visited entries after an error.
pub(super) fn read(
    dir: &Path,
    position: Position,
    visit: Visit<'_>,
) -> Result<Summary, SnapshotError> {
    unpanicked(|| {
        let db = open(dir)?;
        let mut sum = Sum::new(position);
        let mut current: Option<(WorkspaceId, u64, Vec<u8>)> = None;
        let mut written = None;
        for record in db.iter() {
            let (key, value) = record.map_err(sled_failed)?;
            if key == SUMMARY_KEY {
                written = Some(value);
                break;
            }
            sum.add(&key, &value);
            if key.ends_with(&[0; 4]) {
                finish(current.replace(head(&value)?), visit)?;
            } else {
                let (_, _, state) =
                    current.as_mut().ok_or_else(|| damaged("a first chunk is missing"))?;
                state.extend_from_slice(&value);
            }
        }
        finish(current, visit)?;
        let summary = sum.finish();
        if written.is_none_or(|written| *written != summary.encode()) {
            return Err(damaged("its checksum is not that of its content"));
        }
        Ok(summary)
    })
}

fn key(entry: u32, chunk: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&entry.to_be_bytes());
    key[4..].copy_from_slice(&chunk.to_be_bytes());
    key
}

fn head(value: &[u8]) -> Result<(WorkspaceId, u64, Vec<u8>), SnapshotError> {
    let bad = || damaged("a first chunk is not what was written");
    let (length, id) = value.split_first_chunk().ok_or_else(bad)?;
    let length = u64::from_be_bytes(*length);
    let workspace = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).ok_or_else(bad)?;
    Ok((workspace, length, Vec::with_capacity(length.min(AHEAD_BYTES_MAX) as usize)))
}

fn finish(
    entry: Option<(WorkspaceId, u64, Vec<u8>)>,
    visit: Visit<'_>,
) -> Result<(), SnapshotError> {
    let Some((workspace, length, state)) = entry else {
        return Ok(());
    };
    if state.len() as u64 != length {
        return Err(damaged("an entry has not the length that was written"));
    }
    visit(workspace, state);
    Ok(())
}

pub(super) fn open(dir: &Path) -> Result<Db, SnapshotError> {
    let config = Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    config.open().map_err(sled_failed)
}

/// Waits until the database's lock is free. Until then sled's threads may still write to it.
pub(super) fn wait_until_closed(dir: &Path) -> Result<(), SnapshotError> {
    let file = std::fs::File::open(dir.join("db"))?;
    for _ in 0..LOCK_ATTEMPTS.0 {
        if file.try_lock().is_ok() {
            return Ok(());
        }
        std::thread::sleep(LOCK_ATTEMPTS.1);
    }
    Err(damaged("it does not close"))
}

/// Turns a panic into an error, because sled panics where it should return one.
fn unpanicked<T>(run: impl FnOnce() -> Result<T, SnapshotError>) -> Result<T, SnapshotError> {
    let panicked = |_| Err(damaged("sled panicked"));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked)
}

fn sled_failed(error: sled::Error) -> SnapshotError {
    match error {
        sled::Error::Io(error) => SnapshotError::Io(error),
        error => SnapshotError::Damaged(error.to_string()),
    }
}
