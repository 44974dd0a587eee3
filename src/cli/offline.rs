//! The common parts of commands on the directory of a stopped server.

use std::path::PathBuf;

use clap::Args;
use postrider::BootError;
use postrider_actors::StartError;
use postrider_actors::store::StoreError;
use postrider_actors::store::directory::DirectoryError;
use postrider_actors::store::repair::RepairError;
use serde_json::{Value, json};

use super::error::CliError;
use super::output::print;

/// Which directory, and how the outcome is printed.
#[derive(Debug, Args)]
pub(super) struct Directory {
    /// The data directory of a server that does not run
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl Directory {
    /// Returns the outcome. With `--json`, an error is printed as an object too.
    pub(super) fn reported<T>(&self, outcome: Result<T, BootError>) -> Result<T, CliError> {
        let error = match outcome {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if self.json {
            let object = json!({ "error": code(&error), "message": error.to_string() });
            print(true, &object, "")?;
        }
        Err(error.into())
    }

    /// Prints the outcome.
    pub(super) fn print(&self, answer: &Value, shown: &str) -> Result<(), CliError> {
        print(self.json, answer, shown)
    }
}

/// Returns the code of an error.
fn code(error: &BootError) -> &'static str {
    match error {
        BootError::InUse(_) | BootError::Engine(StartError::Locked) => "IN_USE",
        BootError::Store { source, .. } | BootError::Engine(StartError::Store(source)) => {
            of_store(source)
        }
        BootError::Engine(StartError::NewerData { .. }) => "NEWER_FORMAT",
        BootError::Directory { source, .. } => of_directory(source),
        BootError::Repair { source: RepairError::Directory(source), .. } => of_directory(source),
        BootError::Repair { .. } => "DAMAGED",
        _ => "IO",
    }
}

fn of_directory(error: &DirectoryError) -> &'static str {
    match error {
        DirectoryError::Store(source) => of_store(source),
        DirectoryError::Snapshot(_)
        | DirectoryError::Checkpoint(_)
        | DirectoryError::File { .. } => "IO",
        DirectoryError::NewerFormat { .. } => "NEWER_FORMAT",
        DirectoryError::Unclear(_) => "DAMAGED",
    }
}

const fn of_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::Failed(_) => "IO",
        StoreError::Damaged(_) => "DAMAGED",
        StoreError::Newer(_) => "NEWER_FORMAT",
        StoreError::Lost { .. } => "LOST",
        StoreError::Locked => "IN_USE",
    }
}
