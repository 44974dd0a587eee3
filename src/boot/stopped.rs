//! Reads, checks and rebases the data of a stopped server.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use postrider_actors::store::check::{self, DirectoryCheck};
use postrider_actors::store::repair::{self, Plan, RepairError, Repaired};
use postrider_actors::{AuditCheck, ClockRebase, StoredClock, repair_directory};

use super::directory::DataDir;
use super::error::BootError;

/// Returns the clock of the data in `path`; `None` when a server uses it, or when there is no data.
///
/// # Errors
/// [`BootError`]: the directory cannot be used or its data cannot be read.
pub fn stored_clock(path: &Path) -> Result<Option<StoredClock>, BootError> {
    match lock(path) {
        Ok(Some(_locked)) => Ok(Some(postrider_actors::stored_clock(path)?)),
        Ok(None) | Err(BootError::InUse(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Rebases the times in `path` from a clock that was ahead, so that they count as the present.
///
/// Returns `None` when the data has no such times.
///
/// # Errors
/// [`BootError`]: a server uses the directory, it cannot be used, or its data cannot be read.
pub fn rebase_stored_clock(path: &Path) -> Result<Option<ClockRebase>, BootError> {
    let _locked = lock(path)?;
    Ok(postrider_actors::rebase_clock(path)?)
}

/// Verifies the whole audit log of the data in `path`.
///
/// # Errors
/// [`BootError`]: a server uses the directory, it cannot be used, or its data cannot be read.
pub fn verify_stored_audit(path: &Path) -> Result<AuditCheck, BootError> {
    let _locked = lock(path)?;
    let failed = |source| BootError::Store { path: path.to_owned(), source };
    postrider_actors::verify_audit_directory(path).map_err(failed)
}

/// Reads everything in the data directory `path`, and reports the damage.
///
/// With `deep` it also compares the records with the sum of the log.
///
/// # Errors
/// [`BootError`]: a server uses the directory, there is no data, or it cannot be read at all.
pub fn check_stored(path: &Path, deep: bool) -> Result<DirectoryCheck, BootError> {
    let _locked = lock(path)?.ok_or_else(|| BootError::NoData(path.to_owned()))?;
    let failed = |source| BootError::Directory { path: path.to_owned(), source };
    check::check(path, deep).map_err(failed)
}

/// The plan or the result of a repair.
#[derive(Debug)]
pub enum Repair {
    /// Nothing is damaged.
    NotNeeded,
    /// The repair would keep and give up these parts.
    Planned(Plan),
    /// The data is repaired. Without a plan an interrupted repair was completed.
    Done(Option<Plan>, Repaired),
}

/// Repairs damaged data in `path` so that a server starts on it, or reports what would be given up.
///
/// # Errors
/// [`BootError`]: a server uses the directory, there is no data, or it cannot be repaired.
pub fn repair_stored(path: &Path, accepts_loss: bool) -> Result<Repair, BootError> {
    let _locked = lock(path)?.ok_or_else(|| BootError::NoData(path.to_owned()))?;
    let failed = |source| BootError::Repair { path: path.to_owned(), source };
    if let Some(repaired) = repair::go_on(path).map_err(failed)? {
        return Ok(Repair::Done(None, repaired));
    }
    let plan = match repair::plan(path) {
        Err(RepairError::NotNeeded) => return Ok(Repair::NotNeeded),
        planned => planned.map_err(failed)?,
    };
    if !accepts_loss {
        return Ok(Repair::Planned(plan));
    }
    let repaired = repair_directory(path, &plan).map_err(failed)?;
    Ok(Repair::Done(Some(plan), repaired))
}

/// Locks a directory with data; `None` if no data can be seen.
///
/// Opening a store writes files even to read it, so the user that owns it must do it. Otherwise its
/// server could not start.
pub(super) fn lock(path: &Path) -> Result<Option<DataDir>, BootError> {
    let found = ["view", "log"].map(|name| path.join(name)).into_iter().find_map(|data| {
        let metadata = std::fs::metadata(&data).ok()?;
        Some((data, metadata))
    });
    let Some((store, metadata)) = found else { return Ok(None) };
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        // Reading changes no permissions: the rights of a group stay.
        return DataDir::open(path, true).map(Some);
    }
    if DataDir::is_in_use(path) {
        return Err(BootError::InUse(path.to_owned()));
    }
    Err(BootError::Owner { path: store, owner, user })
}
