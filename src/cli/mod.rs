//! The command line: `serve`, and administration of a server that runs, over HTTP.

mod api;
mod args;
mod client;
mod commands;
mod contacts;
mod contacts_args;
mod demo;
mod number_args;
mod progress;
mod serve;
mod table;
mod webhooks;

use std::path::PathBuf;

pub(crate) use args::Cli;
use args::Command;
use postrider::settings::SettingsError;
use postrider::{BootError, StopError};

/// Why a command failed: each ends the process with status 1. Mistakes in the command itself are
/// found by its parser and end it with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
    #[error(
        "no admin token: give --token or POSTRIDER_ADMIN_TOKEN, or --data-dir of the server; {path}: \
         {source}",
        path = .path.display()
    )]
    NoToken { path: PathBuf, source: std::io::Error },
    #[error(
        "no API key: give --key or POSTRIDER_API_KEY, or --data-dir of a sandbox; {path}: {source}",
        path = .path.display()
    )]
    NoKey { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Contacts(#[from] contacts::ImportError),
    #[error("interrupted; the same command goes on")]
    Held,
    #[error("cannot reach {server}: {cause}")]
    Unreachable { server: String, cause: String },
    #[error("{message} ({code})")]
    Refused { message: String, code: String },
    #[error("stopped before its end")]
    Interrupted,
    #[error("{server} answered something that is not Postrider's: {what}")]
    Answer { server: String, what: String },
}

/// Does what the command line says.
pub(crate) async fn run(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        None => serve::serve(&cli.serve).await,
        Some(Command::Serve(args)) => serve::serve(&args).await,
        Some(Command::Demo(args)) => demo::demo(&args).await,
        Some(Command::Workspaces(group)) => commands::workspaces(group).await,
        Some(Command::Keys(group)) => commands::keys(group).await,
        Some(Command::Limits(group)) => commands::limits(group).await,
        Some(Command::Destinations(group)) => commands::destinations(group).await,
        Some(Command::Credits(group)) => commands::credits(group).await,
        Some(Command::Numbers(group)) => commands::numbers(group).await,
        Some(Command::Contacts(args)) => contacts::run(args).await,
        Some(Command::Templates(group)) => commands::templates(group).await,
        Some(Command::Webhooks(group)) => webhooks::webhooks(group).await,
    }
}
