//! Faults of the account whose codes are rare, and codes that nobody knows.

use serde_json::{Value, json};

use crate::channel::cloud_api::Rig;
use crate::support::eventually;

async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let events = rig.api.get(&format!("/v1/events?type={kind}")).await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn a_rare_fault_of_the_account_stops_the_number_and_its_queue_waits() {
    for (status, code) in [(403, 131_005), (400, 133_010)] {
        let rig = Rig::new().await;
        // The first answer stops the number, so the template must exist before.
        let warm = rig.send("+15551230000").await;
        rig.becomes(&warm, "sent").await;
        rig.fake.fail(status, code);
        let held = rig.send("+15551230001").await;
        let stopped = eventually("the stop", async || emitted(&rig, "number.stopped").await.pop());
        assert_eq!(stopped.await["error_code"], code);
        let another = rig.api.post("/v1/otp/send", json!({"phone": "+15551230002"})).await;
        another.check(503, "SERVICE_UNAVAILABLE");
        rig.becomes(&held, "queued").await;
        assert_eq!(emitted(&rig, "otp.failed").await, [Value::Null; 0], "{code}");
        rig.fake.heal();
        rig.server.advance(61).await;
        rig.becomes(&held, "sent").await;
    }
}

/// Sends a code to a phone of its own, and waits until it has this status.
async fn one(rig: &Rig, last: u32, status: &str) {
    let id = rig.send(&format!("+1555123{last:04}")).await;
    rig.becomes(&id, status).await;
}

#[tokio::test]
async fn a_code_that_nobody_knows_is_reported_once_five_recipients_in_a_row_get_it() {
    let rig = Rig::new().await;
    one(&rig, 0, "sent").await;
    rig.fake.fail(400, 139_999);
    for last in 1..5 {
        one(&rig, last, "failed").await;
    }
    rig.fake.heal();
    one(&rig, 5, "sent").await;
    rig.fake.fail(400, 139_999);
    for last in 6..10 {
        one(&rig, last, "failed").await;
    }
    assert_eq!(emitted(&rig, "channel.error").await, [Value::Null; 0], "four and four are no five");
    one(&rig, 10, "failed").await;
    let errors = eventually("the error", async || {
        let errors = emitted(&rig, "channel.error").await;
        (!errors.is_empty()).then_some(errors)
    });
    let expected = json!({
        "number_id": rig.number["id"], "error_code": 139_999, "title": null,
        "details": "details of 139999",
    });
    assert_eq!(errors.await, [expected]);
    one(&rig, 11, "failed").await;
    assert_eq!(emitted(&rig, "channel.error").await.len(), 1, "it is emitted once");
    let log = rig.server.log();
    let warned = log.lines().filter(|it| it.contains("WARN") && it.contains("139999"));
    assert_eq!(warned.count(), 1, "{log}");
}
