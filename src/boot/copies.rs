//! Locks the directories that copies are made from, and those that are restored from copies.

use std::path::Path;

use postrider_actors::MasterKeys;
use postrider_actors::copies::{
    CopyError, DataSource, Import, Made, Target, import_archive, restore_backup,
};
use postrider_actors::store::Position;
use postrider_actors::store::blobs::FileBlobs;
use postrider_actors::store::directory::MEDIA;

use super::directory::DataDir;
use super::error::BootError;
use super::secrets::known_master_keys;
use super::stopped::lock;
use crate::settings::Settings;

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
        let _locked = lock(path).map_err(refused)?.ok_or_else(none)?;
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
            return Err(refused(BootError::InUse(path.clone())));
        }
        // Checked before it is locked: locking closes a directory to others, and this may be the
        // wrong one.
        Import::must_be_free(path)?;
        let directory = DataDir::open(path, settings.server.data_group_access).map_err(refused)?;
        let keys = known_master_keys(&directory, &settings.secrets).map_err(refused)?;
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

fn refused(error: BootError) -> CopyError {
    let message = error.to_string();
    match error {
        BootError::InUse(_) => CopyError::InUse(message),
        BootError::File { path, source } => CopyError::io(&path, &source),
        _ => CopyError::Io(message),
    }
}
