//! Broadcasts in every status.

use reqwest::Method;
use serde_json::{Value, json};

use super::setup::administer;
use super::{HOUR, advance};
use crate::cli::demo::client::{DemoClient, text};
use crate::cli::error::CliError;

/// The messages per second of a broadcast that is shown while it runs.
const SLOW: u32 = 3;
const STEADY: u32 = 400;

pub(super) async fn make_day(api: &DemoClient, day: u32) -> Result<(), CliError> {
    match day {
        1 => make_completed(api).await,
        2 => make_cancelled(api).await,
        3 => make_failed(api).await,
        4 => make_loyalty(api).await,
        _ => Ok(()),
    }
}

/// Makes a paused broadcast, a scheduled one, and a running one.
pub(super) async fn make_newest(api: &DemoClient) -> Result<(), CliError> {
    set_rate(api, STEADY).await?;
    let paused =
        make(api, "Winter preview", &json!({ "recipients": phones(30_000, 1500) })).await?;
    wait_for_sent(api, &paused, 200).await?;
    control(api, &paused, "pause").await?;
    let now = api.get("/sandbox/clock").await?;
    let later = later(text(&now["now"]), 5 * 24 * i64::from(HOUR));
    let at = later.ok_or_else(|| api.unexpected("the clock shows no time"))?;
    let audience = json!({ "recipients": phones(40_000, 250), "schedule_at": at });
    make(api, "New year's greetings", &audience).await?;
    set_rate(api, SLOW).await?;
    make(api, "Spring sale", &json!({ "recipients": phones(50_000, 4000) })).await?;
    Ok(())
}

/// Makes a broadcast with failed and read messages, and a retry of the failed ones.
async fn make_completed(api: &DemoClient) -> Result<(), CliError> {
    let to = phones(10_000, 400);
    for phone in to.iter().step_by(37) {
        let script = json!({ "to": phone, "outcome": "failed", "error_code": 131026, "times": 1 });
        api.post("/sandbox/outcomes", &script).await?;
    }
    let id = make(api, "Autumn news", &json!({ "recipients": to })).await?;
    wait_for_end(api, &id).await?;
    let path = format!("/messaging/broadcasts/{id}/recipients?status=delivered&limit=120");
    let delivered = api.get(&path).await?;
    for row in delivered["data"].as_array().into_iter().flatten() {
        let report = json!({ "message_id": row["message_id"], "status": "read" });
        api.post("/sandbox/reports", &report).await?;
    }
    let again = control(api, &id, "retry").await?;
    wait_for_end(api, text(&again["broadcast_id"])).await
}

async fn make_cancelled(api: &DemoClient) -> Result<(), CliError> {
    set_rate(api, STEADY).await?;
    let audience = json!({ "recipients": phones(20_000, 1200) });
    let id = make(api, "Sent to the wrong list", &audience).await?;
    wait_for_sent(api, &id, 100).await?;
    control(api, &id, "cancel").await?;
    wait_for_end(api, &id).await?;
    set_rate(api, 0).await
}

/// Makes a broadcast whose template is refused before its time comes.
async fn make_failed(api: &DemoClient) -> Result<(), CliError> {
    let now = api.get("/sandbox/clock").await?;
    let at = later(text(&now["now"]), i64::from(HOUR));
    let at = at.ok_or_else(|| api.unexpected("the clock shows no time"))?;
    let audience = json!({ "recipients": phones(25_000, 300), "schedule_at": at,
        "template_name": "black_friday" });
    let id = make(api, "Black Friday", &audience).await?;
    let refused = json!({ "status": "rejected" });
    administer(api, Method::PATCH, "/templates/black_friday/en", refused).await?;
    advance(api, 2 * HOUR).await?;
    wait_for_end(api, &id).await
}

/// Makes a broadcast to a segment, with the name of each contact.
async fn make_loyalty(api: &DemoClient) -> Result<(), CliError> {
    let segments = api.get("/segments?limit=50").await?;
    let newsletter = segments["data"].as_array().into_iter().flatten();
    let newsletter = newsletter.into_iter().find(|segment| segment["name"] == "Newsletter");
    let id = newsletter.map(|segment| segment["id"].clone());
    let audience = json!({ "segment_id": id, "template_name": "loyalty_points",
        "variables_from": ["name", { "text": "120" }] });
    let id = make(api, "Points of the month", &audience).await?;
    wait_for_end(api, &id).await
}

/// Makes a broadcast of `spring_sale`, unless it names another template.
async fn make(api: &DemoClient, name: &str, more: &Value) -> Result<String, CliError> {
    let mut body = json!({ "name": name, "template_name": "spring_sale" });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let made = api.post("/messaging/broadcasts", &body).await?;
    Ok(text(&made["broadcast_id"]).to_owned())
}

/// Waits until this number of messages was sent.
async fn wait_for_sent(api: &DemoClient, id: &str, sent: u64) -> Result<(), CliError> {
    let has = |now: &Value| {
        let (pending, all) = (&now["counts"]["pending"], &now["total_recipients"]);
        (all.as_u64()?.saturating_sub(pending.as_u64()?) >= sent).then_some(())
    };
    api.wait(&format!("/messaging/broadcasts/{id}"), has).await
}

async fn wait_for_end(api: &DemoClient, id: &str) -> Result<(), CliError> {
    let is = |now: &Value| {
        ["completed", "cancelled", "failed"].contains(&text(&now["status"])).then_some(())
    };
    api.wait(&format!("/messaging/broadcasts/{id}"), is).await
}

async fn control(api: &DemoClient, id: &str, what: &str) -> Result<Value, CliError> {
    api.call(Method::POST, &format!("/messaging/broadcasts/{id}/{what}"), None).await
}

/// Sets the messages per second of the workspace's number; 0 is no limit.
async fn set_rate(api: &DemoClient, messages: u32) -> Result<(), CliError> {
    let numbers = api.administer(Method::GET, "/workspaces/demo/numbers", None).await?;
    let path = format!("/numbers/{}", text(&numbers["data"][0]["id"]));
    let change = json!({ "messages_per_second": messages });
    administer(api, Method::PATCH, &path, change).await?;
    Ok(())
}

fn phones(from: u32, count: u32) -> Vec<String> {
    (from..from + count).map(|number| format!("+1555{number:07}")).collect()
}

/// Returns the time this number of seconds after another.
fn later(now: &str, seconds: i64) -> Option<String> {
    let now: jiff::Timestamp = now.parse().ok()?;
    now.checked_add(jiff::SignedDuration::from_secs(seconds)).ok().map(|at| at.to_string())
}
