//! `postrider workspaces`: creates and shows workspaces.

use clap::Subcommand;
use postrider_actors::domain::WorkspaceId;
use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::{listed, print};
use super::remote::Group;
use super::table::{self, Column};

const WORKSPACE: [Column; 10] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("CREDITS", "/credits"),
    ("KEYS", "/counts/keys"),
    ("NUMBERS", "/counts/numbers"),
    ("OTPS", "/counts/otps"),
    ("BROADCASTS", "/usage/broadcasts"),
    ("BYTES", "/usage/bytes"),
    ("CREATED", "/created_at"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspacesCommand {
    /// Make a workspace
    Create {
        /// 1 to 40 of a-z, 0-9 and -
        id: WorkspaceId,
        /// Its name, for people; left out: its id
        #[arg(long)]
        name: Option<String>,
    },
    /// List the workspaces
    List,
    /// Show a workspace
    Show {
        /// Its id
        id: WorkspaceId,
    },
    /// Delete a workspace with everything in it, for good
    Delete {
        /// Its id
        id: WorkspaceId,
        /// Its name or id, repeated
        #[arg(long)]
        name: String,
    },
}

/// Runs `postrider workspaces`.
pub(crate) async fn run(group: Group<WorkspacesCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        WorkspacesCommand::Create { id, name } => {
            let name = name.unwrap_or_else(|| id.to_string());
            let body = json!({ "id": id, "name": name });
            let made = client.call(Method::POST, "", Some(&body)).await?;
            let shown = table::record(&made, &WORKSPACE);
            (made, shown)
        }
        WorkspacesCommand::List => listed(&client, "", &WORKSPACE).await?,
        WorkspacesCommand::Show { id } => {
            let found = client.call(Method::GET, &format!("/{id}"), None).await?;
            let mut shown = table::record(&found, &WORKSPACE);
            if let Some(reason) = found["parked_reason"].as_str() {
                shown.push_str(&format!("parked because {reason}\n"));
            }
            (found, shown)
        }
        WorkspacesCommand::Delete { id, name } => {
            let body = json!({ "name": name });
            client.call(Method::DELETE, &format!("/{id}"), Some(&body)).await?;
            (json!({ "deleted": id }), format!("deleted {id}\n"))
        }
    };
    print(group.remote.json, &answer, &shown)
}
