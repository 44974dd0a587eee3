//! The modes of a server's files: those that other users can read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::process::Process;
use crate::support::TestServer;

const SECRETS: [&str; 3] = ["demo.key", "admin.token", "master.key"];

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns every file and directory below `path`, itself included.
fn below(path: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        let inner = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        found.extend(inner.flat_map(|path| below(&path)));
    }
    found
}

#[test]
fn nothing_that_a_server_writes_is_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o755);
    let mut server = Process::start(&data);
    assert!(server.runs());
    let files = below(&data);
    assert!(files.len() > 5, "{files:?}");
    for path in files {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    assert!(server.log().contains("0755"), "{}", server.log());
}

#[tokio::test]
async fn what_others_could_read_is_closed_with_a_warning() {
    let mut server = TestServer::start().await;
    server.stop();
    let data = server.data_dir();
    set_mode(&data, 0o755);
    SECRETS.iter().for_each(|name| set_mode(&data.join(name), 0o644));
    server.restart().await;
    assert_eq!(mode(&data), 0o700);
    // The log includes the first start, which had nothing to warn of.
    let log = server.log();
    for name in SECRETS {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
        let warned = |line: &str| line.contains("WARN") && line.contains(name);
        assert!(log.lines().any(warned), "{name}: {log}");
    }
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("0755")), "{log}");
}

#[tokio::test]
async fn a_group_has_access_only_where_the_settings_say_so() {
    let mut server = TestServer::with(&[("SERVER__DATA_GROUP_ACCESS", "true")]).await;
    server.stop();
    let data = server.data_dir();
    set_mode(&data, 0o770);
    server.restart().await;
    assert_eq!(mode(&data), 0o770);
    server.stop();
    set_mode(&data, 0o777);
    server.restart().await;
    assert_eq!(mode(&data), 0o770, "others never have");
    server.set("SERVER__DATA_GROUP_ACCESS", "false");
    server.restart().await;
    assert_eq!(mode(&data), 0o700);
}

#[tokio::test]
async fn a_directory_that_many_share_is_refused() {
    let mut server = TestServer::start().await;
    server.stop();
    set_mode(&server.data_dir(), 0o1777);
    let refused = server.refused_restart().await;
    assert!(refused.contains("1777") && refused.contains("data"), "{refused}");
    assert_eq!(mode(&server.data_dir()), 0o1777, "it is not ours to change");
    set_mode(&server.data_dir(), 0o700);
    server.restart().await;
}
