//! Locks the data directory, and reads and atomically writes small files in it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::BootError;
use super::modes;

/// The file that a server keeps locked while it uses the directory.
const LOCK: &str = "server.lock";

/// The maximum size of a small file.
const FILE_BYTES_MAX: u64 = 4096;

/// The data directory. While this value lives, no other server can open it.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// The operating system releases the lock when the process ends, for whatever reason.
    _lock: File,
}

impl DataDir {
    /// Locks the directory. Creates it with mode 0700 when it is missing.
    ///
    /// A directory that other users can use is closed to them; with `group_access` its group may
    /// use it.
    pub(crate) fn open(path: &Path, group_access: bool) -> Result<Self, BootError> {
        let failed = |source| BootError::File { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        modes::close(path, group_access)?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|source| BootError::File { path: lock_path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(BootError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(BootError::File { path: lock_path, source }),
        }
    }

    /// Returns whether a server uses the directory. Creates no file.
    pub(super) fn is_in_use(path: &Path) -> bool {
        let lock = OpenOptions::new().write(true).open(path.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file `name`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the first line of the secret file `name`, or `None` when the file does not exist.
    ///
    /// A file that other users can read is closed to them.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, BootError> {
        let path = self.file(name);
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => modes::close(&path, false)
                .map(|()| Some(text.lines().next().unwrap_or_default().trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BootError::File { path, source }),
        }
    }

    /// Replaces the file `name` with one line, mode 0600. After a crash it holds either all of the
    /// line or its previous content.
    pub(crate) fn write(&self, name: &str, line: &str) -> Result<(), BootError> {
        let path = self.file(name);
        self.replace(name, &path, line).map_err(|source| BootError::File { path, source })
    }

    fn replace(&self, name: &str, path: &Path, line: &str) -> std::io::Result<()> {
        let temporary = self.file(&format!(".{name}.new"));
        // A crash may have left this file, possibly with another mode.
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        // The rename is durable only after the directory is synced.
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_and_whole() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(&parent.path().join("a/b"), false).unwrap();
        assert_eq!(mode(directory.path()), 0o700);
        assert_eq!(directory.read("x").unwrap(), None);
        // A crash in the middle of a write leaves this file.
        std::fs::write(directory.file(".x.new"), "half").unwrap();
        directory.write("x", "first").unwrap();
        directory.write("x", "second").unwrap();
        assert_eq!(directory.read("x").unwrap().as_deref(), Some("second"));
        assert_eq!(std::fs::read_to_string(directory.file("x")).unwrap(), "second\n");
        assert_eq!(mode(&directory.file("x")), 0o600);
        assert!(!directory.file(".x.new").exists());
    }

    #[test]
    fn one_server_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let first = DataDir::open(parent.path(), false).unwrap();
        assert!(matches!(DataDir::open(parent.path(), false), Err(BootError::InUse(_))));
        drop(first);
        assert!(DataDir::open(parent.path(), false).is_ok());
    }
}
