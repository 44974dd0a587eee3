//! The data of a single node moves into a cluster, and back into a single node.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::jetstream::jetstream;
use super::nodes::{Cluster, MASTER_KEY, TOKEN, admin, done, read, send, settled, verify};
use super::state::once;
use crate::faults::{Client, Process};

/// One in each shard of four, and one more.
const WORKSPACES: [&str; 5] = ["acme", "globex", "initech", "umbrella", "hooli"];
const LIMITED: &str = "+15550300001";
const SINGLE: [(&str, &str); 4] = [
    ("SECRETS__MASTER_KEY", MASTER_KEY),
    ("ADMIN__TOKEN", TOKEN),
    ("DASHBOARD__ENABLED", "false"),
    ("LIMITS__OTP_PER_PHONE_10M", "2"),
];
const LIMITS: [(&str, &str); 2] =
    [("LIMITS__OTP_PER_PHONE_10M", "2"), ("DASHBOARD__ENABLED", "true")];

/// A client's knowledge of its workspace.
struct Known {
    id: String,
    key: String,
    key_id: String,
    open: (String, String),
    used: (String, String),
    missed: (String, String),
    contact: String,
    webhook: String,
    credits: u64,
}

fn wrong(code: &str) -> String {
    let other = if code.starts_with('0') { "1" } else { "0" };
    format!("{other}{}", &code[1..])
}

/// Creates a workspace with everything.
async fn made(node: &Process, id: &str) -> Known {
    let path = format!("/admin/v1/workspaces/{id}");
    let mut admin = admin(node);
    done(&mut admin, "/admin/v1/workspaces", json!({"id": id, "name": id})).await;
    done(&mut admin, &format!("{path}/credits"), json!({"add": 1_000})).await;
    done(&mut admin, &format!("{path}/numbers"), json!({"kind": "sandbox"})).await;
    let scopes = ["messaging:send", "contacts:write", "contacts:read", "webhooks:manage"];
    let key = json!({"name": "test", "scopes": scopes});
    let made = done(&mut admin, &format!("{path}/keys"), key).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let key = text(&made["key"]);
    let mut client = Client::new(node.address(), &key);
    let open = send(&mut client, "+15550100001").await;
    let used = send(&mut client, "+15550100002").await;
    let missed = send(&mut client, "+15550100003").await;
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let answer = verify(&mut client, &missed.0, &wrong(&missed.1)).await;
    assert_eq!(answer.1["attempts_remaining"], 4, "{answer:?}");
    for _ in 0..2 {
        done(&mut client, "/v1/otp/send", json!({"phone": LIMITED})).await;
    }
    let contact = json!({"name": format!("Ada of {id}"), "phone": "+15550200001"});
    let contact = text(&done(&mut client, "/v1/contacts", contact).await["id"]);
    let hook = json!({"url": "http://127.0.0.1:9/hook", "events": ["contact.created"]});
    let webhook = text(&done(&mut client, "/v1/webhooks", hook).await["id"]);
    let credits = read(&mut admin, &path).await["credits"].as_u64().unwrap();
    let (id, key_id) = (id.to_owned(), text(&made["id"]));
    Known { id, key, key_id, open, used, missed, contact, webhook, credits }
}

/// Checks that everything is known, and that no use is forgotten. Uses up one attempt.
async fn check(node: &Process, known: &Known, attempts: u64) {
    let mut client = Client::new(node.address(), &known.key);
    let (status, body) = verify(&mut client, &known.used.0, &known.used.1).await;
    assert_eq!(status, 422, "{}: a code was accepted twice: {body}", known.id);
    let answer = verify(&mut client, &known.missed.0, &wrong(&known.missed.1)).await;
    assert_eq!(answer.1["attempts_remaining"], attempts, "{}: {answer:?}", known.id);
    let one_more = json!({"phone": LIMITED});
    let limited = settled(&mut client, "POST", "/v1/otp/send", &one_more).await;
    assert_eq!(limited.body["code"], "OTP_RATE_LIMITED", "{}: {limited:?}", known.id);
    let contact = read(&mut client, &format!("/v1/contacts/{}", known.contact)).await;
    assert_eq!(contact["name"], format!("Ada of {}", known.id));
    let webhooks = read(&mut client, "/v1/webhooks").await;
    assert_eq!(webhooks["data"][0]["id"], json!(known.webhook), "{webhooks}");
    let path = format!("/admin/v1/workspaces/{}", known.id);
    let keys = read(&mut admin(node), &format!("{path}/keys")).await;
    assert_eq!((&keys["total"], &keys["data"][0]["id"]), (&json!(1), &json!(known.key_id)));
    let credits = read(&mut admin(node), &path).await["credits"].as_u64().unwrap();
    assert_eq!(credits, known.credits, "{}", known.id);
}

/// Returns the directory of a server that has stopped, and the knowledge of its clients.
async fn single(place: &TempDir) -> (PathBuf, Vec<Known>) {
    let dir = place.path().join("single");
    let node = Process::start_with(&dir, &SINGLE);
    let mut known = Vec::new();
    for id in WORKSPACES {
        known.push(made(&node, id).await);
    }
    node.terminate();
    assert!(node.ended().status.success());
    (dir, known)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn import(cluster: &Cluster, from: &Path) -> Value {
    let (output, answer) = cluster.run(&["import", "--cluster", "--from", text(from)], &[]);
    assert!(output.status.success(), "{output:?}");
    answer
}

fn postrider(args: &[&str]) -> Value {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(args).arg("--json").env("POSTRIDER__SECRETS__MASTER_KEY", MASTER_KEY);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_becomes_a_cluster_and_a_single_node_again() {
    let place = tempfile::tempdir().unwrap();
    let (dir, mut known) = single(&place).await;
    let token = with_operators(&dir).await;
    let archive = place.path().join("all.archive");
    let exported = postrider(&["export", "--to", text(&archive), "--data-dir", text(&dir)]);

    let cluster = Cluster::with(&LIMITS);
    let imported = import(&cluster, &archive);
    assert_eq!(imported["records"], exported["records"], "{imported}");
    assert_eq!((&imported["cluster"], &imported["shards"]), (&json!("test"), &json!(4)));
    assert!(!place.path().join("all.archive.import").exists(), "what it worked with is gone");
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| state["ready"] == true).await;
    for it in &known {
        check(&first, it, 3).await;
    }
    // Admin tokens and people are in the first shard, and all shards know them.
    let mut alice = Client::new(first.address(), &token);
    for path in ["/admin/v1/workspaces", "/admin/v1/workspaces/acme"] {
        assert_eq!(settled(&mut alice, "GET", path, &Value::Null).await.status, 200, "{path}");
    }
    let users = read(&mut alice, "/admin/v1/users").await;
    assert!(users.to_string().contains(PERSON), "{users}");
    // Another node starts from the same checkpoints, and nothing else.
    first.kill();
    let second = cluster.start("pr-2");
    once(&second, "all shards", |state| state["ready"] == true).await;
    let mut opened = Vec::new();
    for it in &mut known {
        let mut client = Client::new(second.address(), &it.key);
        assert_eq!(verify(&mut client, &it.open.0, &it.open.1).await.0, 200, "{}", it.id);
        opened.push(send(&mut client, "+15550100009").await);
        it.credits -= 1;
    }
    let new = made(&second, "stark").await;
    assert_eq!(new.key.len(), "pr_".len() + 46);
    let (refused, answer) = cluster.run(&["import", "--cluster", "--from", text(&archive)], &[]);
    assert_eq!((refused.status.code(), &answer["error"]), (Some(1), &json!("IN_USE")), "{answer}");
    let backup = place.path().join("backup");
    assert!(cluster.backup(&backup).0.status.success());
    second.terminate();
    assert!(second.ended().status.success());

    let back = place.path().join("back");
    came_back(&backup, &back, &known, &opened, &new, &token).await;
    // The same once more, from the directory itself.
    let again = Cluster::with(&LIMITS);
    import(&again, &back);
    let node = again.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    check(&node, &known[0], 1).await;
    check(&node, &new, 2).await;
}

/// Restores the backup of a cluster into a single node, and checks everything there.
async fn came_back(
    backup: &Path,
    back: &Path,
    known: &[Known],
    opened: &[(String, String)],
    new: &Known,
    token: &str,
) {
    let made = postrider(&["restore", "--from", text(backup), "--data-dir", text(back)]);
    assert!(made["position"].as_u64() > Some(1), "{made}");
    let node = Process::start_with(back, &SINGLE);
    for (it, (request, code)) in known.iter().zip(opened) {
        check(&node, it, 2).await;
        let mut client = Client::new(node.address(), &it.key);
        assert_eq!(verify(&mut client, &it.open.0, &it.open.1).await.0, 422, "{}", it.id);
        assert_eq!(verify(&mut client, request, code).await.0, 200, "{}", it.id);
    }
    check(&node, new, 3).await;
    let mut alice = Client::new(node.address(), token);
    let listed = settled(&mut alice, "GET", "/admin/v1/workspaces", &Value::Null).await;
    assert_eq!((listed.status, &listed.body["total"]), (200, &json!(7)), "{listed:?}");
    node.terminate();
    assert!(node.ended().status.success());
    let checked = postrider(&["check", "--data-dir", text(back)]);
    assert_eq!(checked["ok"], true, "{checked}");
    postrider(&["audit", "verify", "--stopped", text(back)]);
    assert!(users(back).contains(PERSON), "people were in the first shard");
}

const PERSON: &str = "ada@example.com";

/// Adds a person and an admin token, which is returned, to the data of a stopped server.
async fn with_operators(dir: &Path) -> String {
    let node = Process::start_with(dir, &SINGLE);
    let token = done(&mut admin(&node), "/admin/v1/tokens", json!({"name": "alice"})).await;
    node.terminate();
    assert!(node.ended().status.success());
    postrider_users(dir, PERSON);
    assert!(users(dir).contains(PERSON));
    token["token"].as_str().unwrap().to_owned()
}

/// Adds a person to the data of a stopped server.
fn postrider_users(dir: &Path, email: &str) {
    let node = Process::start_with(dir, &with_dashboard());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_postrider"));
    let server = format!("http://{}", node.address());
    command.args(["users", "link", email, "--server", &server, "--workspace", "acme"]);
    command.args(["--role", "owner", "--json"]).env("POSTRIDER_ADMIN_TOKEN", TOKEN);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    node.terminate();
    assert!(node.ended().status.success());
}

fn users(dir: &Path) -> String {
    let node = Process::start_with(dir, &with_dashboard());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_postrider"));
    let server = format!("http://{}", node.address());
    command.args(["users", "list", "--json", "--server", &server]);
    let output = command.env("POSTRIDER_ADMIN_TOKEN", TOKEN).output().unwrap();
    node.terminate();
    assert!(node.ended().status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn with_dashboard() -> Vec<(&'static str, &'static str)> {
    SINGLE.into_iter().filter(|(name, _)| *name != "DASHBOARD__ENABLED").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_does_not_come_to_its_end_is_never_served() {
    let place = tempfile::tempdir().unwrap();
    let (dir, known) = single(&place).await;
    let cluster = Cluster::with(&LIMITS);
    let run = |more: &[(&str, &str)], from: &Path| {
        let (output, answer) = cluster.run(&["import", "--cluster", "--from", text(from)], more);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        answer["error"].as_str().unwrap().to_owned()
    };
    // Nothing starts where it cannot end.
    let other = [("SECRETS__MASTER_KEY", &"7".repeat(64)[..])];
    assert_eq!(run(&other, &dir), "KEY_MISMATCH");
    assert_eq!(run(&[], &place.path().join("none")), "IO");
    let odd = place.path().join("odd");
    std::fs::write(&odd, "no archive").unwrap();
    assert_eq!(run(&[], &odd), "DAMAGED");
    assert_eq!(run(&[("CLUSTER__NAME", "other")], &dir), "CLUSTER_MISSING");

    // The last log has room for the claim, and for nothing more.
    let stream = "PR_test_3";
    let about = jetstream(&cluster.nats.address, &format!("STREAM.INFO.{stream}"), &json!({}));
    let resize = |bytes: &Value| {
        let mut config = about["config"].clone();
        config["max_bytes"] = bytes.clone();
        jetstream(&cluster.nats.address, &format!("STREAM.UPDATE.{stream}"), &config);
    };
    resize(&json!(350));
    assert_eq!(run(&[], &dir), "NOT_STORED");
    let refused = |what: &str| {
        let log = cluster.try_start("pr-1", &cluster.directory("pr-1")).err().unwrap();
        assert!(log.contains("IMPORT_UNFINISHED") && log.contains("import --cluster"), "{log}");
        let (_, answer) = cluster.backup(&place.path().join(what));
        assert_eq!(answer["error"], "IMPORT_UNFINISHED", "{what}: {answer}");
    };
    refused("full");
    resize(&about["config"]["max_bytes"]);
    killed_anywhere(&cluster, &dir, refused);
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    for it in &known {
        check(&node, it, 3).await;
    }
    node.terminate();
    assert!(node.ended().status.success());
    assert_eq!(run(&[], &dir), "NOT_EMPTY");
}

/// Kills imports at any place before their end, until one reaches it.
fn killed_anywhere(cluster: &Cluster, dir: &Path, refused: impl Fn(&str)) {
    for round in 0..4 {
        let mut command = cluster.command(&["import", "--cluster", "--from", text(dir)], &[]);
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let length = || {
            let about = jetstream(&cluster.nats.address, "STREAM.INFO.PR_test_0", &json!({}));
            about["state"]["last_seq"].as_u64().unwrap()
        };
        let before = length();
        while length() == before && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            return;
        }
        refused(&format!("killed-{round}"));
    }
    import(cluster, dir);
}
