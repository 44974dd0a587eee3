//! The daily budget of a portfolio: counted and waiting recipients, none of them refused or lost.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::pool::{self, NUMBERS, SEND, hello, phone};
use crate::support::eventually;

const BROADCASTS: &str = "/v1/messaging/broadcasts";
pub const DAY: u64 = 24 * 3600;
/// The portfolio of the rig's number, which is its account.
const OWN: &str = "/admin/v1/workspaces/acme/portfolios/107";

pub async fn limit(rig: &Rig, limit: Value) -> Value {
    rig.server.admin().put(OWN, limit).await.ok()
}

async fn budget(rig: &Rig) -> Value {
    rig.server.admin().get(OWN).await.ok()
}

async fn used(rig: &Rig) -> u64 {
    budget(rig).await["used"].as_u64().unwrap()
}

/// Creates a broadcast to these phones; returns its path.
async fn broadcast(rig: &Rig, phones: std::ops::Range<u32>) -> String {
    let phones: Vec<_> = phones.map(phone).collect();
    let body = json!({"name": "All", "template_name": "hello", "recipients": phones});
    let made = rig.api.post(BROADCASTS, body).await.ok();
    format!("{BROADCASTS}/{}", made["broadcast_id"].as_str().unwrap())
}

/// Returns a broadcast as soon as it has sent so many and waits.
async fn held_at(rig: &Rig, path: &str, sent: u64) -> Value {
    eventually("what is awaited", async || {
        let found = rig.api.get(path).await.ok();
        let is_held = found["reason"] == "portfolio_limit" && found["counts"]["sent"] == sent;
        is_held.then_some(found)
    })
    .await
}

/// Returns a broadcast as soon as it is over.
async fn completed(rig: &Rig, path: &str) -> Value {
    eventually("what is awaited", async || {
        let found = rig.api.get(path).await.ok();
        (found["status"] == "completed").then_some(found)
    })
    .await
}

/// Returns the newest events of a type, without their ids.
pub async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let events = rig.api.get(&format!("/v1/events?limit=200&type={kind}")).await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn a_broadcast_larger_than_the_budget_waits_and_loses_nobody_by_a_crash() {
    let mut rig = pool::rig().await;
    rig.fake.limit_recipients(Some(50));
    let set = limit(&rig, json!({"daily_recipients": 50})).await;
    assert_eq!((&set["source"], &set["used"]), (&json!("setting"), &json!(0)));
    let path = broadcast(&rig, 0..120).await;
    let held = held_at(&rig, &path, 45).await;
    assert_eq!((&held["status"], &held["counts"]["pending"]), (&json!("sending"), &json!(75)));
    let row = budget(&rig).await;
    assert_eq!((&row["used"], &row["frees_at"]), (&json!(45), &held["resumes_at"]));
    rig.server.crash().await;
    assert_eq!(used(&rig).await, 45, "what is counted outlives a crash");
    let again = held_at(&rig, &path, 45).await;
    assert_eq!(again["resumes_at"], row["frees_at"]);
    for sent in [90, 120] {
        rig.fake.begin_day();
        rig.server.advance(DAY + 4).await;
        if sent < 120 {
            held_at(&rig, &path, sent).await;
            rig.server.crash().await;
        }
    }
    let done = eventually("what is awaited", async || {
        rig.server.advance(1).await;
        let found = rig.api.get(&path).await.ok();
        (found["status"] == "completed").then_some(found)
    })
    .await;
    assert_eq!((&done["counts"]["sent"], &done["reason"]), (&json!(120), &Value::Null), "{done}");
    assert_eq!(done["resumes_at"], Value::Null);
    for of in 0..120 {
        assert_eq!(rig.fake.accepted_to(&phone(of)[1..]), 1, "{of}");
    }
    assert_eq!(rig.fake.refused_recipients(), 0);
}

#[tokio::test]
async fn a_portfolio_without_room_holds_up_only_who_belongs_to_its_number() {
    let rig = pool::rig().await;
    let second = pool::connect(&rig, "206").await;
    let change = json!({"portfolio_id": "biz"});
    let admin = rig.server.admin();
    admin.send_json("PATCH", &format!("{NUMBERS}/{second}"), &change).await.ok();
    limit(&rig, json!({"daily_recipients": 10, "reserve_percent": 0})).await;
    // New recipients go through the other number.
    let path = broadcast(&rig, 0..120).await;
    completed(&rig, &path).await;
    assert_eq!(used(&rig).await, 10);
    let other = "/admin/v1/workspaces/acme/portfolios/biz";
    assert_eq!(admin.get(other).await.ok()["used"], 110);
    rig.server.advance(DAY + 4).await;
    limit(&rig, json!({"daily_recipients": 4, "reserve_percent": 0})).await;
    let path = broadcast(&rig, 0..120).await;
    let held = held_at(&rig, &path, 114).await;
    assert_eq!(held["counts"]["pending"], 6);
    assert_eq!(held["resumes_at"], budget(&rig).await["frees_at"]);
    limit(&rig, json!({"daily_recipients": -1})).await;
    completed(&rig, &path).await;
    assert!((0..120).all(|of| rig.fake.accepted_to(&phone(of)[1..]) == 2));
}

#[tokio::test]
async fn who_counts_already_gets_a_broadcast_though_the_budget_is_used_up() {
    let rig = pool::rig().await;
    limit(&rig, json!({"daily_recipients": 5, "reserve_percent": 0})).await;
    completed(&rig, &broadcast(&rig, 0..5).await).await;
    let path = broadcast(&rig, 0..8).await;
    let held = held_at(&rig, &path, 5).await;
    assert_eq!((&held["counts"]["pending"], used(&rig).await), (&json!(3), 5));
    limit(&rig, json!({"daily_recipients": 8, "reserve_percent": 0})).await;
    completed(&rig, &path).await;
    assert_eq!(rig.fake.accepted_count(), 13);
}

#[tokio::test]
async fn a_crash_among_messages_on_their_way_forgets_nobody_who_counts() {
    let mut rig = pool::rig().await;
    rig.fake.limit_recipients(Some(50));
    limit(&rig, json!({"daily_recipients": 50, "reserve_percent": 0})).await;
    let slow = rig.server.admin();
    let number = format!("{NUMBERS}/{}", rig.number["id"].as_str().unwrap());
    slow.send_json("PATCH", &number, &json!({"messages_per_second": 10})).await.ok();
    let path = broadcast(&rig, 0..120).await;
    eventually("what is awaited", async || (rig.fake.accepted_count() > 0).then_some(())).await;
    rig.server.crash().await;
    let (accepted, counted) = (rig.fake.accepted_count(), used(&rig).await);
    assert!((accepted..=50).contains(&counted), "{accepted} were written to, {counted} count");
    let (mut before, mut still) = (accepted, 0);
    let done = eventually("what is awaited", async || {
        rig.server.advance(5).await;
        let found = rig.api.get(&path).await.ok();
        // A day passes once nothing is under way any more, because that would be given up.
        let now = rig.fake.accepted_count();
        still = if now == before { still + 1 } else { 0 };
        before = now;
        if found["reason"] == "portfolio_limit" && still > 3 {
            rig.fake.begin_day();
            rig.server.advance(DAY + 4).await;
            still = 0;
        }
        (found["status"] == "completed").then_some(found)
    })
    .await;
    let [sent, unknown] = ["sent", "unknown"].map(|it| done["counts"][it].as_u64().unwrap());
    assert_eq!(sent + unknown, 120, "{done}");
    assert!((0..120).all(|of| rig.fake.accepted_to(&phone(of)[1..]) <= 1));
    assert_eq!(rig.fake.refused_recipients(), 0);
}

#[tokio::test]
async fn without_a_limit_the_channel_refuses_what_would_have_waited() {
    let rig = pool::rig().await;
    rig.fake.limit_recipients(Some(50));
    let path = broadcast(&rig, 0..60).await;
    eventually("what is awaited", async || {
        (rig.api.get(&path).await.ok()["status"] == "paused").then_some(())
    })
    .await;
    assert!(rig.fake.refused_recipients() > 0);
    // Refused recipients are not counted.
    eventually("what is awaited", async || (used(&rig).await == 50).then_some(())).await;
}

#[tokio::test]
async fn who_counts_already_is_free_and_a_sure_failure_gives_its_place_back() {
    let rig = pool::rig().await;
    for _ in 0..2 {
        rig.api.post(SEND, hello(&phone(1))).await.ok();
    }
    eventually("what is awaited", async || {
        (rig.fake.accepted_to(&phone(1)[1..]) == 2).then_some(())
    })
    .await;
    let budget = budget(&rig).await;
    assert_eq!((&budget["used"], &budget["source"]), (&json!(1), &json!("none")));
    assert_eq!(budget["daily_recipients"], Value::Null);
    rig.fake.fail(400, 131_026);
    rig.api.post(SEND, hello(&phone(2))).await.ok();
    rig.api.post(SEND, hello(&phone(1))).await.ok();
    let failed = async || emitted(&rig, "message.failed").await.len();
    eventually("what is awaited", async || (failed().await == 2).then_some(())).await;
    assert_eq!(used(&rig).await, 1, "the first one counts for what it got before");
}

#[tokio::test]
async fn a_single_template_waits_and_goes_when_there_is_room() {
    let mut rig = pool::rig().await;
    limit(&rig, json!({"daily_recipients": 2, "reserve_percent": 0})).await;
    let mut sent = Vec::new();
    for of in 0..4 {
        sent.push(rig.api.post(SEND, hello(&phone(of))).await.ok()["message_id"].clone());
    }
    let status = async |rig: &Rig, of: usize| {
        let path = format!("/v1/messaging/messages/{}", sent[of].as_str().unwrap());
        rig.api.get(&path).await.ok()["status"].clone()
    };
    eventually("what is awaited", async || (status(&rig, 1).await == "sent").then_some(())).await;
    rig.server.advance(5).await;
    assert_eq!((status(&rig, 2).await, rig.fake.accepted_count()), (json!("queued"), 2));
    rig.server.crash().await;
    limit(&rig, json!({"daily_recipients": 3, "reserve_percent": 0})).await;
    eventually("what is awaited", async || {
        rig.server.advance(1).await;
        (status(&rig, 2).await == "sent").then_some(())
    })
    .await;
    assert_eq!(used(&rig).await, 3);
    // The life of the last message continues, and ends.
    eventually("what is awaited", async || {
        rig.server.advance(3600).await;
        (status(&rig, 3).await == "failed").then_some(())
    })
    .await;
    assert_eq!(rig.fake.accepted_count(), 3);
}

#[tokio::test]
async fn the_channels_word_holds_unless_somebody_has_set_a_limit_and_each_change_is_reported_once()
{
    let rig = pool::rig().await;
    let said = json!({"entry": [{"id": "107", "changes": [{
        "field": "business_capability_update",
        "value": {"max_daily_conversations_per_business": 10}}]}]});
    assert_eq!(post(&rig, &said).await.status, 200);
    let row = budget(&rig).await;
    assert_eq!((&row["daily_recipients"], &row["source"]), (&json!(10), &json!("channel")));
    let path = broadcast(&rig, 0..12).await;
    held_at(&rig, &path, 9).await;
    let reached = async || emitted(&rig, "number.limit_reached").await;
    let first = eventually("what is awaited", async || {
        rig.server.advance(1).await;
        reached().await.first().cloned()
    })
    .await;
    let frees_at = budget(&rig).await["frees_at"].clone();
    let expected = json!({"portfolio_id": "107", "daily_recipients": 10, "frees_at": frees_at});
    assert_eq!(first, expected);
    let row = limit(&rig, json!({"daily_recipients": null})).await;
    assert_eq!((&row["daily_recipients"], &row["source"]), (&Value::Null, &json!("setting")));
    eventually("what is awaited", async || {
        rig.server.advance(1).await;
        let freed = emitted(&rig, "number.limit_freed").await;
        (rig.api.get(&path).await.ok()["status"] == "completed" && freed.len() == 1).then_some(())
    })
    .await;
    assert_eq!(reached().await.len(), 1);
    let path = format!("{NUMBERS}/{}", rig.number["id"].as_str().unwrap());
    let row = rig.server.admin().get(&path).await.ok();
    assert_eq!(row["portfolio_id"], "107");
    let moved = json!({"portfolio_id": "biz"});
    let row = rig.server.admin().send_json("PATCH", &path, &moved).await.ok();
    assert_eq!(row["portfolio_id"], "biz");
    for (bad, field) in [
        (json!({"daily_recipients": 0}), "daily_recipients"),
        (json!({"daily_recipients": -2}), "daily_recipients"),
        (json!({"reserve_percent": 100}), "reserve_percent"),
    ] {
        let refused = rig.server.admin().put(OWN, bad).await;
        assert_eq!(refused.status, 400);
        assert!(refused.json().to_string().contains(field), "{}", refused.json());
    }
}

#[tokio::test]
async fn codes_count_and_never_wait_but_leave_the_chat_step_out_where_another_channel_follows() {
    let rig = pool::rig().await;
    limit(&rig, json!({"daily_recipients": 1})).await;
    for of in [1, 2] {
        pool::code_through(&rig, &phone(of)).await;
        eventually("what is awaited", async || {
            (rig.fake.accepted_to(&phone(of)[1..]) == 1).then_some(())
        })
        .await;
    }
    assert_eq!(used(&rig).await, 2, "a code is counted and not held");
    let acme = "/admin/v1/workspaces/acme";
    rig.server.admin().put(&format!("{acme}/sms"), json!({"kind": "sandbox"})).await.ok();
    // The server checks once a second whether the budget is used up.
    let mut of = 2;
    let tries = eventually("what is awaited", async || {
        of += 1;
        let body = json!({"phone": phone(of), "channels": ["messaging", "sms"]});
        let sent = rig.api.post("/v1/otp/send", body).await.ok();
        let path = format!("/v1/otp/{}", sent["request_id"].as_str().unwrap());
        let tries = rig.api.get(&path).await.ok()["tries"].clone();
        (tries[0]["status"] == "skipped").then_some(tries)
    })
    .await;
    assert_eq!(tries[1]["channel"], "sms", "{tries}");
    // A recipient who counts already needs no place.
    let body = json!({"phone": phone(1), "channels": ["messaging", "sms"]});
    rig.api.post("/v1/otp/send", body).await.ok();
    eventually("what is awaited", async || {
        (rig.fake.accepted_to(&phone(1)[1..]) == 2).then_some(())
    })
    .await;
}
