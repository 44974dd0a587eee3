//! `postrider workspaces`, `limits` and `credits`: workspaces, their limits and their balances.

use clap::Subcommand;
use postrider_actors::domain::{Limits, WorkspaceId};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed, print};
use super::server_args::Group;
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
    /// Create a workspace
    Create {
        /// The ID of the workspace: 1 to 40 of a-z, 0-9 and -
        id: WorkspaceId,
        /// The name of the workspace; by default, its ID
        #[arg(long)]
        name: Option<String>,
    },
    /// List the workspaces
    List,
    /// Show a workspace
    Show {
        /// The ID of the workspace
        id: WorkspaceId,
    },
    /// Delete a workspace and everything in it permanently
    Delete {
        /// The ID of the workspace
        id: WorkspaceId,
        /// The name or the ID of the workspace, to confirm the deletion
        #[arg(long)]
        name: String,
    },
}

/// Runs `postrider workspaces`.
pub(crate) async fn run(group: Group<WorkspacesCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
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

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits of a workspace; 0 means no limit
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set limits of a workspace
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// A limit, such as otp_per_phone_10m=10; 0 means no limit
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = parse_limit)]
        limits: Vec<(&'static str, u64)>,
    },
}

/// The reason why an argument is not a limit.
#[derive(Debug, thiserror::Error)]
enum LimitError {
    #[error("must be NAME=VALUE")]
    Form,
    #[error("there is no such limit; the limits are {}", Limits::NAMES.join(", "))]
    Name,
    #[error("the value must be a whole number from 0 to {0}")]
    Value(u64),
}

/// Parses NAME=VALUE. The server ignores unknown names, but here one is a mistake.
fn parse_limit(text: &str) -> Result<(&'static str, u64), LimitError> {
    let (name, value) = text.split_once('=').ok_or(LimitError::Form)?;
    let name = Limits::NAMES.iter().find(|known| **known == name).ok_or(LimitError::Name)?;
    let max = Limits::max_of(name);
    let value = value.parse().ok().filter(|value| *value <= max);
    Ok((name, value.ok_or(LimitError::Value(max))?))
}

/// Runs `postrider limits`.
pub(crate) async fn run_limits(group: Group<LimitsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let answer = match group.command {
        LimitsCommand::Show { workspace } => {
            let mut found = client.call(Method::GET, &format!("/{workspace}"), None).await?;
            found["limits"].take()
        }
        LimitsCommand::Set { workspace, limits } => {
            let body: Map<_, _> =
                limits.into_iter().map(|(name, limit)| (name.to_owned(), limit.into())).collect();
            let path = format!("/{workspace}/limits");
            client.call(Method::PUT, &path, Some(&Value::Object(body))).await?
        }
    };
    let lines = Limits::NAMES.iter().map(|name| json!({ "name": name, "limit": answer[name] }));
    let lines: Vec<_> = lines.collect();
    let shown = table::rows(&lines, &[("LIMIT", "/name"), ("VALUE", "/limit")]);
    print(group.remote.json, &answer, &shown)
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreditsCommand {
    /// Set the credits of a workspace
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The number of credits: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = parse_credits)]
        credits: u64,
    },
    /// Add credits to a workspace
    Add {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The number of credits: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = parse_credits)]
        credits: u64,
    },
}

fn parse_credits(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "must be a whole number, 0 or more")
}

/// Runs `postrider credits`.
pub(crate) async fn run_credits(group: Group<CreditsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
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
