//! `postrider health`: shows the state of a server, for health checks without another program.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{http_trusting, send};
use super::error::CliError;
use super::output::print;
use super::server_args::ServerArgs;

/// The maximum wait for the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Ask only whether the process answers, not whether it takes work
    #[arg(long)]
    alive: bool,
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `postrider health`. A server that does not answer, or accepts no work, is an error.
pub(crate) async fn run(args: &HealthArgs) -> Result<(), CliError> {
    let server = args.server.address();
    let path = if args.alive { "/healthz" } else { "/readyz" };
    let http = http_trusting(&server, is_this_machine(&server))?;
    let answer = send(&server, http.get(format!("{server}{path}")).timeout(TIMEOUT)).await?;
    print(args.json, &answer, &shown(&answer))
}

/// Formats the status, and below it the warnings.
fn shown(answer: &Value) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(shown(&json!({"status": "ok"})), "ok\n");
        let held = json!({"status": "ready", "held": true});
        assert_eq!(shown(&held), "ready\nheld: nothing is sent until `postrider release`\n");
        let warned = json!({"status": "ready", "warnings": ["clock: a", "disk: b"]});
        assert_eq!(shown(&warned), "ready\nclock: a\ndisk: b\n");
    }
}
