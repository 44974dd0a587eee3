//! The channel's reports about an account, and its warnings about a number.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::channel::hidden_phones::counts;
use crate::channel::pool::{NUMBERS, connect, rig};
use crate::support::eventually;

/// Posts a change of this field of the account of the rig's numbers.
async fn say(rig: &Rig, field: &str, value: Value) {
    let change = json!({"field": field, "value": value});
    let body = json!({"entry": [{"id": "107", "changes": [change]}]});
    assert_eq!(post(rig, &body).await.status, 200);
}

/// Returns the events of a type, the newest last.
async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let events = rig.api.get(&format!("/v1/events?limit=200&type={kind}")).await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

async fn statuses(rig: &Rig, numbers: [&str; 3]) -> [Value; 3] {
    let listed = rig.server.admin().get(NUMBERS).await.ok();
    let rows = listed["data"].as_array().unwrap();
    numbers.map(|id| rows.iter().find(|row| row["id"] == id).unwrap()["status"].clone())
}

#[tokio::test]
async fn what_keeps_an_account_from_sending_stops_its_numbers_and_no_others() {
    let rig = rig().await;
    let (first, second) = (rig.number["id"].as_str().unwrap(), connect(&rig, "108").await);
    let mut other = number();
    other["phone"] = json!("+15550003000");
    (other["phone_number_id"], other["account_id"]) = (json!("109"), json!("110"));
    let other = rig.server.admin().post(NUMBERS, other).await.ok()["id"].clone();
    let numbers = [first, &*second, other.as_str().unwrap()];
    for harmless in [
        json!({"event": "ACCOUNT_VIOLATION", "violation_info": {"violation_type": "ADULT"}}),
        json!({"event": "DISABLED_UPDATE", "ban_info": {"waba_ban_state": "REINSTATE"}}),
        json!({"event": "VERIFIED_ACCOUNT"}),
    ] {
        say(&rig, "account_update", harmless).await;
    }
    let warned = emitted(&rig, "channel.error").await;
    let titles: Vec<_> = warned.iter().map(|it| it["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["ACCOUNT_VIOLATION", "DISABLED_UPDATE"]);
    assert_eq!((&warned[0]["number_id"], &warned[0]["details"]), (&json!(first), &json!("ADULT")));
    assert_eq!(statuses(&rig, numbers).await, ["active"; 3]);
    say(&rig, "account_update", json!({"event": "ACCOUNT_DELETED"})).await;
    eventually("both numbers stop", async || {
        (statuses(&rig, numbers).await == ["stopped", "stopped", "active"]).then_some(())
    })
    .await;
    let stopped = eventually("the events", async || {
        Some(emitted(&rig, "number.stopped").await).filter(|stopped| stopped.len() == 2)
    });
    for stopped in stopped.await {
        assert_eq!(
            (&stopped["error_code"], &stopped["reason"]),
            (&Value::Null, &json!("ACCOUNT_DELETED"))
        );
    }
    counts(&rig, "account_update", "taken", 3).await;
    counts(&rig, "account_update", "ignored", 1).await;
}

#[tokio::test]
async fn alerts_and_security_warn_and_stop_nothing() {
    let rig = rig().await;
    let id = rig.number["id"].as_str().unwrap();
    let info = json!({"alert_type": "OBA_REVOKED", "alert_severity": "CRITICAL",
        "alert_description": "The badge is lost."});
    let alert = json!({"entity_type": "PHONE_NUMBER", "entity_id": "106", "alert_info": info});
    say(&rig, "account_alerts", alert).await;
    let pin = json!({"display_phone_number": "15550001111", "event": "PIN_CHANGED"});
    say(&rig, "security", pin).await;
    let odd = json!({"display_phone_number": "15550001111", "event": 7});
    say(&rig, "security", odd).await;
    let warned = emitted(&rig, "channel.error").await;
    let of = |at: usize| ["number_id", "title", "details"].map(|name| warned[at][name].clone());
    assert_eq!(of(0), [json!(id), json!("OBA_REVOKED"), json!("CRITICAL, The badge is lost.")]);
    assert_eq!(of(1), [json!(id), json!("PIN_CHANGED"), json!("")]);
    assert_eq!(statuses(&rig, [id, id, id]).await, ["active"; 3]);
    let ignored = emitted(&rig, "channel.ignored").await;
    assert_eq!(
        (&ignored[0]["field"], &ignored[0]["reason"]),
        (&json!("security"), &json!("unreadable"))
    );
    counts(&rig, "account_alerts", "taken", 1).await;
    counts(&rig, "security", "taken", 1).await;
    counts(&rig, "security", "unreadable", 1).await;
}
