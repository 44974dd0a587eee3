//! `postrider keys` and `tokens`: creates, lists and revokes API keys and admin tokens.

use clap::Subcommand;
use postrider_actors::domain::{AdminTokenId, KeyId, Scope, Timestamp, WorkspaceId};
use reqwest::Method;
use serde_json::json;

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed, listed_of_server, print};
use super::server_args::Group;
use super::table::{self, Column};

const KEY: [Column; 8] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("PREFIX", "/prefix"),
    ("SCOPES", "/scopes"),
    ("CREATED", "/created_at"),
    ("EXPIRES", "/expires_at"),
    ("LAST USED", "/last_used_at"),
    ("ALLOWED", "/allowed_subnets"),
];

const NEW_KEY: [Column; 6] = [
    ("KEY", "/key"),
    ("ID", "/id"),
    ("NAME", "/name"),
    ("SCOPES", "/scopes"),
    ("EXPIRES", "/expires_at"),
    ("ALLOWED", "/allowed_subnets"),
];

const TOKEN: [Column; 5] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("PREFIX", "/prefix"),
    ("CREATED", "/created_at"),
    ("EXPIRES", "/expires_at"),
];
const NEW_TOKEN: [Column; 4] =
    [("TOKEN", "/token"), ("ID", "/id"), ("NAME", "/name"), ("EXPIRES", "/expires_at")];

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and show it once
    Create {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The name of the key
        #[arg(long)]
        name: String,
        /// A scope of the key, such as messaging:send (repeatable)
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
        scopes: Vec<Scope>,
        /// The time at which the key expires, such as 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<Timestamp>,
        /// An address or subnet from which the key works, such as 10.1.0.0/16 (repeatable)
        #[arg(long = "allow", value_name = "SUBNET", value_delimiter = ',')]
        allowed: Vec<String>,
    },
    /// List the API keys of a workspace, without their secret values
    List {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Revoke an API key immediately
    #[command(alias = "delete")]
    Revoke {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the key, as `list` shows it
        key_id: KeyId,
    },
}

/// Runs `postrider keys`.
pub(crate) async fn run(group: Group<KeysCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (answer, shown) = match group.command {
        KeysCommand::Create { workspace, name, scopes, expires, allowed } => {
            let scopes: Vec<_> = scopes.into_iter().map(Scope::as_str).collect();
            let body = json!({
                "name": name,
                "scopes": scopes,
                "expires_at": expires.map(|at| at.to_string()),
                "allowed_subnets": allowed,
            });
            let path = format!("/{workspace}/keys");
            let made = client.call(Method::POST, &path, Some(&body)).await?;
            let mut shown = table::record(&made, &NEW_KEY);
            shown.push_str("Save the key now: it is not shown again.\n");
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

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Create an admin token and show it once
    Create {
        /// The name of the person or program that uses the token
        #[arg(long)]
        name: String,
        /// The time at which the token expires, such as 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<Timestamp>,
    },
    /// List the admin tokens, without their secret values
    List,
    /// Revoke an admin token immediately
    #[command(alias = "delete")]
    Revoke {
        /// The ID of the token, as `list` shows it
        token_id: AdminTokenId,
    },
}

/// Runs `postrider tokens`.
pub(crate) async fn run_tokens(group: Group<TokensCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (answer, shown) = match group.command {
        TokensCommand::Create { name, expires } => {
            let body = json!({ "name": name, "expires_at": expires.map(|at| at.to_string()) });
            let made = client.administer(Method::POST, "/tokens", Some(&body)).await?;
            let mut shown = table::record(&made, &NEW_TOKEN);
            shown.push_str("Save the token now: it is not shown again.\n");
            (made, shown)
        }
        TokensCommand::List => listed_of_server(&client, "/tokens", &TOKEN).await?,
        TokensCommand::Revoke { token_id } => {
            client.administer(Method::DELETE, &format!("/tokens/{token_id}"), None).await?;
            (json!({ "revoked": token_id.to_string() }), format!("revoked {token_id}\n"))
        }
    };
    print(group.remote.json, &answer, &shown)
}
