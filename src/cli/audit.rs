//! `postrider audit`: shows, follows and verifies the audit log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use postrider::verify_stored_audit;
use postrider_actors::AuditCheck;
use postrider_actors::domain::{Timestamp, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{AdminClient, query};
use super::error::CliError;
use super::output::print;
use super::server_args::Remote;
use super::table::{self, Column};

/// The interval at which a command that follows the log asks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// The number of records per request.
const PART_ROWS: usize = 200;

const RECORD: [Column; 7] = [
    ("AT", "/at"),
    ("ACTION", "/action"),
    ("WORKSPACE", "/workspace"),
    ("TARGET", "/target"),
    ("ACTOR", "/actor/kind"),
    ("ACTOR ID", "/actor/id"),
    ("ADDRESS", "/address"),
];

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Show new records as they are written, until you interrupt the command. With --json, each
    /// record is one line
    #[arg(long)]
    follow: bool,
    /// Show at most this many records, the newest ones
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// Which records are shown.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Show only records of this workspace
    #[arg(long, short)]
    workspace: Option<WorkspaceId>,
    /// Show only records of the actor with this kind, ID or name
    #[arg(long)]
    actor: Option<String>,
    /// Show only records of this action (key.create), or of all actions with this prefix (key)
    #[arg(long)]
    action: Option<String>,
    /// Show only records from this time on, such as 2026-01-31T09:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Show only records before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Verify that no record was altered, removed or added
    ///
    /// If verification fails, the command names the first record that fails and exits with status
    /// 1.
    Verify {
        /// Verify the data directory of a stopped server instead of a running server
        #[arg(long, value_name = "DIR")]
        stopped: Option<PathBuf>,
    },
}

impl FilterArgs {
    /// Builds the query for a part of the log.
    fn query(&self, order: &str, cursor: Option<&str>, limit: usize) -> String {
        let texts = [
            ("order", Some(order.to_owned())),
            ("limit", Some(limit.to_string())),
            ("workspace", self.workspace.as_ref().map(ToString::to_string)),
            ("actor", self.actor.clone()),
            ("action", self.action.clone()),
            ("since", self.since.map(|at| at.to_string())),
            ("until", self.until.map(|at| at.to_string())),
            ("cursor", cursor.map(str::to_owned)),
        ];
        query(texts)
    }
}

/// Runs `postrider audit`.
pub(crate) async fn run(args: AuditArgs) -> Result<(), CliError> {
    match &args.command {
        Some(AuditCommand::Verify { stopped: Some(directory) }) => {
            verify_stopped(directory, args.remote.json)
        }
        Some(AuditCommand::Verify { stopped: None }) => verify_running(&args.remote).await,
        None => show_records(&args).await,
    }
}

async fn show_records(args: &AuditArgs) -> Result<(), CliError> {
    let client = AdminClient::new(&args.remote)?;
    let (rows, latest) = newest_records(&client, args).await?;
    if !args.follow {
        let shown = table::rows(&rows, &RECORD);
        return print(args.remote.json, &json!({ "data": rows }), &shown);
    }
    let mut rows = rows;
    let mut cursor = latest;
    loop {
        let lines: String = match args.remote.json {
            true => rows.iter().map(|row| format!("{row}\n")).collect(),
            false => rows.iter().map(record_line).collect(),
        };
        print(false, &Value::Null, &lines)?;
        let path = format!("/audit?{}", args.filter.query("oldest", Some(&cursor), PART_ROWS));
        let mut part = client.administer(Method::GET, &path, None).await?;
        let next = client.text(&part, "next_cursor")?;
        if next == cursor {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
        rows = client.rows(&mut part)?;
        cursor = next;
    }
}

/// Formats a record as one line. Its columns cannot be aligned with those of later records.
fn record_line(row: &Value) -> String {
    let cells = table::cells(row, &RECORD);
    format!("{}\n", cells.join("  "))
}

/// Returns the newest matching records, oldest first, and the cursor behind the newest of all.
async fn newest_records(
    client: &AdminClient,
    args: &AuditArgs,
) -> Result<(Vec<Value>, String), CliError> {
    let (mut rows, mut latest, mut cursor) = (Vec::new(), None, None);
    loop {
        let left = args.limit as usize - rows.len();
        let query = args.filter.query("newest", cursor.as_deref(), left.min(PART_ROWS));
        let mut part = client.administer(Method::GET, &format!("/audit?{query}"), None).await?;
        if latest.is_none() {
            latest = Some(client.text(&part, "latest_cursor")?);
        }
        cursor = part["next_cursor"].as_str().map(str::to_owned);
        rows.extend(client.rows(&mut part)?);
        if cursor.is_none() || rows.len() >= args.limit as usize {
            rows.reverse();
            return Ok((rows, latest.unwrap_or_default()));
        }
    }
}

/// Requests a running server to verify its log, part by part.
async fn verify_running(remote: &Remote) -> Result<(), CliError> {
    let client = AdminClient::new(remote)?;
    let (mut checked, mut cursor) = (0, String::new());
    loop {
        let answer = client.administer(Method::GET, &format!("/audit/check{cursor}"), None).await?;
        checked += client.number(&answer, "checked")?;
        let fault = &answer["fault"];
        if let Some(sequence) = fault["sequence"].as_u64() {
            let [id, problem] = ["id", "problem"].map(|name| fault[name].as_str());
            return Err(CliError::Audit { sequence, fault: fault_text(problem, id) });
        }
        match answer["next_cursor"].as_str() {
            Some(next) => cursor = format!("?cursor={next}"),
            None => return print_verified(checked, remote.json),
        }
    }
}

/// Verifies the log of a stopped server.
fn verify_stopped(directory: &Path, as_json: bool) -> Result<(), CliError> {
    let AuditCheck { checked, fault, .. } = verify_stored_audit(directory)?;
    match fault {
        None => print_verified(checked, as_json),
        Some(fault) => {
            let id = fault.id.map(|id| id.to_string());
            let described = fault_text(Some(fault.kind.as_str()), id.as_deref());
            Err(CliError::Audit { sequence: fault.sequence, fault: described })
        }
    }
}

fn fault_text(problem: Option<&str>, id: Option<&str>) -> String {
    let problem = problem.unwrap_or("altered");
    id.map_or_else(|| problem.to_owned(), |id| format!("{problem}: {id}"))
}

fn print_verified(checked: u64, as_json: bool) -> Result<(), CliError> {
    let shown = format!("{checked} records were verified\n");
    print(as_json, &json!({ "checked": checked, "fault": null }), &shown)
}
