//! `postrider numbers`: connects, lists, updates and disconnects messaging numbers.

use clap::{Args, Subcommand};
use postrider_actors::domain::{NumberId, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::{listed, print};
use super::remote::Group;
use super::table::{self, Column};

const NUMBER: [Column; 7] = [
    ("ID", "/id"),
    ("KIND", "/kind"),
    ("PHONE", "/phone"),
    ("POOL", "/pool"),
    ("PORTFOLIO", "/portfolio_id"),
    ("CALLBACK", "/callback_path"),
    ("CREATED", "/created_at"),
];

/// The columns of a list: a number and its condition.
const LISTED: [Column; 10] = [
    ("ID", "/id"),
    ("KIND", "/kind"),
    ("PHONE", "/phone"),
    ("STATUS", "/status"),
    ("POOL", "/pool"),
    ("PACE", "/pace/set"),
    ("QUALITY", "/quality"),
    ("PORTFOLIO", "/portfolio_id"),
    ("CALLBACK", "/callback_path"),
    ("CREATED", "/created_at"),
];

const PROBLEM: [Column; 3] = [("PROBLEM", "/code"), ("WHAT", "/message"), ("FIX", "/fix")];

#[derive(Debug, Subcommand)]
pub(crate) enum NumbersCommand {
    /// Connect a number
    Connect {
        #[arg(long, short)]
        workspace: WorkspaceId,
        #[command(flatten)]
        number: NumberArgs,
    },
    /// List the numbers, each with whether it sends, its messages a second and its quality
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Give a number other secrets or another pace; one that has stopped is tried at once
    Update {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        number_id: NumberId,
        #[command(flatten)]
        change: NumberChangeArgs,
    },
    /// Ask the provider how a number does, and show what is wrong with it
    Check {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        number_id: NumberId,
    },
    /// Disconnect a number
    Disconnect {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        number_id: NumberId,
    },
}

/// A number to be connected.
#[derive(Args)]
pub(crate) struct NumberArgs {
    /// What is behind it
    #[arg(long, value_parser = ["sandbox", "cloud_api"])]
    pub(crate) kind: String,
    /// Most messages in a second; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
    /// Whether it may be in the pool of numbers that messages leave through
    #[arg(long, value_name = "BOOL")]
    pub(crate) pool: Option<bool>,
    /// Whose daily budget of recipients it shares, if not that of its account
    #[arg(long, value_name = "ID")]
    pub(crate) portfolio: Option<String>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

/// What a number of the chat-app channel needs.
#[derive(Args)]
#[group(id = "account")]
pub(crate) struct AccountArgs {
    /// The phone number itself, such as +15550001111
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone: Option<String>,
    /// The number's id at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone_number_id: Option<String>,
    /// The id of its business account at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) account_id: Option<String>,
    /// The bearer token of the provider's interface
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_TOKEN",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) channel_token: Option<String>,
    /// What the provider signs callbacks with
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) app_secret: Option<String>,
    /// What the provider shows when it verifies the callback's address; of your choice
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_VERIFY_TOKEN",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) verify_token: Option<String>,
}

/// What is to change of a number.
#[derive(Args)]
pub(crate) struct NumberChangeArgs {
    /// Another bearer token of the provider's interface
    #[arg(long, value_name = "TOKEN", env = "POSTRIDER_CHANNEL_TOKEN", hide_env_values = true)]
    pub(crate) channel_token: Option<String>,
    /// Another secret that the provider signs callbacks with
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true
    )]
    pub(crate) app_secret: Option<String>,
    /// Another token that the provider shows when it verifies the callback's address
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_VERIFY_TOKEN",
        hide_env_values = true
    )]
    pub(crate) verify_token: Option<String>,
    /// Most messages in a second; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
    /// Whether it may be in the pool of numbers that messages leave through
    #[arg(long, value_name = "BOOL")]
    pub(crate) pool: Option<bool>,
    /// Whose daily budget of recipients it shares, if not that of its account
    #[arg(long, value_name = "ID", conflicts_with = "own_portfolio")]
    pub(crate) portfolio: Option<String>,
    /// Have it share the daily budget of its account again
    #[arg(long)]
    pub(crate) own_portfolio: bool,
}

impl std::fmt::Debug for NumberChangeArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberChangeArgs").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NumberArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberArgs").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Formats the problems that a check found, for people.
fn problems(checked: &Value) -> String {
    match checked["problems"].as_array().map(Vec::as_slice) {
        None | Some([]) => "nothing is wrong with the number\n".to_owned(),
        Some(problems) => table::rows(problems, &PROBLEM),
    }
}

/// Builds the body of a change of a number: omitted fields keep their values.
fn changes(change: NumberChangeArgs) -> Value {
    let mut body = json!({
        "token": change.channel_token,
        "app_secret": change.app_secret,
        "verify_token": change.verify_token,
        "pool": change.pool,
    });
    if change.own_portfolio {
        body["portfolio_id"] = Value::Null;
    } else if let Some(portfolio) = change.portfolio {
        body["portfolio_id"] = portfolio.into();
    }
    // Null would remove the number's own figure.
    if let Some(figure) = change.messages_per_second {
        body["messages_per_second"] = figure.into();
    }
    body
}

/// Runs `postrider numbers`.
pub(crate) async fn run(group: Group<NumbersCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        NumbersCommand::Connect { workspace, number } => {
            let path = format!("/{workspace}/numbers");
            let account = number.account;
            // The server treats null like a missing field.
            let body = json!({
                "kind": number.kind,
                "messages_per_second": number.messages_per_second,
                "pool": number.pool,
                "portfolio_id": number.portfolio,
                "phone": account.phone,
                "phone_number_id": account.phone_number_id,
                "account_id": account.account_id,
                "token": account.channel_token,
                "app_secret": account.app_secret,
                "verify_token": account.verify_token,
            });
            let made = client.call(Method::POST, &path, Some(&body)).await?;
            let shown = table::record(&made, &NUMBER);
            (made, shown)
        }
        NumbersCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/numbers"), &LISTED).await?
        }
        NumbersCommand::Update { workspace, number_id, change } => {
            let path = format!("/{workspace}/numbers/{number_id}");
            let changed = client.call(Method::PATCH, &path, Some(&changes(change))).await?;
            let shown = table::record(&changed, &NUMBER);
            (changed, shown)
        }
        NumbersCommand::Check { workspace, number_id } => {
            let path = format!("/{workspace}/numbers/{number_id}/check");
            let checked = client.call(Method::POST, &path, None).await?;
            let shown = problems(&checked);
            (checked, shown)
        }
        NumbersCommand::Disconnect { workspace, number_id } => {
            let path = format!("/{workspace}/numbers/{number_id}");
            client.call(Method::DELETE, &path, None).await?;
            (
                json!({ "disconnected": number_id.to_string() }),
                format!("disconnected {number_id}\n"),
            )
        }
    };
    print(group.remote.json, &answer, &shown)
}
