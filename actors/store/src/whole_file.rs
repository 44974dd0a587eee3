//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of copies of the data: they hold all of the server's secrets.
const MODE: u32 = 0o600;

/// The suffix of a file while it is written.
pub(crate) const PART: &str = ".part";

/// Returns the name of a file while it is written.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    PathBuf::from(part)
}

/// Creates an empty file that only its user can read, in place of an existing one.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(MODE).open(path)?;
    // The mode above is for new files only.
    file.set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

/// Writes a file beside its place, syncs it, has it checked, and renames it.
///
/// The check returns the name. A failure leaves nothing. `failed` makes an error of the disk the
/// caller's.
pub(crate) fn write<T, U, E>(
    part: &Path,
    failed: impl Fn(&Path, &io::Error) -> E,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
    check: impl FnOnce(&Path) -> Result<(U, PathBuf), E>,
) -> Result<(T, U), E> {
    let made = write_part(part, &failed, write).and_then(|written| Ok((written, check(part)?)));
    let made = made.and_then(|(written, (checked, path))| {
        fs::rename(part, &path).map_err(|error| failed(&path, &error))?;
        let dir = path.parent().unwrap_or(Path::new("."));
        sync_dir(dir).map_err(|error| failed(dir, &error))?;
        Ok((written, checked))
    });
    if made.is_err() {
        // A caller that needs the space or looks for a whole file finds nothing.
        fs::remove_file(part).ok();
    }
    made
}

fn write_part<T, E>(
    part: &Path,
    failed: &impl Fn(&Path, &io::Error) -> E,
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let file = create(part).map_err(|error| failed(part, &error))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = write(&mut out)?;
    let file = out.into_inner().map_err(|error| failed(part, &error.into_error()))?;
    file.sync_all().map_err(|error| failed(part, &error))?;
    Ok(written)
}
