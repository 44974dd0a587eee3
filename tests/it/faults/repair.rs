//! Damaged data of a stopped server: it is refused, checked and repaired with commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::broadcast::made;
use super::process::Process;

/// Runs a command on the data, as somebody at a terminal does.
fn run(data: &Path, arguments: &[&str]) -> (Option<i32>, Value, Output) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments).arg("--data-dir").arg(data).arg("--json");
    let output = command.output().unwrap();
    let answer = serde_json::from_slice(&output.stdout);
    (output.status.code(), answer.unwrap_or_else(|error| panic!("{error}: {output:?}")), output)
}

/// Returns the newest file of the log.
fn newest_segment(data: &Path) -> PathBuf {
    let entries = data.join("log").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let segments = entries.filter(|path| path.extension().is_some_and(|it| it == "log"));
    segments.max().unwrap()
}

/// Creates data with a few codes that were sent. Returns their requests.
async fn data(dir: &Path) -> Vec<String> {
    let process = Process::start(dir);
    let (mut demo, mut requests) = (process.demo(), Vec::new());
    for number in 0..200 {
        let phone = json!({"phone": format!("+1555012{number:04}")});
        let sent = made(&mut demo, "/v1/otp/send", phone).await;
        requests.push(sent["request_id"].as_str().unwrap().to_owned());
    }
    let (status, answer, _) = run(dir, &["check"]);
    assert_eq!((status, &answer["error"]), (Some(1), &json!("IN_USE")), "{answer}");
    process.terminate();
    assert!(process.ended().status.success());
    requests
}

/// Changes a bit of the newest segment, near the end of its records. Returns the file and the
/// offset.
fn damage(data: &Path) -> (String, usize) {
    let segment = newest_segment(data);
    let mut bytes = std::fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    let at = 4096 + (end - 4096) / 10 * 9;
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    (segment.file_name().unwrap().to_str().unwrap().to_owned(), at)
}

/// Checks that the data has no fault.
fn check_whole(data: &Path) {
    for deep in [&["check"][..], &["check", "--deep"]] {
        let (status, answer, _) = run(data, deep);
        assert_eq!((status, &answer["ok"], &answer["format"]), (Some(0), &json!(true), &json!(1)));
        let (log, view) = (&answer["log"], &answer["view"]);
        assert_eq!((&log["first"], &log["last"]), (&json!(1), &view["applied"]), "{answer}");
        assert_eq!((&log["torn_bytes"], &answer["problems"]), (&json!(0), &json!([])), "{answer}");
        assert_eq!(log["id"].as_str().map(str::len), Some(32));
        assert!(view["records"].as_u64() > Some(10), "{answer}");
        let compared = (deep.len() == 2).then_some(true);
        assert_eq!(answer["deep"]["compared"].as_bool(), compared, "{answer}");
    }
    let (status, answer, _) = run(data, &["repair"]);
    assert_eq!((status, &answer["given_up"]), (Some(0), &Value::Null), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_data_is_refused_checked_and_repaired() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let requests = data(&dir).await;
    check_whole(&dir);
    let (name, at) = damage(&dir);
    let refused = Process::try_start(&dir, &[]).err().expect("a start on damaged data");
    assert!(refused.log.contains("postrider repair --data-dir DIR"), "{}", refused.log);
    let (status, answer, _) = run(&dir, &["check"]);
    assert_eq!((status, &answer["ok"]), (Some(1), &json!(false)), "{answer}");
    let problem = &answer["problems"][0];
    let place = (&problem["kind"], &problem["file"]);
    assert_eq!(place, (&json!("damaged"), &json!(format!("log/{name}"))));
    assert!(problem["offset"].as_u64().unwrap() as usize <= at, "{problem}");
    assert!(problem["cost"].as_str().unwrap().contains("does not start"), "{problem}");

    let last = answer["log"]["last"].as_u64().unwrap();
    let (status, planned, output) = run(&dir, &["repair"]);
    assert_eq!((status, &planned["log_id"]), (Some(2), &Value::Null), "{output:?}");
    let position = problem["position"].as_u64().unwrap();
    assert_eq!(planned["given_up"], json!({"from": position, "to": last}), "{planned}");
    assert!(Process::try_start(&dir, &[]).is_err(), "the plan has changed something");
    let (status, repaired, _) = run(&dir, &["repair", "--accept-loss"]);
    assert_eq!((status, &repaired["given_up"]), (Some(0), &planned["given_up"]), "{repaired}");
    assert_eq!(repaired["last"], json!(position - 1));
    assert_ne!(repaired["log_id"], answer["log"]["id"]);

    let process = Process::start(&dir);
    let mut demo = process.demo();
    let first = demo.fetch(&format!("/v1/otp/{}", requests[0])).await;
    assert_eq!(first["status"], "active", "{first}");
    made(&mut demo, "/v1/otp/send", json!({"phone": "+15550999999"})).await;
    process.terminate();
    assert!(process.ended().status.success());
    let (status, answer, _) = run(&dir, &["check"]);
    assert_eq!((status, &answer["log"]["first"]), (Some(0), &json!(position)), "{answer}");
}

#[test]
fn a_directory_without_data_is_reported_in_one_object() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["check", "repair"] {
        let (status, answer, _) = run(dir.path(), &[command]);
        assert_eq!((status, &answer["error"]), (Some(1), &json!("IO")), "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("no data"), "{answer}");
    }
    std::fs::create_dir(dir.path().join("view")).unwrap();
    std::fs::write(dir.path().join("format"), "4\n").unwrap();
    let (status, answer, _) = run(dir.path(), &["check"]);
    assert_eq!((status, &answer["error"]), (Some(1), &json!("NEWER_FORMAT")), "{answer}");
}
