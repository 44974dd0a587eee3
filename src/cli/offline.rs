//! `postrider check` and `repair`: the data directory of a stopped server, checked and repaired.

use std::path::PathBuf;

use clap::Args;
use postrider::{BootError, Repair, check_stored, repair_stored};
use postrider_actors::StartError;
use postrider_actors::store::StoreError;
use postrider_actors::store::check::{CheckedLog, Deep, DirectoryCheck, Problem};
use postrider_actors::store::directory::{DirectoryError, FORMAT};
use postrider_actors::store::repair::{Plan, RepairError, Repaired};
use serde_json::{Value, json};

use super::error::CliError;
use super::output::{print, size};

/// Which directory, and how the outcome is printed.
#[derive(Debug, Args)]
struct Directory {
    /// The data directory of a stopped server
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Directory {
    /// Returns the outcome. With `--json`, an error is printed as an object too.
    fn reported<T>(&self, outcome: Result<T, BootError>) -> Result<T, CliError> {
        let error = match outcome {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if self.json {
            let object = json!({ "error": error_code(&error), "message": error.to_string() });
            print(true, &object, "")?;
        }
        Err(error.into())
    }

    /// Prints the outcome.
    fn print(&self, answer: &Value, shown: &str) -> Result<(), CliError> {
        print(self.json, answer, shown)
    }
}

/// Formats bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the code of an error.
fn error_code(error: &BootError) -> &'static str {
    match error {
        BootError::InUse(_) | BootError::Engine(StartError::Locked) => "IN_USE",
        BootError::Store { source, .. } | BootError::Engine(StartError::Store(source)) => {
            store_error_code(source)
        }
        BootError::Engine(StartError::NewerData { .. }) => "NEWER_FORMAT",
        BootError::Directory { source, .. } => directory_error_code(source),
        BootError::Repair { source: RepairError::Directory(source), .. } => {
            directory_error_code(source)
        }
        BootError::Repair { .. } => "DAMAGED",
        _ => "IO",
    }
}

fn directory_error_code(error: &DirectoryError) -> &'static str {
    match error {
        DirectoryError::Store(source) => store_error_code(source),
        DirectoryError::Snapshot(_)
        | DirectoryError::Checkpoint(_)
        | DirectoryError::File { .. } => "IO",
        DirectoryError::NewerFormat { .. } => "NEWER_FORMAT",
        DirectoryError::Unclear(_) => "DAMAGED",
    }
}

const fn store_error_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Failed(_) => "IO",
        StoreError::Damaged(_) => "DAMAGED",
        StoreError::Newer(_) => "NEWER_FORMAT",
        StoreError::Lost { .. } => "LOST",
        StoreError::Locked => "IN_USE",
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    directory: Directory,
    /// Rebuild the records from the log, beside the stored ones, and compare them
    ///
    /// This needs a log that starts at position 1, or an intact checkpoint. It also needs free disk
    /// space for a second copy of the records.
    #[arg(long)]
    deep: bool,
}

/// Runs `postrider check`. A problem is an error.
pub(crate) fn run_check(args: &CheckArgs) -> Result<(), CliError> {
    let directory = &args.directory;
    let check = directory.reported(check_stored(&directory.data_dir, args.deep))?;
    directory.print(&check_json(&check), &check_text(&check))?;
    match (check.problems.len(), &check.deep) {
        (0, Some(Deep::NotPossible(why))) => Err(CliError::NotCompared(why.clone())),
        (0, _) => Ok(()),
        (1, _) => Err(CliError::Problems("1 problem was".to_owned())),
        (count, _) => Err(CliError::Problems(format!("{count} problems were"))),
    }
}

fn check_json(check: &DirectoryCheck) -> Value {
    let log = &check.log;
    let log = json!({
        "id": log.id.map(|id| hex(&id.0)),
        "first": log.first.0,
        "last": log.last.0,
        "epoch": log.epoch,
        "segments": log.segments,
        "bytes": log.bytes,
        "torn_bytes": log.torn_bytes,
    });
    let view = check.view.map(|view| {
        json!({ "applied": view.applied.0, "synced": view.synced.0, "records": view.records })
    });
    let snapshots = check.snapshots.iter().map(
        |it| json!({ "position": it.position.0, "bytes": it.bytes, "ok": it.problem.is_none() }),
    );
    let checkpoints = check.checkpoints.iter().map(
        |it| json!({ "position": it.position.0, "bytes": it.bytes, "ok": it.problem.is_none() }),
    );
    let mut answer = json!({
        "ok": check.problems.is_empty(),
        "format": FORMAT,
        "log": log,
        "view": view,
        "checkpoints": checkpoints.collect::<Vec<_>>(),
        "snapshots": snapshots.collect::<Vec<_>>(),
        "problems": check.problems.iter().map(problem_json).collect::<Vec<_>>(),
    });
    if let Some(deep) = &check.deep {
        answer["deep"] = match deep {
            Deep::Compared { records, different } => {
                json!({ "compared": true, "records": records, "different": different })
            }
            Deep::NotPossible(why) => json!({ "compared": false, "why": why }),
        };
    }
    answer
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "kind": problem.kind.as_str(),
        "file": problem.file,
        "offset": problem.offset,
        "position": problem.position.map(|position| position.0),
        "what": problem.what,
        "cost": problem.cost,
    })
}

fn check_text(check: &DirectoryCheck) -> String {
    let mut lines = vec![format!("format     {FORMAT}")];
    let CheckedLog { first, last, epoch, segments, bytes, torn_bytes, .. } = &check.log;
    lines.push(format!(
        "log        positions {first} to {last}, epoch {epoch}, {} in {segments} files",
        size(*bytes)
    ));
    if *torn_bytes > 0 {
        lines.push(format!(
            "           {torn_bytes} bytes of an unacknowledged commit; the next start removes them"
        ));
    }
    if let Some(view) = check.view {
        let (applied, synced, records) = (view.applied, view.synced, view.records);
        lines.push(format!("view       applied {applied}, synced {synced}, {records} records"));
    }
    let checkpoints = check.checkpoints.iter().map(|it| (it.position, it.bytes, &it.problem));
    let snapshots = check.snapshots.iter().map(|it| (it.position, it.bytes, &it.problem));
    let files =
        checkpoints.map(|it| ("checkpoint", it)).chain(snapshots.map(|it| ("snapshot", it)));
    for (what, (position, bytes, problem)) in files {
        let state = if problem.is_none() { "intact" } else { "damaged" };
        lines.push(format!("{what:<10} position {position}, {}, {state}", size(bytes)));
    }
    match &check.deep {
        None => {}
        Some(Deep::Compared { records, different }) => lines.push(format!(
            "compared   {records} rebuilt records with the stored ones; {different} differ"
        )),
        Some(Deep::NotPossible(why)) => lines.push(format!("compared   not possible: {why}")),
    }
    lines.extend(check.problems.iter().map(problem_line));
    if check.problems.is_empty() {
        lines.push("ok         no damage was found".to_owned());
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

/// Formats a problem: its description and its cost.
fn problem_line(problem: &Problem) -> String {
    let offset = problem.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
    let position = problem.position.map(|at| format!(", position {at}")).unwrap_or_default();
    let Problem { file, what, cost, .. } = problem;
    format!("{:<10} {file}{offset}{position}: {what}; {cost}", problem.kind.as_str())
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    directory: Directory,
    /// Repair the data and accept the loss of what cannot be recovered. Without this option, the
    /// command only shows what it would do
    #[arg(long)]
    accept_loss: bool,
}

/// Runs `postrider repair`.
pub(crate) fn run_repair(args: &RepairArgs) -> Result<(), CliError> {
    let directory = &args.directory;
    let (plan, repaired) =
        match directory.reported(repair_stored(&directory.data_dir, args.accept_loss))? {
            Repair::NotNeeded => {
                let nothing = json!({ "last": null, "given_up": null, "log_id": null });
                return directory.print(&nothing, "no damage was found; nothing was changed\n");
            }
            Repair::Planned(plan) => (Some(plan), None),
            Repair::Done(plan, repaired) => (plan, Some(repaired)),
        };
    let last = repaired.map(|it| it.last).or(plan.as_ref().map(|it| it.last));
    let given_up = plan.as_ref().and_then(|plan| plan.given_up);
    let answer = json!({
        "last": last.map(|last| last.0),
        "given_up": given_up.map(|(from, to)| json!({ "from": from.0, "to": to.0 })),
        "log_id": repaired.map(|it| hex(&it.log.0)),
    });
    directory.print(&answer, &repair_text(plan.as_ref(), repaired))?;
    match repaired {
        Some(_) => Ok(()),
        None => Err(CliError::LossNotAccepted),
    }
}

fn repair_text(plan: Option<&Plan>, repaired: Option<Repaired>) -> String {
    let mut lines = Vec::new();
    if let Some(plan) = plan {
        lines.extend(plan.problems.iter().map(|problem| format!("damaged    {problem}")));
        lines.push(format!("kept       everything up to position {}", plan.last));
        lines.push(match plan.given_up {
            None => "lost       nothing".to_owned(),
            Some((from, to)) => format!("lost       positions {from} to {to}"),
        });
        if plan.rebuilds_view {
            let from = plan.from_checkpoint.map(|at| format!("the checkpoint at {at} and "));
            lines.push(format!("records    rebuilt from {}the log", from.unwrap_or_default()));
        }
    }
    if let Some(Repaired { last, log }) = repaired {
        lines.push(format!("repaired   the new log {} begins after position {last}", hex(&log.0)));
        lines.push("           the directories *.damaged have the old data".to_owned());
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}
