//! `postrider audit` shows, follows and verifies the audit log.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use postrider_actors::store::{Change, FjallView, MarkedView, Table, View};
use serde_json::{Value, json};

use crate::support::TestServer;

const ROOT: &str = "/admin/v1/workspaces";

fn command(server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("audit").args(args).env("POSTRIDER_ADMIN_TOKEN", server.admin().token());
    command.args(["--server", &format!("http://{}", server.address())]);
    command
}

fn run(server: &TestServer, args: &[&str]) -> String {
    let output = command(server, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_shows_and_follows_the_log() {
    let server = TestServer::start().await;
    let (acme, _) = (server.workspace("acme").await, server.workspace("other").await);
    acme.post("/v1/webhooks", json!({"url": "https://example.com/hook"})).await.ok();

    let shown = run(&server, &["--workspace", "acme"]);
    assert!(shown.starts_with("AT "), "{shown}");
    let actions: Vec<_> =
        shown.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let expected =
        ["workspace.create", "number.connect", "credits.set", "key.create", "webhook.create"];
    assert_eq!(actions, expected, "oldest first");
    let rows = |args: &[&str]| {
        let all: Value = serde_json::from_str(&run(&server, args)).unwrap();
        all["data"].as_array().unwrap().clone()
    };
    let newest = rows(&["--workspace", "acme", "--limit", "2", "--json"]);
    assert_eq!((newest.len(), &newest[1]["action"]), (2, &json!("webhook.create")));
    let by_key = rows(&["--actor", "key", "--json"]);
    assert_eq!((by_key.len(), &by_key[0]["actor"]["name"]), (1, &json!("test")));
    assert_eq!(rows(&["--until", "2020-01-01T00:00:00Z", "--json"]).len(), 0);
    assert_eq!(rows(&["--action", "workspace", "-w", "other", "--json"]).len(), 1);

    let mut following = command(&server, &["--follow", "--json", "-w", "acme", "--limit", "1"]);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["action"], "webhook.create");
    for credits in [5, 6] {
        let before = server.admin().get(&format!("{ROOT}/acme")).await.ok()["credits"].clone();
        let path = format!("{ROOT}/acme/credits");
        server.admin().put(&path, json!({"credits": credits})).await.ok();
        assert_eq!(next()["changes"], json!({"credits": {"from": before, "to": credits}}));
    }
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Opening a store writes files, which its owner could not use. Only root can give files away.
fn refused_on_data_of_another_user(data: &Path) {
    let (store, lock) = (data.join("view"), data.join("server.lock"));
    if std::os::unix::fs::chown(&store, Some(65_534), None).is_err() {
        return;
    }
    std::fs::remove_file(&lock).unwrap();
    let files = || std::fs::read_dir(&store).unwrap().count();
    let before = files();
    for args in [["audit", "verify", "--stopped"], ["clock", "show", "--data-dir"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        let refused = command.args(args).arg(data).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains("run this as user 65534"), "{}", errors(&refused));
    }
    assert_eq!((files(), lock.exists()), (before, false));
    std::os::unix::fs::chown(&store, Some(rustix::process::geteuid().as_raw()), None).unwrap();
}

#[tokio::test]
async fn a_damaged_record_is_shown_and_named_and_hides_no_other() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    let rows = async |server: &TestServer, query: &str| {
        let path = format!("/admin/v1/audit?limit=200&{query}");
        server.admin().get(&path).await.ok()["data"].as_array().unwrap().clone()
    };
    let third = rows(&server, "").await[2].clone();
    server.stop();
    {
        let view = FjallView::open(&server.data_dir().join("view"), Default::default()).unwrap();
        let key = 3_u64.to_be_bytes();
        let mut value = view.get(Table::Audit, &key).unwrap().unwrap();
        *value.last_mut().unwrap() = b'?';
        let damaged = Change::put(Table::Audit, key, value);
        view.apply(&view.applied().unwrap(), &[damaged]).unwrap();
    }
    server.restart().await;
    let all = rows(&server, "").await;
    let sequences: Vec<_> = all.iter().map(|row| row["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=all.len() as u64).collect::<Vec<_>>());
    let damaged = &all[2];
    assert_eq!(
        (&damaged["id"], &damaged["at"], &damaged["action"]),
        (&third["id"], &third["at"], &json!("damaged"))
    );
    assert_eq!(damaged["damage"], "its text is not that of a record");
    assert!(all.iter().all(|row| row["damage"].is_null() == (row["sequence"] != 3)));
    let newest = rows(&server, "order=newest&action=server").await;
    let of = |row: &Value| row["action"].as_str().unwrap().to_owned();
    let expected = ["server.start", "server.stop", "damaged", "server.start"];
    assert_eq!(newest.iter().map(of).collect::<Vec<_>>(), expected);
    let fault = server.admin().get("/admin/v1/audit/check").await.ok()["fault"].clone();
    assert_eq!(fault, json!({"sequence": 3, "id": third["id"], "problem": "altered"}));
    let id = third["id"].as_str().unwrap();
    assert!(run(&server, &[]).lines().any(|line| line.contains("damaged")));
    let found = command(&server, &["verify"]).output().unwrap();
    let named = format!("record 3 of the audit log fails verification: altered: {id}");
    assert!(errors(&found).contains(&named), "{}", errors(&found));
}

#[tokio::test]
async fn a_removed_record_is_named() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    assert!(run(&server, &["verify"]).contains("records were verified"));
    server.stop();
    let data = server.data_dir();
    let verify = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(["audit", "verify", "--stopped"]).arg(&data).output().unwrap()
    };
    let whole = verify();
    assert!(whole.status.success(), "{}", errors(&whole));
    {
        let view = FjallView::open(&data.join("view"), Default::default()).unwrap();
        let removed = Change::delete(Table::Audit, 3_u64.to_be_bytes());
        view.apply(&view.applied().unwrap(), &[removed]).unwrap();
    }
    refused_on_data_of_another_user(&data);
    let found = verify();
    assert_eq!(found.status.code(), Some(1));
    let named = "record 3 of the audit log fails verification: missing";
    assert!(errors(&found).contains(named), "{}", errors(&found));
    server.restart().await;
    assert!(errors(&verify()).contains("in use by another server"), "{}", errors(&verify()));
    let found = command(&server, &["verify"]).output().unwrap();
    assert_eq!(found.status.code(), Some(1));
    assert!(errors(&found).contains(named), "{}", errors(&found));
    let fault = server.admin().get("/admin/v1/audit/check").await.ok()["fault"].clone();
    assert_eq!(fault, json!({"sequence": 3, "id": null, "problem": "missing"}));
    // A path without a data directory does not become one.
    let none = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let output = command.args(["audit", "verify", "--stopped"]).arg(none.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("there is no data"), "{}", errors(&output));
    assert_eq!(std::fs::read_dir(none.path()).unwrap().count(), 0);
}
