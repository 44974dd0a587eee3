//! A directory with a backup: archives, pieces of the log, and a list of them.
//!
//! Only listed files count. The list is written last, so that an interrupted backup leaves the
//! previous one as it was.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use postrider_log::{Commit, LogId, Mark, PieceReader};

use super::import::read_archive;
use super::manifest::{BackupFile, MANIFEST, Manifest, hex};
use super::{CopyError, HashingReader, Written, create, write_file};
use crate::Position;
use crate::archive::ArchiveHeader;

/// The file that keeps a second backup to the same directory out.
const LOCK: &str = "lock";

/// A backup's directory.
pub struct BackupDir {
    dir: PathBuf,
    manifest: Option<Manifest>,
    copied_bytes: u64,
    _lock: File,
}

/// The files of a restore, and the position that it reaches.
#[derive(Debug)]
pub struct RestorePlan {
    dir: PathBuf,
    log: LogId,
    archive: BackupFile,
    pieces: Vec<BackupFile>,
    through: Position,
    end: Mark,
}

impl BackupDir {
    /// Opens the directory of a backup, or creates one.
    ///
    /// # Errors
    /// [`CopyError::NotEmpty`] if it has other files, [`CopyError::InUse`] if another backup runs,
    /// and others of [`CopyError`].
    pub fn open(dir: &Path) -> Result<Self, CopyError> {
        let io = |error: std::io::Error| CopyError::io(dir, &error);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
        let manifest = Manifest::read(dir)?;
        if manifest.is_none() {
            for entry in fs::read_dir(dir).map_err(io)? {
                let name = entry.map_err(io)?.file_name();
                let name = name.to_string_lossy();
                // An interrupted first backup has files that no list names.
                let is_own = [LOCK, "lost+found"].contains(&&*name)
                    || [".part", ".archive"].iter().any(|end| name.ends_with(end));
                if !is_own {
                    let dir = dir.display();
                    let what = format!("{dir} has `{name}` and no {MANIFEST}: it is no backup");
                    return Err(CopyError::NotEmpty(what));
                }
            }
        }
        let lock = create(&dir.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("{} is in use by another backup", dir.display());
                return Err(CopyError::InUse(what));
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        Ok(Self { dir: dir.to_owned(), manifest, copied_bytes: 0, _lock: lock })
    }

    /// Returns its log and the mark that it reaches, unless it is new.
    #[must_use]
    pub fn end(&self) -> Option<(LogId, Mark)> {
        let manifest = self.manifest.as_ref()?;
        Some((manifest.log_id(), manifest.end()?))
    }

    /// Returns the number of its files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.manifest.as_ref().map_or(0, |all| all.archives.len() + all.log.len())
    }

    /// Returns the bytes that were added since it was opened.
    #[must_use]
    pub const fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// Adds an archive, which `write` writes.
    ///
    /// # Errors
    /// Those of `write`; [`CopyError::NotEmpty`] when it is of another log than the others.
    pub fn add_archive(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let path = self.dir.join("new.archive");
        let check = |part: &Path| {
            let (header, _, written) = read_archive(part, |_, _| Ok(()))?;
            self.must_be_of(header.log)?;
            Ok((header, written))
        };
        let ((), (header, written)) = write_file(&path, write, check)?;
        let name = format!("{:020}.archive", header.at.position.0);
        self.rename(&path, &name)?;
        let mut manifest = self.manifest.clone().unwrap_or_else(|| Manifest::new(header.log));
        self.copied_bytes += written.bytes;
        manifest.archives.push(BackupFile::new(name, None, &header.at, written));
        self.list(manifest)
    }

    /// Adds the next piece of the log, which `write` writes.
    ///
    /// Nothing is added if the piece has no entries.
    ///
    /// # Errors
    /// Those of `write`; [`CopyError::NotEmpty`] when it is of another log;
    /// [`CopyError::Damaged`] when it does not follow.
    pub fn add_piece(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let none = || CopyError::Io("there is no archive yet that a piece could follow".into());
        let manifest = self.manifest.clone().ok_or_else(none)?;
        let before = manifest.end().ok_or_else(none)?;
        let path = self.dir.join("new.log");
        let check = |part: &Path| {
            let mut end = before;
            let written = read_piece(part, |reader| {
                self.must_be_of(reader.log())?;
                must_follow(part, &reader.start(), &before)?;
                while reader.next_commit()?.is_some() {}
                end = reader.end();
                Ok(())
            })?;
            Ok((end, written))
        };
        let ((), (end, written)) = write_file(&path, write, check)?;
        if end.position == before.position {
            return fs::remove_file(&path).map_err(|error| CopyError::io(&path, &error));
        }
        let name = format!("{:020}.log", before.position.next().0);
        self.rename(&path, &name)?;
        let mut manifest = manifest;
        self.copied_bytes += written.bytes;
        manifest.log.push(BackupFile::new(name, Some(before.position), &end, written));
        self.list(manifest)
    }

    fn must_be_of(&self, log: LogId) -> Result<(), CopyError> {
        match &self.manifest {
            Some(manifest) if manifest.log_id() != log => {
                let (dir, log) = (self.dir.display(), hex(&log.0));
                let other = hex(&manifest.log_id().0);
                Err(CopyError::NotEmpty(format!(
                    "{dir} has the backup of another log, {other}, not {log}: a directory that was \
                     imported or restored is another one; give it a place of its own"
                )))
            }
            _ => Ok(()),
        }
    }

    fn rename(&self, path: &Path, name: &str) -> Result<(), CopyError> {
        let to = self.dir.join(name);
        fs::rename(path, &to).map_err(|error| CopyError::io(&to, &error))?;
        super::sync_dir(&self.dir)
    }

    fn list(&mut self, manifest: Manifest) -> Result<(), CopyError> {
        manifest.write(&self.dir)?;
        self.remove_unlisted(&manifest)?;
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Removes the files of interrupted runs. The list that does not name them is durable.
    fn remove_unlisted(&self, manifest: &Manifest) -> Result<(), CopyError> {
        let io = |error: std::io::Error| CopyError::io(&self.dir, &error);
        for entry in fs::read_dir(&self.dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let mut parts = manifest.archives.iter().chain(&manifest.log);
            if is_made_by_a_run(&name) && parts.all(|part| part.file != name) {
                fs::remove_file(entry.path()).map_err(io)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a run gives a file this name, with a position in 20 digits or a temporary one.
fn is_made_by_a_run(name: &str) -> bool {
    let stem = name.strip_suffix(".archive").or_else(|| name.strip_suffix(".log"));
    stem.is_some_and(|stem| stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit()))
        || ["new.archive", "new.log", "new.archive.part", "new.log.part"].contains(&name)
}

/// Fails unless a piece follows a mark.
fn must_follow(file: &Path, start: &Mark, before: &Mark) -> Result<(), CopyError> {
    if (start.position, start.hash) == (before.position, before.hash) {
        return Ok(());
    }
    let what = format!("{} does not follow what is before it", file.display());
    Err(CopyError::Damaged(what))
}

/// Reads a piece in a file. The hash is that of the bytes read.
fn read_piece(
    path: &Path,
    read: impl FnOnce(&mut PieceReader<&mut HashingReader<BufReader<File>>>) -> Result<(), CopyError>,
) -> Result<Written, CopyError> {
    let file = File::open(path).map_err(|error| CopyError::io(path, &error))?;
    let mut hashing = HashingReader::new(BufReader::with_capacity(1 << 20, file));
    let mut reader = PieceReader::new(&mut hashing, &path.display().to_string())?;
    read(&mut reader)?;
    drop(reader);
    Ok(hashing.written())
}

impl RestorePlan {
    /// Plans a restore of the backup in `dir`, to its end or to a position.
    ///
    /// # Errors
    /// [`CopyError::NoSuchPosition`], and others of [`CopyError`].
    pub fn new(dir: &Path, position: Option<Position>) -> Result<Self, CopyError> {
        if dir.is_file() {
            let what = format!("{} is a file: `postrider import` takes an archive", dir.display());
            return Err(CopyError::Io(what));
        }
        let none = || CopyError::Io(format!("{} has no {MANIFEST}", dir.display()));
        let manifest = Manifest::read(dir)?.ok_or_else(none)?;
        let last = manifest.end().ok_or_else(none)?;
        let end = last.position;
        let through = position.unwrap_or(end);
        let before = manifest.archives.iter().filter(|part| part.position <= through.0);
        let archive = before.max_by_key(|part| part.position).cloned();
        let first = manifest.archives.iter().map(|part| part.position).min().unwrap_or_default();
        let missing = || {
            let what = format!("the backup has positions {first} to {end}, and not {through}");
            CopyError::NoSuchPosition(what)
        };
        let archive = archive.ok_or_else(missing)?;
        let (mut reached, mut pieces) = (archive.position, Vec::new());
        while reached < through.0 {
            let next = manifest.log.iter().find(|part| part.after == Some(reached));
            let next = next.ok_or_else(missing)?;
            reached = next.position;
            pieces.push(next.clone());
        }
        let log = manifest.log_id();
        Ok(Self { dir: dir.to_owned(), log, archive, pieces, through, end: last })
    }

    /// Returns the log of the backup, and the mark that all of it reaches.
    #[must_use]
    pub const fn end(&self) -> (LogId, Mark) {
        (self.log, self.end)
    }

    /// Returns the bytes of the files that it reads.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|part| part.bytes).fold(self.archive.bytes, u64::saturating_add)
    }

    /// Returns the archive that it starts with.
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        self.dir.join(&self.archive.file)
    }

    /// Fails unless the archive is the one that the list names.
    ///
    /// # Errors
    /// [`CopyError::Damaged`].
    pub fn check_archive(
        &self,
        header: &ArchiveHeader,
        written: &Written,
    ) -> Result<(), CopyError> {
        match header.log == self.log {
            true => self.check(&self.archive, &header.at, written),
            false => Err(not_the_listed_file(&self.archive())),
        }
    }

    fn check(&self, part: &BackupFile, end: &Mark, written: &Written) -> Result<(), CopyError> {
        let is_it = part.end().as_ref() == Some(end)
            && (&written.sha256, written.bytes) == (&part.sha256, part.bytes);
        if is_it { Ok(()) } else { Err(not_the_listed_file(&self.dir.join(&part.file))) }
    }

    /// Visits every commit after the archive, up to the position. Returns the mark of the last one.
    ///
    /// # Errors
    /// Those of `visit`; [`CopyError::Damaged`].
    pub fn commits(
        &self,
        at: Mark,
        visit: &mut dyn FnMut(Commit) -> Result<(), CopyError>,
    ) -> Result<Mark, CopyError> {
        let (mut last, mut reached) = (None, at);
        for part in &self.pieces {
            let path = self.dir.join(&part.file);
            let mut is_whole = true;
            let written = read_piece(&path, |reader| {
                must_follow(&path, &reader.start(), &reached)?;
                while let Some(commit) = reader.next_commit()? {
                    if commit.position > self.through {
                        is_whole = false;
                        break;
                    }
                    last = Some(commit.clone());
                    visit(commit)?;
                }
                reached = reader.end();
                Ok(())
            })?;
            if is_whole {
                self.check(part, &reached, &written)?;
            }
        }
        Ok(last.as_ref().map_or(at, Mark::of))
    }
}

fn not_the_listed_file(path: &Path) -> CopyError {
    let what = format!("{} is not the file that {MANIFEST} names", path.display());
    CopyError::Damaged(what)
}
