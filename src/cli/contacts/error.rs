//! The reasons why an import or export of contacts fails.

use std::path::{Path, PathBuf};

use super::columns::ColumnsError;

/// The reason why a file was not imported or exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {what}", path = .path.display())]
    Csv { path: PathBuf, what: String },
    #[error("{path}: {source}", path = .path.display())]
    Columns { path: PathBuf, source: ColumnsError },
    #[error("{path} is of another import: {why}; remove it to import all lines", path = .path.display())]
    State { path: PathBuf, why: &'static str },
    #[error(
        "{path}: --refused must name another file than the one that is imported and what is kept \
         beside it",
        path = .path.display()
    )]
    RefusedIsInput { path: PathBuf },
    #[error("{refused} lines were refused")]
    Refused { refused: u64 },
}

impl ImportError {
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn csv(path: &Path, error: &csv::Error) -> Self {
        Self::Csv { path: path.to_owned(), what: error.to_string() }
    }
}
