//! Maps fjall's errors to those of the port.

use ::fjall::{Error, LsmError};

use crate::StoreError;

/// Maps an error of a write. Whatever the error, the outcome of the write is unknown.
pub(super) fn failed(error: Error) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// Maps an error of opening or reading, which may mean that the files are damaged.
pub(super) fn damaged_or_failed(error: Error) -> StoreError {
    match error {
        Error::Locked => StoreError::Locked,
        Error::Poisoned | Error::KeyspaceDeleted => failed(error),
        Error::Io(_) | Error::Storage(LsmError::Io(_)) if !is_garbage(&error) => failed(error),
        _ => StoreError::Damaged(error.to_string()),
    }
}

/// Returns whether an I/O error means that the bytes read were invalid or too few.
fn is_garbage(error: &Error) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let (Error::Io(error) | Error::Storage(LsmError::Io(error))) = error else {
        return false;
    };
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
