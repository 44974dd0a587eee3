//! `postrider cluster`: creates a cluster in NATS, shows its state, drains nodes, repairs shards.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use postrider::settings::{Flags, Settings};
use postrider::{
    ClusterError, RepairOrder, RepairState, ShardBackup, ShardRepaired, backup_cluster,
    init_cluster, repair_shard,
};
use postrider_actors::clock::Stopwatch;
use postrider_actors::copies::CopiedContents;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminClient;
use super::copies::report;
use super::error::CliError;
use super::output::{print, size};
use super::server_args::Remote;

/// The interval at which the progress of a drain is requested.
const POLL_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Create the cluster that the settings describe in NATS
    ///
    /// It is safe to run the command again: an existing cluster is left unchanged.
    Init(InitArgs),
    /// Back up every shard of the cluster to a directory
    ///
    /// A later backup to the same directory adds only what is new.
    Backup(BackupArgs),
    /// Rebuild a stopped shard from all data that is intact
    Repair(RepairArgs),
    /// Show the nodes, shards and problems of the cluster
    Status(Remote),
    /// Move all shards of a node to the other nodes, and wait until it owns none
    Drain(DrainArgs),
    /// Let a drained node own shards again
    Undrain(UndrainArgs),
    /// Move a shard to a node
    ///
    /// The shard stays on that node until the node drains or stops, or until you move the shard
    /// again.
    Move(MoveArgs),
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// The name of the node
    #[arg(env = "POSTRIDER__CLUSTER__NODE")]
    node: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct DrainArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Wait at most this many seconds until the node owns no shards
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

#[derive(Debug, Args)]
struct UndrainArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Retry for this many seconds while no node answers, such as while this node starts
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
}

#[derive(Debug, Args)]
struct MoveArgs {
    /// The number of the shard
    shard: u16,
    /// The name of the node that gets the shard
    #[arg(long, value_name = "NODE")]
    to: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct InitArgs {
    /// The settings file, whose values override the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct BackupArgs {
    /// The directory of the backup, with one subdirectory for each shard
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    settings: InitArgs,
}

#[derive(Debug, Args)]
struct RepairArgs {
    /// The number of the shard
    #[arg(long, value_name = "N")]
    shard: u16,
    /// Repair the shard even if data is lost. Without this option, if data would be lost, the
    /// command shows the loss and changes nothing
    #[arg(long)]
    accept_loss: bool,
    /// The directory of a backup of the cluster, for a shard that has no intact checkpoint
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The data directory of a stopped node, for entries that the log has lost (repeatable). The
    /// command asks running nodes itself
    #[arg(long, value_name = "DIR")]
    node: Vec<PathBuf>,
    #[command(flatten)]
    settings: InitArgs,
}

/// Runs `postrider cluster`.
pub(crate) async fn run(args: ClusterArgs) -> Result<(), CliError> {
    match args.command {
        ClusterCommand::Init(args) => init(&args).await,
        ClusterCommand::Backup(args) => backup(&args).await,
        ClusterCommand::Repair(args) => run_repair(args).await,
        ClusterCommand::Status(remote) => {
            let client = AdminClient::new(&remote)?;
            let answer = client.administer(Method::GET, "/cluster", None).await?;
            print(remote.json, &answer, &status_text(&answer))
        }
        ClusterCommand::Drain(args) => operation_result(args.node.remote.json, drain(&args).await),
        ClusterCommand::Undrain(args) => {
            operation_result(args.node.remote.json, undrain(&args).await)
        }
        ClusterCommand::Move(args) => operation_result(args.remote.json, move_shard(&args).await),
    }
}

/// Prints a failure as an object on standard output too, with `--json`.
fn operation_result(as_json: bool, done: Result<(), CliError>) -> Result<(), CliError> {
    let code = match &done {
        Err(CliError::Refused { code, .. }) => code.as_str(),
        Err(CliError::Undrained { .. }) => "UNFINISHED",
        Err(CliError::Unreachable { .. }) => "UNREACHABLE",
        _ => return done,
    };
    if as_json {
        let message = done.as_ref().err().map(ToString::to_string);
        print(true, &json!({ "error": code, "message": message }), "")?;
    }
    done
}

async fn drain(args: &DrainArgs) -> Result<(), CliError> {
    let NodeArgs { node, remote } = &args.node;
    let (client, watch) = (AdminClient::new(remote)?, Stopwatch::start());
    loop {
        let path = format!("/cluster/nodes/{node}/drain");
        let answer = client.administer(Method::POST, &path, None).await?;
        let left = answer["shards_left"].as_u64().unwrap_or_default();
        if left == 0 {
            let shown =
                format!("{node} owns no shards; stop it, or run `postrider cluster undrain`\n");
            return print(remote.json, &answer, &shown);
        }
        if watch.elapsed() >= Duration::from_secs(args.timeout) {
            return Err(CliError::Undrained { node: node.clone(), left });
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

async fn undrain(args: &UndrainArgs) -> Result<(), CliError> {
    let NodeArgs { node, remote } = &args.node;
    let (client, watch) = (AdminClient::new(remote)?, Stopwatch::start());
    let path = format!("/cluster/nodes/{node}/undrain");
    let answer = loop {
        match client.administer(Method::POST, &path, None).await {
            Err(CliError::Unreachable { .. })
                if watch.elapsed() < Duration::from_secs(args.wait) =>
            {
                tokio::time::sleep(POLL_EVERY).await;
            }
            answer => break answer?,
        }
    };
    print(remote.json, &answer, &format!("{node} may own shards again\n"))
}

async fn move_shard(args: &MoveArgs) -> Result<(), CliError> {
    let path = format!("/cluster/shards/{}/move", args.shard);
    let body = json!({ "to": args.to });
    let answer =
        AdminClient::new(&args.remote)?.administer(Method::POST, &path, Some(&body)).await?;
    let from = answer["from"].as_str().unwrap_or("no node");
    let shown = format!(
        "moved shard {} from {from} to {} in {} ms, epoch {}\n",
        args.shard, args.to, answer["milliseconds"], answer["epoch"]
    );
    print(args.remote.json, &answer, &shown)
}

/// Prints a failure as JSON too, if `json` is set.
fn cluster_result<T>(done: Result<T, ClusterError>, json: bool) -> Result<T, CliError> {
    if let (Err(error), true) = (&done, json) {
        let object = json!({ "error": error.code(), "message": error.to_string() });
        print(true, &object, "")?;
    }
    Ok(done?)
}

async fn backup(args: &BackupArgs) -> Result<(), CliError> {
    let BackupArgs { to, settings: InitArgs { config, json } } = args;
    let settings = Settings::load(config.as_deref(), &Flags::default())?;
    let shards = cluster_result(backup_cluster(&settings, to).await, *json)?;
    let object = |it: &ShardBackup| {
        json!({
            "shard": it.shard,
            "position": it.position,
            "bytes": it.bytes,
            "media": report::contents_object(&it.contents),
        })
    };
    let answer = json!({ "shards": shards.iter().map(object).collect::<Vec<_>>() });
    let line = |it: &ShardBackup| {
        let ShardBackup { shard, position, bytes, .. } = it;
        format!("shard {shard:<4} up to position {position}, {} copied\n", size(*bytes))
    };
    let mut all = CopiedContents::default();
    shards.iter().for_each(|it| all.add(it.contents.clone()));
    let lines: String = shards.iter().map(line).collect();
    print(*json, &answer, &(lines + &report::contents_text(&all)))
}

async fn init(args: &InitArgs) -> Result<(), CliError> {
    let settings = Settings::load(args.config.as_deref(), &Flags::default())?;
    let made = cluster_result(init_cluster(&settings).await, args.json)?;
    let answer = json!({
        "cluster": made.cluster,
        "id": made.id,
        "shards": made.shards,
        "replicas": made.replicas,
        "created": made.created,
    });
    let done = if made.created { "was created" } else { "already exists" };
    let shown = format!(
        "the cluster {} {done}: {} shards, {} replicas of each log\n",
        made.cluster, made.shards, made.replicas
    );
    print(args.json, &answer, &shown)
}

/// Formats a line for the cluster, each node and each shard, and the problems.
fn status_text(answer: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let rows = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let ready = if answer["ready"] == true { "ready" } else { "not ready" };
    let mut lines = vec![format!("cluster    {}: {ready}", text(&answer["cluster"]))];
    for node in rows("nodes") {
        let [name, state, owned] = ["node", "state", "owned"].map(|key| text(&node[key]));
        let [following, address] = ["following", "advertise"].map(|key| text(&node[key]));
        lines.push(format!(
            "node       {name} ({address}): {state}, owns {owned}, follows {following}"
        ));
    }
    for shard in rows("shards") {
        let [number, state, owner] = ["shard", "state", "owner"].map(|key| text(&shard[key]));
        let [epoch, position, checkpoint] =
            ["epoch", "position", "checkpoint_position"].map(|key| text(&shard[key]));
        lines.push(format!(
            "shard {number:<4} {state}: {owner}, epoch {epoch}, position {position}, \
             checkpoint {checkpoint}"
        ));
    }
    lines.extend(rows("problems").iter().map(|problem| format!("problem    {}", text(problem))));
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

/// Runs `postrider cluster repair`.
async fn run_repair(args: RepairArgs) -> Result<(), CliError> {
    let RepairArgs { shard, accept_loss, from, node, settings: InitArgs { config, json } } = args;
    let settings = Settings::load(config.as_deref(), &Flags::default())?;
    let order = RepairOrder { shard, accept_loss, from, nodes: node };
    let repaired = cluster_result(repair_shard(&settings, order).await, json)?;
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
    print(json, &answer, &repair_text(&repaired))?;
    match repaired.state {
        RepairState::Damaged if accept_loss => {
            let nodes: Vec<_> = repaired.not_heard.iter().map(|(node, _)| node.as_str()).collect();
            Err(CliError::NodesNotHeard(nodes.join(", ")))
        }
        RepairState::Damaged => Err(CliError::LossNotAccepted),
        RepairState::Whole | RepairState::Repaired => Ok(()),
    }
}

fn repair_text(repaired: &ShardRepaired) -> String {
    let ShardRepaired { shard, state, last, given_up, unknown_behind, problems, .. } = repaired;
    if *state == RepairState::Whole {
        let advice: String = problems.iter().map(|it| format!("{it}\n")).collect();
        let whole = format!("shard {shard} is intact up to position {last}; nothing was changed\n");
        return whole + &advice;
    }
    let mut lines: Vec<_> = problems.iter().map(|it| format!("damaged    {it}")).collect();
    let not_heard = repaired.not_heard.iter();
    lines.extend(not_heard.map(|(node, why)| format!("no answer  {node}: {why}")));
    lines.push(format!("kept       everything up to position {last}"));
    lines.push(match (given_up, unknown_behind) {
        (None, None) => "lost       nothing".to_owned(),
        (None, Some(behind)) => format!("lost       anything after position {behind}"),
        (Some((from, to)), None) => format!("lost       positions {from} to {to}"),
        (Some((from, to)), Some(_)) => {
            format!("lost       positions {from} to {to}, and anything that no node reports")
        }
    });
    if *state == RepairState::Repaired {
        lines.push(format!("repaired   nodes resume shard {shard} within seconds"));
    }
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let answer = json!({
            "cluster": "prod", "ready": false,
            "nodes": [{
                "node": "a", "state": "ready", "owned": 1, "following": 0, "advertise": "h:1",
            }],
            "shards": [{"shard": 0, "state": "unowned", "owner": null, "epoch": 3, "position": 9}],
            "problems": ["shard 0 is unowned"],
        });
        let text = status_text(&answer);
        assert!(text.starts_with("cluster    prod: not ready\nnode       a (h:1): ready, owns 1"));
        assert!(text.contains(
            "shard 0    unowned: -, epoch 3, position 9, checkpoint -\nproblem    shard 0"
        ));
    }
}
