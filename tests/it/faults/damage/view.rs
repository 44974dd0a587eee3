//! Records that are missing or damaged are rebuilt from a checkpoint and the log.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::faults::check::Lost;
use crate::faults::disk::{Disk, fill, skip};
use crate::faults::load::Story;
use crate::faults::process::Process;
use crate::support::Api;

/// The smallest values that are allowed.
const OFTEN: [(&str, &str); 3] = [
    ("STORAGE__CHECKPOINTS", "true"),
    ("STORAGE__CHECKPOINT_LOG_BYTES", "1048576"),
    ("STORAGE__SNAPSHOT_JOURNAL_BYTES", "1048576"),
];

/// Returns the checkpoints that have their final names, oldest first.
fn checkpoints(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(data.join("checkpoints")) else { return Vec::new() };
    let paths = entries.map_while(Result::ok).map(|entry| entry.path());
    let mut named: Vec<_> = paths.filter(|path| path.extension().is_some_and(is_named)).collect();
    named.sort_unstable();
    named
}

fn is_named(extension: &std::ffi::OsStr) -> bool {
    extension == "ckpt"
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn run(arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let output = tokio::task::block_in_place(|| command.args(arguments).output().unwrap());
    let answer = serde_json::from_slice(&output.stdout);
    (output.status.code(), answer.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

fn checked(data: &Path) -> Value {
    let (status, answer) = run(&["check", "--json", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(status, Some(if answer["ok"] == json!(true) { 0 } else { 1 }), "{answer}");
    answer
}

/// Creates a directory for a restore.
fn with_keys_of(data: &Path, parent: &Path) -> PathBuf {
    let restored = parent.join("restored");
    std::fs::create_dir(&restored).unwrap();
    for key in ["master.key", "admin.token", "demo.key"] {
        std::fs::copy(data.join(key), restored.join(key)).unwrap();
    }
    restored
}

/// Checks that without checkpoints the trimmed part of the log is missing, and is reported.
fn is_refused_without_checkpoints(data: &Path) {
    checkpoints(data).iter().for_each(|checkpoint| std::fs::write(checkpoint, b"?").unwrap());
    std::fs::remove_dir_all(data.join("view")).unwrap();
    let refused = Process::try_start(data, &OFTEN).err().expect("it forgot and started");
    assert!(refused.log.contains("no whole checkpoint"), "{}", refused.log);
    assert!(refused.log.contains("postrider restore"), "{}", refused.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_damaged_view_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut story = Story::new();
    let process = Process::start_with(&data, &OFTEN);
    let load = story.flood(&process);
    let first = data.join("log/00000000000000000001.log");
    let is_trimmed = || checkpoints(&data).len() == 2 && !first.exists();
    load.wait_until("two checkpoints and a shorter log", is_trimmed).await;
    load.acknowledged_more(100).await;
    let address = Arc::new(Mutex::new(process.address()));
    let metrics = Api::new(&address, None).get("/metrics").await.text();
    for name in ["postrider_checkpoint_age_seconds", "postrider_checkpoint_bytes"] {
        let line = metrics.lines().find(|line| line.starts_with(name)).expect(name);
        let value: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
    }
    process.kill();
    load.end().await;

    std::fs::remove_dir_all(data.join("view")).unwrap();
    let process = Process::start_with(&data, &OFTEN);
    assert!(process.log().contains("built anew"), "{}", process.log());
    story.check(&process, Lost::MayBeThere).await;
    process.kill();

    // The newest checkpoint is damaged, and so is the view.
    damage(checkpoints(&data).last().unwrap());
    std::fs::write(data.join("view/version"), b"?").unwrap();
    let answer = checked(&data);
    let oks: Vec<_> =
        answer["checkpoints"].as_array().unwrap().iter().map(|it| &it["ok"]).collect();
    assert_eq!(oks, [&json!(false), &json!(true)], "{answer}");
    let process = Process::start_with(&data, &OFTEN);
    assert!(process.log().contains("a checkpoint cannot be used"), "{}", process.log());
    story.check(&process, Lost::MayBeThere).await;
    process.terminate();
    assert!(process.ended().status.success());

    // A backup starts with a whole checkpoint, and continues with the log.
    let backup = dir.path().join("backup");
    let [to, from] = [&backup, &data].map(|path| path.to_str().unwrap().to_owned());
    let (status, made) = run(&["backup", "--json", "--to", &to, "--data-dir", &from]);
    assert_eq!((status, made["files"].as_u64()), (Some(0), Some(2)), "{made}");
    let last = checked(&data)["log"]["last"].clone();
    assert_eq!(made["position"], last);

    is_refused_without_checkpoints(&data);
    let restored = with_keys_of(&data, dir.path());
    let into = restored.to_str().unwrap();
    let (status, _) = run(&["restore", "--json", "--from", &to, "--data-dir", into]);
    assert_eq!(status, Some(0));
    story.check(&Process::start_with(&restored, &OFTEN), Lost::MayBeThere).await;
}

/// Returns whether the first file in `log/` starts behind a position.
fn log_begins_behind(data: &Path, position: u64) -> bool {
    let Ok(entries) = std::fs::read_dir(data.join("log")) else { return false };
    let names = entries.map_while(Result::ok).map(|entry| entry.file_name());
    let firsts = names.filter_map(|name| name.to_str()?.strip_suffix(".log")?.parse::<u64>().ok());
    firsts.min().is_some_and(|first| first > position + 1)
}

/// The entries after the last backup are missing: the next one starts over, and leaves no old
/// files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_begins_anew_where_the_log_was_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let [from, to] = [&data, &backup].map(|path| path.to_str().unwrap().to_owned());
    let mut story = Story::new();
    let process = Process::start(&data);
    let load = story.begin(&process);
    load.acknowledged(50).await;
    load.end().await;
    process.kill();
    let back_up = ["backup", "--json", "--to", &to, "--data-dir", &from];
    let (status, first) = run(&back_up);
    assert_eq!((status, &first["files"]), (Some(0), &json!(1)), "{first}");
    let position = first["position"].as_u64().unwrap();
    let process = Process::start_with(&data, &OFTEN[2..]);
    let load = story.flood(&process);
    load.wait_until("a trim", || log_begins_behind(&data, position)).await;
    process.kill();
    load.end().await;
    // An interrupted run leaves these files.
    for name in ["new.archive.part", "00000000000000000007.archive", "00000000000000000008.log"] {
        std::fs::write(backup.join(name), b"half").unwrap();
    }
    let (status, second) = run(&back_up);
    assert_eq!((status, &second["files"]), (Some(0), &json!(2)), "{second}");
    let mut names: Vec<_> = std::fs::read_dir(&backup).unwrap().map(Result::unwrap).collect();
    names.sort_by_key(|entry| entry.file_name());
    assert_eq!(names.len(), 4, "two archives, the list and the lock: {names:?}");
    let into = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let gap = (position + 1).to_string();
    let between = into("between");
    let restore = ["restore", "--json", "--from", &to, "--data-dir"];
    let (status, refused) = run(&[&restore[..], &[&between, "--position", &gap]].concat());
    assert_eq!((status, &refused["error"]), (Some(1), &json!("NO_SUCH_POSITION")), "{refused}");
    let (status, early) =
        run(&[&restore[..], &[&between, "--position", &position.to_string()]].concat());
    assert_eq!((status, &early["position"]), (Some(0), &json!(position)), "{early}");
    let restored = with_keys_of(&data, dir.path());
    let (status, made) = run(&[&restore[..], &[restored.to_str().unwrap()]].concat());
    assert_eq!((status, &made["position"]), (Some(0), &second["position"]), "{made}");
    story.check(&Process::start(&restored), Lost::MayBeThere).await;
}

/// A disk that has no room is reported before anything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_has_no_room_is_refused_with_the_bytes() {
    let disk = match Disk::tmpfs(1) {
        Ok(disk) => disk,
        Err(why) => return skip("a_copy_that_has_no_room_is_refused_with_the_bytes", &why),
    };
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    process.terminate();
    assert!(process.ended().status.success());
    let (to, from) = (disk.root().join("all.archive"), dir.path().to_str().unwrap());
    let export = ["export", "--json", "--to", to.to_str().unwrap(), "--data-dir", from];
    let ballast = fill(&disk.root());
    let (status, refused) = run(&export);
    assert_eq!((status, &refused["error"]), (Some(1), &json!("NO_SPACE")), "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("bytes are needed") && message.contains("and 0 are free"),
        "{message}"
    );
    std::fs::remove_file(ballast).unwrap();
    let (status, made) = run(&export);
    assert_eq!(status, Some(0), "{made}");
}
