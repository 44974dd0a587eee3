//! The contents of files go with backups, restores and imports of a cluster.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::nodes::{Cluster, MASTER_KEY, TOKEN, workspace};
use super::state::once;
use crate::faults::Process;
use crate::support::Api;

const SINGLE: [(&str, &str); 2] = [("SECRETS__MASTER_KEY", MASTER_KEY), ("ADMIN__TOKEN", TOKEN)];
/// Two shards have the same content, and one a large one.
const SAME: &[u8] = b"what two workspaces have";
const LARGE: usize = 1_200_000;

fn api(node: &Process, key: &str) -> Api {
    Api::new(&Arc::new(Mutex::new(node.address())), Some(key))
}

/// A file of a workspace.
struct Known {
    key: String,
    path: String,
    content: Vec<u8>,
}

async fn uploaded(node: &Process, key: &str, content: Vec<u8>) -> Known {
    let png = [("Content-Type", "image/png")];
    let answer = api(node, key).call("POST", "/v1/media", &png, &content).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let path = format!("/v1/media/{}/content", answer.json()["media_id"].as_str().unwrap());
    Known { key: key.to_owned(), path, content }
}

async fn check(node: &Process, known: &[Known]) {
    for it in known {
        let answer = api(node, &it.key).get(&it.path).await;
        assert!(answer.status == 200 && answer.body == it.content, "{}", answer.text());
    }
}

fn postrider(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    for (name, value) in SINGLE {
        command.env(format!("POSTRIDER__{name}"), value);
    }
    let output = command.args(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates a cluster with this data; returns it with the import's report on files.
async fn imported(args: &[&str]) -> (Cluster, Process, Value) {
    let cluster = Cluster::made();
    let (output, answer) = cluster.run(&[&["import", "--cluster"], args].concat(), &[]);
    assert!(output.status.success(), "{output:?}");
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    (cluster, node, answer["media"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_back_from_a_backup_and_into_another_cluster() {
    let place = tempfile::tempdir().unwrap();
    let dir = |name: &str| place.path().join(name);
    let (backup, data) = (dir("backup"), dir("data"));
    let cluster = Cluster::made();
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    // They are in two shards.
    let (_, acme) = workspace(&node, "acme").await;
    let (_, globex) = workspace(&node, "globex").await;
    let large = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let known = [
        uploaded(&node, &acme, SAME.to_vec()).await,
        uploaded(&node, &globex, SAME.to_vec()).await,
        uploaded(&node, &globex, large).await,
    ];
    let copied = |of: &Value| -> (u64, u64) {
        let shards = of["shards"].as_array().unwrap().iter();
        let media = shards.map(|it| ["files", "copied"].map(|key| it["media"][key].as_u64()));
        let sums = media.map(|it| it.map(Option::unwrap));
        sums.fold((0, 0), |sum, it| (sum.0 + it[0], sum.1 + it[1]))
    };
    let (output, first) = cluster.backup(&backup);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(copied(&first), (3, 3), "{first}");
    let (output, second) = cluster.backup(&backup);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(copied(&second), (3, 0), "what is there is not copied again: {second}");
    drop((node, cluster));
    let restored = postrider(&["restore", "--from", text(&backup), "--data-dir", text(&data)]);
    assert_eq!(restored["media"]["copied"], 2, "the same content is there once: {restored}");
    let single = Process::start_with(&data, &SINGLE);
    check(&single, &known).await;
    single.terminate();
    assert!(single.ended().status.success());
    // The data comes once from the directory, and once from an archive with its files beside it.
    let (_cluster, node, media) = imported(&["--from", text(&data)]).await;
    assert_eq!((&media["copied"], &media["left_out"]), (&3.into(), &0.into()), "{media}");
    check(&node, &known).await;
    let (archive, files) = (dir("archive"), dir("files"));
    let export = ["export", "--to", text(&archive), "--media", text(&files)];
    postrider(&[&export[..], &["--data-dir", text(&data)]].concat());
    let beside = ["--from", text(&archive), "--media", text(&files)];
    let (_cluster, node, media) = imported(&beside).await;
    assert_eq!((&media["copied"], &media["left_out"]), (&3.into(), &0.into()), "{media}");
    check(&node, &known).await;
    let (_cluster, node, media) = imported(&["--from", text(&archive)]).await;
    assert_eq!((&media["files"], &media["left_out"]), (&0.into(), &3.into()), "{media}");
    assert_eq!(api(&node, &acme).get(&known[0].path).await.status, 404);
}
