//! `postrider cluster repair`: rebuilds a shard whose log lost entries or is damaged.

use std::path::PathBuf;

use clap::Args;
use postrider::settings::{Flags, Settings};
use postrider::{RepairOrder, RepairState, ShardRepaired, repair_shard};
use serde_json::json;

use super::InitArgs;
use crate::cli::error::CliError;
use crate::cli::output::print;

#[derive(Debug, Args)]
pub(super) struct RepairArgs {
    /// The shard's number
    #[arg(long, value_name = "N")]
    shard: u16,
    /// Give up what cannot be kept; without it the command only says what that is
    #[arg(long)]
    accept_loss: bool,
    /// A backup of the cluster, for a shard of which no whole checkpoint is left
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The data directory of a node that does not run, for what its log has lost; it may be given
    /// several times. Those that run are asked
    #[arg(long, value_name = "DATA-DIR")]
    node: Vec<PathBuf>,
    #[command(flatten)]
    settings: InitArgs,
}

/// Runs `postrider cluster repair`.
pub(super) async fn run(args: RepairArgs) -> Result<(), CliError> {
    let RepairArgs { shard, accept_loss, from, node, settings: InitArgs { config, json } } = args;
    let settings = Settings::load(config.as_deref(), &Flags::default())?;
    let order = RepairOrder { shard, accept_loss, from, nodes: node };
    let repaired = super::done(repair_shard(&settings, order).await, json)?;
    let answer = json!({
        "shard": repaired.shard,
        "state": match repaired.state {
            RepairState::Whole => "whole",
            RepairState::Damaged => "damaged",
            RepairState::Repaired => "repaired",
        },
        "last": repaired.last,
        "given_up": repaired.given_up.map(|(from, to)| json!({ "from": from, "to": to })),
        "unknown_behind": repaired.unknown_behind,
        "from_nodes": repaired.from_nodes.map(|(from, to)| json!({ "from": from, "to": to })),
        "not_heard": repaired.not_heard.iter().map(|(node, why)| {
            json!({ "node": node, "reason": why })
        }).collect::<Vec<_>>(),
        "problems": repaired.problems,
    });
    print(json, &answer, &shown(&repaired))?;
    match repaired.state {
        RepairState::Damaged if accept_loss => {
            let nodes: Vec<_> = repaired.not_heard.iter().map(|(node, _)| node.as_str()).collect();
            Err(CliError::NodesNotHeard(nodes.join(", ")))
        }
        RepairState::Damaged => Err(CliError::LossNotAccepted),
        RepairState::Whole | RepairState::Repaired => Ok(()),
    }
}

fn shown(repaired: &ShardRepaired) -> String {
    let ShardRepaired { shard, state, last, given_up, unknown_behind, problems, .. } = repaired;
    if *state == RepairState::Whole {
        let advice: String = problems.iter().map(|it| format!("{it}\n")).collect();
        let whole = format!("shard {shard} is whole up to position {last}; nothing was changed\n");
        return whole + &advice;
    }
    let mut lines: Vec<_> = problems.iter().map(|it| format!("damaged    {it}")).collect();
    let not_heard = repaired.not_heard.iter();
    lines.extend(not_heard.map(|(node, why)| format!("not heard  {node}: {why}")));
    lines.push(format!("kept       everything up to position {last}"));
    lines.push(match (given_up, unknown_behind) {
        (None, None) => "given up   nothing".to_owned(),
        (None, Some(behind)) => format!("given up   whatever followed position {behind}"),
        (Some((from, to)), None) => format!("given up   positions {from} to {to}"),
        (Some((from, to)), Some(_)) => {
            format!("given up   positions {from} to {to}, and what no node reports")
        }
    });
    if *state == RepairState::Repaired {
        lines.push(format!("repaired   nodes go on with shard {shard} within seconds"));
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}
