//! A directory in which a single command works with copies, and which is removed at its end.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_actors::copies::CopyError;

/// The file that keeps a second command out.
const LOCK: &str = "lock";
/// The number of tries while an earlier command removes its directory.
const TRIES: usize = 10;
/// The tries to remove a directory, and the wait between two tries.
const REMOVE_TRIES: usize = 100;
const REMOVE_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The directory of one command.
pub(super) struct Work {
    path: PathBuf,
    _lock: File,
}

impl Work {
    /// Takes a directory, and removes the leftovers of a command that was killed.
    ///
    /// # Errors
    /// [`CopyError::InUse`] while another command works in it; others of [`CopyError`].
    pub(super) fn at(path: &Path) -> Result<Self, CopyError> {
        let failed = |error: io::Error| CopyError::io(path, &error);
        for _ in 0..TRIES {
            // Codes could be recovered from its contents, with the master key.
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
            let lock = match locked(path) {
                Ok(Some(lock)) => lock,
                // It was removed just now.
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(failed(error)),
            };
            empty(path).map_err(failed)?;
            return Ok(Self { path: path.to_owned(), _lock: lock });
        }
        let path = path.display();
        let what = format!("{path} is in use by another command, such as an import of the same");
        Err(CopyError::InUse(what))
    }

    /// Returns the path of a file or directory in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a directory; `None` if it was removed since.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let name = path.join(LOCK);
    let mut options = OpenOptions::new();
    let lock = options.create(true).truncate(false).write(true).mode(0o600).open(&name)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok((fs::metadata(&name)?.ino() == lock.metadata()?.ino()).then_some(lock))
}

/// Empties a directory, except for the lock of its command.
fn empty(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() != LOCK {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut removed = empty(&self.path);
        // The threads of a store that was closed may write for a moment more.
        for _ in 0..REMOVE_TRIES {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(REMOVE_AGAIN_AFTER);
            removed = empty(&self.path);
        }
        // Without the lock the next command may use it at once: it is removed only if it is empty.
        let removed = removed.and_then(|()| {
            remove(&self.path.join(LOCK))?;
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
                _ => Ok(()),
            }
        });
        if let Err(error) = removed {
            tracing::warn!(path = %self.path.display(), %error, "it was not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_commands_alone_and_goes_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("all.archive.import");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("left"), "of one that was killed").unwrap();
        fs::create_dir(path.join("more")).unwrap();
        let work = Work::at(&path).unwrap();
        assert!(!work.file("left").exists() && !work.file("more").exists());
        fs::write(work.file("part"), "of a part").unwrap();
        let error = Work::at(&path).err().unwrap();
        assert_eq!(error.code(), "IN_USE");
        assert!(work.file("part").exists(), "the second must not remove what the first has");
        drop(work);
        assert!(!path.exists());
        drop(Work::at(&path).unwrap());
    }

    #[test]
    fn while_anything_of_a_command_is_left_no_other_one_has_its_directory() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("repair-007");
        let work = Work::at(&path).unwrap();
        fs::create_dir(work.file("data")).unwrap();
        fs::write(work.file("data").join("part"), "of it").unwrap();
        empty(&path).unwrap();
        assert!(!work.file("data").exists() && path.join(LOCK).exists());
        assert_eq!(Work::at(&path).err().unwrap().code(), "IN_USE");
        drop(work);
        assert!(!path.exists());
    }
}
