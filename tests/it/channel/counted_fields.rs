//! Each field of a callback that the channel documents moves its own counter.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::seconds;
use crate::support::{clustered, eventually};

/// Returns a callback of the rig's account and number with this field.
fn change(field: &str, mut value: Value) -> Value {
    value["metadata"] = json!({"display_phone_number": "15550001111", "phone_number_id": "106"});
    json!({"object": "whatsapp_business_account", "entry": [{
        "id": "107", "changes": [{"field": field, "value": value}],
    }]})
}

/// Returns a value of each documented field, as the channel posts it at that time, with one item.
fn documented(at: u64) -> Vec<(&'static str, Value)> {
    let at = at.to_string();
    let template = |more: Value| {
        let mut value = json!({"message_template_name": "sale", "message_template_language": "en"});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let echo = json!({"from": "15550001111", "to": "16505551234", "id": "wamid.e",
        "timestamp": at, "type": "text", "text": {"body": "Hi"}});
    vec![
        (
            "messages",
            json!({"messages": [{"from": "16505551234", "id": "wamid.m",
            "timestamp": at, "type": "text", "text": {"body": "Hi"}}]}),
        ),
        (
            "user_preferences",
            json!({"user_preferences": [{"wa_id": "16505551234",
            "category": "marketing_messages", "value": "stop", "timestamp": 1_749_416_383}]}),
        ),
        ("message_template_status_update", template(json!({"event": "PAUSED"}))),
        (
            "template_category_update",
            template(json!({"previous_category": "UTILITY",
            "new_category": "MARKETING"})),
        ),
        (
            "message_template_quality_update",
            template(json!({"previous_quality_score": "GREEN",
            "new_quality_score": "RED"})),
        ),
        ("message_template_components_update", template(json!({}))),
        (
            "phone_number_quality_update",
            json!({"display_phone_number": "+1 555 000 1111",
            "event": "THROUGHPUT_UPGRADE", "current_limit": "TIER_10K"}),
        ),
        (
            "phone_number_name_update",
            json!({"display_phone_number": "15550001111",
            "decision": "APPROVED"}),
        ),
        ("business_capability_update", json!({"max_daily_conversations_per_business": 1000})),
        ("account_update", json!({"event": "ACCOUNT_VIOLATION"})),
        ("account_alerts", json!({"alert_severity": "WARNING", "alert_type": "OBA_REVOKED"})),
        ("account_review_update", json!({"decision": "APPROVED"})),
        ("security", json!({"event": "PIN_CHANGED"})),
        (
            "user_id_update",
            json!({"user_id_update": [{"wa_id": "16505551234", "timestamp": at,
            "user_id": {"previous": "US.1", "current": "US.2"}}]}),
        ),
        ("smb_message_echoes", json!({"message_echoes": [echo]})),
        ("history", json!({"history": []})),
        ("smb_app_state_sync", json!({"state_sync": []})),
    ]
}

/// The field and outcome that are counted for an undocumented field, or for one that lacks a part.
const WRONG: [(&str, &str, &str); 4] = [
    ("new", "other", "unknown"),
    ("messages", "messages", "unreadable"),
    ("template_category_update", "template_category_update", "unreadable"),
    ("business_capability_update", "business_capability_update", "unreadable"),
];

/// Returns the counters of these fields that are not zero, once they have counted so many items.
async fn counters(rig: &Rig, fields: &[&str], items: usize) -> BTreeMap<String, f64> {
    let counted = async || {
        let metrics = rig.server.stranger().get("/metrics").await.text();
        let mut moved = BTreeMap::new();
        for field in fields.iter().chain(&["other"]) {
            for outcome in ["taken", "repeated", "ignored", "unknown", "unreadable"] {
                let series = series(field, outcome);
                let figure = clustered::figure(&metrics, &series).unwrap_or_default();
                moved.extend((figure > 0.0).then_some((series, figure)));
            }
        }
        (moved.values().sum::<f64>() >= items as f64).then_some(moved)
    };
    eventually(&format!("{items} items are counted"), counted).await
}

fn series(field: &str, outcome: &str) -> String {
    format!(r#"postrider_callback_items_total{{field="{field}",outcome="{outcome}"}}"#)
}

#[tokio::test]
async fn each_documented_field_moves_its_own_counter() {
    let rig = Rig::new().await;
    let documented = documented(seconds(&rig).await);
    let fields: Vec<_> = documented.iter().map(|(field, _)| *field).collect();
    for (field, value) in documented {
        assert_eq!(post(&rig, &change(field, value)).await.status, 200, "{field}");
    }
    let mut moved = counters(&rig, &fields, fields.len()).await;
    for field in &fields {
        // A known item of no use is ignored, and one that changes nothing is a repeat.
        let fine = ["taken", "repeated", "ignored"];
        let once = fine.map(|outcome| moved.remove(&series(field, outcome)));
        assert_eq!(once.iter().flatten().collect::<Vec<_>>(), [&1.0], "{field}: {once:?}");
    }
    assert!(moved.is_empty(), "{moved:?}");
    for (field, ..) in WRONG {
        let value = json!({"messages": [5], "new_category": 5});
        assert_eq!(post(&rig, &change(field, value)).await.status, 200, "{field}");
    }
    let moved = counters(&rig, &fields, fields.len() + WRONG.len()).await;
    for (field, counted_as, outcome) in WRONG {
        assert_eq!(moved.get(&series(counted_as, outcome)), Some(&1.0), "{field}: {moved:?}");
    }
}
