//! The data of a stopped server: reads, checks, repairs and rebases it, and locks it for copies.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use postrider_actors::copies::{
    CopyError, DataSource, Import, Made, Target, import_archive, restore_backup,
};
use postrider_actors::store::Position;
use postrider_actors::store::blobs::FileBlobs;
use postrider_actors::store::check::{self, DirectoryCheck};
use postrider_actors::store::directory::MEDIA;
use postrider_actors::store::repair::{self, Plan, RepairError, Repaired};
use postrider_actors::{AuditCheck, ClockRebase, MasterKeys, StoredClock, repair_directory};

use super::directory::DataDir;
use super::error::BootError;
use super::secrets::known_master_keys;
use crate::settings::Settings;

/// Returns the clock of the data in `path`; `None` when a server uses it, or when there is no data.
///
/// # Errors
/// [`BootError`]: the directory cannot be used or its data cannot be read.
pub fn stored_clock(path: &Path) -> Result<Option<StoredClock>, BootError> {
    match lock_stopped(path) {
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
    let _locked = lock_stopped(path)?;
    Ok(postrider_actors::rebase_clock(path)?)
}

/// Verifies the whole audit log of the data in `path`.
///
/// # Errors
/// [`BootError`]: a server uses the directory, it cannot be used, or its data cannot be read.
pub fn verify_stored_audit(path: &Path) -> Result<AuditCheck, BootError> {
    let _locked = lock_stopped(path)?;
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
    let _locked = lock_stopped(path)?.ok_or_else(|| BootError::NoData(path.to_owned()))?;
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
    let _locked = lock_stopped(path)?.ok_or_else(|| BootError::NoData(path.to_owned()))?;
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

/// The data of a stopped server. While this value lives, no server can start on it.
pub struct StoppedData {
    source: DataSource,
    contents: FileBlobs,
    _locked: DataDir,
}

impl StoppedData {
    /// Opens the data in a directory.
    ///
    /// # Errors
    /// [`CopyError`]: a server uses it, there is no data, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, CopyError> {
        let none = || CopyError::Io(format!("there is no data in {}", path.display()));
        let _locked = lock_stopped(path).map_err(copy_error)?.ok_or_else(none)?;
        let contents = FileBlobs::at(&path.join(MEDIA));
        Ok(Self { source: DataSource::stopped(path)?, contents, _locked })
    }

    /// Returns the data to copy from.
    #[must_use]
    pub const fn source(&self) -> &DataSource {
        &self.source
    }

    /// Returns the contents of files.
    #[must_use]
    pub const fn contents(&self) -> &FileBlobs {
        &self.contents
    }
}

/// A locked directory into which a copy is restored.
pub struct CopyTarget {
    directory: DataDir,
    keys: Option<MasterKeys>,
    segment_bytes: u64,
}

impl CopyTarget {
    /// Takes the directory of the settings, which must have no data.
    ///
    /// # Errors
    /// [`CopyError::NotEmpty`], [`CopyError::InUse`], and others.
    pub fn open(settings: &Settings) -> Result<Self, CopyError> {
        let path = &settings.server.data_dir;
        if DataDir::is_in_use(path) {
            return Err(copy_error(BootError::InUse(path.clone())));
        }
        // Checked before it is locked: locking closes a directory to others, and this may be the
        // wrong one.
        Import::must_be_free(path)?;
        let directory =
            DataDir::open(path, settings.server.data_group_access).map_err(copy_error)?;
        let keys = known_master_keys(&directory, &settings.secrets).map_err(copy_error)?;
        Ok(Self { directory, keys, segment_bytes: settings.storage.segment_bytes })
    }

    /// Returns whether there is a master key to compare the data with.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Restores an archive, with the contents of files from a directory. Blocks.
    ///
    /// # Errors
    /// [`CopyError`]; nothing is restored then.
    pub fn import(&self, archive: &Path, contents: Option<&Path>) -> Result<Made, CopyError> {
        import_archive(archive, Target { contents, ..self.target(false) })
    }

    /// Restores a backup, all of it or up to a position. Blocks.
    ///
    /// # Errors
    /// [`CopyError`]; nothing is restored then.
    pub fn restore(
        &self,
        from: &Path,
        position: Option<u64>,
        held: bool,
    ) -> Result<Made, CopyError> {
        restore_backup(from, position.map(Position), self.target(held))
    }

    fn target(&self, held: bool) -> Target<'_> {
        Target {
            dir: self.directory.path(),
            keys: self.keys.as_ref(),
            segment_bytes: self.segment_bytes,
            held,
            contents: None,
        }
    }
}

/// Locks a directory with data; `None` if no data can be seen.
///
/// Opening a store writes files even to read it, so the user that owns it must do it. Otherwise its
/// server could not start.
fn lock_stopped(path: &Path) -> Result<Option<DataDir>, BootError> {
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

fn copy_error(error: BootError) -> CopyError {
    let message = error.to_string();
    match error {
        BootError::InUse(_) => CopyError::InUse(message),
        BootError::File { path, source } => CopyError::io(&path, &source),
        _ => CopyError::Io(message),
    }
}
