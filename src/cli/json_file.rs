//! Reads a file of JSON, or standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The maximum number of bytes that are read: fifty languages of the longest texts are less.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The reason why JSON cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonFileError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} is not JSON: {source}", path = .path.display())]
    Json { path: PathBuf, source: serde_json::Error },
}

/// Reads JSON from a file; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Value, JsonFileError> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(BYTES_MAX).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text))
    };
    read.map_err(|source| JsonFileError::File { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| JsonFileError::Json { path: path.to_owned(), source })
}
