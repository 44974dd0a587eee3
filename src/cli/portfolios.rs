//! `postrider portfolios`: shows and sets the daily budgets of portfolios of numbers.

use clap::Subcommand;
use postrider_actors::ProviderId;
use postrider_actors::domain::WorkspaceId;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table::{self, Column};

const PORTFOLIO: [Column; 6] = [
    ("PORTFOLIO", "/portfolio_id"),
    ("LIMIT", "/daily_recipients"),
    ("SOURCE", "/source"),
    ("RESERVE", "/reserve_percent"),
    ("USED", "/used"),
    ("FREES", "/frees_at"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum PortfoliosCommand {
    /// Show how many people a portfolio may write to first within 24 hours, and how many count
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `numbers list` shows it
        #[arg(value_parser = id)]
        portfolio_id: ProviderId,
    },
    /// Set how many that are; without any option, what the channel says holds again
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `numbers list` shows it
        #[arg(value_parser = id)]
        portfolio_id: ProviderId,
        /// How many people; -1 for as many as one likes
        #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
        daily_recipients: Option<i64>,
        /// How much of that broadcasts leave to others, in percent; an option left out stays as it
        /// is
        #[arg(long, value_name = "PERCENT")]
        reserve_percent: Option<u8>,
    },
}

fn id(text: &str) -> Result<ProviderId, String> {
    text.parse().map_err(|rule: postrider_actors::ProviderIdError| rule.to_string())
}

/// Builds the body of a change, with the `known` values of omitted options.
fn body(daily_recipients: Option<i64>, reserve_percent: Option<u8>, known: &Value) -> Value {
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
pub(crate) async fn run(group: Group<PortfoliosCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
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
            let body = body(daily_recipients, reserve_percent, &known);
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
            body(None, Some(20), &set),
            json!({"daily_recipients": 250, "reserve_percent": 20})
        );
        assert_eq!(
            body(Some(9), None, &set),
            json!({"daily_recipients": 9, "reserve_percent": 30})
        );
        let all = row(Value::Null, "setting");
        assert_eq!(
            body(None, Some(20), &all),
            json!({"daily_recipients": null, "reserve_percent": 20})
        );
        let said = row(json!(250), "channel");
        assert_eq!(body(None, Some(20), &said), json!({"reserve_percent": 20}));
        assert_eq!(body(None, None, &Value::Null), json!({}));
    }
}
