//! Messages while a portfolio is used up, and the records of its limits.

use serde_json::{Value, json};

use crate::channel::pool::{self, NUMBERS, SEND, hello, phone};
use crate::channel::portfolio::{DAY, emitted, limit};
use crate::fake::Scripted;
use crate::support::eventually;

#[tokio::test]
async fn many_messages_with_long_metadata_end_though_one_commit_cannot_hold_them() {
    let rig = pool::rig().await;
    limit(&rig, json!({"daily_recipients": 1, "reserve_percent": 0})).await;
    rig.api.post(SEND, hello(&phone(0))).await.ok();
    eventually("the first is sent", async || (rig.fake.accepted_count() == 1).then_some(())).await;
    let value = "m".repeat(250);
    let metadata: serde_json::Map<_, _> =
        (0..16).map(|of| (format!("key{of}"), json!(value))).collect();
    for of in 1..=75 {
        let mut message = hello(&phone(of));
        message["metadata"] = metadata.clone().into();
        rig.api.post(SEND, message).await.ok();
    }
    rig.server.advance(2).await;
    assert_eq!(rig.fake.accepted_count(), 1);
    eventually("all end", async || {
        rig.server.advance(3600).await;
        (emitted(&rig, "message.failed").await.len() == 75).then_some(())
    })
    .await;
    assert_eq!(rig.fake.accepted_count(), 1);
}

#[tokio::test]
async fn a_template_that_waits_for_room_moves_when_its_number_is_down() {
    let rig = pool::rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = pool::connect(&rig, "206").await;
    let path = format!("{NUMBERS}/{second}");
    let change = json!({"portfolio_id": "biz"});
    rig.server.admin().send_json("PATCH", &path, &change).await.ok();
    let ada = pool::phone_of(&rig, &first).await;
    limit(&rig, json!({"daily_recipients": 1, "reserve_percent": 0})).await;
    let row = async |sent: &Value| {
        let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
        rig.api.get(&path).await.ok()
    };
    let (mut of, mut sent) = (99, Value::Null);
    while sent["number_id"] != first.as_str() {
        of += 1;
        sent = row(&rig.api.post(SEND, hello(&phone(of))).await.ok()).await;
    }
    rig.server.advance(100).await;
    let waits = row(&sent).await;
    assert_eq!((&waits["status"], &waits["number_id"]), (&json!("queued"), &json!(first)));
    // A recipient who counts already finds the number stopped.
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    rig.api.post(SEND, hello(&ada)).await.ok();
    let moved = async || {
        rig.server.advance(5).await;
        let row = row(&sent).await;
        (row["status"] == "sent").then_some(row)
    };
    let row = eventually("it moves", moved).await;
    assert_eq!(row["number_id"], second);
    assert_eq!(rig.fake.accepted_to(&phone(of)[1..]), 1);
}

#[tokio::test]
async fn a_code_that_moves_to_another_number_leaves_no_place_behind() {
    let rig = pool::rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = pool::connect(&rig, "206").await;
    let path = format!("{NUMBERS}/{second}");
    let change = json!({"portfolio_id": "biz"});
    rig.server.admin().send_json("PATCH", &path, &change).await.ok();
    let ada = pool::phone_of(&rig, &first).await;
    // Nobody counts any more, and the contact keeps its number.
    rig.server.advance(DAY + 4).await;
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    let (code, _) = pool::code_through(&rig, &ada).await;
    let moved = async || {
        rig.server.advance(1).await;
        (rig.taken(&code) == 1).then_some(())
    };
    eventually("the code that found its number stopped", moved).await;
    assert_eq!(pool::code_number(&rig, &code).await, second);
    let used = async |portfolio: &str| {
        let path = format!("/admin/v1/workspaces/acme/portfolios/{portfolio}");
        rig.server.admin().get(&path).await.ok()["used"].clone()
    };
    assert_eq!((used("107").await, used("biz").await), (json!(0), json!(1)));
}

#[tokio::test]
async fn a_limit_that_frees_while_its_workspace_rests_after_a_start_is_reported() {
    let mut rig = pool::rig().await;
    limit(&rig, json!({"daily_recipients": 1, "reserve_percent": 0})).await;
    rig.api.post(SEND, hello(&phone(0))).await.ok();
    let count = async |rig: &crate::channel::cloud_api::Rig, kind: &str| {
        rig.server.advance(1).await;
        (emitted(rig, kind).await.len() == 1).then_some(())
    };
    eventually("it is reached", async || count(&rig, "number.limit_reached").await).await;
    rig.server.crash().await;
    rig.server.advance(DAY + 4).await;
    eventually("it is free", async || count(&rig, "number.limit_freed").await).await;
}

#[tokio::test]
async fn a_workspace_has_so_many_portfolios_set_and_one_is_set_back() {
    let rig = pool::rig().await;
    let admin = rig.server.admin();
    let path = |of: u32| format!("/admin/v1/workspaces/acme/portfolios/p{of}");
    for of in 0..64 {
        admin.put(&path(of), json!({"daily_recipients": 5})).await.ok();
    }
    let refused = admin.put(&path(64), json!({"reserve_percent": 20})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "portfolio_setting_limit");
    admin.put(&path(63), json!({"daily_recipients": 6})).await.ok();
    let back = admin.put(&path(63), json!({})).await.ok();
    assert_eq!((&back["source"], &back["reserve_percent"]), (&json!("none"), &json!(10)));
    admin.put(&path(64), json!({"reserve_percent": 20})).await.ok();
}
