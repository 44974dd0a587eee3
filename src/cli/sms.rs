//! `postrider sms`: sets, shows and removes the SMS gateway of a workspace.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use postrider_actors::domain::WorkspaceId;
use reqwest::Method;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::secret::Source;
use super::table::{self, Column};

const GATEWAY: [Column; 5] = [
    ("KIND", "/kind"),
    ("URL", "/url"),
    ("SENDER", "/sender"),
    ("CALLBACK", "/callback_path"),
    ("CREATED", "/created_at"),
];

const SECRET: [Column; 1] = [("SECRET", "/secret")];

#[derive(Debug, Subcommand)]
pub(crate) enum SmsCommand {
    /// Set the gateway that one-time passwords go to by SMS; a secret made for it is shown, this
    /// once
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show the gateway, without its secret
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Remove the gateway; no SMS is sent any more
    Delete {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
}

/// A gateway to be.
#[derive(Args)]
pub(crate) struct GatewayArgs {
    /// What it is: requests to --url, or SMS that stand in the sandbox's messages
    #[arg(long, value_parser = ["http", "sandbox"], default_value = "http")]
    kind: String,
    /// Where SMS are posted
    #[arg(long, required_unless_present = "kind", required_if_eq("kind", "http"))]
    url: Option<String>,
    /// Whom SMS come from
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// `-` reads from standard input what signs requests and receipts, such as whsec_…; left out:
    /// that of POSTRIDER_SMS_SECRET, or one that the server makes
    #[arg(long, value_name = "-")]
    secret: Option<String>,
    /// A file whose first line is that secret
    #[arg(long, value_name = "FILE", conflicts_with = "secret")]
    secret_file: Option<PathBuf>,
}

impl std::fmt::Debug for GatewayArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayArgs").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Runs `postrider sms`.
pub(crate) async fn run(group: Group<SmsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let place = |workspace: WorkspaceId| format!("/{workspace}/sms");
    let (answer, shown) = match group.command {
        SmsCommand::Set { workspace, gateway } => {
            let secret = Source {
                flag: "secret",
                given: gateway.secret.as_deref(),
                file: gateway.secret_file.as_deref(),
                variable: "POSTRIDER_SMS_SECRET",
            };
            let secret = secret.read()?;
            // The server treats null like a missing field.
            let body = json!({
                "kind": gateway.kind,
                "url": gateway.url,
                "sender": gateway.sender,
                "secret": secret.as_ref().map(|secret| secret.reveal()),
            });
            let set = client.call(Method::PUT, &place(workspace), Some(&body)).await?;
            let mut shown = table::record(&set, &GATEWAY);
            if set["secret"].is_string() {
                shown = table::record(&set, &[&SECRET[..], &GATEWAY].concat());
                shown.push_str("Keep the secret now: it is not shown again.\n");
            }
            (set, shown)
        }
        SmsCommand::Show { workspace } => {
            let found = client.call(Method::GET, &place(workspace), None).await?;
            let shown = table::record(&found, &GATEWAY);
            (found, shown)
        }
        SmsCommand::Delete { workspace } => {
            let deleted = workspace.to_string();
            client.call(Method::DELETE, &place(workspace), None).await?;
            let shown = format!("deleted the SMS gateway of {deleted}\n");
            (json!({ "deleted": deleted }), shown)
        }
    };
    print(group.remote.json, &answer, &shown)
}
