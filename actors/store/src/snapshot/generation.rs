//! A generation on disk: the sled database with its content, and the manifest of its files.
//!
//! The database holds each entry in chunks. A chunk's key is the entry's number and the chunk's
//! number in the entry (u32 each, big endian). Chunk 0 holds the entry's length (u64, big endian)
//! and its workspace's id. Each further chunk holds up to [`CHUNK_BYTES`] of the entry. The summary
//! follows the last entry, at [`SUMMARY_KEY`].
//!
//! The files are synced, listed in the manifest and checked against it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_domain::WorkspaceId;
use sled::{Config, Db};

use super::SnapshotError;
use crate::Position;

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

/// The sled database's directory in a generation.
pub(super) const DATABASE: &str = "sled";
/// The file that lists the others. Each line: CRC-32 in hexadecimal, length, path; the last line is
/// the CRC-32 of the lines before it.
const MANIFEST: &str = "manifest";
/// The suffix of sled's own unfinished snapshots. sled cannot open a database that has one.
const UNFINISHED: &str = ".generating";

/// Called with each entry.
pub(super) type VisitState<'a> = &'a mut dyn FnMut(WorkspaceId, Vec<u8>);

/// The totals of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabaseSummary {
    entries: u64,
    bytes: u64,
    checksum: u32,
}

/// Computes the summary of a position and of all records in the order of their keys.
struct SummaryBuilder {
    summary: DatabaseSummary,
    hasher: crc32fast::Hasher,
}

impl SummaryBuilder {
    fn new(position: Position) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&position.0.to_be_bytes());
        Self { summary: DatabaseSummary { entries: 0, bytes: 0, checksum: 0 }, hasher }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.hasher.update(key);
        self.hasher.update(&(value.len() as u64).to_be_bytes());
        self.hasher.update(value);
        self.summary.bytes += value.len() as u64;
        self.summary.entries += u64::from(key.ends_with(&[0; 4]));
    }

    fn finish(self) -> DatabaseSummary {
        DatabaseSummary { checksum: self.hasher.finalize(), ..self.summary }
    }
}

impl DatabaseSummary {
    fn encode(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.entries.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_be_bytes());
        bytes
    }
}

/// Writes a database, one chunk at a time, and closes it.
pub(super) fn write_database(
    dir: &Path,
    position: Position,
    entries: impl Iterator<Item = (WorkspaceId, Vec<u8>)>,
) -> Result<DatabaseSummary, SnapshotError> {
    unpanicked(|| {
        let db = open_database(dir)?;
        let mut sum = SummaryBuilder::new(position);
        let mut put = |entry: u32, chunk: u32, value: &[u8]| {
            let key = chunk_key(entry, chunk);
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
pub(super) fn read_database(
    dir: &Path,
    position: Position,
    visit: VisitState<'_>,
) -> Result<DatabaseSummary, SnapshotError> {
    unpanicked(|| {
        let db = open_database(dir)?;
        let mut sum = SummaryBuilder::new(position);
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
                finish_entry(current.replace(decode_head(&value)?), visit)?;
            } else {
                let (_, _, state) =
                    current.as_mut().ok_or_else(|| damaged("a first chunk is missing"))?;
                state.extend_from_slice(&value);
            }
        }
        finish_entry(current, visit)?;
        let summary = sum.finish();
        if written.is_none_or(|written| *written != summary.encode()) {
            return Err(damaged("its checksum is not that of its content"));
        }
        Ok(summary)
    })
}

fn chunk_key(entry: u32, chunk: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&entry.to_be_bytes());
    key[4..].copy_from_slice(&chunk.to_be_bytes());
    key
}

fn decode_head(value: &[u8]) -> Result<(WorkspaceId, u64, Vec<u8>), SnapshotError> {
    let bad = || damaged("a first chunk is not what was written");
    let (length, id) = value.split_first_chunk().ok_or_else(bad)?;
    let length = u64::from_be_bytes(*length);
    let workspace = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).ok_or_else(bad)?;
    Ok((workspace, length, Vec::with_capacity(length.min(AHEAD_BYTES_MAX) as usize)))
}

fn finish_entry(
    entry: Option<(WorkspaceId, u64, Vec<u8>)>,
    visit: VisitState<'_>,
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

pub(super) fn open_database(dir: &Path) -> Result<Db, SnapshotError> {
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

/// Syncs all files of a generation and adds its manifest.
pub(super) fn seal(generation: &Path) -> Result<(), SnapshotError> {
    let mut lines = String::new();
    for path in list_files(generation)? {
        File::open(generation.join(&path))?.sync_all()?;
        let (checksum, length) = copy_file(&generation.join(&path), &mut io::sink())?;
        lines.push_str(&format!("{checksum:08x} {length} {}\n", path.display()));
    }
    let checksum = crc32fast::hash(lines.as_bytes());
    let mut manifest = File::create(generation.join(MANIFEST))?;
    manifest.write_all(format!("{lines}{checksum:08x}\n").as_bytes())?;
    manifest.sync_all()?;
    for dir in database_dirs(generation)? {
        sync_dir(&dir)?;
    }
    sync_dir(generation)?;
    Ok(())
}

/// Checks that all files match the manifest.
pub(super) fn check_files(generation: &Path) -> Result<(), SnapshotError> {
    for line in read_manifest(generation)? {
        line.copy(generation, &mut io::sink())?;
    }
    Ok(())
}

/// Copies the files that the manifest lists, and checks them.
pub(super) fn copy_checked(generation: &Path, to: &Path) -> Result<(), SnapshotError> {
    for line in read_manifest(generation)? {
        let to = to.join(&line.path);
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        line.copy(generation, &mut File::create(&to)?)?;
    }
    Ok(())
}

/// Returns the bytes of all files of a generation; 0 for those that cannot be read.
pub(super) fn total_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |file| file.len());
    };
    entries.filter_map(Result::ok).map(|entry| total_bytes(&entry.path())).sum()
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

struct ManifestLine {
    checksum: u32,
    length: u64,
    path: PathBuf,
}

impl ManifestLine {
    fn copy(&self, generation: &Path, to: &mut impl Write) -> Result<(), SnapshotError> {
        let (checksum, length) = copy_file(&generation.join(&self.path), to)?;
        if (checksum, length) != (self.checksum, self.length) {
            return Err(damaged(&format!("{} is not what was written", self.path.display())));
        }
        Ok(())
    }
}

fn read_manifest(generation: &Path) -> Result<Vec<ManifestLine>, SnapshotError> {
    let bad = || damaged("its manifest is not what was written");
    let text = fs::read_to_string(generation.join(MANIFEST)).map_err(|_| bad())?;
    let lines = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
    let (lines, checksum) = text.split_at(lines);
    if checksum != format!("{:08x}\n", crc32fast::hash(lines.as_bytes())) {
        return Err(bad());
    }
    let parse = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let checksum = u32::from_str_radix(words.next()?, 16).ok()?;
        let length = words.next()?.parse().ok()?;
        Some(ManifestLine { checksum, length, path: words.next()?.into() })
    };
    lines.lines().map(|line| parse(line).ok_or_else(bad)).collect()
}

/// Copies a file. Returns its CRC-32 and its length. A file that cannot be read counts as damaged.
fn copy_file(from: &Path, to: &mut impl Write) -> Result<(u32, u64), SnapshotError> {
    let unreadable = |error| damaged(&format!("{}: {error}", from.display()));
    let mut file = File::open(from).map_err(unreadable)?;
    let mut block = vec![0; 256 * 1024];
    let mut hasher = crc32fast::Hasher::new();
    let mut length = 0;
    loop {
        let read = file.read(&mut block).map_err(unreadable)?;
        if read == 0 {
            return Ok((hasher.finalize(), length));
        }
        hasher.update(&block[..read]);
        to.write_all(&block[..read])?;
        length += read as u64;
    }
}

/// Lists the database's files, relative to the generation. Removes unfinished ones.
fn list_files(generation: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in database_dirs(generation)? {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                continue;
            }
            if path.to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(path)?;
            } else if let Ok(path) = path.strip_prefix(generation) {
                files.push(path.to_owned());
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns the database's directory and its subdirectories at any depth.
fn database_dirs(generation: &Path) -> io::Result<Vec<PathBuf>> {
    let mut dirs = vec![generation.join(DATABASE)];
    let mut next = 0;
    while let Some(dir) = dirs.get(next) {
        let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
        let found = entries.collect::<io::Result<Vec<_>>>()?;
        dirs.extend(found.into_iter().filter(|path| path.is_dir()));
        next += 1;
    }
    Ok(dirs)
}

pub(super) fn damaged(why: &str) -> SnapshotError {
    SnapshotError::Damaged(why.to_owned())
}
