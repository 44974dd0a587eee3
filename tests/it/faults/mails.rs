//! `kill -9` while mails are with a mail server, which counts accepted mails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use postrider_actors::Clock;
use serde_json::{Value, json};

use crate::inbox::email::{MailServer, mail, signature};
use crate::support::{Api, eventually};

use super::process::Process;

/// The number of mails that the server hands over at a time.
pub const AT_ONCE: usize = 8;
const WAITING: usize = 3;
const MAILS: usize = AT_ONCE + WAITING;

/// Posts a mail from somebody; the workspace's channel is open.
pub async fn write(stranger: &Api, secret: &str, from: &str) {
    let body = mail(from, &format!("<{from}>"), "Hi").to_string();
    let at = Clock::system().real().as_secs();
    let signature = signature(secret, at, &body);
    let at = at.to_string();
    let headers = [
        ("webhook-id", "id-1"),
        ("webhook-timestamp", at.as_str()),
        ("webhook-signature", &signature),
        ("Content-Type", "application/json"),
    ];
    stranger.call("POST", "/channels/email/demo", &headers, body.as_bytes()).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_a_mail_that_was_claimed_is_unknown_and_no_other_is_lost() {
    let smtp = MailServer::with(0, &[]);
    let port = smtp.port().to_string();
    let settings = [
        ("EMAIL__HOST", "127.0.0.1"),
        ("EMAIL__PORT", port.as_str()),
        ("EMAIL__TLS", "none"),
        ("EMAIL__FROM", "help@acme.example"),
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_with(dir.path(), &settings);
    let address = Arc::new(Mutex::new(process.address()));
    let secret = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let api = Api::new(&address, Some(secret("demo.key").trim()));
    let admin = Api::new(&address, Some(secret("admin.token").trim()));
    let opened = admin.post("/admin/v1/workspaces/demo/email", json!({})).await.json();
    let channel = opened["secret"].as_str().unwrap();
    let mut replies = BTreeMap::new();
    for number in 0..MAILS {
        // The first mails are accepted, but the mail server never acknowledges them.
        let name = if number < AT_ONCE { "hanging" } else { "ana" };
        let from = format!("{name}@example{number}.com");
        write(&Api::new(&address, None), channel, &from).await;
        let all = api.get("/v1/conversations?limit=1").await.ok();
        let path = format!("/v1/conversations/{}/messages", all["data"][0]["id"].as_str().unwrap());
        api.post(&path, json!({"type": "text", "text": "Hello"})).await.ok();
        replies.insert(from, path);
    }
    assert_eq!(smtp.after(AT_ONCE).await.len(), AT_ONCE, "the others have no place yet");
    process.kill();
    let process = Process::start_with(dir.path(), &settings);
    *address.lock().unwrap() = process.address();
    for (to, path) in &replies {
        let end = if to.starts_with("hanging") { "unknown" } else { "sent" };
        eventually(end, async || {
            let rows = api.get(path).await.ok();
            (rows["data"][0]["status"] == end).then_some(())
        })
        .await;
    }
    let mut taken: Vec<Value> =
        smtp.mails().iter().map(|mail| mail["rcpt_tos"][0].clone()).collect();
    taken.sort_by_key(ToString::to_string);
    assert_eq!(taken, replies.keys().map(|to| json!(to)).collect::<Vec<_>>(), "each once");
}
