//! Creates files that only their user can read.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of files with contacts.
const MODE: u32 = 0o600;

/// Creates an empty file with mode 0600, or empties an existing one and closes it to others.
pub(super) fn create(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().truncate(true))
}

/// Opens or creates a file of mode 0600 without emptying it.
pub(super) fn keep(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().truncate(false))
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.create(true).write(true).mode(MODE).open(path)?;
    // The mode above is for new files only. A device or pipe keeps its own.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}
