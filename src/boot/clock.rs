//! Reads the clock of a data directory whose server is stopped.

use std::path::Path;

use postrider_actors::StoredClock;

use super::directory::DataDir;
use super::error::BootError;

/// The clock of the data in `path`; `None` when a server uses it, or when there is no data.
///
/// # Errors
/// [`BootError`]: the directory cannot be used or its data cannot be read.
pub fn stored_clock(path: &Path) -> Result<Option<StoredClock>, BootError> {
    if !path.join("store").exists() {
        return Ok(None);
    }
    // Whoever reads the clock changes no permissions: what a group may do stays.
    match DataDir::open(path, true) {
        Ok(_locked) => Ok(Some(postrider_actors::stored_clock(path)?)),
        Err(BootError::InUse(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
