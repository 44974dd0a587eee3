//! The reasons why a CSV file, its header or one of its lines is refused.

use std::path::{Path, PathBuf};

/// The reason why a file was not imported or exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {what}", path = .path.display())]
    Csv { path: PathBuf, what: String },
    #[error("{path}: {source}", path = .path.display())]
    Columns { path: PathBuf, source: ColumnsError },
    #[error(
        "{path} belongs to another import: {why}; remove it to import all lines",
        path = .path.display()
    )]
    State { path: PathBuf, why: &'static str },
    #[error(
        "{path}: --refused must name another file than the imported file and the files of its \
         progress",
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

/// The reason why the header is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ColumnsError {
    #[error("the first line must name the columns, and `name` must be one of them")]
    NoName,
    #[error(
        "unknown column `{0}`; the columns are name, phone, email, tags, custom_fields, \
         custom.KEY, and id, created_at, updated_at, which are ignored"
    )]
    Unknown(String),
    #[error("the column `{0}` appears twice")]
    Twice(String),
}

/// The reason why a line is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineRefusal {
    /// The field, or empty when the whole line is refused.
    pub(super) field: String,
    pub(super) reason: String,
}

impl LineRefusal {
    pub(super) fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }
}
