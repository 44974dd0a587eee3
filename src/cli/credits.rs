//! `postrider credits`: sets a balance or adds to it.

use clap::Subcommand;
use postrider_actors::domain::WorkspaceId;
use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table;

#[derive(Debug, Subcommand)]
pub(crate) enum CreditsCommand {
    /// Set the balance
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// How many: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = credits)]
        credits: u64,
    },
    /// Add to the balance
    Add {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// How many: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = credits)]
        credits: u64,
    },
}

fn credits(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a whole number, 0 or more")
}

/// Runs `postrider credits`.
pub(crate) async fn run(group: Group<CreditsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (method, workspace, body) = match group.command {
        CreditsCommand::Set { workspace, credits } => {
            (Method::PUT, workspace, json!({ "credits": credits }))
        }
        CreditsCommand::Add { workspace, credits } => {
            (Method::POST, workspace, json!({ "add": credits }))
        }
    };
    let answer = client.call(method, &format!("/{workspace}/credits"), Some(&body)).await?;
    let shown = table::record(&answer, &[("CREDITS", "/credits")]);
    print(group.remote.json, &answer, &shown)
}
