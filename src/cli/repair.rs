//! `postrider repair`: repairs damaged data so that a server starts on it.

use clap::Args;
use postrider::{Repair, repair_stored};
use postrider_actors::store::repair::{Plan, Repaired};
use serde_json::json;

use super::check::hex;
use super::error::CliError;
use super::offline::Directory;

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    directory: Directory,
    /// Give up what cannot be kept; without it the command only says what that is
    #[arg(long)]
    accept_loss: bool,
}

/// Runs `postrider repair`.
pub(crate) fn run(args: &RepairArgs) -> Result<(), CliError> {
    let directory = &args.directory;
    let (plan, repaired) =
        match directory.reported(repair_stored(&directory.data_dir, args.accept_loss))? {
            Repair::NotNeeded => {
                let nothing = json!({ "last": null, "given_up": null, "log_id": null });
                return directory.print(&nothing, "nothing is damaged; nothing was changed\n");
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
    directory.print(&answer, &shown(plan.as_ref(), repaired))?;
    match repaired {
        Some(_) => Ok(()),
        None => Err(CliError::LossNotAccepted),
    }
}

fn shown(plan: Option<&Plan>, repaired: Option<Repaired>) -> String {
    let mut lines = Vec::new();
    if let Some(plan) = plan {
        lines.extend(plan.problems.iter().map(|problem| format!("damaged    {problem}")));
        lines.push(format!("kept       everything up to position {}", plan.last));
        lines.push(match plan.given_up {
            None => "given up   nothing".to_owned(),
            Some((from, to)) => format!("given up   positions {from} to {to}"),
        });
        if plan.rebuilds_view {
            let from = plan.from_checkpoint.map(|at| format!("the checkpoint of {at} and "));
            lines.push(format!("records    built anew from {}the log", from.unwrap_or_default()));
        }
    }
    if let Some(Repaired { last, log }) = repaired {
        lines.push(format!("repaired   log {} begins behind position {last}", hex(&log.0)));
        lines.push("           what was there is kept in the directories *.damaged".to_owned());
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}
