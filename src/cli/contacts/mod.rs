//! `postrider contacts …`: import from and export to CSV files.

mod columns;
mod export;
mod import;
mod lines;
mod refused;
mod state;

use std::path::{Path, PathBuf};

use columns::ColumnsError;

use super::CliError;
use super::api::Api;
use super::contacts_args::{ContactsArgs, ContactsCommand};

/// Why a file was not imported, or not exported to.
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
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    fn csv(path: &Path, error: &csv::Error) -> Self {
        Self::Csv { path: path.to_owned(), what: error.to_string() }
    }
}

/// `postrider contacts …`
pub(crate) async fn run(args: ContactsArgs) -> Result<(), CliError> {
    let api = Api::new(&args.caller)?;
    let working = async {
        match args.command {
            ContactsCommand::Import { file, refused } => {
                import::run(&api, &file, refused.as_deref()).await
            }
            ContactsCommand::Export { file } => export::run(&api, file.as_deref()).await,
        }
    };
    tokio::select! {
        done = working => done,
        _ = tokio::signal::ctrl_c() => Err(CliError::Held),
    }
}
