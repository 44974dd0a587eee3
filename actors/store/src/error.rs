//! What went wrong below the port.

use postrider_domain::{Unavailable, UnavailableReason};

use crate::writer::CommitError;

/// What went wrong below the port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the database refused. What was being committed may or may not be durable; what
    /// was acknowledged before is. The store answers this until [`Log::reopen`] succeeds.
    ///
    /// [`Log::reopen`]: crate::Log::reopen
    #[error("the store failed: {0}")]
    Failed(String),
    /// What is on disk cannot be read as what was written there.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Another process has the data directory open.
    #[error("the data directory is in use by another process")]
    Locked,
}

impl From<CommitError> for Unavailable {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full | CommitError::TooLarge => {
                Self::because(UnavailableReason::Overloaded)
            }
            CommitError::Closed => Self::because(UnavailableReason::Draining),
            CommitError::Store(error) => {
                tracing::error!(%error, "a record was not stored");
                Self::because(UnavailableReason::Storage)
            }
        }
    }
}
