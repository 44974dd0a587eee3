//! The files of a log are reached through a port, so that tests can cut the power.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::port::LogError;

/// The directory of a log. Names become durable only by [`sync_names`](Self::sync_names).
pub(crate) trait Disk: Debug + Send + Sync {
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates an empty file, also in place of an existing one.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, also in place of the file with that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all changes of names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file of a log. Written bytes become durable only by [`sync`](Self::sync).
pub(crate) trait DiskFile: Debug + Send + Sync {
    /// Returns the length of the file.
    fn length(&self) -> io::Result<u64>;

    /// Reads at an offset, until the buffer is full or the file ends. Returns the bytes read.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at an offset.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all written bytes durable.
    fn sync(&self) -> io::Result<()>;
}

/// The file whose lock keeps a second process out.
const LOCK: &str = "lock";

/// A directory of the file system.
#[derive(Debug)]
pub(crate) struct RealDisk {
    dir: PathBuf,
    /// The file holds the lock.
    _lock: File,
}

impl RealDisk {
    /// Creates the directory if it is missing, and locks it.
    pub(crate) fn open(dir: &Path) -> Result<Self, LogError> {
        let failed = |error: io::Error| {
            LogError::Failed(format!("{} cannot be opened: {error}", dir.display()))
        };
        if !dir.exists() {
            fs::create_dir(dir).map_err(failed)?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
            }
        }
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(dir.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(LogError::Locked),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// A directory that is only read.
#[derive(Debug)]
pub(crate) struct ReadOnlyDisk {
    dir: PathBuf,
    /// The file holds the lock.
    _lock: Option<File>,
}

impl ReadOnlyDisk {
    /// Locks a directory if there ever was a log in it.
    pub(crate) fn open(dir: &Path) -> Result<Self, LogError> {
        let failed = |error: io::Error| {
            LogError::Failed(format!("{} cannot be opened: {error}", dir.display()))
        };
        let lock = match OpenOptions::new().write(true).open(dir.join(LOCK)) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        match lock.as_ref().map(File::try_lock) {
            None | Some(Ok(())) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Some(Err(TryLockError::WouldBlock)) => Err(LogError::Locked),
            Some(Err(TryLockError::Error(error))) => Err(failed(error)),
        }
    }
}

impl Disk for ReadOnlyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        names(&self.dir)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::open(self.dir.join(name))?))
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// Returns the names of all files of a directory.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(dir)?.map(|file| Ok(file?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        names(&self.dir)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.dir.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(options.open(self.dir.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match FileExt::read_at(self, &mut buffer[read..], at + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
