//! `postrider check`: reads everything in a data directory, and reports the damage.

use clap::Args;
use postrider::check_stored;
use postrider_actors::store::check::{CheckedLog, Deep, DirectoryCheck, Problem};
use postrider_actors::store::directory::FORMAT;
use serde_json::{Value, json};

use super::error::CliError;
use super::offline::Directory;

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    directory: Directory,
    /// Build the records anew from the log, beside them, and compare; it needs a log that begins at
    /// position 1, or a whole checkpoint, and room for a second view
    #[arg(long)]
    deep: bool,
}

/// Runs `postrider check`. A problem is an error.
pub(crate) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let directory = &args.directory;
    let check = directory.reported(check_stored(&directory.data_dir, args.deep))?;
    directory.print(&answer(&check), &shown(&check))?;
    match (check.problems.len(), &check.deep) {
        (0, Some(Deep::NotPossible(why))) => Err(CliError::NotCompared(why.clone())),
        (0, _) => Ok(()),
        (1, _) => Err(CliError::Problems("1 problem was".to_owned())),
        (count, _) => Err(CliError::Problems(format!("{count} problems were"))),
    }
}

fn answer(check: &DirectoryCheck) -> Value {
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
        "problems": check.problems.iter().map(problem).collect::<Vec<_>>(),
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

fn problem(problem: &Problem) -> Value {
    json!({
        "kind": problem.kind.as_str(),
        "file": problem.file,
        "offset": problem.offset,
        "position": problem.position.map(|position| position.0),
        "what": problem.what,
        "cost": problem.cost,
    })
}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(check: &DirectoryCheck) -> String {
    let mut lines = vec![format!("format     {FORMAT}")];
    let CheckedLog { first, last, epoch, segments, bytes, torn_bytes, .. } = &check.log;
    lines.push(format!(
        "log        positions {first} to {last}, epoch {epoch}, {bytes} bytes in {segments} files"
    ));
    if *torn_bytes > 0 {
        lines.push(format!(
            "           {torn_bytes} bytes of a commit that was not acknowledged; a start cuts them \
             off"
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
        let state = if problem.is_none() { "whole" } else { "damaged" };
        lines.push(format!("{what:<10} position {position}, {bytes} bytes, {state}"));
    }
    match &check.deep {
        None => {}
        Some(Deep::Compared { records, different }) => lines.push(format!(
            "compared   {records} records built anew with those of the view; {different} differ"
        )),
        Some(Deep::NotPossible(why)) => lines.push(format!("compared   not possible: {why}")),
    }
    lines.extend(check.problems.iter().map(line));
    if check.problems.is_empty() {
        lines.push("ok         nothing is damaged".to_owned());
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

/// Formats a problem: its description and its cost.
fn line(problem: &Problem) -> String {
    let offset = problem.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
    let position = problem.position.map(|at| format!(", position {at}")).unwrap_or_default();
    let Problem { file, what, cost, .. } = problem;
    format!("{:<10} {file}{offset}{position}: {what}; {cost}", problem.kind.as_str())
}
