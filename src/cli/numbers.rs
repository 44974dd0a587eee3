//! `postrider numbers` and `portfolios`: messaging numbers, and the daily budgets that they share.

use clap::{Args, Subcommand};
use postrider_actors::ProviderId;
use postrider_actors::domain::{NumberId, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed, print};
use super::server_args::Group;
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

const PORTFOLIO: [Column; 6] = [
    ("PORTFOLIO", "/portfolio_id"),
    ("LIMIT", "/daily_recipients"),
    ("SOURCE", "/source"),
    ("RESERVE", "/reserve_percent"),
    ("USED", "/used"),
    ("FREES", "/frees_at"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum NumbersCommand {
    /// Connect a number to a workspace
    #[command(alias = "create")]
    Connect {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        #[command(flatten)]
        number: NumberArgs,
    },
    /// List the numbers of a workspace, with their status, pace and quality
    List {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Change the secrets, the pace, the pool or the portfolio of a number
    ///
    /// The server retries a stopped number immediately.
    Update {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the number, as `list` shows it
        number_id: NumberId,
        #[command(flatten)]
        change: NumberChangeArgs,
    },
    /// Check a number with its provider, and show its problems
    Check {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the number, as `list` shows it
        number_id: NumberId,
    },
    /// Disconnect a number from its workspace
    #[command(alias = "delete")]
    Disconnect {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the number, as `list` shows it
        number_id: NumberId,
    },
}

/// A number to be connected.
#[derive(Args)]
pub(crate) struct NumberArgs {
    /// The kind of the number
    #[arg(long, value_parser = ["sandbox", "cloud_api"])]
    pub(crate) kind: String,
    /// The maximum number of messages per second; 0 means no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
    /// Whether the number may be in the pool of numbers that send messages
    #[arg(long, value_name = "BOOL")]
    pub(crate) pool: Option<bool>,
    /// The portfolio whose daily recipient limit the number shares, instead of its account's
    #[arg(long, value_name = "ID")]
    pub(crate) portfolio: Option<String>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

/// What a number of the chat-app channel needs.
#[derive(Args)]
#[group(id = "account")]
pub(crate) struct AccountArgs {
    /// The phone number, such as +15550001111
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone: Option<String>,
    /// The ID of the number at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone_number_id: Option<String>,
    /// The ID of the business account at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) account_id: Option<String>,
    /// The access token for the provider's API
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_TOKEN",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) channel_token: Option<String>,
    /// The secret with which the provider signs callbacks
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) app_secret: Option<String>,
    /// The token that the provider sends when it verifies the callback address. You choose this
    /// token
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
    /// A new access token for the provider's API
    #[arg(long, value_name = "TOKEN", env = "POSTRIDER_CHANNEL_TOKEN", hide_env_values = true)]
    pub(crate) channel_token: Option<String>,
    /// A new secret with which the provider signs callbacks
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true
    )]
    pub(crate) app_secret: Option<String>,
    /// A new token that the provider sends when it verifies the callback address
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_VERIFY_TOKEN",
        hide_env_values = true
    )]
    pub(crate) verify_token: Option<String>,
    /// The maximum number of messages per second; 0 means no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
    /// Whether the number may be in the pool of numbers that send messages
    #[arg(long, value_name = "BOOL")]
    pub(crate) pool: Option<bool>,
    /// The portfolio whose daily recipient limit the number shares, instead of its account's
    #[arg(long, value_name = "ID", conflicts_with = "own_portfolio")]
    pub(crate) portfolio: Option<String>,
    /// Let the number share the daily recipient limit of its account again
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
fn problems_text(checked: &Value) -> String {
    match checked["problems"].as_array().map(Vec::as_slice) {
        None | Some([]) => "the number has no problems\n".to_owned(),
        Some(problems) => table::rows(problems, &PROBLEM),
    }
}

/// Builds the body of a change of a number: omitted fields keep their values.
fn change_body(change: NumberChangeArgs) -> Value {
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
    let client = AdminClient::new(&group.remote)?;
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
            let changed = client.call(Method::PATCH, &path, Some(&change_body(change))).await?;
            let shown = table::record(&changed, &NUMBER);
            (changed, shown)
        }
        NumbersCommand::Check { workspace, number_id } => {
            let path = format!("/{workspace}/numbers/{number_id}/check");
            let checked = client.call(Method::POST, &path, None).await?;
            let shown = problems_text(&checked);
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

#[derive(Debug, Subcommand)]
pub(crate) enum PortfoliosCommand {
    /// Show the daily recipient limit of a portfolio, and its use
    ///
    /// The limit is the number of people to whom a portfolio may write outside the reply window
    /// within 24 hours.
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the portfolio, as `numbers list` shows it
        #[arg(value_parser = parse_portfolio_id)]
        portfolio_id: ProviderId,
    },
    /// Set the daily recipient limit of a portfolio
    ///
    /// Without options, the command restores the limit of the channel. With one option, the other
    /// option keeps its value.
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the portfolio, as `numbers list` shows it
        #[arg(value_parser = parse_portfolio_id)]
        portfolio_id: ProviderId,
        /// The maximum number of people; -1 means no limit
        #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
        daily_recipients: Option<i64>,
        /// The percentage of the limit that broadcasts leave for other messages
        #[arg(long, value_name = "PERCENT")]
        reserve_percent: Option<u8>,
    },
}

fn parse_portfolio_id(text: &str) -> Result<ProviderId, String> {
    text.parse().map_err(|rule: postrider_actors::ProviderIdError| rule.to_string())
}

/// Builds the body of a change, with the `known` values of omitted options.
fn budget_body(daily_recipients: Option<i64>, reserve_percent: Option<u8>, known: &Value) -> Value {
    let mut body = json!({});
    if let Some(limit) = daily_recipients {
        body["daily_recipients"] = limit.into();
    } else if known["source"] == "setting" {
        body["daily_recipients"] = known["daily_recipients"].clone();
    }
    if let Some(percent) = reserve_percent {
        body["reserve_percent"] = percent.into();
    } else if let Some(known) = known.get("reserve_percent") {
        body["reserve_percent"] = known.clone();
    }
    body
}

/// Runs `postrider portfolios`.
pub(crate) async fn run_portfolios(group: Group<PortfoliosCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let place =
        |workspace: WorkspaceId, id: ProviderId| format!("/{workspace}/portfolios/{}", id.as_str());
    let answer = match group.command {
        PortfoliosCommand::Show { workspace, portfolio_id } => {
            client.call(Method::GET, &place(workspace, portfolio_id), None).await?
        }
        PortfoliosCommand::Set { workspace, portfolio_id, daily_recipients, reserve_percent } => {
            let path = place(workspace, portfolio_id);
            let known = match (daily_recipients, reserve_percent) {
                (Some(_), None) | (None, Some(_)) => client.call(Method::GET, &path, None).await?,
                _ => Value::Null,
            };
            let body = budget_body(daily_recipients, reserve_percent, &known);
            client.call(Method::PUT, &path, Some(&body)).await?
        }
    };
    print(group.remote.json, &answer, &table::record(&answer, &PORTFOLIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_left_out_stays_as_it_is() {
        let reserve = 30;
        let row = |limit: Value, source: &str| {
            let mut row = json!({"source": source, "reserve_percent": reserve});
            row["daily_recipients"] = limit;
            row
        };
        let set = row(json!(250), "setting");
        assert_eq!(
            budget_body(None, Some(20), &set),
            json!({"daily_recipients": 250, "reserve_percent": 20})
        );
        assert_eq!(
            budget_body(Some(9), None, &set),
            json!({"daily_recipients": 9, "reserve_percent": 30})
        );
        let all = row(Value::Null, "setting");
        assert_eq!(
            budget_body(None, Some(20), &all),
            json!({"daily_recipients": null, "reserve_percent": 20})
        );
        let said = row(json!(250), "channel");
        assert_eq!(budget_body(None, Some(20), &said), json!({"reserve_percent": 20}));
        assert_eq!(budget_body(None, None, &Value::Null), json!({}));
    }
}
