//! The reasons for which an engine does not start.

use std::time::Duration;

use postrider_store::StoreError;
use postrider_store::directory::{DirectoryError, FORMAT};

/// The reason for which an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process uses the data directory.
    #[error("the data directory is in use by another process")]
    Locked,
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(StoreError),
    /// The data directory cannot be used.
    #[error("the data directory cannot be used: {0}")]
    Directory(String),
    /// The data was written under another master key of this version. With this key, right codes
    /// would be refused, and stored secrets could not be read.
    #[error("master key version {version} is not the one that the data was written under")]
    MasterKeyWrong {
        /// The version of the key.
        version: u8,
    },
    /// The newest master key that the data was written under was not given.
    #[error("master key version {version}, that the data was written under, was not given")]
    MasterKeyMissing {
        /// The version of the key.
        version: u8,
    },
    /// A newer version has written some of the data in a format that this one does not know.
    #[error(
        "{what} has format {found}, and this version knows formats up to {known}: start the version \
         that wrote it, or a newer one"
    )]
    NewerData {
        /// The data with this format.
        what: &'static str,
        /// Its format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// Engine time was moved ahead by this duration, and the options do not allow it.
    #[error("its time was moved ahead by {0:?}")]
    ClockMoved(Duration),
    /// The directory of the contents of files cannot be used.
    #[error("the directory of media cannot be used: {0}")]
    Media(String),
    /// An actor did not start.
    #[error("an actor did not start: {0}")]
    Actor(String),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked => Self::Locked,
            error => Self::Store(error),
        }
    }
}

impl From<DirectoryError> for StartError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Store(error) => error.into(),
            DirectoryError::NewerFormat { found } => {
                Self::NewerData { what: "the data directory", found, known: FORMAT }
            }
            error => Self::Directory(error.to_string()),
        }
    }
}
