//! `postrider cluster`: makes a cluster in NATS, and shows how one is.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use postrider::init_cluster;
use postrider::settings::{Flags, Settings};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Remote;

#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Make the cluster of the settings in NATS; it may be run again
    Init(InitArgs),
    /// Show nodes, shards and problems, as any node sees them
    Status(Remote),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Settings, laid over the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `postrider cluster`.
pub(crate) async fn run(args: ClusterArgs) -> Result<(), CliError> {
    match args.command {
        ClusterCommand::Init(args) => init(&args).await,
        ClusterCommand::Status(remote) => {
            let client = Client::new(&remote)?;
            let answer = client.administer(Method::GET, "/cluster", None).await?;
            print(remote.json, &answer, &shown(&answer))
        }
    }
}

async fn init(args: &InitArgs) -> Result<(), CliError> {
    let settings = Settings::load(args.config.as_deref(), &Flags::default())?;
    let made = match init_cluster(&settings).await {
        Ok(made) => made,
        Err(error) => {
            if args.json {
                let object = json!({ "error": error.code(), "message": error.to_string() });
                print(true, &object, "")?;
            }
            return Err(error.into());
        }
    };
    let answer = json!({
        "cluster": made.cluster,
        "id": made.id,
        "shards": made.shards,
        "replicas": made.replicas,
        "created": made.created,
    });
    let done = if made.created { "was made" } else { "is there" };
    let shown = format!(
        "the cluster {} {done}: {} shards, {} replicas of each log\n",
        made.cluster, made.shards, made.replicas
    );
    print(args.json, &answer, &shown)
}

/// A line for the cluster, each node and each shard, and the problems.
fn shown(answer: &Value) -> String {
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
        let [epoch, position] = ["epoch", "position"].map(|key| text(&shard[key]));
        lines.push(format!(
            "shard {number:<4} {state}: {owner}, epoch {epoch}, position {position}"
        ));
    }
    lines.extend(rows("problems").iter().map(|problem| format!("problem    {}", text(problem))));
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
        let text = shown(&answer);
        assert!(text.starts_with("cluster    prod: not ready\nnode       a (h:1): ready, owns 1"));
        assert!(text.contains("shard 0    unowned: -, epoch 3, position 9\nproblem    shard 0"));
    }
}
