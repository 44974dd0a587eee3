//! Analytics of broadcasts and advertisements.

use serde_json::{Value, json};

use crate::channel::callbacks::report_always;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::Scripted;
use crate::support::{Api, TestServer, eventually};

const BROADCASTS: &str = "/v1/messaging/broadcasts";
const CAMPAIGNS: &str = "/v1/analytics/campaigns";
const ADS: &str = "/v1/analytics/ads";
const DAY_SECONDS: u64 = 24 * 3600;

/// Returns the id of a broadcast of the demo workspace that is completed.
async fn sale(api: &Api, name: &str, recipients: &[&str]) -> String {
    let body = json!({"name": name, "template_name": "spring_sale", "recipients": recipients});
    let made = api.post(BROADCASTS, body).await.ok();
    let id = made["broadcast_id"].as_str().unwrap().to_owned();
    eventually("completed", || async {
        let found = api.get(&format!("{BROADCASTS}/{id}")).await.ok();
        (found["status"] == "completed").then_some(())
    })
    .await;
    id
}

async fn writes(api: &Api, from: &str) {
    api.post("/v1/sandbox/inbound", json!({"from": from, "text": "Hi"})).await.ok();
}

/// Returns the counts: sent, delivered, read, failed, replied.
fn counts(row: &Value) -> [u64; 5] {
    ["sent", "delivered", "read", "failed", "replied"].map(|name| row[name].as_u64().unwrap())
}

fn today(server_time: &Value) -> String {
    server_time["now"].as_str().unwrap()[..10].to_owned()
}

#[tokio::test]
async fn broadcasts_are_counted_by_day_and_replies_for_the_last_one() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let [ana, bo, cy] = ["+15550000001", "+15550000002", "+15550000003"];
    let failing = json!({"to": cy, "outcome": "failed"});
    demo.post("/v1/sandbox/outcomes", failing).await.ok();
    let first = sale(&demo, "First", &[ana, bo, cy]).await;
    let second = sale(&demo, "Second", &[ana]).await;
    for phone in [ana, ana, bo, cy, "+15550000009"] {
        writes(&demo, phone).await;
    }
    let found = demo.get(CAMPAIGNS).await.ok();
    let day = today(&demo.get("/v1/sandbox/clock").await.ok());
    let rows = found["data"].as_array().unwrap();
    assert_eq!((rows.len(), &found["total"], &found["page"]), (2, &json!(2), &json!(1)));
    assert_eq!((&rows[0]["broadcast_id"], &rows[0]["name"]), (&json!(second), &json!("Second")));
    assert_eq!((&rows[1]["broadcast_id"], &rows[1]["date"]), (&json!(first), &json!(day)));
    assert_eq!([counts(&rows[0]), counts(&rows[1])], [[1, 0, 0, 0, 1], [2, 0, 0, 1, 1]]);
    assert_eq!(counts(&found["totals"]), [3, 0, 0, 1, 2]);

    // A crash loses and doubles no count. Three days after the end, a message is no reply.
    server.crash().await;
    let demo = server.demo();
    sale(&demo, "Third", &[bo, cy]).await;
    server.advance(3 * DAY_SECONDS + 1).await;
    writes(&demo, bo).await;
    sale(&demo, "Fourth", &[bo, cy]).await;
    writes(&demo, bo).await;
    let by_day = demo.get(&format!("{CAMPAIGNS}?group_by=day")).await.ok();
    let rows: Vec<_> = by_day["data"].as_array().unwrap().iter().map(counts).collect();
    assert_eq!(rows, [[2, 0, 0, 0, 1], [5, 0, 0, 1, 2]], "{by_day}");
    assert_eq!(by_day["data"][0]["broadcast_id"], Value::Null);
    let by_broadcast = demo.get(&format!("{CAMPAIGNS}?group_by=broadcast&limit=1")).await.ok();
    assert_eq!(
        (&by_broadcast["total"], &by_broadcast["data"][0]["date"]),
        (&json!(4), &Value::Null)
    );
    let only = demo.get(&format!("{CAMPAIGNS}?from={day}&to={day}&limit=1&page=3")).await.ok();
    assert_eq!((&only["total"], &only["data"][0]["name"]), (&json!(3), &json!("First")));
}

/// Starts a workspace with a template and a number that keeps no pace.
async fn for_sale() -> Rig {
    let mut number = number();
    number["messages_per_second"] = 0.into();
    let rig = Rig::with(&[], number).await;
    let template = json!({
        "name": "sale", "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", template).await.ok();
    rig
}

#[tokio::test]
async fn what_the_provider_reports_is_counted_once() {
    let rig = for_sale().await;
    report_always(&rig, &["sent", "delivered", "read"], 2);
    // The answer is lost; the report contains that it was sent.
    rig.fake.script(Some("15550000003"), Scripted::Lost, Some(1));
    let phones: Vec<_> = (1..=4).map(|number| format!("+155500000{number:02}")).collect();
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": phones});
    rig.api.post(BROADCASTS, body).await.ok();
    let (_, api) = rig.server.key("acme", &["analytics:read"], json!({})).await;
    let found = eventually("all reports", || async {
        let found = api.get(CAMPAIGNS).await.ok();
        (found["totals"]["read"] == 4).then_some(found)
    })
    .await;
    assert_eq!(counts(&found["totals"]), [4, 4, 4, 0, 0], "{found}");
}

/// Returns the sum of the counts of a broadcast's recipients.
fn all_of(counts: &Value) -> u64 {
    let counts = counts.as_object().unwrap();
    counts.values().map(|count| count.as_u64().unwrap()).sum()
}

#[tokio::test]
async fn no_figure_is_ahead_of_another_while_a_broadcast_runs() {
    let rig = for_sale().await;
    report_always(&rig, &["delivered", "read"], 1);
    let recipients = 400_u64;
    let phones: Vec<_> = (0..recipients).map(|number| format!("+1555{number:07}")).collect();
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": phones});
    let made = rig.api.post(BROADCASTS, body).await.ok();
    let path = format!("{BROADCASTS}/{}", made["broadcast_id"].as_str().unwrap());
    let (_, api) = rig.server.key("acme", &["analytics:read"], json!({})).await;
    eventually("all is reported", || async {
        for row in [CAMPAIGNS.to_owned(), format!("{CAMPAIGNS}?group_by=day")] {
            let found = api.get(&row).await.ok();
            let rows = found["data"].as_array().unwrap();
            for row in rows.iter().chain([&found["totals"]]) {
                let [sent, delivered, read, _, replied] = counts(row);
                assert!(delivered <= sent && read <= delivered && replied <= sent, "{found}");
            }
        }
        let broadcast = rig.api.get(&path).await.ok();
        assert_eq!(all_of(&broadcast["counts"]), recipients, "{broadcast}");
        (broadcast["counts"]["read"] == recipients).then_some(())
    })
    .await;
    let found = api.get(CAMPAIGNS).await.ok();
    assert_eq!(counts(&found["totals"]), [recipients, recipients, recipients, 0, 0], "{found}");
}

#[tokio::test]
async fn advertisements_are_counted_by_contact_and_day() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let click = async |from: &str, id: &str, headline: Option<&str>| {
        let referral = json!({"source_id": id, "headline": headline});
        let body = json!({"from": from, "text": "Hi", "referral": referral});
        demo.post("/v1/sandbox/inbound", body).await.ok();
    };
    click("+15550000001", "7", Some("Spring")).await;
    click("+15550000001", "7", None).await;
    click("+15550000002", "7", None).await;
    click("+15550000002", "8", None).await;
    writes(&demo, "+15550000003").await;
    let found = demo.get(ADS).await.ok();
    let rows = found["data"].as_array().unwrap();
    assert_eq!((rows.len(), &found["total"]), (2, &json!(2)));
    let seven = rows.iter().find(|row| row["source_id"] == "7").unwrap();
    assert_eq!((&seven["conversations"], &seven["messages"]), (&json!(2), &json!(3)));
    assert_eq!((&seven["source_type"], &seven["headline"]), (&json!("ad"), &json!("Spring")));
    server.advance(DAY_SECONDS).await;
    click("+15550000001", "7", None).await;
    let found = demo.get(&format!("{ADS}?limit=1")).await.ok();
    assert_eq!((&found["total"], &found["data"][0]["conversations"]), (&json!(3), &json!(1)));
    let events = demo.get("/v1/events?type=message.received").await.ok();
    let referral = &events["data"][0]["data"]["referral"];
    assert_eq!(referral, &json!({"source_type": "ad", "source_id": "7", "headline": "Spring"}));
    for (field, referral) in [
        ("referral.source_type", json!({"source_id": "7", "source_type": "x"})),
        ("referral.source_id", json!({"source_id": ""})),
        ("referral.headline", json!({"source_id": "7", "headline": "x".repeat(201)})),
    ] {
        let body = json!({"from": "+15550000001", "text": "Hi", "referral": referral});
        demo.post("/v1/sandbox/inbound", body).await.check_field(field);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_named() {
    let server = TestServer::start().await;
    let (_, api) = server.key("demo", &["analytics:read"], json!({})).await;
    for path in [CAMPAIGNS, ADS] {
        assert_eq!(api.get(path).await.ok()["data"], json!([]));
        for (field, query) in [
            ("from", "from=yesterday"),
            ("to", "to=2026-02-30"),
            ("from", "from=2026-01-02&to=2026-01-01"),
            ("from", "from=2024-01-01&to=2026-01-01"),
            ("limit", "limit=201"),
            ("page", "page=0"),
        ] {
            api.get(&format!("{path}?{query}")).await.check_field(field);
        }
        let (_, other) = server.key("demo", &["messaging:send"], json!({})).await;
        other.get(path).await.check(403, "FORBIDDEN");
    }
    api.get(&format!("{CAMPAIGNS}?group_by=week")).await.check_field("group_by");
}
