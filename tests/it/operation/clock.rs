//! What `postrider clock show` says of a running server, and of the data of a stopped one.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{TestServer, millis};

/// Runs the command on a data directory.
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
    // The move is durable before it is made, so something must be written after it.
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
