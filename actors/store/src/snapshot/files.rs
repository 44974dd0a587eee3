//! The files of a generation are synced, listed in a manifest and checked against it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::SnapshotError;

/// The sled database's directory in a generation.
pub(super) const DATABASE: &str = "sled";
/// The file that lists the others. Each line: CRC-32 in hexadecimal, length, path; the last line is
/// the CRC-32 of the lines before it.
const MANIFEST: &str = "manifest";
/// The suffix of sled's own unfinished snapshots. sled cannot open a database that has one.
const UNFINISHED: &str = ".generating";

/// Syncs all files of a generation and adds its manifest.
pub(super) fn seal(generation: &Path) -> Result<(), SnapshotError> {
    let mut lines = String::new();
    for path in list(generation)? {
        File::open(generation.join(&path))?.sync_all()?;
        let (checksum, length) = copy(&generation.join(&path), &mut io::sink())?;
        lines.push_str(&format!("{checksum:08x} {length} {}\n", path.display()));
    }
    let checksum = crc32fast::hash(lines.as_bytes());
    let mut manifest = File::create(generation.join(MANIFEST))?;
    manifest.write_all(format!("{lines}{checksum:08x}\n").as_bytes())?;
    manifest.sync_all()?;
    for dir in dirs(generation)? {
        sync_dir(&dir)?;
    }
    sync_dir(generation)?;
    Ok(())
}

/// Checks that all files match the manifest.
pub(super) fn check(generation: &Path) -> Result<(), SnapshotError> {
    for line in manifest(generation)? {
        line.copy(generation, &mut io::sink())?;
    }
    Ok(())
}

/// Copies the files that the manifest lists, and checks them.
pub(super) fn copy_checked(generation: &Path, to: &Path) -> Result<(), SnapshotError> {
    for line in manifest(generation)? {
        let to = to.join(&line.path);
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        line.copy(generation, &mut File::create(&to)?)?;
    }
    Ok(())
}

/// Returns the bytes of all files of a generation; 0 for those that cannot be read.
pub(super) fn bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |file| file.len());
    };
    entries.filter_map(Result::ok).map(|entry| bytes(&entry.path())).sum()
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

struct Line {
    checksum: u32,
    length: u64,
    path: PathBuf,
}

impl Line {
    fn copy(&self, generation: &Path, to: &mut impl Write) -> Result<(), SnapshotError> {
        let (checksum, length) = copy(&generation.join(&self.path), to)?;
        if (checksum, length) != (self.checksum, self.length) {
            return Err(damaged(&format!("{} is not what was written", self.path.display())));
        }
        Ok(())
    }
}

fn manifest(generation: &Path) -> Result<Vec<Line>, SnapshotError> {
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
        Some(Line { checksum, length, path: words.next()?.into() })
    };
    lines.lines().map(|line| parse(line).ok_or_else(bad)).collect()
}

/// Copies a file. Returns its CRC-32 and its length. A file that cannot be read counts as damaged.
fn copy(from: &Path, to: &mut impl Write) -> Result<(u32, u64), SnapshotError> {
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
fn list(generation: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in dirs(generation)? {
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

/// Returns the database's directory and those in it, at any depth.
fn dirs(generation: &Path) -> io::Result<Vec<PathBuf>> {
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
