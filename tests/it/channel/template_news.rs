//! The channel's news of a template beside its status: category, quality and components.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{FakeCloudApi, template};
use crate::support::eventually;

const TEMPLATES: &str = "/admin/v1/workspaces/acme/templates";
const PHONE: &str = "+16505551234";

/// Returns the callback of a change of the template `offer`.
fn said(field: &str, mut value: Value) -> Value {
    value["message_template_name"] = json!("offer");
    value["message_template_language"] = json!("en");
    json!({"entry": [{"id": "107", "changes": [{"field": field, "value": value}]}]})
}

/// Starts a workspace in which a utility message costs 1 credit, and a marketing message 5.
async fn rig() -> Rig {
    let fake = FakeCloudApi::start();
    let mut offer = template("offer", "en", "UTILITY", "APPROVED", "Hello");
    offer["quality_score"] = json!({"score": "GREEN"});
    offer["message_send_ttl_seconds"] = json!(600);
    offer["parameter_format"] = json!("POSITIONAL");
    fake.set_templates(vec![offer]);
    let prices = [("PRICES__TEMPLATE_MARKETING", "5"), ("PRICES__TEMPLATE_UTILITY", "1")];
    let rig = Rig::before(fake, &prices, number()).await;
    eventually("the template", async || (row(&rig).await != Value::Null).then_some(())).await;
    rig
}

async fn row(rig: &Rig) -> Value {
    rig.server.admin().get(TEMPLATES).await.ok()["data"][0].clone()
}

/// Posts a callback twice, as the channel may.
async fn announce(rig: &Rig, field: &str, value: Value) {
    for _ in 0..2 {
        assert_eq!(post(rig, &said(field, value.clone())).await.status, 200);
    }
}

/// Returns the payloads of the events of one type.
async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let emitted = rig.api.get(&format!("/v1/events?type={kind}")).await.ok();
    emitted["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Returns the present price of one message of the template.
async fn cost(rig: &Rig) -> i64 {
    let before = rig.credits().await.as_i64().unwrap();
    let body = json!({"to": PHONE, "type": "template",
        "template": {"name": "offer", "language": "en"}});
    rig.api.post("/v1/messaging/send", body).await.ok();
    before - rig.credits().await.as_i64().unwrap()
}

#[tokio::test]
async fn the_list_of_the_channel_says_more_than_a_status() {
    let rig = rig().await;
    let row = row(&rig).await;
    assert_eq!(
        [&row["quality"], &row["ttl_seconds"], &row["parameter_format"], &row["correct_category"]],
        [&json!("green"), &json!(600), &json!("positional"), &Value::Null],
        "{row}"
    );
}

#[tokio::test]
async fn price_and_opt_out_rule_follow_a_changed_category() {
    let mut rig = rig().await;
    assert_eq!(cost(&rig).await, 1);
    let announced = json!({"correct_category": "MARKETING", "new_category": null});
    announce(&rig, "template_category_update", announced).await;
    assert_eq!(row(&rig).await["correct_category"], "marketing");
    assert_eq!((cost(&rig).await, emitted(&rig, "template.category_changed").await), (1, vec![]));
    let changed = json!({"previous_category": "UTILITY", "new_category": "MARKETING"});
    announce(&rig, "template_category_update", changed).await;
    let expected = json!({"name": "offer", "language": "en", "previous": "utility", "category": "marketing",
            "account_id": "107"});
    assert_eq!(emitted(&rig, "template.category_changed").await, [expected]);
    assert_eq!(cost(&rig).await, 5);
    rig.server.crash().await;
    let row = row(&rig).await;
    assert_eq!((&row["category"], &row["correct_category"]), (&json!("marketing"), &Value::Null));
    let opted_out = json!({"phone": "+16505551235", "reason": "asked to"});
    let (_, contacts) = rig.server.key("acme", &["contacts:write"], json!({})).await;
    contacts.post("/v1/suppressions", opted_out).await.ok();
    let body = json!({"to": "+16505551235", "type": "template",
        "template": {"name": "offer", "language": "en"}});
    let refused = rig.api.post("/v1/messaging/send", body).await;
    assert_eq!((refused.status, &refused.json()["reason"]), (422, &json!("opted_out")));
}

#[tokio::test]
async fn why_a_template_is_rejected_is_shown_until_it_is_not() {
    let rig = rig().await;
    let rejected = json!({"event": "REJECTED", "reason": "INVALID_FORMAT"});
    announce(&rig, "message_template_status_update", rejected).await;
    let shown = row(&rig).await;
    assert_eq!([&shown["status"], &shown["rejected_reason"]], ["rejected", "invalid_format"]);
    let approved = json!({"event": "APPROVED", "reason": "NONE"});
    announce(&rig, "message_template_status_update", approved).await;
    assert_eq!(row(&rig).await["rejected_reason"], Value::Null);
    let mut offer = template("offer", "en", "UTILITY", "REJECTED", "Hello");
    offer["rejected_reason"] = json!("SCAM");
    rig.fake.set_templates(vec![offer]);
    let listed = rig.server.admin().post(&format!("{TEMPLATES}/sync"), json!({})).await.ok();
    assert_eq!(listed["data"][0]["rejected_reason"], "scam", "{listed}");
}

#[tokio::test]
async fn quality_is_shown_and_reported_once() {
    let rig = rig().await;
    let worse = json!({"previous_quality_score": "GREEN", "new_quality_score": "RED"});
    announce(&rig, "message_template_quality_update", worse).await;
    assert_eq!(row(&rig).await["quality"], "red");
    let expected = json!({"name": "offer", "language": "en", "previous": "green", "quality": "red",
            "account_id": "107"});
    assert_eq!(emitted(&rig, "template.quality_changed").await, [expected]);
}

#[tokio::test]
async fn changed_components_are_listed_again() {
    let rig = rig().await;
    rig.fake.set_templates(vec![template("offer", "en", "UTILITY", "APPROVED", "Goodbye")]);
    announce(&rig, "message_template_components_update", json!({"message_template_body": "x"}))
        .await;
    // The pause between two lists starts after the first, at a time that the test does not know.
    let listed = async || {
        rig.server.advance(40).await;
        (row(&rig).await["components"][0]["text"] == "Goodbye").then_some(())
    };
    eventually("the new text", listed).await;
}
