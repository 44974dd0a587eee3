//! Where the command line takes secrets from, and which admin tokens are taken.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::support::TestServer;

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
