//! Opt-outs and opt-ins that people set in the app itself.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::fake::callback;
use crate::support::Api;

const PHONE: &str = "+16505551234";

/// Returns the callback of somebody's choice about marketing messages.
fn chose(value: &str, at: u64) -> Value {
    let mut notice = callback(
        "106",
        json!({
            "contacts": [{"profile": {"name": "Sheena"}, "wa_id": &PHONE[1..]}],
            "user_preferences": [{
                "wa_id": &PHONE[1..], "category": "marketing_messages", "value": value,
                "detail": "User requested it", "timestamp": at,
            }],
        }),
    );
    notice["entry"][0]["changes"][0]["field"] = "user_preferences".into();
    notice
}

/// Returns the callback of a text that they wrote.
fn wrote(text: &str, at: u64) -> Value {
    let message = json!({
        "from": &PHONE[1..], "id": format!("wamid.{text}{at}"), "timestamp": at.to_string(),
        "type": "text", "text": {"body": text},
    });
    callback("106", json!({"messages": [message]}))
}

async fn reader(rig: &Rig) -> Api {
    rig.server.key("acme", &["contacts:read"], json!({})).await.1
}

/// Returns the sources of the listed opt-outs.
async fn sources(reader: &Api) -> Vec<Value> {
    let listed = reader.get("/v1/suppressions").await.ok();
    let rows = listed["data"].as_array().unwrap().iter();
    rows.map(|row| {
        assert_eq!(row["phone"], PHONE);
        row["source"].clone()
    })
    .collect()
}

#[tokio::test]
async fn who_stops_marketing_in_the_app_is_suppressed_until_they_resume() {
    let rig = Rig::new().await;
    let reader = reader(&rig).await;
    for _ in 0..2 {
        assert_eq!(post(&rig, &chose("stop", 1_749_416_383)).await.status, 200);
        assert_eq!(sources(&reader).await, ["channel"]);
    }
    let emitted = rig.api.get("/v1/events?type=contact.opted_out").await.ok();
    let emitted = emitted["data"].as_array().unwrap();
    assert_eq!(emitted.len(), 1);
    assert_eq!(
        (&emitted[0]["data"]["phone"], &emitted[0]["data"]["source"]),
        (&PHONE.into(), &"channel".into())
    );
    assert_eq!(post(&rig, &chose("resume", 1_749_416_390)).await.status, 200);
    assert_eq!(sources(&reader).await, [Value::Null; 0]);
    // Older news comes late and changes nothing.
    assert_eq!(post(&rig, &chose("stop", 1_749_416_389)).await.status, 200);
    assert_eq!(sources(&reader).await, [Value::Null; 0]);
    assert_eq!(post(&rig, &chose("stop", 1_749_416_400)).await.status, 200);
    assert_eq!(sources(&reader).await, ["channel"]);
    assert_eq!(post(&rig, &chose("resume", 1_749_416_399)).await.status, 200);
    assert_eq!(sources(&reader).await, ["channel"]);
    assert_eq!(post(&rig, &chose("signup", 1_749_416_401)).await.status, 200);
    assert_eq!(sources(&reader).await, [Value::Null; 0]);
}

#[tokio::test]
async fn resuming_in_the_app_takes_back_no_opt_out_by_word() {
    let (stop, word, resume) = (1_749_416_383, 1_749_416_384, 1_749_416_385);
    let all = [chose("stop", stop), wrote("STOP", word), chose("resume", resume)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let rig = Rig::new().await;
        let reader = reader(&rig).await;
        for index in order {
            assert_eq!(post(&rig, &all[index]).await.status, 200);
        }
        assert_eq!(sources(&reader).await, ["word"], "{order:?}");
        assert_eq!(post(&rig, &wrote("START", resume + 1)).await.status, 200);
        assert_eq!(sources(&reader).await, [Value::Null; 0], "{order:?}");
    }
}
