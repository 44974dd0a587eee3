//! The sources of the command line's secrets, and admin tokens: created and revoked.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{TestServer, millis};

const TOKENS: &str = "/admin/v1/tokens";
const WORKSPACES: &str = "/admin/v1/workspaces";

/// Runs `postrider workspaces list` with these arguments and this standard input.
fn list(server: &TestServer, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["workspaces", "list", "--server", &format!("http://{}", server.address())]);
    command.args(args).env_remove("POSTRIDER_ADMIN_TOKEN");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_from_a_file_or_from_standard_input() {
    let server = TestServer::start().await;
    let token = server.admin().token().to_owned();
    let file = server.data_dir().join("admin.token").display().to_string();
    for (args, input) in [
        (["--token-file", &file].as_slice(), ""),
        (&["--token", "-"], token.as_str()),
        (&["--token", "-"], &format!("{token}\n")),
    ] {
        let listed = list(&server, args, input);
        let (out, error) = (String::from_utf8_lossy(&listed.stdout), listed.stderr);
        assert!(listed.status.success(), "{args:?}: {}", String::from_utf8_lossy(&error));
        assert!(out.contains("demo") && error.is_empty(), "{args:?}: {out}");
    }
    let bare = list(&server, &["--token", &token], "");
    let said = String::from_utf8_lossy(&bare.stderr);
    assert!(bare.status.success(), "{said}");
    assert!(said.contains("--token-file") && !said.contains(&token), "{said}");
    for (args, said) in [
        (["--token-file", "/no/such/file"].as_slice(), "/no/such/file"),
        (&["--token", "-"], "--token"),
        (&["--token", "-", "--token-file", &file], "cannot be used with"),
    ] {
        let refused = list(&server, args, "");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains(said), "{args:?}: {error}");
    }
}

#[tokio::test]
async fn an_admin_token_that_can_be_guessed_is_refused() {
    let mut server = TestServer::start().await;
    server.stop();
    let file = server.data_dir().join("admin.token");
    let good = std::fs::read_to_string(&file).unwrap();
    for bad in ["", "short", "fifteen-letters", "has spaces in it, which no header takes"] {
        std::fs::write(&file, format!("{bad}\n")).unwrap();
        let refused = server.refused_restart().await;
        assert!(refused.contains("admin.token") && refused.contains("16"), "{bad}: {refused}");
    }
    std::fs::write(&file, good).unwrap();
    server.restart().await;
}

#[tokio::test]
async fn further_admin_tokens_work_until_they_are_revoked_or_expire() {
    let mut server = TestServer::start().await;
    let root = server.admin();
    let now = server.demo().get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap().to_owned();
    for (body, field) in [
        (json!({"name": ""}), "name"),
        (json!({"name": "a", "expires_at": now}), "expires_at"),
        (json!({"name": "a", "expires_at": "soon"}), "expires_at"),
    ] {
        root.post(TOKENS, body).await.check_field(field);
    }
    let alice = root.post(TOKENS, json!({"name": "alice"})).await;
    assert_eq!((alice.status, alice.header("cache-control")), (201, Some("no-store")));
    let alice = alice.ok();
    let end = jiff::Timestamp::from_millisecond(millis(&now) as i64 + 3_600_000).unwrap();
    let short = json!({"name": "short", "expires_at": end.to_string()});
    let short = root.post(TOKENS, short).await.ok();
    let text = |made: &Value| made["token"].as_str().unwrap().to_owned();
    let (by_alice, by_short) = (server.api(&text(&alice)), server.api(&text(&short)));
    by_alice.get(WORKSPACES).await.ok();
    by_short.get(WORKSPACES).await.ok();
    by_alice.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    server.demo().get(TOKENS).await.check(401, "UNAUTHORIZED");
    // These tokens have the rights of the first one, also to create others, over a crash.
    server.crash().await;
    let bob = by_alice.post(TOKENS, json!({"name": "bob"})).await.ok();
    let listed = root.get(TOKENS).await;
    let names: Vec<_> = listed.ok()["data"].as_array().unwrap().iter().map(name_of).collect();
    assert_eq!(names, ["alice", "short", "bob"]);
    for made in [&alice, &short, &bob] {
        assert!(!listed.text().contains(&text(made)), "the text is shown once");
        assert!(!server.log().contains(&text(made)), "it is in the log");
    }
    let path = format!("{TOKENS}/{}", alice["id"].as_str().unwrap());
    root.delete(&path).await.ok();
    by_alice.get(WORKSPACES).await.check(401, "UNAUTHORIZED");
    root.delete(&path).await.check(404, "NOT_FOUND");
    server.advance(3_600).await;
    by_short.get(WORKSPACES).await.check(401, "UNAUTHORIZED");
    let by_bob = server.api(&text(&bob));
    server.restart().await;
    by_alice.get(WORKSPACES).await.check(401, "UNAUTHORIZED");
    let path = format!("{TOKENS}/{}", bob["id"].as_str().unwrap());
    by_bob.delete(&path).await.ok();
    by_bob.get(WORKSPACES).await.check(401, "UNAUTHORIZED");
}

fn name_of(row: &Value) -> String {
    row["name"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_lists_and_revokes_admin_tokens() {
    let server = TestServer::start().await;
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.arg("tokens").args(args);
        command.args(["--server", &format!("http://{}", server.address())]);
        command.arg("--data-dir").arg(server.data_dir()).env_remove("POSTRIDER_ADMIN_TOKEN");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let made = run(&["create", "--name", "carol", "--expires", "2099-01-31T00:00:00Z"]);
    let field = |name: &str| {
        made.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    let api = server.api(&field("TOKEN"));
    api.get(WORKSPACES).await.ok();
    let listed = run(&["list"]);
    assert!(listed.contains("carol") && !listed.contains(&field("TOKEN")), "{listed}");
    assert_eq!(run(&["revoke", &field("ID")]), format!("revoked {}\n", field("ID")));
    api.get(WORKSPACES).await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn where_the_settings_say_so_only_an_admin_token_moves_the_clock() {
    let clock = "/v1/sandbox/clock";
    let step = json!({"advance_seconds": 60});
    let mut server = TestServer::start().await;
    server.demo().post(clock, &step).await.ok();
    server.admin().post(clock, &step).await.ok();
    server.stranger().post(clock, &step).await.check(401, "UNAUTHORIZED");
    server.set("SANDBOX__CLOCK", "admin");
    server.restart().await;
    let refused = server.demo().post(clock, &step).await.check(403, "FORBIDDEN");
    assert_eq!(refused["reason"], "admin_only");
    assert_eq!(server.demo().get(clock).await.ok()["offset_seconds"], 120, "it is read by a key");
    let made = server.admin().post(TOKENS, json!({"name": "clock"})).await.ok();
    let moved = server.api(made["token"].as_str().unwrap()).post(clock, &step).await.ok();
    assert_eq!(moved["offset_seconds"], 180);
    server.stranger().post(clock, &step).await.check(401, "UNAUTHORIZED");
    let unknown = server.key("demo", &["contacts:read"], json!({})).await.1;
    unknown.post(clock, &step).await.check(403, "FORBIDDEN");
}
