//! Broadcasts through the chat-app channel's Cloud API, whose faults hold or end them.

use serde_json::{Value, json};

use crate::channel::cloud_api::{Rig, number};
use crate::fake::Scripted;
use crate::support::eventually;

pub const PATH: &str = "/v1/messaging/broadcasts";
pub const TEMPLATES: &str = "/admin/v1/workspaces/acme/templates";

async fn rig() -> Rig {
    rig_with(&[]).await
}

pub async fn rig_with(settings: &[(&str, &str)]) -> Rig {
    let mut number = number();
    number["messages_per_second"] = 0.into();
    let rig = Rig::with(settings, number).await;
    let template = json!({
        "name": "sale", "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post(TEMPLATES, template).await.ok();
    rig
}

async fn create(rig: &Rig, recipients: u32) -> String {
    let phones: Vec<_> = (0..recipients).map(|number| format!("+1555{number:07}")).collect();
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": phones});
    let made = rig.api.post(PATH, body).await.ok();
    format!("{PATH}/{}", made["broadcast_id"].as_str().unwrap())
}

pub async fn becomes(rig: &Rig, path: &str, status: &str) -> Value {
    eventually(status, || async {
        let found = rig.api.get(path).await.ok();
        (found["status"] == status).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_paused_template_and_too_much_spam_hold_a_broadcast() {
    let rig = rig().await;
    for (code, reason) in [(132_015, "the template is paused"), (131_048, "recipients have marked")]
    {
        rig.fake.script(None, Scripted::Error { status: 400, code }, Some(1));
        let path = create(&rig, 20).await;
        let held = becomes(&rig, &path, "paused").await;
        assert!(held["reason"].as_str().unwrap().starts_with(reason), "{held}");
        let templates = rig.server.admin().get(TEMPLATES).await.ok();
        let standing = if code == 132_015 { "paused" } else { "approved" };
        assert_eq!(templates["data"][0]["status"], standing, "{templates}");
        if standing == "paused" {
            let refused = rig.api.call("POST", &format!("{path}/resume"), &[], b"").await;
            assert_eq!(refused.status, 422, "{refused:?}");
            let approved = json!({"status": "approved"});
            let template = format!("{TEMPLATES}/sale/en");
            rig.server.admin().send_json("PATCH", &template, &approved).await.ok();
        }
        rig.api.call("POST", &format!("{path}/resume"), &[], b"").await.ok();
        let done = becomes(&rig, &path, "completed").await;
        assert_eq!((&done["counts"]["sent"], &done["reason"]), (&json!(20), &Value::Null));
    }
    assert_eq!(rig.fake.accepted_count(), 40);
    assert_eq!(rig.fake.most_of_one(), 1);
}

#[tokio::test]
async fn an_account_that_cannot_send_holds_a_broadcast_and_what_is_with_its_number() {
    let rig = rig().await;
    rig.fake.script(None, Scripted::Error { status: 401, code: 190 }, None);
    let path = create(&rig, 600).await;
    let resume = format!("{path}/resume");
    for _ in 0..2 {
        let held = becomes(&rig, &path, "paused").await;
        let reason = held["reason"].as_str().unwrap();
        assert!(reason.starts_with("the messaging account cannot send"), "{held}");
        assert_eq!(held["counts"]["pending"], 600);
        rig.api.call("POST", &resume, &[], b"").await.ok();
        // Nothing is retried before the number is.
        rig.server.advance(120).await;
    }
    let held = becomes(&rig, &path, "paused").await;
    assert_eq!(held["counts"]["pending"], 600);
    rig.fake.heal();
    rig.api.call("POST", &resume, &[], b"").await.ok();
    rig.server.advance(900).await;
    let done = becomes(&rig, &path, "completed").await;
    assert_eq!((&done["counts"]["sent"], &done["reason"]), (&json!(600), &Value::Null));
    assert_eq!((rig.fake.accepted_count(), rig.fake.most_of_one()), (600, 1));
}

#[tokio::test]
async fn a_template_that_the_channel_refuses_ends_a_broadcast() {
    let rig = rig().await;
    rig.fake.fail(400, 132_001);
    let path = create(&rig, 600).await;
    let failed = becomes(&rig, &path, "failed").await;
    assert!(failed["reason"].as_str().unwrap().starts_with("the channel refuses the template"));
    let accounted = eventually("all are accounted for", || async {
        let counts = rig.api.get(&path).await.ok()["counts"].clone();
        (counts["pending"] == 0).then_some(counts)
    })
    .await;
    let of = |name: &str| accounted[name].as_u64().unwrap();
    assert_eq!(of("failed") + of("cancelled"), 600, "{accounted}");
    eventually("the credits", || async { (rig.credits().await == 1000).then_some(()) }).await;
    assert_eq!(rig.fake.accepted_count(), 0);
}

#[tokio::test]
async fn a_lost_answer_is_not_asked_again() {
    let rig = rig().await;
    rig.fake.script(Some("15550000003"), Scripted::Lost, Some(1));
    let path = create(&rig, 10).await;
    let done = becomes(&rig, &path, "completed").await;
    assert_eq!((&done["counts"]["sent"], &done["counts"]["unknown"]), (&json!(9), &json!(1)));
    assert_eq!((rig.fake.accepted_count(), rig.fake.most_of_one()), (10, 1));
}

#[tokio::test]
async fn what_waits_too_long_is_given_up() {
    let rig = rig_with(&[("MESSAGES__GIVE_UP_SECONDS", "600")]).await;
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_016 }, None);
    let path = create(&rig, 3).await;
    let tried = async || (rig.fake.requests().len() >= 3).then_some(());
    eventually("the first tries", tried).await;
    rig.server.advance(590).await;
    assert_eq!(rig.api.get(&path).await.ok()["counts"]["pending"], 3);
    rig.server.advance(20).await;
    let done = becomes(&rig, &path, "completed").await;
    assert_eq!(done["counts"]["failed"], 3);
    eventually("the credits", || async { (rig.credits().await == 1000).then_some(()) }).await;
}
