//! Pure: the error of the store's port, and the conversion of its log's errors.

use postrider_log::{AppendError, BodyError, ClaimError, EncodeError, LogError, Position};

/// The reason why a store could not carry out a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the database failed. The commit in flight may or may not be durable.
    ///
    /// Commits that were acknowledged before are durable. Every call returns this until
    /// [`Log::reopen`] succeeds.
    ///
    /// [`Log::reopen`]: crate::Log::reopen
    #[error("the store failed: {0}")]
    Failed(String),
    /// The bytes on disk are not those that were written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote data that this one does not know.
    #[error("it was written by a newer version: {0}")]
    Newer(String),
    /// The log ends before an acknowledged position.
    #[error("the log ends at {last}, but {applied} was acknowledged")]
    Lost {
        /// The last position of the log.
        last: Position,
        /// The position that was acknowledged.
        applied: Position,
    },
    /// Another process has the data directory open.
    #[error("the data directory is in use by another process")]
    Locked,
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Failed(_) => Self::Failed(error.to_string()),
            LogError::Damaged { .. } => Self::Damaged(error.to_string()),
            LogError::Trimmed { asked, .. } => Self::Damaged(format!(
                "{error}: what follows entry {} is missing",
                asked.previous()
            )),
            LogError::Newer { .. } => Self::Newer(error.to_string()),
            LogError::Locked => Self::Locked,
            LogError::Lost { last, applied } => Self::Lost { last, applied },
        }
    }
}

impl From<AppendError> for StoreError {
    fn from(error: AppendError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<EncodeError> for StoreError {
    fn from(error: EncodeError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ClaimError> for StoreError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Log(error) => error.into(),
            ClaimError::Append(error) => error.into(),
            ClaimError::Encode(error) => error.into(),
        }
    }
}

impl From<BodyError> for StoreError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Damaged(_) => Self::Damaged(error.to_string()),
            BodyError::Newer { .. } => Self::Newer(error.to_string()),
        }
    }
}
