//! `postrider limits`: shows and sets the limits of a workspace.

use clap::Subcommand;
use postrider_actors::domain::{Limits, WorkspaceId};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table;

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force; 0 is no limit
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set limits
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Such as otp_per_phone_10m=10; 0 is no limit
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = limit)]
        limits: Vec<(&'static str, u64)>,
    },
}

/// The reason why an argument is not a limit.
#[derive(Debug, thiserror::Error)]
enum LimitError {
    #[error("must be NAME=VALUE")]
    Form,
    #[error("there is no such limit; there are {}", Limits::NAMES.join(", "))]
    Name,
    #[error("the value must be a whole number from 0 to {0}")]
    Value(u64),
}

/// Parses NAME=VALUE. The server ignores unknown names, but here one is a mistake.
fn limit(text: &str) -> Result<(&'static str, u64), LimitError> {
    let (name, value) = text.split_once('=').ok_or(LimitError::Form)?;
    let name = Limits::NAMES.iter().find(|known| **known == name).ok_or(LimitError::Name)?;
    let max = Limits::max_of(name);
    let value = value.parse().ok().filter(|value| *value <= max);
    Ok((name, value.ok_or(LimitError::Value(max))?))
}

/// Runs `postrider limits`.
pub(crate) async fn run(group: Group<LimitsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
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
