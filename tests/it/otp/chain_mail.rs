//! Codes whose chain has a step by mail, against a mail server.

use serde_json::{Value, json};

use crate::inbox::email::MailServer;
use crate::otp::{PHONE, verify};
use crate::support::{Api, TestServer, eventually};

const SMS: &str = "/admin/v1/workspaces/acme/sms";

/// A server whose workspace `acme` has an SMS gateway in the sandbox, and mails.
struct Rig {
    mail: MailServer,
    server: TestServer,
    api: Api,
}

impl Rig {
    async fn new() -> Self {
        let mail = MailServer::with(0, &[]);
        let port = mail.port().to_string();
        let settings = [
            ("EMAIL__HOST", "127.0.0.1"),
            ("EMAIL__PORT", port.as_str()),
            ("EMAIL__TLS", "none"),
            ("EMAIL__FROM", "codes@acme.example"),
            ("EMAIL__TIMEOUT_SECONDS", "5"),
        ];
        let server = TestServer::with(&settings).await;
        let api = server.workspace("acme").await;
        server.admin().put(SMS, json!({"kind": "sandbox"})).await.ok();
        Self { mail, server, api }
    }

    /// Requests a code over these channels; returns its id.
    async fn send(&self, channels: &[&str], email: &str) -> String {
        let body = json!({"phone": PHONE, "channels": channels, "email": email});
        let sent = self.api.post("/v1/otp/send", body).await.ok();
        sent["request_id"].as_str().unwrap().to_owned()
    }

    /// Waits until the try by mail, which is the last, has this status.
    async fn becomes(&self, id: &str, status: &str) -> Value {
        let is = async || {
            let row = self.api.get(&format!("/v1/otp/{id}")).await.ok();
            let last = row["tries"].as_array().unwrap().last().cloned()?;
            (last["channel"] == "email" && last["status"] == status).then_some(row)
        };
        eventually(&format!("a mail that is {status}"), is).await
    }

    async fn credits(&self) -> u64 {
        let acme = self.server.admin().get("/admin/v1/workspaces/acme").await.ok();
        acme["credits"].as_u64().unwrap()
    }
}

#[tokio::test]
async fn a_code_goes_on_by_mail_and_the_same_code_verifies() {
    let rig = Rig::new().await;
    let script = json!({"to": "*", "channel": "sms", "outcome": "failed"});
    rig.api.post("/v1/sandbox/outcomes", script).await.ok();
    let id = rig.send(&["sms", "email"], "ana@example.com").await;
    let row = rig.becomes(&id, "sent").await;
    assert_eq!((&row["channel"], &row["tries"][0]["status"]), (&json!("email"), &json!("failed")));
    let mail = rig.mail.after(1).await.remove(0);
    let header = |name: &str| mail["headers"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(mail["rcpt_tos"], json!(["ana@example.com"]));
    assert!(header("message-id").starts_with(&format!("<{id}.2@")), "{mail}");
    assert_eq!(header("auto-submitted"), "auto-generated");
    let code = mail["text"].as_str().unwrap().split(' ').next().unwrap();
    assert_eq!(verify(&rig.api, &id, code).await.ok()["verified"], true);
}

#[tokio::test]
async fn what_a_mail_server_says_is_what_becomes_of_the_step() {
    let rig = Rig::new().await;
    let before = rig.credits().await;
    // The mail is refused for good, and paid back.
    let id = rig.send(&["email"], "never@example.com").await;
    let row = rig.becomes(&id, "failed").await;
    assert_eq!((row["tries"][0]["price"].as_u64(), rig.credits().await), (Some(0), before));
    // The mail is not accepted now, and tried again.
    let id = rig.send(&["email"], "later@example.com").await;
    eventually("a second try", async || {
        rig.server.advance(1).await;
        (rig.mail.mails().len() == 1).then_some(())
    })
    .await;
    rig.becomes(&id, "sent").await;
    // The connection is lost after the end of the data, and the mail is not sent again.
    let id = rig.send(&["email", "sms"], "silent@example.com").await;
    rig.becomes(&id, "unknown").await;
    rig.server.advance(31).await;
    let arrived = async || {
        let row = rig.api.get(&format!("/v1/otp/{id}")).await.ok();
        (row["tries"][1]["status"] == "delivered").then_some(())
    };
    eventually("the SMS behind it", arrived).await;
    assert_eq!((rig.mail.mails().len(), rig.credits().await), (2, before - 3));
}

#[tokio::test]
async fn a_mail_that_was_with_the_server_in_a_crash_is_not_sent_again() {
    let mut rig = Rig::new().await;
    let id = rig.send(&["email", "sms"], "hanging@example.com").await;
    rig.mail.after(1).await;
    rig.server.crash().await;
    rig.becomes(&id, "unknown").await;
    rig.server.advance(31).await;
    let arrived = async || {
        let row = rig.api.get(&format!("/v1/otp/{id}")).await.ok();
        (row["tries"][1]["status"] == "delivered").then_some(())
    };
    eventually("the SMS behind it", arrived).await;
    assert_eq!(rig.mail.mails().len(), 1);
}
