//! `postrider clock show` of a running or stopped server, and the effect of a rebase.

use std::path::Path;
use std::process::{Command, Output};

use postrider_actors::store::directory::open_stopped;
use postrider_actors::store::{Change, Group, Store, Table};
use serde_json::{Value, json};

use crate::support::{TestServer, millis};

/// Runs the command on a data directory, and returns its output.
fn show(server: &TestServer, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["clock", "show", "--server", &format!("http://{}", server.address())]);
    command.arg("--data-dir").arg(server.data_dir()).env_remove("POSTRIDER_ADMIN_TOKEN");
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_is_shown_of_a_running_server_and_of_a_stopped_one() {
    let mut server = TestServer::start().await;
    server.advance(3_600).await;
    // The move is durable before it takes effect, so a write must follow it.
    server.demo().post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let field = |clock: &Value, name: &str| millis(clock[name].as_str().unwrap());
    let near = |one: u64, other: u64| one.abs_diff(other) < 120_000;
    for is_running in [true, false] {
        if !is_running {
            server.stop();
        }
        let clock: Value = serde_json::from_str(&show(&server, &["--json"])).unwrap();
        let wall = field(&clock, "wall");
        assert!(near(field(&clock, "real"), wall), "{clock}");
        assert!(near(field(&clock, "engine"), wall + 3_600_000), "{clock}");
        assert!(near(field(&clock, "durable"), wall + 3_600_000), "{clock}");
        assert!(field(&clock, "durable") <= field(&clock, "engine"), "{clock}");
        let shown = show(&server, &[]);
        for name in ["WALL", "REAL", "ENGINE", "DURABLE", "DIFFERENCE", "AHEAD"] {
            assert!(shown.lines().any(|line| line.starts_with(name)), "{shown}");
        }
    }
    server.restart().await;
    let ready = server.stranger().get("/readyz").await.ok();
    assert_eq!(ready["warnings"].as_array(), None, "{ready}");
}

/// Runs `postrider clock rebase` on a data directory.
fn rebase(data: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["clock", "rebase", "--json", "--data-dir"]).arg(data).output().unwrap()
}

fn done(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output, why: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(why), "{errors}");
}

/// Turns the data of a stopped server into the data of a wrong clock. The clock was ahead by as
/// much as the sandbox had moved it.
fn forget_the_move(data: &Path) {
    let store = open_stopped(data).unwrap();
    store.begin_epoch().unwrap();
    let forgotten = Change::delete(Table::Meta, *b"clock_offset");
    store.commit(Group::new(None, &[forgotten])).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_stopped_server_is_rebased() {
    const DAYS_MS: u64 = 2 * 24 * 3_600_000;
    let mut server = TestServer::start().await;
    server.advance(DAYS_MS / 1000).await;
    let once = [("Idempotency-Key", "once"), ("Content-Type", "application/json")];
    let body = json!({"phone": "+15550123456"}).to_string();
    let send = async |server: &TestServer| {
        server.demo().call("POST", "/v1/otp/send", &once, body.as_bytes()).await.ok()
    };
    let sent = send(&server).await;
    refused(&rebase(&server.data_dir()), "in use by another server");
    server.stop();
    forget_the_move(&server.data_dir());
    let shown: Value = serde_json::from_str(&show(&server, &["--json"])).unwrap();
    assert!(shown["ahead_seconds"].as_f64().unwrap() > 170_000.0, "{shown}");

    let rebased = done(&rebase(&server.data_dir()));
    let [from, to] = ["from", "to"].map(|name| millis(rebased[name].as_str().unwrap()));
    assert!(from.abs_diff(to + DAYS_MS) < 120_000, "{rebased}");
    assert_eq!(done(&rebase(&server.data_dir())), json!({"from": null, "to": null}));
    let shown: Value = serde_json::from_str(&show(&server, &["--json"])).unwrap();
    assert_eq!((&shown["ahead_seconds"], &shown["durable"]), (&json!(0.0), &rebased["to"]));

    server.restart().await;
    let ready = server.stranger().get("/readyz").await.ok();
    assert_eq!(ready["warnings"].as_array(), None, "{ready}");
    let id = sent["request_id"].as_str().unwrap();
    let otp = server.demo().get(&format!("/v1/otp/{id}")).await.ok();
    assert_eq!(millis(otp["expires_at"].as_str().unwrap()), to + 300_000, "{otp}");
    assert_eq!(send(&server).await["request_id"], sent["request_id"]);
    let records = server.admin().get("/admin/v1/audit?action=clock.rebase").await.ok();
    assert_eq!(records["data"][0]["changes"], rebased, "{records}");
    assert_eq!(records["data"][0]["at"], rebased["to"]);
    server.advance(301).await;
    let otp = server.demo().get(&format!("/v1/otp/{id}")).await.ok();
    assert_eq!(otp["status"], "expired", "{otp}");
}

#[test]
fn a_rebase_needs_data() {
    let none = tempfile::tempdir().unwrap();
    refused(&rebase(none.path()), "there is no data");
    assert_eq!(std::fs::read_dir(none.path()).unwrap().count(), 0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    refused(&command.args(["clock", "rebase"]).output().unwrap(), "--data-dir DIR");
}
