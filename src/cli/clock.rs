//! `postrider clock`: shows an engine's clock, and rebases the clock of a stopped server's data.

use clap::Subcommand;
use postrider::{rebase_stored_clock, stored_clock};
use postrider_actors::ClockRebase;
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
    /// Have moments count as the present that the data of a stopped server has of a clock which was
    /// ahead; with --data-dir, after the machine's clock was set right
    Rebase,
}

const REBASE: [Column; 2] = [("FROM", "/from"), ("TO", "/to")];

/// Runs `postrider clock`.
pub(crate) async fn run(group: Group<ClockCommand>) -> Result<(), CliError> {
    match group.command {
        ClockCommand::Show => show(&group).await,
        ClockCommand::Rebase => rebase(&group),
    }
}

async fn show(group: &Group<ClockCommand>) -> Result<(), CliError> {
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

fn rebase(group: &Group<ClockCommand>) -> Result<(), CliError> {
    let dir = group.remote.data_dir.as_deref().ok_or(CliError::NoDataDir)?;
    match rebase_stored_clock(dir)? {
        Some(ClockRebase { from, to }) => {
            let done = json!({ "from": from.to_string(), "to": to.to_string() });
            print(group.remote.json, &done, &table::record(&done, &REBASE))
        }
        None => {
            let why = "nothing durable is later than the machine's clock: nothing was changed\n";
            print(group.remote.json, &json!({ "from": null, "to": null }), why)
        }
    }
}

/// Returns the clock of a stopped server's data, in the form of a running server's answer.
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
