//! The operator's view of numbers: log lines and metrics.

use crate::channel::cloud_api::Rig;
use crate::fake::{FakeCloudApi, Scripted};
use crate::support::{clustered, eventually};

/// Returns the value of a series.
async fn metric(rig: &Rig, name: &str) -> Option<f64> {
    let text = rig.server.stranger().get("/metrics").await.text();
    clustered::figure(&text, name)
}

/// Waits until a series has this value, because figures are sampled.
pub async fn shows(rig: &Rig, name: &str, value: f64) {
    let is = async || (metric(rig, name).await == Some(value)).then_some(());
    eventually(name, is).await;
}

fn lines(rig: &Rig, level: &str, text: &str) -> Vec<String> {
    let log = rig.server.log();
    let of = log.lines().filter(|line| line.contains(level) && line.contains(text));
    of.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_channel_that_fails_and_answers_again_is_logged_once_with_its_cause() {
    let mut rig = Rig::new().await;
    let address = rig.fake.address();
    // Nobody listens on this address for now.
    rig.fake = FakeCloudApi::start();
    let ended = async || tokio::net::TcpStream::connect(address).await.is_err().then_some(());
    eventually("the end of the first fake", ended).await;
    let id = rig.send("+15551234567").await;
    const FAILS: &str = "the number's channel fails";
    const ANSWERS: &str = "the number's channel answers again";
    let fails = async || {
        rig.server.advance(10).await;
        lines(&rig, "WARN", FAILS).pop()
    };
    let line = eventually("a warning", fails).await;
    assert!(
        line.contains("refused") && line.contains(rig.number["id"].as_str().unwrap()),
        "{line}"
    );
    shows(&rig, "postrider_number_down", 1.0).await;
    shows(&rig, "postrider_number_queue", 1.0).await;
    shows(&rig, "postrider_number_queue_longest", 1.0).await;
    rig.server.advance(61).await;
    assert!(lines(&rig, "INFO", ANSWERS).is_empty());
    rig.fake = FakeCloudApi::listen(address);
    let answers = async || {
        rig.server.advance(5).await;
        lines(&rig, "INFO", ANSWERS).pop()
    };
    eventually("a line", answers).await;
    rig.becomes(&id, "sent").await;
    assert_eq!((lines(&rig, "WARN", FAILS).len(), lines(&rig, "INFO", ANSWERS).len()), (1, 1));
    shows(&rig, "postrider_number_down", 0.0).await;
    shows(&rig, "postrider_number_queue", 0.0).await;
}

/// Returns an answer in which a provider repeats the values that it received.
fn telling(status: u16, code: u32) -> Scripted {
    let details = "token EAAGm0PX4ZCpsBA4Zb1 of +15551234567 has expired";
    let body = serde_json::json!({"error": {"code": code, "message": details}});
    Scripted::Raw { status, body: body.to_string() }
}

/// Returns the number's trouble, as the administration reports it.
async fn trouble(rig: &Rig) -> Option<String> {
    let numbers = rig.server.admin().get("/admin/v1/workspaces/acme/numbers").await.ok();
    numbers["data"][0]["trouble"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn what_a_provider_says_is_for_the_administration_and_not_for_the_log() {
    for (status, code, warning) in [
        (503, 131_016, "the number's channel fails"),
        (401, 190, "the number's account cannot send"),
    ] {
        let rig = Rig::new().await;
        assert_eq!(trouble(&rig).await, None);
        rig.fake.script(None, telling(status, code), None);
        rig.send("+15551234567").await;
        let fails = async || {
            rig.server.advance(10).await;
            lines(&rig, "WARN", warning).pop()
        };
        let line = eventually("a warning", fails).await;
        assert!(line.contains(&code.to_string()), "{line}");
        for secret in ["EAAG", "5551234567", "has expired"] {
            assert!(lines(&rig, "WARN", secret).is_empty(), "{secret} is in the log");
        }
        let shown = eventually("the number's row", async || trouble(&rig).await).await;
        assert!(shown.contains(&format!("error {code}: token … of +… has expired")), "{shown}");
    }
}

#[tokio::test]
async fn messages_are_counted_by_what_became_of_them() {
    let rig = Rig::new().await;
    shows(&rig, "postrider_messages_total{kind=\"message\",outcome=\"sent\"}", 0.0).await;
    for last in 0..3 {
        let id = rig.send(&format!("+1555123456{last}")).await;
        rig.becomes(&id, "sent").await;
    }
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_026 }, Some(1));
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "failed").await;
    shows(&rig, "postrider_messages_total{kind=\"otp\",outcome=\"sent\"}", 3.0).await;
    shows(&rig, "postrider_messages_total{kind=\"otp\",outcome=\"failed\"}", 1.0).await;
    shows(&rig, "postrider_otp_sent_total", 4.0).await;
    shows(&rig, "postrider_otp_verified_total", 0.0).await;
}
