//! Copies of all data, by the real commands: the restored data has every acknowledged change.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::check::Lost;
use super::load::Story;
use super::process::{Process, wait_for};
use crate::support::{Api, eventually};

/// Runs a command of the program.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments).env("POSTRIDER__STORAGE__SEGMENT_BYTES", "1048576");
    tokio::task::block_in_place(|| command.output().unwrap())
}

/// Runs a command that must succeed, and parses its report.
pub(super) fn done(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert!(shown.is_empty(), "{shown}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a command that must be refused with a code, in both forms. Returns the message.
pub(super) fn refused(arguments: &[&str], code: &str) -> String {
    let message = refused_as_json(arguments, code);
    let output = run(arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(shown, format!("postrider: {message}\n"));
    message
}

fn refused_as_json(arguments: &[&str], code: &str) -> String {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["error"], code, "{arguments:?}: {answer}");
    answer["message"].as_str().unwrap().to_owned()
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Directories and files below one that is removed with the test.
pub(super) struct Place(tempfile::TempDir);

impl Place {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a directory with the keys of another one.
    pub(super) fn with_keys_of(&self, name: &str, other: &Path) -> PathBuf {
        let dir = self.at(name);
        std::fs::create_dir(&dir).unwrap();
        for key in ["master.key", "admin.token", "demo.key"] {
            std::fs::copy(other.join(key), dir.join(key)).unwrap();
        }
        dir
    }
}

fn address(process: &Process) -> String {
    format!("http://{}", process.address())
}

/// While copies are made of a server, it answers clients. Every answer holds for the restored
/// copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_in_the_copies() {
    let place = Place::new();
    let data = place.at("data");
    let mut story = Story::new();
    let mut process = Process::start(&data);
    let (archive, backup) = (place.at("all.archive"), place.at("backup"));
    let load = story.begin(&process);
    load.acknowledged(100).await;
    let server = address(&process);
    let token = data.join("admin.token");
    let source = ["--server", &server, "--token-file", text(&token)];
    for _ in 0..3 {
        let exported = done(&[&["export", "--to", text(&archive)], &source[..]].concat());
        assert!(exported["position"].as_u64() > Some(0), "{exported}");
        done(&[&["backup", "--to", text(&backup)], &source[..]].concat());
        load.acknowledged_more(100).await;
    }
    load.end().await;
    process.terminate();
    assert!(process.ended().status.success());

    let exported = done(&["export", "--to", text(&archive), "--data-dir", text(&data)]);
    let target = place.with_keys_of("imported", &data);
    let imported = done(&["import", "--from", text(&archive), "--data-dir", text(&target)]);
    for field in ["position", "records", "workspaces"] {
        assert_eq!(imported[field], exported[field], "{field}");
    }
    process = Process::start(&target);
    story.check(&process, Lost::MustNotBeThere).await;
    // The server continues from there, and through a crash.
    story.until_killed(process, 50..100).await;
    process = Process::start(&target);
    story.check(&process, Lost::MayBeThere).await;
    process.kill();

    // Answers since then are not in an earlier backup: another story starts with it.
    let backed = done(&["backup", "--to", text(&backup), "--data-dir", text(&data)]);
    assert_eq!(backed["position"], exported["position"]);
    let again = done(&["backup", "--to", text(&backup), "--data-dir", text(&data)]);
    assert_eq!((&again["files"], &again["copied_bytes"]), (&backed["files"], &json!(0)));
    let other =
        refused(&["backup", "--to", text(&backup), "--data-dir", text(&target)], "NOT_EMPTY");
    assert!(other.contains("another log"), "{other}");
    let restored = place.with_keys_of("restored", &data);
    let made = done(&["restore", "--from", text(&backup), "--data-dir", text(&restored)]);
    assert_eq!((&made["position"], &made["held"]), (&exported["position"], &json!(false)));
    assert_ne!(made["log_id"], imported["log_id"]);
    let process = Process::start(&restored);
    let log = process.demo().fetch("/v1/events?order=desc&limit=1").await;
    assert!(log["data"][0].is_object(), "{log}");
}

/// A code that was sent, and the end of the backup at that time.
struct Step {
    request: String,
    code: String,
    position: u64,
}

fn demo(process: &Process, data: &Path) -> Api {
    let key = std::fs::read_to_string(data.join("demo.key")).unwrap();
    let address: SocketAddr = process.address();
    Api::new(&Arc::new(Mutex::new(address)), Some(key.trim()))
}

async fn code(api: &Api, phone: &str) -> String {
    let path = format!("/v1/sandbox/messages?limit=1&to={}", phone.replace('+', "%2B"));
    let code =
        || async { api.get(&path).await.ok()["data"][0]["code"].as_str().map(str::to_owned) };
    eventually("a message", code).await
}

const LIMITED: [(&str, &str); 1] = [("LIMITS__OTP_PER_PHONE_10M", "2")];
const LIMITED_PHONE: &str = "+15550300001";

/// Makes a call with an idempotency key.
async fn with_key(api: &Api) -> crate::support::Reply {
    let headers = [("Idempotency-Key", "copies-1"), ("Content-Type", "application/json")];
    api.call("POST", "/v1/otp/send", &headers, br#"{"phone":"+15550300002"}"#).await
}

/// The state that restores must keep: attempts, windows, idempotency keys and broadcasts.
struct Kept {
    missed: Step,
    answered: Value,
    broadcast: String,
}

async fn make_kept(api: &Api) -> Kept {
    for _ in 0..2 {
        api.post("/v1/otp/send", json!({"phone": LIMITED_PHONE})).await.ok();
    }
    let phone = "+15550300003";
    let request = api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    let request = request["request_id"].as_str().unwrap().to_owned();
    let missed = Step { request, code: code(api, phone).await, position: 0 };
    let wrong = json!({"request_id": missed.request, "otp": wrong(&missed.code)});
    assert_eq!(api.post("/v1/otp/verify", wrong).await.ok()["attempts_remaining"], 4);
    let answered = with_key(api).await.ok();
    let phones: Vec<_> = (0..50).map(|number| format!("+155504{number:05}")).collect();
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": phones});
    let made = api.post("/v1/messaging/broadcasts", body).await.ok();
    let broadcast = made["broadcast_id"].as_str().unwrap();
    let broadcast = format!("/v1/messaging/broadcasts/{broadcast}");
    let is_done = || async { (counts(api, &broadcast).await["sent"] == 50).then_some(()) };
    eventually("the broadcast", is_done).await;
    Kept { missed, answered, broadcast }
}

async fn counts(api: &Api, broadcast: &str) -> Value {
    api.get(broadcast).await.ok()["counts"].clone()
}

fn wrong(code: &str) -> String {
    let other = if code.starts_with('0') { "1" } else { "0" };
    format!("{other}{}", &code[1..])
}

async fn check_kept(api: &Api, kept: &Kept) {
    let one_more = json!({"phone": LIMITED_PHONE});
    api.post("/v1/otp/send", one_more).await.check(429, "OTP_RATE_LIMITED");
    let again = with_key(api).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.ok(), kept.answered);
    assert_eq!(counts(api, &kept.broadcast).await["sent"], 50);
    let Step { request, code, .. } = &kept.missed;
    let missed = json!({"request_id": request, "otp": wrong(code)});
    assert_eq!(api.post("/v1/otp/verify", missed).await.ok()["attempts_remaining"], 3);
    let right = json!({"request_id": request, "otp": code});
    assert_eq!(api.post("/v1/otp/verify", right).await.ok()["verified"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_to_each_position_of_a_run() {
    let place = Place::new();
    let (data, backup) = (place.at("data"), place.at("backup"));
    let process = Process::start_with(&data, &LIMITED);
    let api = demo(&process, &data);
    let kept = make_kept(&api).await;
    let (server, token) = (address(&process), data.join("admin.token"));
    let (mut steps, mut copied) = (Vec::new(), Vec::new());
    for step in 0..4 {
        let phone = format!("+1555020000{step}");
        let request = api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
        let request = request["request_id"].as_str().unwrap().to_owned();
        let code = code(&api, &phone).await;
        let backup = ["backup", "--to", text(&backup), "--server", &server];
        let made = done(&[&backup[..], &["--token-file", text(&token)]].concat());
        let position = made["position"].as_u64().unwrap();
        copied.push(made["copied_bytes"].as_u64().unwrap());
        steps.push(Step { request, code, position });
    }
    assert!(copied[1..].iter().all(|bytes| *bytes < copied[0]), "{copied:?}");
    process.kill();
    for (at, step) in steps.iter().enumerate() {
        let target = place.with_keys_of(&format!("restored-{at}"), &data);
        let position = step.position.to_string();
        let from = ["restore", "--from", text(&backup), "--data-dir", text(&target)];
        let made = done(&[&from[..], &["--position", &position]].concat());
        assert_eq!(made["position"], step.position);
        let process = Process::start_with(&target, &LIMITED);
        let api = demo(&process, &target);
        check_kept(&api, &kept).await;
        for (other, Step { request, code, .. }) in steps.iter().enumerate() {
            let right = json!({"request_id": request, "otp": code});
            let reply = api.post("/v1/otp/verify", right).await;
            match other <= at {
                true => assert_eq!(reply.ok()["verified"], true, "{other} at {at}"),
                false => drop(reply.check(404, "NOT_FOUND")),
            }
        }
        process.kill();
    }
    let [first, last] = [&steps[0], &steps[3]].map(|step| step.position);
    let from = ["restore", "--from", text(&backup), "--data-dir"];
    let none = place.at("none");
    for wrong in [1, last + 1] {
        let wrong = wrong.to_string();
        let position = [text(&none), "--position", &wrong];
        let shown = refused(&[&from[..], &position[..]].concat(), "NO_SUCH_POSITION");
        assert!(shown.contains(&last.to_string()) && shown.contains(&wrong), "{shown}");
    }
    assert!(first < last);
    let held = place.at("held");
    let made = done(&[&from[..], &[text(&held), "--held"]].concat());
    assert_eq!(made["held"], true);
    assert_eq!(std::fs::read(held.join("held")).unwrap(), b"");
}

/// Creates a stopped data directory with some data, and an archive and a backup of it.
async fn stopped(place: &Place) -> (PathBuf, PathBuf, PathBuf) {
    let (data, archive, backup) = (place.at("data"), place.at("all.archive"), place.at("backup"));
    let process = Process::start(&data);
    let api = demo(&process, &data);
    api.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let (server, token) = (address(&process), data.join("admin.token"));
    let source = ["--server", &server, "--token-file", text(&token)];
    done(&[&["backup", "--to", text(&backup)], &source[..]].concat());
    api.post("/v1/otp/send", json!({"phone": "+15550123457"})).await.ok();
    for command in ["export", "backup"] {
        let shown =
            refused(&[command, "--to", text(&place.at("x")), "--data-dir", text(&data)], "IN_USE");
        assert!(shown.contains(text(&data)), "{shown}");
    }
    refused(&["import", "--from", text(&archive), "--data-dir", text(&data)], "IN_USE");
    process.kill();
    done(&["backup", "--to", text(&backup), "--data-dir", text(&data)]);
    done(&["export", "--to", text(&archive), "--data-dir", text(&data)]);
    assert!(!place.at("x").join("manifest.json").exists());
    (data, archive, backup)
}

fn flip(path: &Path, at: usize) -> impl Fn() {
    let whole = std::fs::read(path).unwrap();
    let mut bad = whole.clone();
    bad[at] ^= 4;
    std::fs::write(path, bad).unwrap();
    let path = path.to_owned();
    move || std::fs::write(&path, &whole).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_be_used_is_refused() {
    let place = Place::new();
    let (data, archive, backup) = stopped(&place).await;
    let target = place.at("target");
    let import = ["import", "--from", text(&archive), "--data-dir", text(&target)];
    let restore = ["restore", "--from", text(&backup), "--data-dir", text(&target)];
    let nothing_is_left = || {
        let left = std::fs::read_dir(&target).map(|it| it.map(|it| it.unwrap().file_name()));
        let left: Vec<_> = left.into_iter().flatten().collect();
        assert!(left.iter().all(|name| name == "server.lock"), "{left:?}");
    };
    let bytes = std::fs::metadata(&archive).unwrap().len() as usize;
    for at in [0, 5, 40, bytes / 2, bytes - 1] {
        let mend = flip(&archive, at);
        let shown = (if at == 0 { refused } else { refused_as_json })(&import, "DAMAGED");
        assert!(shown.contains(text(&archive)) && shown.contains("at byte"), "{shown}");
        nothing_is_left();
        mend();
    }
    for file in std::fs::read_dir(&backup).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let Ok(bytes @ 1..) = std::fs::metadata(&file).map(|it| it.len() as usize) else {
            continue;
        };
        for at in [10, bytes - 20] {
            let mend = flip(&file, at);
            let shown = refused_as_json(&restore, "DAMAGED");
            assert!(name == "manifest.json" || shown.contains(name), "{name}: {shown}");
            nothing_is_left();
            mend();
        }
    }
    // Files of the directory itself are not touched.
    for command in [&import[..2], &restore[..2]] {
        let from = if command[0] == "import" { text(&archive) } else { text(&backup) };
        let shown = refused(&[command[0], "--from", from, "--data-dir", text(&data)], "NOT_EMPTY");
        assert!(shown.contains("master.key"), "{shown}");
    }
    let other = place.at("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("photo.jpg"), "x").unwrap();
    refused(&["backup", "--to", text(&other), "--data-dir", text(&data)], "NOT_EMPTY");
    refused(&["restore", "--from", text(&other), "--data-dir", text(&target)], "IO");
    std::fs::create_dir_all(&target).unwrap();
    std::fs::write(target.join("master.key"), format!("{}\n", "5a".repeat(32))).unwrap();
    refused(&import, "KEY_MISMATCH");
    refused(&restore, "KEY_MISMATCH");
    std::fs::copy(data.join("master.key"), target.join("master.key")).unwrap();
    done(&import);
    drop(Process::start(&target));
    for wrong in [&["export", "--data-dir", "d"][..], &["restore", "--from", "x"]] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Runs a command and kills it as soon as a file exists. Returns whether it was killed.
fn killed_at(arguments: &[&str], file: &Path) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_postrider"))
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("a file or the end", || {
        (file.exists() || child.try_wait().unwrap().is_some()).then_some(())
    });
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_killed_leaves_nothing_that_looks_whole() {
    let place = Place::new();
    let (data, archive, backup) = stopped(&place).await;
    let again = place.at("again.archive");
    let export = ["export", "--to", text(&again), "--data-dir", text(&data)];
    if killed_at(&export, &place.at("again.archive.part")) {
        assert!(!again.exists());
    }
    done(&export);
    let target = place.with_keys_of("target", &data);
    let import = ["import", "--from", text(&archive), "--data-dir", text(&target)];
    if killed_at(&import, &target.join("import.tmp")) && !target.join("view").exists() {
        let started = Process::try_start(&target, &[]).err().expect("half of it was started");
        assert!(started.log.contains("did not come to its end"), "{}", started.log);
        done(&["restore", "--from", text(&backup), "--data-dir", text(&target)]);
    }
    drop(Process::start(&target));
    let other = place.at("other");
    let back_up = ["backup", "--to", text(&other), "--data-dir", text(&data)];
    if killed_at(&back_up, &other.join("new.archive.part")) && !other.join("manifest.json").exists()
    {
        let none = place.at("none");
        refused(&["restore", "--from", text(&other), "--data-dir", text(&none)], "IO");
    }
    done(&back_up);
}
