//! A mistake on the command line ends the command at once, and the message names it.

use std::process::{Command, Output};

use crate::support::TestServer;

/// Runs the command with these variables and arguments.
async fn run(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments).envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn an_address_and_a_key_are_taken_as_people_write_them() {
    let server = TestServer::start().await;
    let (address, demo, admin) = (server.address(), server.demo(), server.admin());
    let (key, token) = (format!("{}\n", demo.token()), format!(" {}\r\n", admin.token()));
    for form in ["", "http://"] {
        for end in ["", "/", "/v1", "/v1/", "/admin/v1"] {
            let named = format!("{form}{address}{end}");
            let variables = [
                ("POSTRIDER_SERVER", &*named),
                ("POSTRIDER_API_KEY", &key),
                ("POSTRIDER_ADMIN_TOKEN", &token),
            ];
            for arguments in [["messages", "list"], ["workspaces", "list"]] {
                let ran = run(&variables, &arguments).await;
                assert!(ran.status.success(), "{named}: {ran:?}");
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("backup");
    let named = address.to_string();
    let variables = [("POSTRIDER_SERVER", &*named), ("POSTRIDER_ADMIN_TOKEN", &token)];
    let ran = run(&variables, &["backup", "--to", to.to_str().unwrap()]).await;
    assert!(ran.status.success() && to.is_dir(), "{ran:?}");
}

#[tokio::test]
async fn what_waiting_cannot_mend_is_named_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, "pr_a key\n").unwrap();
    let (file, to) = (file.to_str().unwrap(), dir.path().join("backup"));
    let to = to.to_str().unwrap();
    let server = ("POSTRIDER_SERVER", "http://127.0.0.1:9");
    let bad = ("POSTRIDER_SERVER", "http://a b");
    let key = ("POSTRIDER_API_KEY", "pr_a\npr_b");
    let token = ("POSTRIDER_ADMIN_TOKEN", "to\u{a0}ken");
    for (variables, arguments, named) in [
        (vec![server, key], vec!["contacts", "export"], "POSTRIDER_API_KEY has a character"),
        (vec![server, key], vec!["messages", "list"], "POSTRIDER_API_KEY has a character"),
        (vec![server], vec!["messages", "list", "--key-file", file], "key has a character"),
        (vec![server, token], vec!["workspaces", "list"], "POSTRIDER_ADMIN_TOKEN has a character"),
        (vec![server, token], vec!["backup", "--to", to], "POSTRIDER_ADMIN_TOKEN has a character"),
        (vec![bad, key], vec!["contacts", "export"], "(--server or POSTRIDER_SERVER)"),
        (vec![bad], vec!["backup", "--to", to], "(--server or POSTRIDER_SERVER)"),
        (vec![], vec!["messages", "list", "--server", "ftp://x"], "not the address of a server"),
    ] {
        let ran = run(&variables, &arguments).await;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains(named), "{arguments:?}: {ran:?}");
    }
}
