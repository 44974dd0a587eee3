//! The channel's callbacks about a number: its pace, its quality, its name, its limit.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::number_watch::shows;

/// Returns a change of this field of the account of the rig's number.
fn change(field: &str, value: Value) -> Value {
    json!({"entry": [{"id": "107", "changes": [{"field": field, "value": value}]}]})
}

fn upgrade() -> Value {
    let value = json!({"display_phone_number": "1 555-000-1111", "event": "THROUGHPUT_UPGRADE",
        "max_daily_conversations_per_business": "TIER_100K"});
    change("phone_number_quality_update", value)
}

/// Returns a callback of a text that the owner wrote in the app.
fn echo(metadata: Value) -> Value {
    let written = json!({"from": "15550001111", "to": "15551230001", "id": "wamid.1",
        "timestamp": "1750857384", "type": "text", "text": {"body": "Hi"}});
    change("smb_message_echoes", json!({"metadata": metadata, "message_echoes": [written]}))
}

async fn take(rig: &Rig, body: Value) {
    assert_eq!(post(rig, &body).await.status, 200);
}

async fn row(rig: &Rig) -> Value {
    let path = format!("/admin/v1/workspaces/acme/numbers/{}", rig.number["id"].as_str().unwrap());
    rig.server.admin().get(&path).await.ok()
}

/// Returns the field, previous and present value of each `number.changed` event.
async fn emitted(rig: &Rig) -> Vec<[Value; 3]> {
    let events = rig.api.get("/v1/events?limit=200&type=number.changed").await.ok();
    let events = events["data"].as_array().unwrap().iter().map(|event| &event["data"]);
    let of = |data: &Value| {
        assert_eq!(data["number_id"], rig.number["id"]);
        ["field", "previous", "value"].map(|name| data[name].clone())
    };
    events.map(of).collect()
}

#[tokio::test]
async fn the_pace_follows_what_the_channel_says_and_outlives_a_crash() {
    let mut rig = Rig::new().await;
    let path = format!("/admin/v1/workspaces/acme/numbers/{}", rig.number["id"].as_str().unwrap());
    assert_eq!(row(&rig).await["pace"]["set"], 80);
    for _ in 0..2 {
        take(&rig, upgrade()).await;
    }
    let at = |pace: u32, throughput: &str| (json!(pace), json!(throughput));
    let pace = async |rig: &Rig| {
        let row = row(rig).await;
        (row["pace"]["set"].clone(), row["throughput"].clone())
    };
    assert_eq!(pace(&rig).await, at(1000, "high"));
    let words = |field: &str, previous: Value, value: &str| [json!(field), previous, json!(value)];
    let mut expected =
        vec![words("limit", Value::Null, "100000"), words("pace", json!("80"), "1000")];
    assert_eq!(emitted(&rig).await, expected, "each change is emitted once");
    rig.server.crash().await;
    assert_eq!(pace(&rig).await, at(1000, "high"));
    let id = rig.number["id"].as_str().unwrap();
    shows(&rig, &format!("postrider_number_pace{{number=\"{id}\"}}"), 1000.0).await;
    // The administration's figure takes precedence over the channel's.
    let figure = json!({"messages_per_second": 5});
    rig.server.admin().send_json("PATCH", &path, &figure).await.ok();
    assert_eq!(pace(&rig).await, at(5, "high"));
    expected.push(words("pace", json!("1000"), "5"));
    take(&rig, echo(json!({"phone_number_id": "106"}))).await;
    assert_eq!(pace(&rig).await, at(5, "coexistence"));
    assert_eq!(emitted(&rig).await, expected);
}

#[tokio::test]
async fn a_number_that_is_in_the_app_as_well_is_slow() {
    let rig = Rig::new().await;
    // The callback must name the number, because the account may have others.
    take(&rig, echo(json!({}))).await;
    assert_eq!(row(&rig).await["pace"]["set"], 80);
    take(&rig, echo(json!({"phone_number_id": "106"}))).await;
    assert_eq!(row(&rig).await["pace"]["set"], 20);
}

#[tokio::test]
async fn quality_name_and_limit_are_reported_and_shown() {
    let rig = Rig::new().await;
    assert_eq!(row(&rig).await["quality"], "unknown");
    let flagged = json!({"display_phone_number": "15550001111", "event": "FLAGGED"});
    take(&rig, change("phone_number_quality_update", flagged)).await;
    let named = json!({"display_phone_number": "15550001111", "decision": "APPROVED"});
    take(&rig, change("phone_number_name_update", named)).await;
    for limit in [json!(250), json!(-1)] {
        let limit = json!({"max_daily_conversations_per_business": limit});
        take(&rig, change("business_capability_update", limit)).await;
    }
    // A change of somebody else's phone has no effect.
    let other = json!({"display_phone_number": "15550009999", "event": "THROUGHPUT_UPGRADE"});
    take(&rig, change("phone_number_quality_update", other)).await;
    let row = row(&rig).await;
    assert_eq!((&row["quality"], &row["name_status"]), (&json!("red"), &json!("approved")));
    assert_eq!((&row["status"], &row["pace"]["set"]), (&json!("active"), &json!(80)));
    let words = |field: &str, previous: Value, value: &str| [json!(field), previous, json!(value)];
    let expected = [
        words("quality", Value::Null, "red"),
        words("name_status", Value::Null, "approved"),
        words("limit", Value::Null, "250"),
        words("limit", json!("250"), "unlimited"),
    ];
    assert_eq!(emitted(&rig).await, expected);
}
