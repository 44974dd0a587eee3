//! `postrider clock`: shows the clock of a running server, or of the data of a stopped one.

use clap::Subcommand;
use postrider::stored_clock;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table::{self, Column};

const CLOCK: [Column; 6] = [
    ("WALL", "/wall"),
    ("REAL", "/real"),
    ("ENGINE", "/engine"),
    ("DURABLE", "/durable"),
    ("DIFFERENCE", "/difference_seconds"),
    ("AHEAD", "/ahead_seconds"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Show the machine's clock, real time, engine time and the last durable moment; with
    /// --data-dir of a stopped server, what a start would begin with
    Show,
}

/// Runs `postrider clock`.
pub(crate) async fn run(group: Group<ClockCommand>) -> Result<(), CliError> {
    let ClockCommand::Show = group.command;
    let stored = match &group.remote.data_dir {
        Some(dir) => stored(dir)?,
        None => None,
    };
    let answer = match stored {
        Some(clock) => clock,
        None => {
            let client = Client::new(&group.remote)?;
            client.administer(Method::GET, "/clock", None).await?
        }
    };
    print(group.remote.json, &answer, &table::record(&answer, &CLOCK))
}

/// The clock of a stopped server's data, in the form of a running server's answer.
fn stored(dir: &std::path::Path) -> Result<Option<Value>, CliError> {
    let Some(clock) = stored_clock(dir)? else { return Ok(None) };
    Ok(Some(json!({
        "wall": clock.wall.to_string(),
        "real": clock.wall.to_string(),
        "engine": clock.engine.to_string(),
        "durable": clock.durable.map(|at| at.to_string()),
        "difference_seconds": 0.0,
        "ahead_seconds": clock.ahead.as_secs_f64(),
    })))
}
