//! Locks the data directory, closes it to others, and reads and atomically writes small files.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::BootError;

/// The file that a server keeps locked while it uses the directory.
const LOCK: &str = "server.lock";

/// The maximum size of a small file.
const FILE_BYTES_MAX: u64 = 4096;

/// The permission bits of the group and of others.
const NOT_OWNERS: u32 = 0o077;
/// The permission bits of others.
const OTHERS: u32 = 0o007;
/// The bit of a directory that many users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

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
        close_to_others(path, group_access)?;
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
            Ok(_) => close_to_others(&path, false)
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

/// The consequence of the permissions of a file or directory.
#[derive(Debug, PartialEq, Eq)]
enum PermissionVerdict {
    /// Only the intended users may use it.
    Closed,
    /// It belongs to this user; its permissions must become these.
    Close(u32),
    /// It cannot be used.
    Refuse(&'static str),
}

/// Makes sure that only this user can use `path`, and with `group` its group too.
///
/// # Errors
/// [`BootError`] when others can use it and that cannot be changed.
fn close_to_others(path: &Path, group: bool) -> Result<(), BootError> {
    let failed = |source| BootError::File { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let mode = metadata.mode() & 0o7777;
    let refused =
        |why: String| BootError::Mode { path: path.to_owned(), mode, owner: metadata.uid(), why };
    match judge(&metadata, rustix::process::geteuid().as_raw(), group) {
        PermissionVerdict::Closed => Ok(()),
        PermissionVerdict::Refuse(why) => Err(refused(why.to_owned())),
        PermissionVerdict::Close(closed) => {
            let set = std::fs::set_permissions(path, Permissions::from_mode(closed));
            set.map_err(|error| refused(format!("they cannot be set to {closed:04o}: {error}")))?;
            let (path, was, is) = (path.display(), format!("{mode:04o}"), format!("{closed:04o}"));
            tracing::warn!(%path, was, is, "others could use it; its permissions were changed");
            Ok(())
        }
    }
}

fn judge(metadata: &Metadata, user: u32, group: bool) -> PermissionVerdict {
    judge_bits(metadata.mode() & 0o7777, metadata.uid() == user, group)
}

/// Judges permission bits. `ours` states whether the owner is this user.
fn judge_bits(mode: u32, ours: bool, group: bool) -> PermissionVerdict {
    let open = mode & if group { OTHERS } else { NOT_OWNERS };
    match (ours, open) {
        _ if mode & STICKY != 0 => PermissionVerdict::Refuse("many users share it"),
        // A volume belongs to the user who made it, and is used by its group.
        (false, 0) if group => PermissionVerdict::Closed,
        (false, _) => PermissionVerdict::Refuse("it belongs to another user"),
        (true, 0) => PermissionVerdict::Closed,
        (true, open) => PermissionVerdict::Close(mode & !open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn permissions_are_narrowed_and_never_widened() {
        for (mode, group, expected) in [
            (0o700, false, PermissionVerdict::Closed),
            (0o500, false, PermissionVerdict::Closed),
            (0o755, false, PermissionVerdict::Close(0o700)),
            (0o770, false, PermissionVerdict::Close(0o700)),
            (0o770, true, PermissionVerdict::Closed),
            (0o2775, true, PermissionVerdict::Close(0o2770)),
            (0o644, false, PermissionVerdict::Close(0o600)),
        ] {
            assert_eq!(judge_bits(mode, true, group), expected, "{mode:o} {group}");
        }
    }

    #[test]
    fn what_another_user_owns_is_refused_unless_its_group_is_meant() {
        let refused =
            |mode, group| matches!(judge_bits(mode, false, group), PermissionVerdict::Refuse(_));
        assert!(refused(0o700, false) && refused(0o770, false) && refused(0o777, true));
        assert_eq!(judge_bits(0o2770, false, true), PermissionVerdict::Closed);
        assert!(matches!(judge_bits(0o1777, true, true), PermissionVerdict::Refuse(_)));
    }
}
