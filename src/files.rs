//! Small files of the data directory that hold one secret each, of mode 0600, one line.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file or directory that could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    /// Which one.
    path: PathBuf,
    /// What the system said.
    source: io::Error,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    |source| FileError { path, source }
}

/// Makes the data directory, of mode 0700, if it is not there.
pub(crate) fn make_data_dir(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))
}

/// The secret in a file; `None` when there is no such file.
pub(crate) fn read_secret(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// Writes a secret such that after a crash the file is either whole or not there.
pub(crate) fn write_secret(path: &Path, secret: &str) -> Result<(), FileError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    // One that a crash left behind may have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&temporary)(error)),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(at(&temporary))?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(at(&temporary))?;
    fs::rename(&temporary, path).map_err(at(path))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_nobody_else_can() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("a/b");
        make_data_dir(&data).unwrap();
        assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = data.join("demo.key");
        assert_eq!(read_secret(&path).unwrap(), None);
        fs::write(data.join("demo.key.new"), "left by a crash").unwrap();
        write_secret(&path, "pr_one").unwrap();
        write_secret(&path, "pr_two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "pr_two\n");
        assert_eq!(read_secret(&path).unwrap().as_deref(), Some("pr_two"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    }
}
