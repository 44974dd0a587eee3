//! Creates a data directory from an archive and the commits that follow it.
//!
//! Everything is created in a directory within the place itself. Then it is moved, the view last.
//! Until the view is there, a server does not start, and another import starts from the beginning.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use postrider_domain::WorkspaceId;
use postrider_log::{Commit, EntryHash, FileLog, FileOptions, LogId, Mark, Start};

use super::contents::{CopiedContents, copy_contents};
use super::{CopyError, HashingReader, Written, create, sync_dir};
use crate::archive::{ArchiveCounts, ArchiveHeader, ArchiveReader, Row};
use crate::blobs::FileBlobs;
use crate::directory::{self, FORMAT_FILE, IMPORT, LOG, MEDIA, SNAPSHOTS, VIEW};
use crate::fjall::FjallView;
use crate::log_store::encoding::changes_of;
use crate::view::MarkedView;
use crate::{Change, FjallOptions, Frame, SnapshotDir, StoreError, Table, View, ViewSnapshot};

/// The allowed files in the target of an import.
///
/// They are keys that an operator put there, and files of every directory or file system.
const ALLOWED: [&str; 5] = ["admin.token", "demo.key", "lost+found", "master.key", "server.lock"];
/// The files that an import may have left that did not come to its end.
const LEFTOVERS: [&str; 6] = [IMPORT, LOG, SNAPSHOTS, FORMAT_FILE, HELD, MEDIA];
/// The file that says that the data is held back from the world.
const HELD: &str = "held";

/// Filters a change: returns it unchanged, returns another one for it, or drops it (`None`).
pub type Sieve<'a> = &'a mut dyn FnMut(Change) -> Result<Option<Change>, CopyError>;

/// A data directory that is being created. Dropped before its end, it leaves nothing.
pub struct Import {
    dir: PathBuf,
    work: PathBuf,
    view: Option<FjallView>,
}

/// Returns the length of an archive's file.
///
/// # Errors
/// [`CopyError::Io`]: it cannot be read, or is no file.
pub fn archive_bytes(path: &Path) -> Result<u64, CopyError> {
    let found = fs::metadata(path).map_err(|error| CopyError::io(path, &error))?;
    if found.is_dir() {
        let path = path.display();
        let what = format!("{path} is a directory: `postrider restore` takes a backup");
        return Err(CopyError::Io(what));
    }
    Ok(found.len())
}

/// Reads a whole archive in a file and checks it.
pub fn read_archive(
    path: &Path,
    mut visit: impl FnMut(&ArchiveHeader, Vec<Row>) -> Result<(), CopyError>,
) -> Result<(ArchiveHeader, ArchiveCounts, Written), CopyError> {
    let broken = |error| CopyError::archive(path, &error);
    let file = File::open(path).map_err(|error| CopyError::io(path, &error))?;
    let mut hashing = HashingReader::new(BufReader::with_capacity(1 << 20, file));
    let mut reader = ArchiveReader::new(&mut hashing).map_err(broken)?;
    let header = reader.header().clone();
    while let Some(rows) = reader.next_rows().map_err(broken)? {
        visit(&header, rows)?;
    }
    let counts = reader.counts();
    drop(reader);
    Ok((header, counts, hashing.written()))
}

impl Import {
    /// Fails unless data may be imported into a directory, which may be missing.
    ///
    /// # Errors
    /// [`CopyError::NotEmpty`], [`CopyError::Io`].
    pub fn must_be_free(dir: &Path) -> Result<(), CopyError> {
        let is_unfinished = directory::is_unfinished(dir);
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(CopyError::io(dir, &error)),
        };
        for entry in entries {
            let name = entry.map_err(|error| CopyError::io(dir, &error))?.file_name();
            let name = name.to_string_lossy();
            if ALLOWED.contains(&&*name) || is_unfinished && LEFTOVERS.contains(&&*name) {
                continue;
            }
            let dir = dir.display();
            return Err(CopyError::NotEmpty(format!(
                "{dir} has `{name}`: give a directory that is missing, or that has nothing but \
                 master.key, admin.token and demo.key"
            )));
        }
        Ok(())
    }

    /// Starts to create a data directory. Its place must be locked.
    ///
    /// # Errors
    /// Those of [`must_be_free`](Self::must_be_free).
    pub fn begin(dir: &Path) -> Result<Self, CopyError> {
        Self::must_be_free(dir)?;
        let work = dir.join(IMPORT);
        if work.exists() {
            // The mark of an unfinished import is removed last.
            LEFTOVERS
                .iter()
                .filter(|name| **name != IMPORT)
                .try_for_each(|name| remove(dir, name))?;
            remove(dir, IMPORT)?;
        }
        let made = fs::create_dir(&work);
        made.map_err(|error| CopyError::io(&work, &error))?;
        sync_dir(dir)?;
        let mut import = Self { dir: dir.to_owned(), work, view: None };
        import.view = Some(FjallView::open(&import.work.join(VIEW), FjallOptions::default())?);
        Ok(import)
    }

    /// Returns the view that is being built.
    ///
    /// # Errors
    /// None: it exists until the end.
    pub fn view(&self) -> Result<&dyn View, StoreError> {
        Ok(self.marked()?)
    }

    /// Returns its current state, to be read while it changes.
    pub fn snapshot(&self) -> Result<Box<dyn ViewSnapshot>, CopyError> {
        Ok(self.marked()?.snapshot()?)
    }

    fn marked(&self) -> Result<&FjallView, StoreError> {
        self.view.as_ref().ok_or_else(|| StoreError::Failed("the import has ended".into()))
    }

    /// Loads all of an archive. Returns its origin, and the states of the workspaces.
    pub fn load(&self, archive: &Path) -> Result<Loaded, CopyError> {
        self.load_through(archive, &mut |change| Ok(Some(change)))
    }

    /// Does the same, but each record goes through the sieve.
    ///
    /// # Errors
    /// [`CopyError`], also of the sieve.
    pub fn load_through(&self, archive: &Path, sieve: Sieve<'_>) -> Result<Loaded, CopyError> {
        let view = self.marked()?;
        let mut states = Vec::new();
        let (header, counts, written) = read_archive(archive, |header, rows| {
            let mut changes = Vec::with_capacity(rows.len());
            for row in rows {
                match row {
                    Row::Record(table, key, value) => {
                        changes.extend(sieve(Change::put(table, key, value))?);
                    }
                    Row::State(workspace, state) => {
                        let id =
                            std::str::from_utf8(&workspace).ok().and_then(|id| id.parse().ok());
                        let what = || format!("{} names no workspace", archive.display());
                        let id = id.ok_or_else(|| CopyError::Damaged(what()))?;
                        states.push((id, state.to_vec()));
                    }
                }
            }
            Ok(view.apply(&header.at, &changes)?)
        })?;
        Ok(Loaded { header, counts, written, states })
    }

    /// Applies a commit.
    pub fn apply(&self, commit: &Commit) -> Result<(), CopyError> {
        self.apply_through(commit, &mut |change| Ok(Some(change)))
    }

    /// Does the same, but each change goes through the sieve.
    ///
    /// # Errors
    /// [`CopyError`], also of the sieve.
    pub fn apply_through(&self, commit: &Commit, sieve: Sieve<'_>) -> Result<(), CopyError> {
        let at = Mark::of(commit);
        let mut changes = Vec::new();
        for change in changes_of(commit)? {
            changes.extend(sieve(change)?);
        }
        Ok(self.marked()?.apply(&at, &changes)?)
    }

    /// Applies changes at the mark that it has reached.
    pub fn put(&self, changes: &[Change]) -> Result<(), CopyError> {
        let view = self.marked()?;
        Ok(view.apply(&view.applied()?, changes)?)
    }

    /// Copies the contents of files in a directory.
    pub fn take_contents(&self, from: &Path) -> Result<CopiedContents, CopyError> {
        copy_contents(&FileBlobs::at(from), &self.work.join(MEDIA))
    }

    /// Counts the records of the view.
    pub fn counts(&self) -> Result<ArchiveCounts, CopyError> {
        let (view, mut counts) = (self.marked()?.snapshot()?, ArchiveCounts::default());
        let mut workspace = None;
        for table in Table::ALL.iter().copied() {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = view.page(table, after.as_deref())?;
                counts.records += page.len() as u64;
                for (key, _) in page.iter().filter(|_| table == Table::Workspaces) {
                    let of = key.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
                    counts.workspaces += u64::from(of != workspace);
                    workspace = of;
                }
                match page.into_iter().next_back() {
                    Some((key, _)) => after = Some(key),
                    None => break,
                }
            }
        }
        Ok(counts)
    }

    /// Ends the import: the data is at a mark, with these states in the actors' memory.
    ///
    /// The log starts there with a new identity.
    ///
    /// # Errors
    /// [`CopyError`]; it then leaves nothing.
    pub fn finish(
        mut self,
        at: &Mark,
        states: Vec<(WorkspaceId, Vec<u8>)>,
        log: LogId,
        segment_bytes: u64,
        held: bool,
    ) -> Result<(), CopyError> {
        let start = Mark { hash: EntryHash::NONE, ..*at };
        self.marked()?.begin(log, &start)?;
        self.view = None;
        FjallView::wait_until_closed(&self.work.join(VIEW))?;
        let snapshots = SnapshotDir::open(self.work.join(SNAPSHOTS))?;
        snapshots.write(at.position, states.into_iter())?;
        let files = FileOptions { segment_bytes, prepares_ahead: false, ..FileOptions::default() };
        let begins = Start { id: log, shard: 0, after: at.position, epoch: at.epoch };
        drop(FileLog::open(&self.work.join(LOG), files, begins)?);
        sync_dir(&self.work)?;
        for name in [SNAPSHOTS, LOG] {
            self.rename(name)?;
        }
        if self.work.join(MEDIA).exists() {
            self.rename(MEDIA)?;
        }
        directory::put_format(&self.dir)?;
        if held {
            let path = self.dir.join(HELD);
            let synced = create(&path)?.sync_all();
            synced.map_err(|error| CopyError::io(&path, &error))?;
        }
        sync_dir(&self.dir)?;
        // From here on it is a data directory.
        self.rename(VIEW)?;
        sync_dir(&self.dir)
    }

    fn rename(&self, name: &str) -> Result<(), CopyError> {
        let to = self.dir.join(name);
        let renamed = fs::rename(self.work.join(name), &to);
        renamed.map_err(|error| CopyError::io(&to, &error))
    }
}

/// The result of [`Import::load`].
#[derive(Debug)]
pub struct Loaded {
    /// The origin of the archive.
    pub header: ArchiveHeader,
    /// The amount of data.
    pub counts: ArchiveCounts,
    /// The length and the hash of the file.
    pub written: Written,
    /// The states in the actors' memory, by workspace.
    pub states: Vec<(WorkspaceId, Vec<u8>)>,
}

impl Drop for Import {
    fn drop(&mut self) {
        let is_done = !directory::is_unfinished(&self.dir);
        if self.view.take().is_some() {
            // Its threads write until they end.
            FjallView::wait_until_closed(&self.work.join(VIEW)).ok();
        }
        // Files that cannot be removed mark it as unfinished, for the next import and for a server.
        if !is_done {
            let others = LEFTOVERS.iter().filter(|name| **name != IMPORT);
            others.for_each(|name| drop(remove(&self.dir, name)));
        }
        remove(&self.dir, IMPORT).ok();
    }
}

/// Removes the files of an import, if they exist.
fn remove(dir: &Path, name: &str) -> Result<(), CopyError> {
    let path = dir.join(name);
    let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CopyError::io(&path, &error))
        }
        _ => Ok(()),
    }
}

/// Returns the frame of journal events of a commit.
///
/// # Errors
/// [`CopyError::Damaged`], [`CopyError::NewerFormat`].
pub fn frame_of(commit: &Commit) -> Result<Option<Frame>, CopyError> {
    Ok(crate::log_store::encoding::frame_of(commit)?)
}
