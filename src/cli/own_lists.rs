//! Lists the records of a workspace by its API key, part by part.

use clap::{Args, Subcommand};
use postrider_actors::domain::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::api::{Api, Attempt, CallerArgs, RetryBudget, connection_fault};
use super::error::CliError;
use super::output::{print, report};
use super::query::query;
use super::table::{self, Column};

/// The maximum number of rows in an answer of the server.
const PART_ROWS: u32 = 200;

/// Commands that call a workspace's own interface, and can print its answer.
#[derive(Debug, Args)]
pub(crate) struct OwnGroup<C: Subcommand> {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    #[command(subcommand)]
    pub(crate) command: C,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Which part of a list is shown.
#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Only those of this moment or later, such as 2026-01-31T09:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only those before this moment
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Go on where an earlier answer ended: its `next_cursor`
    #[arg(long)]
    cursor: Option<String>,
    /// Most rows that are shown: the newest ones
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// Shows the rows of `path` below `/v1` that match `filters`, a query.
pub(crate) async fn show(
    (caller, as_json): (&CallerArgs, bool),
    path: &str,
    filters: &str,
    part: PartArgs,
    columns: &[Column],
) -> Result<(), CliError> {
    let api = Api::new(caller)?;
    let (mut rows, mut cursor, mut left) = (Vec::new(), part.cursor, part.limit);
    loop {
        let place = query([
            ("since", part.since.map(|at| at.to_string())),
            ("until", part.until.map(|at| at.to_string())),
            ("limit", Some(left.min(PART_ROWS).to_string())),
            ("cursor", cursor.take()),
        ]);
        let mut answer = read(&api, &format!("{path}?{filters}&{place}")).await?;
        if let Value::Array(found) = answer["data"].take() {
            left = left.saturating_sub(found.len() as u32);
            rows.extend(found);
        }
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if left == 0 || cursor.is_none() {
            break;
        }
    }
    let shown = table::rows(&rows, columns);
    print(as_json, &json!({ "data": rows, "next_cursor": cursor }), &shown)
}

/// Requests `path` below `/v1` until there is an answer.
pub(crate) async fn read(api: &Api, path: &str) -> Result<Value, CliError> {
    let mut retries = RetryBudget::new();
    loop {
        let wait = match api.send(api.request(Method::GET, path)).await? {
            Attempt::Done(response) => match response.json().await {
                Ok(answer) => return Ok(answer),
                Err(error) => connection_fault(&error),
            },
            Attempt::Retry(wait) => wait,
        };
        retries.wait(wait, api.server(), report).await?;
    }
}
