//! `postrider demo --keep`: a server whose workspace has a history.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::faults::signal;

/// A demo, which ends with the test even if that fails.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(more: &[&str], temporary: &Path) -> Demo {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["demo", "--keep"]).args(more).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Demo(command.spawn().unwrap())
}

/// Returns the output of the demo until it serves.
fn shown(Demo(demo): &mut Demo) -> String {
    let mut all = String::new();
    for line in BufReader::new(demo.stdout.take().unwrap()).lines().map_while(Result::ok) {
        all.push_str(&line);
        all.push('\n');
        if line.starts_with("Ctrl-C stops the server") {
            return all;
        }
    }
    let ended = demo.wait().unwrap();
    let mut errors = BufReader::new(demo.stderr.take().unwrap()).lines().map_while(Result::ok);
    panic!("it ended with {ended}: {all}{:?}", errors.by_ref().collect::<Vec<_>>());
}

fn stop(mut demo: Demo) {
    signal(demo.0.id(), "INT");
    assert!(demo.0.wait().unwrap().success());
}

/// Returns every row of a list of any kind.
fn rows(
    http: &reqwest::Client,
    address: &str,
    token: &str,
    path: &str,
) -> impl Future<Output = Vec<Value>> + use<> {
    let request = http.get(format!("{address}{path}")).bearer_auth(token.trim());
    let path = path.to_owned();
    async move {
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["data"].as_array().unwrap_or_else(|| panic!("{path}: {answer}")).clone()
    }
}

fn all<'a>(rows: &'a [Value], name: &str) -> Vec<&'a str> {
    let mut found: Vec<_> = rows.iter().filter_map(|row| row[name].as_str()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[tokio::test]
async fn it_serves_a_history_and_keeps_it_where_it_was_asked_to() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("kept");
    let listen = ["--data-dir", directory.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let mut demo = start(&listen, place.path());
    let printed = shown(&mut demo);
    let link =
        printed.lines().find(|line| line.contains("#in=")).unwrap_or_else(|| panic!("{printed}"));
    let link = link.split_whitespace().last().unwrap();
    let address = link.split("/ui").next().unwrap();
    assert!(printed.contains(&format!("--data-dir {}` serves it", directory.display())));
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let (key, admin) = (read("demo.key"), read("admin.token"));
    drop(rustls::crypto::ring::default_provider().install_default());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let list = |path: &str| rows(&http, address, &key, path);

    let broadcasts = list("/v1/messaging/broadcasts?limit=50").await;
    let states = ["cancelled", "completed", "failed", "paused", "scheduled", "sending"];
    assert_eq!(all(&broadcasts, "status"), states);
    let codes = list("/v1/otp?limit=200").await;
    assert_eq!(all(&codes, "status"), ["active", "expired", "invalidated", "verified"]);
    let conversations = list("/v1/conversations?limit=50").await;
    assert_eq!(all(&conversations, "status"), ["open", "pending", "resolved"]);
    assert!(list("/v1/contacts?limit=200").await.len() == 200);
    let hooks = list("/v1/webhooks?limit=10").await;
    let mut tries = Vec::new();
    for hook in &hooks {
        let path = format!("/v1/webhooks/{}/deliveries?limit=50", hook["id"].as_str().unwrap());
        tries.extend(list(&path).await);
    }
    assert!(tries.iter().any(|it| it["status"] == 204), "{tries:?}");
    assert!(tries.iter().any(|it| it["error"] == "connection_failed"), "{tries:?}");
    let audit = rows(&http, address, &admin, "/admin/v1/audit?limit=200").await;
    assert!(all(&audit, "action").len() > 5, "{:?}", all(&audit, "action"));
    stop(demo);

    // It is refused, because a second history would use the same contacts.
    let mut again = start(&listen, place.path());
    let mut errors = String::new();
    again.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(!again.0.wait().unwrap().success() && errors.contains("is not empty"), "{errors}");
}

#[test]
fn without_a_directory_nothing_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = start(&[], temporary.path());
    assert!(shown(&mut demo).contains("deletes its data"));
    assert_eq!(temporary.path().read_dir().unwrap().count(), 1);
    stop(demo);
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
}
