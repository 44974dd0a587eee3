//! Reads, checks and rebases the data of a stopped server.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use postrider_actors::store::check::{self, DirectoryCheck};
use postrider_actors::store::repair::{self, Plan, RepairError, Repaired};
use postrider_actors::{AuditCheck, ClockRebase, StoredClock, repair_directory};

use super::directory::DataDir;
use super::error::BootError;

/// The clock of the data in `path`; `None` when a server uses it, or when there is no data.
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

/// Has moments count as the present that the data in `path` has of a clock which was ahead; `None`
/// when it has none of a clock that was ahead.
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

/// Reads everything in the data directory `path`, and reports what is wrong. With `deep` it also
/// compares the records with what the log adds up to.
///
/// # Errors
/// [`BootError`]: a server uses the directory, there is no data, or it cannot be read at all.
pub fn check_stored(path: &Path, deep: bool) -> Result<DirectoryCheck, BootError> {
    let _locked = lock(path)?.ok_or_else(|| BootError::NoData(path.to_owned()))?;
    let failed = |source| BootError::Directory { path: path.to_owned(), source };
    check::check(path, deep).map_err(failed)
}

/// What a repair would do, or has done.
#[derive(Debug)]
pub enum Repair {
    /// Nothing is damaged.
    NotNeeded,
    /// This is what it would keep and give up.
    Planned(Plan),
    /// It is repaired; one that was ended before was taken up again where there is no plan.
    Done(Option<Plan>, Repaired),
}

/// Makes damaged data in `path` such that a server starts on it, or says what that would give up.
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

/// Locks a directory with data; `None` if there is none to be seen. Opening a store writes files
/// even to read it, so it must be done by the user that owns it, or its server could not start.
pub(super) fn lock(path: &Path) -> Result<Option<DataDir>, BootError> {
    // In a directory of format 1 everything is in the second.
    let found = ["view", "store", "log"].map(|name| path.join(name)).into_iter().find_map(|data| {
        let metadata = std::fs::metadata(&data).ok()?;
        Some((data, metadata))
    });
    let Some((store, metadata)) = found else { return Ok(None) };
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        // Whoever only reads changes no permissions: what a group may do stays.
        return DataDir::open(path, true).map(Some);
    }
    if DataDir::is_in_use(path) {
        return Err(BootError::InUse(path.to_owned()));
    }
    Err(BootError::Owner { path: store, owner, user })
}
