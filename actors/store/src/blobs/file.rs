//! Contents as files: `<two hexadecimal digits>/<hash>`, readable only by the server's user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BlobHash, BlobReader, BlobWriter, Blobs};
use crate::whole_file::sync_dir;

/// The directory in which contents are written before they have a name.
const UNFINISHED: &str = "tmp";

/// Contents in a directory.
#[derive(Debug)]
pub struct FileBlobs {
    dir: Arc<Path>,
    next: AtomicU64,
}

impl FileBlobs {
    /// Opens the directory, and removes the unfinished files of an earlier process.
    ///
    /// No other process may use it.
    ///
    /// # Errors
    /// It cannot be created or read.
    pub fn open(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        let unfinished = dir.join(UNFINISHED);
        make_dir(&unfinished)?;
        for entry in fs::read_dir(unfinished)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Self::at(dir))
    }

    /// Returns the contents of a directory that is only read, and may be missing.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.into(), next: AtomicU64::new(0) }
    }
}

/// Creates a directory that only the server's user can use, and makes its name durable.
fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => sync_dir(dir.parent().unwrap_or(Path::new("."))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn folder_of(dir: &Path, first: u8) -> PathBuf {
    dir.join(format!("{first:02x}"))
}

fn path_of(dir: &Path, hash: &BlobHash) -> PathBuf {
    folder_of(dir, hash.0[0]).join(hash.to_string())
}

/// Returns `None` for a missing file.
fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Blobs for FileBlobs {
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(UNFINISHED).join(number.to_string());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Box::new(UnfinishedFile { dir: Arc::clone(&self.dir), path, file }))
    }

    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        let Some(file) = if_exists(File::open(path_of(&self.dir, hash)))? else { return Ok(None) };
        let length = file.metadata()?.len();
        Ok(Some(Box::new(OpenFile { file, length })))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        if_exists(fs::remove_file(path_of(&self.dir, hash))).map(drop)
    }

    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        let mut hashes = Vec::new();
        let Some(entries) = if_exists(fs::read_dir(folder_of(&self.dir, first)))? else {
            return Ok(hashes);
        };
        for entry in entries {
            hashes.extend(entry?.file_name().to_str().and_then(BlobHash::parse));
        }
        Ok(hashes)
    }
}

/// A file that has no name yet; dropping it removes the rest.
struct UnfinishedFile {
    dir: Arc<Path>,
    path: PathBuf,
    file: File,
}

impl BlobWriter for UnfinishedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()> {
        let folder = folder_of(&self.dir, hash.0[0]);
        self.file.sync_all()?;
        make_dir(&folder)?;
        // The same content may exist: this one replaces it and is as durable.
        fs::rename(&self.path, path_of(&self.dir, hash))?;
        sync_dir(&folder)
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // A file with its name is no longer here.
        fs::remove_file(&self.path).ok();
    }
}

struct OpenFile {
    file: File,
    length: u64,
}

impl BlobReader for OpenFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; max];
        let mut read = 0;
        while read < max {
            match self.file.read_at(&mut bytes[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::blobs::BlobStore;

    #[test]
    fn files_are_the_servers_own_and_unfinished_ones_go_at_a_start() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("media");
        let store = BlobStore::new(Arc::new(FileBlobs::open(&dir).unwrap()));
        let mut staged = store.begin().unwrap();
        staged.write(b"abc").unwrap();
        let hash = store.keep(staged).unwrap().hash;
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.join("ba").join(hex)), 0o600);
        assert_eq!((mode(&dir), mode(&dir.join("ba"))), (0o700, 0o700));
        // This is the state after a crash.
        std::mem::forget(store.begin().unwrap());
        let unfinished = || fs::read_dir(dir.join(UNFINISHED)).unwrap().count();
        assert_eq!(unfinished(), 1);
        let again = FileBlobs::open(&dir).unwrap();
        assert_eq!((unfinished(), again.list(0xba).unwrap()), (0, vec![hash]));
    }
}
