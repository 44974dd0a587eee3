//! The mail server that replies leave through: encrypted, with a login, and through crashes.

use serde_json::json;

use crate::inbox::email::{MailServer, Rig, mail};
use crate::support::eventually;

/// A key and its certificate in one file, and the certificate in another.
struct Pem {
    _dir: tempfile::TempDir,
    both: String,
    certificate: String,
}

impl Pem {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate = file("ca.pem", made.cert.pem());
        let both = file("both.pem", made.signing_key.serialize_pem() + &made.cert.pem());
        Self { _dir: dir, both, certificate }
    }
}

/// Starts a rig whose mail server has this encryption, with a conversation.
async fn rig(encryption: &str, password: &str, trusted: bool) -> (MailServer, Rig) {
    let pem = Pem::new();
    let smtp = MailServer::with(0, &[encryption, &pem.both]);
    let settings = [
        ("EMAIL__TLS", encryption),
        ("EMAIL__CA_FILE", if trusted { pem.certificate.as_str() } else { "" }),
        ("EMAIL__USER", "acme"),
        ("EMAIL__PASSWORD", password),
    ];
    let rig = Rig::with(Some(smtp.port()), &settings).await;
    rig.post(&mail("ana@example.com", "<1@x>", "Hi")).await.ok();
    (smtp, rig)
}

#[tokio::test]
async fn a_reply_leaves_encrypted_and_with_a_login() {
    for encryption in ["starttls", "tls"] {
        let (smtp, rig) = rig(encryption, "right", true).await;
        let of_ana = rig.conversations().await.remove(0);
        rig.reply(&of_ana, "Hello").await.ok();
        rig.becomes(&of_ana, "sent").await;
        let taken = smtp.after(1).await.remove(0);
        assert_eq!(taken["starttls"], encryption == "starttls");
        assert_eq!(taken["text"].as_str().unwrap().trim_end(), "Hello");
        assert_eq!(smtp.logins(), [true]);
    }
}

#[tokio::test]
async fn who_is_not_trusted_is_answered_nothing() {
    for encryption in ["starttls", "tls"] {
        let (smtp, rig) = rig(encryption, "right", false).await;
        let of_ana = rig.conversations().await.remove(0);
        rig.reply(&of_ana, "Hello").await.ok();
        for _ in 0..3 {
            rig.server.advance(60).await;
        }
        rig.becomes(&of_ana, "queued").await;
        assert!(smtp.logins().is_empty() && smtp.mails().is_empty());
    }
}

#[tokio::test]
async fn with_a_wrong_password_a_reply_waits_for_a_day_and_then_fails_with_the_reason() {
    let (smtp, rig) = rig("starttls", "wrong", true).await;
    let of_ana = rig.conversations().await.remove(0);
    rig.reply(&of_ana, "Hello").await.ok();
    // The second try is half a minute after the first, and later tries are ever rarer.
    eventually("a second try", async || {
        rig.server.advance(31).await;
        (smtp.logins().len() >= 2).then_some(())
    })
    .await;
    rig.becomes(&of_ana, "queued").await;
    rig.server.advance(24 * 3600).await;
    rig.becomes(&of_ana, "failed").await;
    let failed = rig.api.get("/v1/events?type=message.failed").await.ok();
    let error = &failed["data"][0]["data"]["error"];
    assert_eq!(error["reason"], "not_sent_in_time");
    assert!(error["details"].as_str().unwrap().contains("535"), "{error}");
    let tried = smtp.logins().len();
    for _ in 0..3 {
        rig.server.advance(24 * 3600).await;
    }
    assert_eq!((smtp.logins().len(), smtp.mails().len()), (tried, 0));
    assert!(!smtp.logins().contains(&true));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_without_end() {
    let smtp = MailServer::with(0, &[]);
    let settings = [("EMAIL__TLS", "none"), ("EMAIL__TIMEOUT_SECONDS", "1")];
    let rig = Rig::with(Some(smtp.port()), &settings).await;
    rig.post(&mail("hanging@example.com", "<1@x>", "Hi")).await.ok();
    let conversation = rig.conversations().await.remove(0);
    rig.reply(&conversation, "once").await.ok();
    rig.becomes(&conversation, "unknown").await;
    assert_eq!(smtp.mails().len(), 1);
}

#[tokio::test]
async fn a_mail_that_was_with_the_server_in_a_crash_is_unknown_and_not_sent_again() {
    let smtp = MailServer::with(0, &[]);
    let settings = [("EMAIL__TLS", "none"), ("EMAIL__TIMEOUT_SECONDS", "3600")];
    let mut rig = Rig::with(Some(smtp.port()), &settings).await;
    rig.post(&mail("hanging@example.com", "<1@x>", "Hi")).await.ok();
    let conversation = rig.conversations().await.remove(0);
    rig.reply(&conversation, "once").await.ok();
    smtp.after(1).await;
    rig.becomes(&conversation, "queued").await;
    rig.server.crash().await;
    rig.server.advance(1).await;
    rig.becomes(&conversation, "unknown").await;
    rig.server.advance(2 * 3600).await;
    rig.becomes(&conversation, "unknown").await;
    assert_eq!(smtp.mails().len(), 1);
    let emitted = rig.api.get("/v1/events?type=message.sent").await.ok();
    assert_eq!(emitted["data"], json!([]));
}
