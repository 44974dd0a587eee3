//! Conversations by e-mail: mail services post incoming mails, and replies go out by SMTP.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postrider_actors::Clock;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::contacts::make;
use crate::support::{Api, Reply, TestServer, eventually};

const CHANNEL: &str = "/channels/email/acme";
const ADMIN: &str = "/admin/v1/workspaces/acme/email";
const CONVERSATIONS: &str = "/v1/conversations";

/// A third-party mail server. Dropping it ends it.
pub struct MailServer {
    child: Child,
    port: u16,
    mails: Arc<Mutex<Vec<Value>>>,
    /// Each attempt to log in: `true` if it was right.
    logins: Arc<Mutex<Vec<bool>>>,
}

impl MailServer {
    /// Starts it on this port; 0 is a free one.
    fn start(port: u16) -> Self {
        Self::with(port, &[])
    }

    /// Starts it on this port with these options.
    pub fn with(port: u16, options: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = root.join("target/verifiers/venv/bin/python");
        assert!(python.exists(), "no aiosmtpd: tests/run installs it in target/verifiers/venv");
        let mut child = Command::new(python)
            .arg(root.join("tests/it/inbox/smtp.py"))
            .arg(port.to_string())
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().expect("aiosmtpd does not start: run tests/run").unwrap();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let (taken, logins) = (Arc::clone(&mails), Arc::<Mutex<Vec<bool>>>::default());
        let tried = Arc::clone(&logins);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).unwrap();
                match line["login"].as_bool() {
                    Some(right) => tried.lock().unwrap().push(right),
                    None => taken.lock().unwrap().push(line),
                }
            }
        });
        Self { child, port: port.parse().unwrap(), mails, logins }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn logins(&self) -> Vec<bool> {
        self.logins.lock().unwrap().clone()
    }

    pub fn mails(&self) -> Vec<Value> {
        self.mails.lock().unwrap().clone()
    }

    /// Returns the mails, as soon as there are so many.
    pub async fn after(&self, count: usize) -> Vec<Value> {
        eventually("a mail", || async { Some(self.mails()).filter(|all| all.len() >= count) }).await
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server that receives mails for the workspace acme.
pub struct Rig {
    pub server: TestServer,
    pub api: Api,
    secret: String,
}

impl Rig {
    /// Starts a rig that sends by a mail server on this port, or not at all.
    async fn new(port: Option<u16>) -> Self {
        Self::with(port, &[("EMAIL__TLS", "none")]).await
    }

    /// Starts a rig with these settings, too.
    pub async fn with(port: Option<u16>, others: &[(&str, &str)]) -> Self {
        let port = port.map(|port| port.to_string()).unwrap_or_default();
        let mut settings = vec![("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
        if !port.is_empty() {
            settings.extend([
                ("EMAIL__HOST", "127.0.0.1"),
                ("EMAIL__PORT", port.as_str()),
                ("EMAIL__FROM", "help@acme.example"),
                ("EMAIL__FROM_NAME", "Acme"),
                ("EMAIL__TIMEOUT_SECONDS", "5"),
            ]);
            settings.extend(others);
        }
        let server = TestServer::with(&settings).await;
        let api = server.workspace("acme").await;
        let opened = server.admin().post(ADMIN, json!({})).await;
        assert_eq!(opened.status, 201);
        let opened = opened.json();
        assert_eq!(opened["callback_path"], CHANNEL);
        let secret = opened["secret"].as_str().unwrap().to_owned();
        Self { server, api, secret }
    }

    async fn post_at(&self, body: &str, at: u64, secret: &str) -> Reply {
        let signature = signature(secret, at, body);
        let at = at.to_string();
        let headers = [
            ("webhook-id", "id-1"),
            ("webhook-timestamp", &at),
            ("webhook-signature", &signature),
            ("Content-Type", "application/json"),
        ];
        self.server.stranger().call("POST", CHANNEL, &headers, body.as_bytes()).await
    }

    pub async fn post(&self, mail: &Value) -> Reply {
        self.post_at(&mail.to_string(), Clock::system().real().as_secs(), &self.secret).await
    }

    pub async fn conversations(&self) -> Vec<Value> {
        self.api.get(CONVERSATIONS).await.ok()["data"].as_array().unwrap().clone()
    }

    pub async fn reply(&self, conversation: &Value, text: &str) -> Reply {
        self.api.post(&messages_of(conversation), json!({"type": "text", "text": text})).await
    }

    /// Returns the messages of a conversation, oldest first.
    async fn written(&self, conversation: &Value) -> Vec<Value> {
        let mut rows =
            self.api.get(&messages_of(conversation)).await.ok()["data"].as_array().unwrap().clone();
        rows.reverse();
        rows
    }

    /// Waits until the newest message has this status.
    pub async fn becomes(&self, conversation: &Value, status: &str) {
        eventually(status, || async {
            let newest = self.written(conversation).await.pop()?;
            (newest["status"] == status).then_some(())
        })
        .await;
    }
}

/// Returns the signature of a body that is posted as `id-1` at a moment.
pub fn signature(secret: &str, at: u64, body: &str) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("id-1.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn messages_of(conversation: &Value) -> String {
    format!("{CONVERSATIONS}/{}/messages", conversation["id"].as_str().unwrap())
}

pub fn mail(from: &str, message_id: &str, text: &str) -> Value {
    json!({"from": from, "to": ["help@acme.example"], "subject": "Order", "text": text,
           "message_id": message_id})
}

#[tokio::test]
async fn a_mail_opens_the_conversation_with_whoever_has_the_address() {
    let mut rig = Rig::new(None).await;
    let ana = make(&rig.api, json!({"name": "Ana", "email": "Ana@Example.com"})).await;
    rig.post(&mail("Ana S. <ana@example.com>", "<1@x>", "Where is it?")).await.ok();
    rig.post(&mail("Bo <bo@example.com>", "<2@x>", "Hello")).await.ok();
    rig.server.restart().await;
    let all = rig.conversations().await;
    assert_eq!(all.len(), 2);
    let (bo, of_ana) = (&all[0], &all[1]);
    assert_eq!((&of_ana["contact"]["id"], &of_ana["channel"]), (&ana["id"], &json!("email")));
    assert_eq!(
        (&of_ana["status"], &of_ana["last_message"]),
        (&json!("open"), &json!("Where is it?"))
    );
    assert_eq!((&bo["contact"]["name"], &bo["contact"]["phone"]), (&json!("Bo"), &Value::Null));
    assert_eq!(bo["contact"]["email"], "bo@example.com");
    let written = rig.written(of_ana).await;
    assert_eq!((&written[0]["type"], &written[0]["status"]), (&json!("email"), &json!("received")));
    // The same mail comes again, and then the next one.
    rig.post(&mail("ana@example.com", "<1@x>", "Where is it?")).await.ok();
    assert_eq!(rig.written(of_ana).await.len(), 1, "a mail that comes again changes nothing");
    rig.post(&mail("ana@example.com", "<3@x>", "Hello?")).await.ok();
    assert_eq!(rig.written(of_ana).await.len(), 2);
    assert_eq!(rig.conversations().await.len(), 2);
    // It comes from another address, but answers in the thread.
    let mut other = mail("ana@work.example", "<4@x>", "It is me");
    other["in_reply_to"] = json!("<3@x>");
    rig.post(&other).await.ok();
    assert_eq!(rig.written(of_ana).await.len(), 3);
    let events = rig.api.get("/v1/events?type=message.received").await.ok();
    let first = &events["data"][0]["data"];
    assert_eq!((&first["channel"], &first["from"]), (&json!("email"), &json!("ana@example.com")));
    assert_eq!((&first["subject"], &first["name"]), (&json!("Order"), &json!("Ana S.")));
    assert_eq!(events["data"].as_array().unwrap().len(), 4);
    // Without a mail server no reply is possible.
    let refused = rig.reply(of_ana, "Soon").await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "email_not_configured");
    // A deleted contact who writes again is a new contact.
    let path = format!("/v1/contacts/{}", ana["id"].as_str().unwrap());
    rig.api.delete(&path).await.ok();
    assert_eq!(rig.conversations().await.len(), 1);
    rig.post(&mail("ana@example.com", "<5@x>", "Anybody?")).await.ok();
    let again = rig.conversations().await;
    assert_eq!(again.len(), 2);
    assert_ne!(again[0]["contact"]["id"], ana["id"]);
}

#[tokio::test]
async fn what_is_not_signed_or_not_a_mail_changes_nothing() {
    let rig = Rig::new(None).await;
    let now = Clock::system().real().as_secs();
    let good = mail("ana@example.com", "<1@x>", "Hi").to_string();
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for (at, secret) in [(now, other), (now - 400, rig.secret.as_str()), (now + 400, &rig.secret)] {
        rig.post_at(&good, at, secret).await.check(401, "UNAUTHORIZED");
    }
    let stranger = rig.server.stranger();
    let json_type = [("Content-Type", "application/json")];
    stranger.call("POST", CHANNEL, &json_type, good.as_bytes()).await.check(401, "UNAUTHORIZED");
    let (at, signature) = (now.to_string(), "v1,AAAA");
    let signed =
        [("webhook-id", "1"), ("webhook-timestamp", &*at), ("webhook-signature", signature)];
    let signed = [json_type[0], signed[0], signed[1], signed[2]];
    for missing in ["/channels/email/other", "/channels/email/ACME", "/channels/email/demo"] {
        stranger.call("POST", missing, &signed, good.as_bytes()).await.check(404, "NOT_FOUND");
        // A request without a signature does not learn that the channel is missing.
        let unsigned = stranger.call("POST", missing, &json_type, good.as_bytes()).await;
        unsigned.check(401, "UNAUTHORIZED");
    }
    for (field, bad) in [
        ("from", json!("Ana")),
        ("from", Value::Null),
        ("message_id", json!("")),
        ("message_id", json!("x".repeat(999))),
        ("date", json!("yesterday")),
    ] {
        let mut body = mail("ana@example.com", "<1@x>", "Hi");
        body[field] = bad;
        rig.post(&body).await.check_field(field);
    }
    assert!(rig.conversations().await.is_empty());
    // Another secret replaces the first at once; a closed channel accepts nothing.
    let admin = rig.server.admin();
    let read = admin.get(ADMIN).await.ok();
    assert_eq!((&read["callback_path"], &read["secret"]), (&json!(CHANNEL), &Value::Null));
    let second = admin.post(ADMIN, json!({})).await.ok()["secret"].as_str().unwrap().to_owned();
    rig.post(&mail("ana@example.com", "<1@x>", "Hi")).await.check(401, "UNAUTHORIZED");
    let rig = Rig { secret: second, ..rig };
    let mut html = mail("ana@example.com", "<1@x>", "");
    html["html"] = json!("<p>Hi <b>there</b></p>");
    rig.post(&html).await.ok();
    assert_eq!(rig.conversations().await[0]["last_message"], "Hi there");
    assert_eq!(admin.delete(ADMIN).await.status, 204);
    admin.get(ADMIN).await.check(404, "NOT_FOUND");
    rig.post(&mail("ana@example.com", "<2@x>", "Hi")).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_reply_leaves_by_smtp_in_its_thread() {
    let smtp = MailServer::start(0);
    let rig = Rig::new(Some(smtp.port)).await;
    let mut first = mail("Ana <ana@example.com>", "<2@x>", "Where is it?");
    first["references"] = json!("<0@x> <1@x>");
    first["subject"] = json!("Größe");
    rig.post(&first).await.ok();
    let of_ana = rig.conversations().await.remove(0);
    let template = json!({"type": "template", "template": {"name": "welcome", "language": "en"}});
    rig.api.post(&messages_of(&of_ana), template).await.check(422, "UNPROCESSABLE");
    let sent = rig.reply(&of_ana, "On its way.\n.\nÉ").await.ok();
    assert_eq!(sent["status"], "queued");
    let taken = smtp.after(1).await.remove(0);
    assert_eq!(taken["mail_from"], "help@acme.example");
    assert_eq!(taken["rcpt_tos"], json!(["ana@example.com"]));
    let headers = &taken["headers"];
    assert_eq!(
        (&headers["subject"], &headers["in-reply-to"]),
        (&json!("Re: Größe"), &json!("<2@x>"))
    );
    assert_eq!(headers["from"], "Acme <help@acme.example>");
    assert_eq!(headers["references"], "<0@x> <1@x> <2@x>");
    let message_id = sent["message_id"].as_str().unwrap();
    assert_eq!(headers["message-id"], format!("<{message_id}@acme.example>"));
    let text = taken["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), "On its way.\n.\nÉ");
    rig.becomes(&of_ana, "sent").await;
    assert_eq!(rig.conversations().await[0]["status"], "pending");
    // An answer from any address comes into the same conversation and opens it again.
    let mut answer = mail("ana@elsewhere.example", "<3@x>", "Thanks");
    answer["in_reply_to"] = headers["message-id"].clone();
    rig.post(&answer).await.ok();
    let all = rig.conversations().await;
    assert_eq!((all.len(), &all[0]["status"]), (1, &json!("open")));
    rig.reply(&of_ana, "You are welcome.").await.ok();
    let second = smtp.after(2).await.remove(1);
    assert_eq!(second["rcpt_tos"], json!(["ana@elsewhere.example"]));
    assert_eq!(second["headers"]["in-reply-to"], "<3@x>");
}

#[tokio::test]
async fn what_the_mail_server_answers_is_reported() {
    let smtp = MailServer::start(0);
    let rig = Rig::new(Some(smtp.port)).await;
    for name in ["never", "later", "silent"] {
        rig.post(&mail(&format!("{name}@example.com"), &format!("<{name}@x>"), "Hi")).await.ok();
    }
    let of = async |name: &str| {
        let all = rig.conversations().await;
        let email = format!("{name}@example.com");
        all.into_iter().find(|it| it["contact"]["email"] == email.as_str()).unwrap()
    };
    let never = of("never").await;
    rig.reply(&never, "x").await.ok();
    rig.becomes(&never, "failed").await;
    let failed = rig.api.get("/v1/events?type=message.failed").await.ok();
    let error = &failed["data"][0]["data"]["error"];
    assert_eq!(error["reason"], "channel_refused", "{failed}");
    assert!(error["details"].as_str().unwrap().contains("no such user"), "{error}");
    // A mail that may have been accepted is not sent again.
    let silent = of("silent").await;
    rig.reply(&silent, "x").await.ok();
    rig.becomes(&silent, "unknown").await;
    // A mail that was surely not accepted is tried again, after half a minute.
    let later = of("later").await;
    rig.reply(&later, "x").await.ok();
    let taken =
        async || smtp.mails().iter().filter(|it| it["rcpt_tos"][0] == "later@example.com").count();
    rig.server.advance(31).await;
    rig.server.advance(31).await;
    rig.becomes(&later, "sent").await;
    assert_eq!(taken().await, 1);
    rig.server.advance(7200).await;
    assert_eq!(smtp.mails().len(), 2);
}

#[tokio::test]
async fn replies_wait_for_a_mail_server_that_is_away_and_survive_a_crash() {
    let smtp = MailServer::start(0);
    let port = smtp.port;
    drop(smtp);
    let mut rig = Rig::new(Some(port)).await;
    rig.post(&mail("ana@example.com", "<1@x>", "Hi")).await.ok();
    let of_ana = rig.conversations().await.remove(0);
    rig.reply(&of_ana, "one").await.ok();
    rig.reply(&of_ana, "two").await.ok();
    rig.server.crash().await;
    let smtp = MailServer::start(port);
    eventually("both mails", || async {
        rig.server.advance(60).await;
        (smtp.mails().len() == 2).then_some(())
    })
    .await;
    rig.becomes(&of_ana, "sent").await;
    let statuses: Vec<_> = rig.written(&of_ana).await;
    assert!(statuses[1..].iter().all(|row| row["status"] == "sent"), "{statuses:?}");
}

#[tokio::test]
async fn half_a_sign_costs_no_mail() {
    let rig = Rig::new(None).await;
    let half = mail("Ana HALF <ana@example.com>", "<a@b.c>", "It is late HALF").to_string();
    let half = half.replace("HALF", r"\ud83d");
    rig.post_at(&half, Clock::system().real().as_secs(), &rig.secret).await.ok();
    let [conversation] = &rig.conversations().await[..] else { panic!("one") };
    assert_eq!(rig.written(conversation).await[0]["text"], "It is late \u{fffd}");
    assert_eq!(conversation["contact"]["name"], "Ana \u{fffd}");
}
