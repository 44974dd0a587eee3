//! Data directories of an earlier build: this one opens them and gives the same answers.
//!
//! `tests/fixtures/data-2026-11/README.md` explains how they were created, and why time is stopped
//! in them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use postrider::settings::{Flags, Settings};
use postrider::{BootError, RunningServer, Server};
use postrider_actors::store::{Position, SnapshotDir};
use postrider_actors::{Clock, StartError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::inbox::email::{mail, signature};
use crate::support::{Api, eventually, millis};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/data-2026-11");
/// Only this machine is called. Limits whose buckets were not saved do not interfere.
const SETTINGS: [(&str, &str); 5] = [
    ("POSTRIDER__CLOUD_API__BASE_URL", "http://127.0.0.1:9"),
    ("POSTRIDER__LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ("POSTRIDER__LIMITS__UNAUTHENTICATED_PER_MINUTE", "0"),
    ("POSTRIDER__LIMITS__CONTACTS_PER_MINUTE", "0"),
    ("POSTRIDER__STORAGE__SEGMENT_BYTES", "1048576"),
];

/// The maximum number of seconds that the sandbox's clock is moved at once.
const STEP_SECONDS_MAX: u64 = 31_536_000;

/// A server on a copy of such a directory.
struct Old {
    server: Option<RunningServer>,
    address: Arc<Mutex<SocketAddr>>,
    /// The values that cannot be read again: codes, keys, tokens.
    kept: Value,
    /// The answers of the earlier server.
    answers: Vec<Value>,
    dir: TempDir,
}

impl Old {
    fn unpack(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let archive = Path::new(FIXTURES).join(format!("{name}.tar.gz"));
        let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(dir.path()).status();
        assert!(tar.unwrap().success(), "tar and gzip unpack the directory");
        let answers = std::fs::read(Path::new(FIXTURES).join(format!("{name}.json"))).unwrap();
        let mut answers: Value = serde_json::from_slice(&answers).unwrap();
        let kept = answers["kept"].take();
        let Value::Array(answers) = answers["answers"].take() else { panic!("no answers") };
        let address = Arc::new(Mutex::new(SocketAddr::from(([127, 0, 0, 1], 0))));
        Self { server: None, address, kept, answers, dir }
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    async fn start(&mut self) {
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let flags = Flags { listen, data_dir: Some(self.data_dir()) };
        let set = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = Settings::from_layers(None, set.to_vec(), &flags).unwrap();
        let start = || async {
            match Server::start(settings.clone()).await {
                Err(BootError::InUse(_) | BootError::Engine(StartError::Locked)) => None,
                started => Some(started.unwrap()),
            }
        };
        let server = eventually("the end of the server before", start).await;
        *self.address.lock().unwrap() = server.address();
        self.server = Some(server);
    }

    async fn stop(&mut self) {
        self.server.take().unwrap().shutdown().await.unwrap();
    }

    fn text(&self, name: &str) -> &str {
        self.kept[name].as_str().unwrap()
    }

    fn api(&self, who: &str) -> Api {
        let key = if who == "admin" { "admin_token" } else { &format!("{who}_key") };
        Api::new(&self.address, Some(self.text(key)))
    }

    /// Checks that every request to the earlier server gets the same answer now.
    async fn answers_the_same(&self) {
        for then in &self.answers {
            let path = then["path"].as_str().unwrap();
            let reply = self.api(then["as"].as_str().unwrap()).get(path).await;
            let mut now = reply.ok();
            forget_rates(&mut now);
            drop_new_fields(&mut now, &then["answer"]);
            assert_eq!(now, then["answer"], "{path} as {}", then["as"]);
        }
    }

    async fn verify(&self, code: &Value, which: &str) -> crate::support::Reply {
        let body = json!({"request_id": code["request_id"], "otp": code[which]});
        self.api("demo").post("/v1/otp/verify", body).await
    }

    /// Checks that a call with an earlier idempotency key gets its earlier answer and has no
    /// effect.
    async fn repeats(&self) {
        let then = &self.kept["idempotent"];
        let text = |name: &str| then[name].as_str().unwrap();
        let headers = [("Idempotency-Key", text("key")), ("Content-Type", "application/json")];
        let body = text("body").as_bytes();
        let again = self.api("demo").call("POST", text("path"), &headers, body).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        let mut now = again.ok();
        drop_new_fields(&mut now, &then["answer"]);
        assert_eq!(now, then["answer"]);
    }
}

/// The fields that the earlier server did not have.
const NEW_FIELDS: [&str; 72] = [
    "accounts",
    "check",
    "decision",
    "safe",
    "adaptive",
    "portfolio_id",
    "resumes_at",
    "content",
    "content_truncated",
    "context",
    "referral",
    "status",
    "quality",
    "name_status",
    "throughput",
    "held",
    "media",
    "number_id",
    "pool",
    "created_by",
    "mode",
    "phone",
    "contact_id",
    "channel",
    "language",
    "tries",
    "reference",
    "broadcast_id",
    "ended_at",
    "metadata",
    "otp_per_ip_10m",
    "otp_per_ip_hour",
    "otp_per_session_10m",
    "otp_per_session_hour",
    "recipient",
    "user_id",
    "username",
    "source",
    "expires_at",
    "last_used_at",
    "allowed_subnets",
    "usage",
    "broadcasts_kept_max",
    "bytes_max",
    "reply_window",
    "unread",
    "last_inbound_at",
    "assignee",
    "number_id",
    "error",
    "id",
    "outcome",
    "previous_secret_ends_at",
    "health",
    "state",
    "reason",
    "since",
    "breaker",
    "pace",
    "lanes",
    "in_flight",
    "sent_last_minute",
    "last_error",
    "last_callback_at",
    "category",
    "price",
    "quality",
    "ttl_seconds",
    "parameter_format",
    "correct_category",
    "rejected_reason",
    "retried_by",
];

/// Removes the fields of an answer that the earlier server did not have.
fn drop_new_fields(now: &mut Value, then: &Value) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            now.retain(|name, _| !NEW_FIELDS.contains(&name.as_str()) || then.contains_key(name));
            for (name, value) in now {
                drop_new_fields(value, then.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            now.iter_mut().zip(then).for_each(|(now, then)| drop_new_fields(now, then));
        }
        _ => {}
    }
}

/// Removes the present rates of broadcasts, which are not kept.
fn forget_rates(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("rate_per_second");
            fields.values_mut().for_each(forget_rates);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_rates),
        _ => {}
    }
}

/// Checks that codes and limits continue.
async fn codes_and_limits_are_remembered(old: &Old) {
    let [pending, missed] = ["pending", "missed"].map(|name| &old.kept[name]);
    assert_eq!(old.verify(pending, "code").await.ok()["verified"], true);
    old.verify(pending, "code").await.check(422, "UNPROCESSABLE");
    old.verify(&old.kept["verified"], "code").await.check(422, "UNPROCESSABLE");
    old.verify(&old.kept["invalidated"], "code").await.check(422, "OTP_MAX_ATTEMPTS");
    let wrong = old.verify(missed, "wrong").await.ok();
    assert_eq!((&wrong["verified"], &wrong["attempts_remaining"]), (&json!(false), &json!(2)));
    assert_eq!(old.verify(missed, "code").await.ok()["verified"], true);
    let one_more = json!({"phone": old.text("limited_phone")});
    old.api("demo").post("/v1/otp/send", one_more).await.check(429, "OTP_RATE_LIMITED");
    old.api("spent").get("/v1/contacts").await.check(429, "RATE_LIMITED");
    old.repeats().await;
}

/// Checks that encrypted secrets and the keyed indexes of the store can be used.
async fn secrets_and_indexes_are_of_use(old: &Old) {
    let path = old.kept["acme_number"]["callback_path"].as_str().unwrap();
    let query = "hub.mode=subscribe&hub.verify_token=golden-verify&hub.challenge=42";
    let stranger = Api::new(&old.address, None);
    assert_eq!(stranger.get(&format!("{path}?{query}")).await.text(), "42");
    let (at, body) = (now_seconds(), mail("ana@example.com", "<2@x>", "Hello?").to_string());
    let signature = signature(old.text("email_secret"), at, &body);
    let at = at.to_string();
    let headers = [
        ("webhook-id", "id-1"),
        ("webhook-timestamp", at.as_str()),
        ("webhook-signature", signature.as_str()),
        ("Content-Type", "application/json"),
    ];
    stranger.call("POST", "/channels/email/acme", &headers, body.as_bytes()).await.ok();
    let inbox = old.api("inbox");
    let found = inbox.get("/v1/conversations").await.ok();
    assert_eq!(found["total"], 1, "it is of the same contact");
    let path = format!("/v1/conversations/{}/messages", found["data"][0]["id"].as_str().unwrap());
    // Time continues from 2100, where the journal ends, so the mail is between the other two.
    let written = inbox.get(&path).await.ok();
    let is_hello = |message: &Value| message["text"] == "Hello?";
    let hello = written["data"].as_array().unwrap().iter().find(|it| is_hello(it));
    assert!(written["total"] == 3 && hello.is_some(), "{written}");
    assert!(hello.unwrap()["at"].as_str().unwrap().starts_with("2100-01-01T"), "{written}");
    let taken = json!({"name": "Ann", "phone": "+15550200001"});
    old.api("demo").post("/v1/contacts", taken).await.check(409, "CONFLICT");
    // The window that Ann opened by writing is open.
    let text = json!({"to": "+15550200001", "type": "text", "text": "Still there?"});
    old.api("demo").post("/v1/messaging/send", text).await.ok();
}

fn now_seconds() -> u64 {
    Clock::system().real().as_secs()
}

/// Checks that the scheduled broadcast goes out at its time, to the permitted recipients.
async fn the_scheduled_broadcast_goes_out(old: &Old) {
    let demo = old.api("demo");
    let now = demo.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap().to_owned();
    let mut left = (millis("2100-06-01T09:00:00.000Z") - millis(&now)) / 1000 + 1;
    while left > 0 {
        let step = left.min(STEP_SECONDS_MAX);
        demo.post("/v1/sandbox/clock", json!({"advance_seconds": step})).await.ok();
        left -= step;
    }
    let path = format!("/v1/messaging/broadcasts/{}", old.text("later"));
    let done = eventually("the scheduled broadcast", || async {
        let found = demo.get(&path).await.ok();
        (found["status"] == "completed").then_some(found)
    });
    assert_eq!(done.await["counts"]["sent"], 2);
}

/// The journal alone would also suffice, so the snapshot is read by itself too.
fn the_snapshot_is_whole(data: &Path) {
    let loaded = SnapshotDir::open(data.join("snapshots")).unwrap().load().unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    assert!(loaded.position > Position::START);
    let ids: Vec<_> = loaded.entries.iter().map(|(id, _)| id.as_str()).collect();
    assert!(ids.contains(&"busy") && ids.contains(&"demo"), "{ids:?}");
}

async fn opens(name: &str) {
    let mut old = Old::unpack(name);
    if name == "stopped" {
        the_snapshot_is_whole(&old.data_dir());
    }
    old.start().await;
    old.answers_the_same().await;
    // This build can also read its own changes.
    old.stop().await;
    old.start().await;
    old.answers_the_same().await;
    codes_and_limits_are_remembered(&old).await;
    secrets_and_indexes_are_of_use(&old).await;
    the_scheduled_broadcast_goes_out(&old).await;
    old.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_was_closed_in_november_2026_opens() {
    opens("stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_whose_server_was_killed_in_november_2026_opens() {
    opens("killed").await;
}
