//! The commands that set the channels and the texts of codes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{TestServer, eventually};

fn run(server: &TestServer, line: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(line.split_whitespace()).env("POSTRIDER_ADMIN_TOKEN", server.admin().token());
    command.env("POSTRIDER_API_KEY", server.demo().token());
    command.args(["--server", &format!("http://{}", server.address())]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have ended.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn shown(server: &TestServer, line: &str, input: &str) -> String {
    let output = run(server, line, input);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn answer(server: &TestServer, line: &str) -> Value {
    serde_json::from_str(&shown(server, &format!("{line} --json"), "")).unwrap()
}

/// Returns the reason for the failure of a command.
fn refusal(server: &TestServer, line: &str, input: &str) -> String {
    let output = run(server, line, input);
    assert!(!output.status.success(), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the words of each line.
fn words(shown: &str) -> Vec<Vec<&str>> {
    shown.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_sets_a_gateway_and_shows_its_secret_once() {
    let server = TestServer::start().await;
    let set = "sms set -w demo --url http://127.0.0.1:9/sms --sender Acme";
    let made = shown(&server, set, "");
    let lines = words(&made);
    assert!(lines[0][0] == "SECRET" && lines[0][1].starts_with("whsec_"), "{made}");
    assert_eq!(lines[3], ["SENDER", "Acme"]);
    assert_eq!(lines[4], ["CALLBACK", "/channels/sms/demo"]);
    let secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let given = shown(&server, &format!("{set} --secret -"), secret);
    assert!(!given.contains("SECRET") && !given.contains("whsec"), "{given}");
    let found = answer(&server, "sms show -w demo");
    assert_eq!((&found["kind"], &found["secret"]), (&json!("http"), &Value::Null));
    shown(&server, "sms delete -w demo", "");
    assert!(refusal(&server, "sms show -w demo", "").contains("NOT_FOUND"));
    let wrong = refusal(&server, &format!("{set} --secret -"), "whsec_short");
    assert!(wrong.contains("secret"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_sets_the_ways_of_a_code_and_shows_them() {
    let server = TestServer::start().await;
    let alone = shown(&server, "otp-channels show -w demo", "");
    assert_eq!(words(&alone), [vec!["CHANNEL", "SECONDS"], vec!["messaging", "30"]]);
    shown(&server, "sms set -w demo --kind sandbox", "");
    let set = shown(&server, "otp-channels set -w demo messaging sms=20", "");
    assert_eq!(words(&set)[1..], [["messaging", "30"], ["sms", "20"]]);
    let wrong = refusal(&server, "otp-channels set -w demo sms=9", "");
    assert!(wrong.contains("channels[0].timeout_seconds"), "{wrong}");

    let api = server.demo();
    let script = json!({"to": "*", "channel": "messaging", "outcome": "failed"});
    api.post("/v1/sandbox/outcomes", script).await.ok();
    let sent = api.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let line = format!("otp show {}", sent["request_id"].as_str().unwrap());
    let delivered = async || {
        let row = answer(&server, &line);
        (row["delivery_status"] == "delivered").then_some(row)
    };
    let row = eventually("the SMS", delivered).await;
    assert_eq!(row["tries"][0]["status"], "failed");
    let table = shown(&server, &line, "");
    let lines = words(&table);
    assert_eq!(lines[1], ["PHONE", "+15550123456"]);
    assert_eq!(lines[10][..4], ["STEP", "CHANNEL", "STATUS", "ERROR"]);
    assert_eq!(lines[11][..3], ["1", "messaging", "failed"]);
    assert_eq!(lines[12][..3], ["2", "sms", "delivered"]);
    let unknown = refusal(&server, "otp show otp_01jd3v0x5n8m7k2q4r6s8t0w2y", "");
    assert!(unknown.contains("NOT_FOUND"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_sets_texts_and_test_phones() {
    let server = TestServer::start().await;
    let texts = json!({"pt": {"sms": "{code} vale", "email_subject": "Código",
        "email_text": "{code}"}});
    let set = shown(&server, "otp-texts set -w demo -", &texts.to_string());
    assert!(set.contains("pt        {code} vale"), "{set}");
    let found = answer(&server, "otp-texts show -w demo");
    assert_eq!((&found["pt"], &found["en"]["email_subject"]), (&texts["pt"], &json!("Your code")));
    let wrong = json!({"pt": {"sms": "x", "email_subject": "s", "email_text": "{code}"}});
    let wrong = refusal(&server, "otp-texts set -w demo -", &wrong.to_string());
    assert!(wrong.contains("pt.sms"), "{wrong}");
    assert!(refusal(&server, "otp-texts set -w demo -", "{").contains("is not JSON"));
    assert!(refusal(&server, "otp-texts set -w demo missing.json", "").contains("missing.json"));

    let phones = "test-phones set -w demo +15550100001=123456 +15550100002=4321";
    let set = shown(&server, phones, "");
    assert_eq!(words(&set), [["PHONE"], ["+15550100001"], ["+15550100002"]]);
    let api = server.demo();
    let sent = api.post("/v1/otp/send", json!({"phone": "+15550100002"})).await.ok();
    let body = json!({"request_id": sent["request_id"], "otp": "4321"});
    assert_eq!(api.post("/v1/otp/verify", body).await.ok()["verified"], true);
    shown(&server, "test-phones set -w demo --none", "");
    assert_eq!(answer(&server, "test-phones show -w demo"), json!({"phones": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_lists_how_numbers_do() {
    let server = TestServer::start().await;
    shown(&server, "numbers connect -w demo --kind sandbox --messages-per-second 7", "");
    let listed = shown(&server, "numbers list -w demo", "");
    let lines = words(&listed);
    assert_eq!(lines[0][3..7], ["STATUS", "POOL", "PACE", "QUALITY"]);
    let own = lines.iter().find(|line| line[5] == "7").unwrap();
    assert_eq!(own[3..7], ["active", "true", "7", "unknown"]);
}
