//! fjall's errors in the port's words.

use ::fjall::{Error, LsmError};

use crate::StoreError;

/// An error while writing: whatever it says, the outcome is unknown.
pub(super) fn failed(error: Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// An error while opening or reading: what is on disk may be wrong.
pub(super) fn damaged_or_failed(error: Error) -> StoreError {
    match error {
        Error::Locked => StoreError::Locked,
        Error::Poisoned | Error::KeyspaceDeleted => failed(error),
        Error::Io(_) | Error::Storage(LsmError::Io(_)) if !is_garbage(&error) => failed(error),
        _ => StoreError::Damaged(error.to_string()),
    }
}

/// Whether an I/O error means that bytes were read and made no sense, or were too few.
fn is_garbage(error: &Error) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let (Error::Io(error) | Error::Storage(LsmError::Io(error))) = error else {
        return false;
    };
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
