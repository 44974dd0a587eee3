//! `postrider tokens`: creates, lists and revokes admin tokens.

use clap::Subcommand;
use postrider_actors::domain::{AdminTokenId, Timestamp};
use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::{listed_of_server, print};
use super::remote::Group;
use super::table::{self, Column};

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
pub(crate) enum TokensCommand {
    /// Make an admin token and show it, this once
    Create {
        /// Whose it is, for people
        #[arg(long)]
        name: String,
        /// From when on it does not work any more, such as 2027-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<Timestamp>,
    },
    /// List the admin tokens that were made, without the tokens themselves
    List,
    /// Revoke an admin token, at once
    Revoke {
        /// Its id, as `list` shows it
        token_id: AdminTokenId,
    },
}

/// Runs `postrider tokens`.
pub(crate) async fn run(group: Group<TokensCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        TokensCommand::Create { name, expires } => {
            let body = json!({ "name": name, "expires_at": expires.map(|at| at.to_string()) });
            let made = client.administer(Method::POST, "/tokens", Some(&body)).await?;
            let mut shown = table::record(&made, &NEW_TOKEN);
            shown.push_str("Keep the token now: it is not shown again.\n");
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
