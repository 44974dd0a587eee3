//! Checks that a copy has room before anything of it is written.

use std::path::Path;

use postrider_store::copies::CopyError;
use postrider_store::{DirectorySpace, FreeSpace};

/// Fails unless the disk of a directory has so many free bytes. Blocks.
///
/// # Errors
/// [`CopyError::NoSpace`]; [`CopyError::Io`] if the free space is unknown.
pub fn check_space(dir: &Path, needed: u64) -> Result<(), CopyError> {
    let shown = dir.display();
    let free = DirectorySpace(dir.to_owned()).free_bytes();
    let free = free.map_err(|error| CopyError::Io(format!("{shown}: {error}")))?;
    if free >= needed {
        return Ok(());
    }
    let what = format!("{shown}: {needed} bytes are needed on its disk, and {free} are free");
    Err(CopyError::NoSpace(what))
}
