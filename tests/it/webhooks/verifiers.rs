//! Deliveries, verified by the `standardwebhooks` libraries of other languages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Received, Sink};
use crate::webhooks::{events, register, server};

/// Deliveries, each with the secret to verify it and the expected result.
#[derive(Default)]
struct Cases {
    deliveries: Vec<Value>,
    expected: Vec<bool>,
}

impl Cases {
    fn add(&mut self, secret: &str, received: &Received, expected: bool) {
        let body = STANDARD.encode(&received.body);
        let headers = &received.headers;
        self.deliveries.push(json!({"secret": secret, "headers": headers, "body": body}));
        self.expected.push(expected);
    }

    /// Adds a delivery as it came, and every kind of forgery of it.
    fn add_with_forgeries(&mut self, secret: &str, received: &Received) {
        self.add(secret, received, true);
        let mut body = received.clone();
        body.body.push(b' ');
        self.add(secret, &body, false);
        let mut reused = received.clone();
        reused.headers.insert("webhook-id".to_owned(), "evt_01jd3v0x5n8m7k2q4r6s8t0w2y".to_owned());
        self.add(secret, &reused, false);
        let mut later = received.clone();
        let second: u64 = later.header("webhook-timestamp").parse().unwrap();
        later.headers.insert("webhook-timestamp".to_owned(), (second + 1).to_string());
        self.add(secret, &later, false);
        let strangers = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        self.add(strangers, received, false);
    }

    /// Has a library judge all of them.
    fn check(&self, command: &mut Command) {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = serde_json::to_vec(&self.deliveries).unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", output.status);
        let taken: Vec<bool> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(taken, self.expected, "{command:?}");
    }
}

/// Returns a file that `tests/run` has installed.
fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/verifiers").join(path);
    assert!(path.exists(), "{} is missing: tests/run installs it", path.display());
    path
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/webhooks/verifiers").join(name)
}

/// Returns real deliveries: single ones, batches, and those with two signatures.
async fn cases() -> Cases {
    let server = server().await;
    let (api, sink) = (server.workspace("acme").await, Sink::start());
    let (id, old) = register(&api, &sink.url("/single"), json!({})).await;
    let (_, of_batches) = register(&api, &sink.url("/batch"), json!({"batch": true})).await;
    let mut cases = Cases::default();
    events(&api, 1).await;
    let contact = json!({"phone": "+14155550100", "name": "Žofie “Ž” 🎈"});
    api.post("/v1/contacts", contact).await.ok();
    for received in sink.wait("/single", 2).await {
        cases.add_with_forgeries(&old, &received);
    }
    let batch = sink.wait("/batch", 1).await.remove(0);
    assert!(batch.json().is_array());
    cases.add_with_forgeries(&of_batches, &batch);

    let path = format!("/v1/webhooks/{id}/rotate-secret");
    let new = api.post(&path, json!({})).await.ok()["secret"].as_str().unwrap().to_owned();
    events(&api, 1).await;
    let both = sink.wait("/single", 3).await.remove(2);
    assert_eq!(both.header("webhook-signature").split(' ').count(), 2);
    cases.add_with_forgeries(&old, &both);
    cases.add_with_forgeries(&new, &both);

    server.advance(24 * 3600).await;
    let before = sink.received("/single").len();
    events(&api, 1).await;
    let after = sink.wait("/single", before + 1).await.pop().unwrap();
    cases.add_with_forgeries(&new, &after);
    cases.add(&old, &after, false);
    cases
}

#[tokio::test]
async fn the_libraries_of_python_and_javascript_take_deliveries_and_refuse_forgeries() {
    let mut python = Command::new(installed("venv/bin/python"));
    let modules = installed("node_modules/standardwebhooks").parent().unwrap().to_owned();
    let cases = cases().await;
    assert!(cases.expected.len() > 30);
    cases.check(python.arg(script("verify.py")));
    cases.check(Command::new("node").arg(script("verify.js")).env("NODE_PATH", modules));
}
