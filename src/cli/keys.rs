//! `postrider keys`: creates, lists and revokes API keys.

use clap::Subcommand;
use postrider_actors::domain::{KeyId, Scope, WorkspaceId};
use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::{listed, print};
use super::remote::Group;
use super::table::{self, Column};

const KEY: [Column; 5] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("PREFIX", "/prefix"),
    ("SCOPES", "/scopes"),
    ("CREATED", "/created_at"),
];

const NEW_KEY: [Column; 4] =
    [("KEY", "/key"), ("ID", "/id"), ("NAME", "/name"), ("SCOPES", "/scopes")];

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make an API key and show it, this once
    Create {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name, for people
        #[arg(long)]
        name: String,
        /// What it allows, such as messaging:send; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
        scopes: Vec<Scope>,
    },
    /// List the API keys, without the keys themselves
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Revoke an API key, at once
    Revoke {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        key_id: KeyId,
    },
}

/// Runs `postrider keys`.
pub(crate) async fn run(group: Group<KeysCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        KeysCommand::Create { workspace, name, scopes } => {
            let scopes: Vec<_> = scopes.into_iter().map(Scope::as_str).collect();
            let body = json!({ "name": name, "scopes": scopes });
            let path = format!("/{workspace}/keys");
            let made = client.call(Method::POST, &path, Some(&body)).await?;
            let mut shown = table::record(&made, &NEW_KEY);
            shown.push_str("Keep the key now: it is not shown again.\n");
            (made, shown)
        }
        KeysCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/keys"), &KEY).await?
        }
        KeysCommand::Revoke { workspace, key_id } => {
            client.call(Method::DELETE, &format!("/{workspace}/keys/{key_id}"), None).await?;
            (json!({ "revoked": key_id.to_string() }), format!("revoked {key_id}\n"))
        }
    };
    print(group.remote.json, &answer, &shown)
}
