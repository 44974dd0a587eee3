//! Pure: the errors of the store's port.

use postrider_log::Position;

/// The reason why a store could not carry out a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the database failed. The commit in flight may or may not be durable.
    ///
    /// Commits that were acknowledged before are. Every call returns this until [`Log::reopen`]
    /// succeeds.
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
