//! `postrider health`, `clock` and `release`: the state of a server, its clock, and its release.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use postrider::{rebase_stored_clock, stored_clock};
use postrider_actors::ClockRebase;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{AdminClient, send, trusting_http_client};
use super::error::CliError;
use super::output::print;
use super::server_args::{Group, Remote, ServerArgs};
use super::table::{self, Column};

/// The maximum wait for the answer about its health.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

const CLOCK: [Column; 6] = [
    ("WALL", "/wall"),
    ("REAL", "/real"),
    ("ENGINE", "/engine"),
    ("DURABLE", "/durable"),
    ("DIFFERENCE", "/difference_seconds"),
    ("AHEAD", "/ahead_seconds"),
];

const REBASE: [Column; 2] = [("FROM", "/from"), ("TO", "/to")];

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Check only whether the process answers, not whether it accepts work
    #[arg(long)]
    alive: bool,
    /// Print the server's answer as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs `postrider health`, for health checks without another program.
///
/// A server that does not answer, or accepts no work, is an error.
pub(crate) async fn run_health(args: &HealthArgs) -> Result<(), CliError> {
    let server = args.server.address();
    let path = if args.alive { "/healthz" } else { "/readyz" };
    let http = trusting_http_client(&server, is_this_machine(&server))?;
    let answer = send(&server, http.get(format!("{server}{path}")).timeout(HEALTH_TIMEOUT)).await?;
    print(args.json, &answer, &health_text(&answer))
}

/// Formats the status, and below it the warnings.
fn health_text(answer: &Value) -> String {
    let warnings = answer["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let held =
        (answer["held"] == true).then_some("held: nothing is sent until `postrider release`");
    let status = answer["status"].as_str().into_iter();
    let lines = status.chain(held).chain(warnings.iter().filter_map(Value::as_str));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns whether the address is this machine's own, by a number or by name.
///
/// Its certificate is not verified: it is for the public name, and nothing secret is sent.
fn is_this_machine(server: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(server) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Show the machine's clock, real time, engine time and the last durable time
    ///
    /// If --data-dir is the data directory of a stopped server, show the times that the server
    /// would start with.
    Show,
    /// Reset stored times that are in the future, after the clock of a stopped server ran ahead
    ///
    /// Correct the machine's clock first. --data-dir is required: it names the data directory that
    /// the command rewrites. The change cannot be undone.
    Rebase,
}

/// Runs `postrider clock`.
pub(crate) async fn run_clock(group: Group<ClockCommand>) -> Result<(), CliError> {
    match group.command {
        ClockCommand::Show => show_clock(&group).await,
        ClockCommand::Rebase => rebase_clock(&group),
    }
}

async fn show_clock(group: &Group<ClockCommand>) -> Result<(), CliError> {
    let stored = match &group.remote.data_dir {
        Some(dir) => stored_clock_json(dir)?,
        None => None,
    };
    let answer = match stored {
        Some(clock) => clock,
        None => {
            let client = AdminClient::new(&group.remote)?;
            client.administer(Method::GET, "/clock", None).await?
        }
    };
    print(group.remote.json, &answer, &table::record(&answer, &CLOCK))
}

fn rebase_clock(group: &Group<ClockCommand>) -> Result<(), CliError> {
    let dir = group.remote.data_dir.as_deref().ok_or(CliError::NoDataDir)?;
    match rebase_stored_clock(dir)? {
        Some(ClockRebase { from, to }) => {
            let done = json!({ "from": from.to_string(), "to": to.to_string() });
            print(group.remote.json, &done, &table::record(&done, &REBASE))
        }
        None => {
            let why = "no stored time is later than the machine's clock; nothing was changed\n";
            print(group.remote.json, &json!({ "from": null, "to": null }), why)
        }
    }
}

/// Returns the clock of a stopped server's data, in the form of a running server's answer.
fn stored_clock_json(dir: &std::path::Path) -> Result<Option<Value>, CliError> {
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

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    remote: Remote,
}

/// Runs `postrider release`.
pub(crate) async fn run_release(args: &ReleaseArgs) -> Result<(), CliError> {
    let client = AdminClient::new(&args.remote)?;
    let answer = client.administer(Method::POST, "/release", None).await?;
    print(args.remote.json, &answer, "the server is not held; it sends everything that waited\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_needs_no_certificate_of_its_name() {
        for own in ["https://127.0.0.1:8081", "https://[::1]:1", "https://localhost"] {
            assert!(is_this_machine(own), "{own}");
        }
        for other in ["https://10.0.0.1", "https://localhost.example", "https://127.0.0.1.a", "x"] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn warnings_are_shown_below_the_status() {
        assert_eq!(health_text(&json!({"status": "ok"})), "ok\n");
        let held = json!({"status": "ready", "held": true});
        assert_eq!(health_text(&held), "ready\nheld: nothing is sent until `postrider release`\n");
        let warned = json!({"status": "ready", "warnings": ["clock: a", "disk: b"]});
        assert_eq!(health_text(&warned), "ready\nclock: a\ndisk: b\n");
    }
}
