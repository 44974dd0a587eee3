//! Broadcasts whose messages are accepted, and reported as failed by callback.

use serde_json::{Value, json};

use crate::broadcasts::faults::{PATH, TEMPLATES, becomes};
use crate::channel::callbacks::{post, report_always};
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{Scripted, callback};
use crate::support::eventually;

/// Starts a rig whose number sends this many messages a second.
pub async fn rig(messages_per_second: u32, settings: &[(&str, &str)]) -> Rig {
    let mut number = number();
    number["messages_per_second"] = messages_per_second.into();
    let rig = Rig::with(settings, number).await;
    let credits = json!({"credits": 10_000});
    rig.server.admin().put("/admin/v1/workspaces/acme/credits", credits).await.ok();
    rig
}

/// Creates a template of this name, and a broadcast of it.
pub async fn create(rig: &Rig, template: &str, recipients: u32) -> String {
    let definition = json!({
        "name": template, "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post(TEMPLATES, definition).await.ok();
    let phones: Vec<_> = (0..recipients).map(|number| format!("+1555{number:07}")).collect();
    let body = json!({"name": "Sale", "template_name": template, "recipients": phones});
    let made = rig.api.post(PATH, body).await.ok();
    format!("{PATH}/{}", made["broadcast_id"].as_str().unwrap())
}

#[tokio::test]
async fn failures_that_are_only_reported_pause_a_broadcast_at_the_threshold() {
    let rig = rig(100, &[("BROADCASTS__PAUSE_FAILURE_MIN", "100")]).await;
    report_always(&rig, &["failed"], 1);
    let path = create(&rig, "sale", 4000).await;
    let held = becomes(&rig, &path, "paused").await;
    let reason = held["reason"].as_str().unwrap();
    assert!(reason.ends_with("messages failed"), "{held}");
    assert!((100..1000).contains(&rig.fake.accepted_count()), "{held}");
    // It continues when it is resumed, and is judged again.
    rig.fake.call_back(None);
    rig.api.call("POST", &format!("{path}/resume"), &[], b"").await.ok();
    becomes(&rig, &path, "sending").await;
    rig.api.call("POST", &format!("{path}/cancel"), &[], b"").await.ok();
    let accounted = eventually("all are accounted for", || async {
        let found = rig.api.get(&path).await.ok();
        (found["counts"]["pending"] == 0).then_some(found)
    });
    assert_eq!(accounted.await["status"], "cancelled");
}

#[tokio::test]
async fn each_class_of_failure_holds_or_ends_a_broadcast_by_callback_as_by_answer() {
    let rig = rig(5, &[]).await;
    for (code, status, reason, template_status) in [
        (132_015, "paused", "the template is paused", "paused"),
        (132_069, "paused", "the template is limited", "approved"),
        (132_001, "failed", "the channel refuses the template", "approved"),
        (132_016, "failed", "the template is disabled", "disabled"),
        (131_048, "paused", "recipients have marked", "approved"),
        (131_031, "paused", "the messaging account cannot send", "approved"),
    ] {
        report_always(&rig, &[&format!("failed {code}")], 1);
        let template = format!("sale_{code}");
        let path = create(&rig, &template, 40).await;
        let held = becomes(&rig, &path, status).await;
        rig.fake.call_back(None);
        assert!(held["reason"].as_str().unwrap().starts_with(reason), "{code}: {held}");
        let templates = rig.server.admin().get(TEMPLATES).await.ok();
        let rows = templates["data"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == template.as_str()).unwrap();
        assert_eq!(row["status"], template_status, "{code}");
        if status == "paused" {
            rig.api.call("POST", &format!("{path}/cancel"), &[], b"").await.ok();
        }
    }
    let stopped = rig.api.get("/v1/events?type=number.stopped").await.ok();
    assert_eq!(stopped["data"][0]["data"]["error_code"], 131_031);
}

/// Returns the callback that reports this status of the message to a recipient.
pub fn reported(path: &str, index: u32, status: &str) -> Value {
    let id = path.rsplit('/').next().unwrap();
    let phone = format!("1555{index:07}");
    let errors = match status {
        "failed" => json!([{"code": 131_026, "title": "Message undeliverable"}]),
        _ => Value::Null,
    };
    callback(
        "106",
        json!({"statuses": [{
            "id": format!("wamid.{index}"), "status": status, "timestamp": "1750857384",
            "recipient_id": phone, "biz_opaque_callback_data": format!("{id}:{index}:{phone}"),
            "errors": errors,
        }]}),
    )
}

#[tokio::test]
async fn a_message_that_is_refused_and_reported_as_failed_is_paid_back_once() {
    let rig = rig(10, &[]).await;
    rig.fake.script(Some("15550000000"), Scripted::Error { status: 400, code: 131_026 }, None);
    rig.fake.script(Some("15550000001"), Scripted::Lost, None);
    let path = create(&rig, "sale", 20).await;
    let refused = eventually("the refusal", || async {
        let found = rig.api.get(&path).await.ok();
        (found["counts"]["failed"] == 1).then_some(())
    });
    refused.await;
    for index in [0, 2] {
        assert_eq!(post(&rig, &reported(&path, index, "failed")).await.status, 200);
    }
    let done = becomes(&rig, &path, "completed").await;
    let counts = &done["counts"];
    assert_eq!((&counts["failed"], &counts["unknown"]), (&json!(2), &json!(1)), "{counts}");
    assert_eq!(rig.credits().await, 10_000 - 18);
    let emitted = rig.api.get("/v1/events?type=broadcast.completed").await.ok();
    let expected = json!({"held": 0, "sent": 17, "failed": 2, "unknown": 1, "suppressed": 0});
    assert_eq!(emitted["data"][0]["data"]["counts"], expected);
    // A report after the end counts as well, once.
    for index in [0, 1, 2, 3] {
        assert_eq!(post(&rig, &reported(&path, index, "failed")).await.status, 200);
    }
    assert_eq!(rig.credits().await, 10_000 - 16);
}
