//! Broadcasts through numbers of two accounts, whose templates of one name differ.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use crate::broadcasts::reported::reported;
use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::pool::{asked_of, completes, phone};
use crate::channel::two_accounts::{rig_of, says};
use crate::fake::{Scripted, template};
use crate::support::{eventually, millis};

const PATH: &str = "/v1/messaging/broadcasts";
/// The time between now and a scheduled broadcast.
const HOUR_MS: u64 = 3_600_000;

fn hello(text: &str, category: &str, status: &str) -> Value {
    template("hello", "en", category, status, text)
}

/// Returns a broadcast to these people, each with these variables if there are some.
fn body(people: Range<u32>, variables: &[&str]) -> Value {
    let recipient = |of: u32| match variables {
        [] => json!(phone(of)),
        some => json!({"to": phone(of), "variables": some}),
    };
    let recipients: Vec<_> = people.map(recipient).collect();
    json!({"name": "Sale", "template_name": "hello", "recipients": recipients})
}

async fn make(rig: &Rig, body: &Value) -> String {
    let made = rig.api.post(PATH, body).await.ok();
    format!("{PATH}/{}", made["broadcast_id"].as_str().unwrap())
}

/// Creates a broadcast and waits for its end; returns the count of messages for each number.
async fn shares(rig: &Rig, body: &Value) -> [u32; 2] {
    let all = |rig: &Rig| ["106", "206"].map(|number| asked_of(rig, number).values().sum::<u32>());
    let before = all(rig);
    let done = completes(rig, &make(rig, body).await).await;
    let sent = done["counts"]["sent"].as_u64().unwrap();
    assert_eq!(sent, body["recipients"].as_array().unwrap().len() as u64, "{done}");
    let after = all(rig);
    [after[0] - before[0], after[1] - before[1]]
}

fn components(texts: &[&str]) -> Value {
    let texts = texts.iter().map(|text| json!({"type": "text", "text": text}));
    json!([{"type": "body", "parameters": texts.collect::<Vec<_>>()}])
}

async fn in_an_hour(rig: &Rig) -> Value {
    let acme = rig.server.admin().get("/admin/v1/workspaces/acme").await.ok();
    let now = millis(acme["created_at"].as_str().unwrap());
    json!(postrider_actors::domain::Timestamp::from_millis(now + HOUR_MS).to_string())
}

/// Moves time until a broadcast is paused because its template is.
async fn waits_for_its_template(rig: &Rig, path: &str) {
    let paused = async || {
        rig.server.advance(1).await;
        let row = rig.api.get(path).await.ok();
        assert_ne!(row["status"], "failed", "{row}");
        (row["status"] == "paused").then_some(row)
    };
    let row = eventually("it is paused", paused).await;
    assert_eq!(row["reason"], "the template is paused");
}

/// Reports by callback that the first number's account refused the template to a recipient.
async fn refused(rig: &Rig, path: &str, index: u32, code: u32) {
    let mut report = reported(path, index, "failed");
    let status = &mut report["entry"][0]["changes"][0]["value"]["statuses"][0];
    status["errors"][0]["code"] = json!(code);
    assert_eq!(post(rig, &report).await.status, 200);
}

#[tokio::test]
async fn numbers_whose_template_takes_other_parameters_stay_out_when_it_begins() {
    let first = vec![hello("Hi {{1}}", "UTILITY", "APPROVED")];
    let second = vec![hello("Hi {{1}} {{2}}", "UTILITY", "APPROVED")];
    let (rig, [_, second_id]) = rig_of(first, second).await;
    rig.fake.script_number("206", Scripted::Error { status: 400, code: 132_000 });
    let mut one = body(0..60, &[]);
    one["components"] = components(&["Ada"]);
    assert_eq!(shares(&rig, &one).await, [60, 0]);
    // It also stays out after a resume. Nothing of the broadcast is taken before its pause.
    rig.fake.script_number("106", Scripted::Error { status: 500, code: 131_000 });
    let path = make(&rig, &one).await;
    rig.api.post(&format!("{path}/pause"), json!({})).await.ok();
    rig.fake.script_number("106", Scripted::Slow(Duration::ZERO));
    rig.api.post(&format!("{path}/resume"), json!({})).await.ok();
    completes(&rig, &path).await;
    assert_eq!(asked_of(&rig, "206").len(), 0);
    rig.fake.heal();
    one["components"] = components(&["Ada", "Lovelace"]);
    one["from"] = json!(second_id);
    assert_eq!(shares(&rig, &one).await, [0, 60]);
}

#[tokio::test]
async fn a_number_at_another_price_takes_no_part_in_what_was_made_before() {
    let first = vec![hello("Hi", "UTILITY", "APPROVED")];
    let (rig, [_, second]) = rig_of(first, vec![hello("Hi", "MARKETING", "PENDING")]).await;
    let mut later = body(0..60, &[]);
    later["schedule_at"] = in_an_hour(&rig).await;
    let path = make(&rig, &later).await;
    says(&rig, &second, "208", "APPROVED").await;
    rig.server.advance(HOUR_MS / 1000).await;
    completes(&rig, &path).await;
    assert_eq!(asked_of(&rig, "206").len(), 0);
    assert_eq!(rig.api.get(&path).await.ok()["category"], "utility");
    // A broadcast that is created now is marketing, and leaves through both.
    let now = make(&rig, &body(100..160, &[])).await;
    assert_eq!(completes(&rig, &now).await["category"], "marketing");
    assert!(!asked_of(&rig, "206").is_empty());
}

#[tokio::test]
async fn a_number_whose_account_refuses_the_template_leaves_the_broadcast_to_others() {
    let both = || vec![hello("Hi", "UTILITY", "APPROVED")];
    let (rig, _) = rig_of(both(), both()).await;
    for (round, code) in (0..).zip([132_000, 132_001, 132_069, 132_016]) {
        rig.fake.script_number("206", Scripted::Error { status: 400, code });
        let path = make(&rig, &body(round * 200..(round + 1) * 200, &[])).await;
        let done = completes(&rig, &path).await;
        let counts = &done["counts"];
        assert_eq!((&counts["sent"], &counts["failed"]), (&json!(200), &json!(0)), "{code}");
        assert!(!asked_of(&rig, "206").is_empty(), "it was not asked");
    }
    // The template is disabled there, and no other account has it once the first refuses it.
    rig.fake.script_number("106", Scripted::Error { status: 400, code: 132_001 });
    let path = make(&rig, &body(1000..1010, &[])).await;
    let failed = async || {
        rig.server.advance(1).await;
        let row = rig.api.get(&path).await.ok();
        (row["status"] == "failed").then_some(row)
    };
    let row = eventually("it fails", failed).await;
    assert!(row["reason"].as_str().unwrap().starts_with("the channel refuses the template"));
}

#[tokio::test]
async fn refusals_of_one_account_that_are_reported_late_leave_the_broadcast_to_others() {
    let both = || vec![hello("Hi", "UTILITY", "APPROVED")];
    let (rig, _) = rig_of(both(), both()).await;
    for number in ["106", "206"] {
        rig.fake.script_number(number, Scripted::Error { status: 500, code: 131_000 });
    }
    let path = make(&rig, &body(0..60, &[])).await;
    rig.server.advance(5).await;
    // The second report is older than the effect of the first one on the template.
    for index in 0..2 {
        refused(&rig, &path, index, 132_016).await;
        let row = rig.api.get(&path).await.ok();
        assert!(row["status"] == "sending" || row["status"] == "queued", "{row}");
    }
    rig.fake.heal();
    completes(&rig, &path).await;
}

#[tokio::test]
async fn a_refusal_to_a_number_that_has_left_does_not_fail_what_waits_for_a_paused_template() {
    let both = || vec![hello("Hi", "UTILITY", "APPROVED")];
    let (rig, [_, second]) = rig_of(both(), both()).await;
    for number in ["106", "206"] {
        rig.fake.script_number(number, Scripted::Error { status: 500, code: 131_000 });
    }
    let path = make(&rig, &body(0..60, &[])).await;
    rig.server.advance(5).await;
    refused(&rig, &path, 0, 132_000).await;
    says(&rig, &second, "208", "PAUSED").await;
    // The report is of the account whose number left, while the other one's template is paused.
    refused(&rig, &path, 1, 132_000).await;
    let row = rig.api.get(&path).await.ok();
    assert!(["sending", "paused"].contains(&row["status"].as_str().unwrap()), "{row}");
    rig.fake.heal();
    says(&rig, &second, "208", "APPROVED").await;
    if rig.api.get(&path).await.ok()["status"] == "paused" {
        rig.api.post(&format!("{path}/resume"), json!({})).await.ok();
    }
    completes(&rig, &path).await;
}

#[tokio::test]
async fn a_broadcast_that_fits_only_a_paused_template_waits_for_it() {
    let first = vec![hello("Hi {{1}}", "UTILITY", "APPROVED")];
    let second = vec![hello("Hi {{1}} {{2}}", "UTILITY", "APPROVED")];
    let (rig, [first, _]) = rig_of(first, second).await;
    let mut later = body(0..60, &[]);
    later["components"] = components(&["Ada"]);
    later["schedule_at"] = in_an_hour(&rig).await;
    let path = make(&rig, &later).await;
    says(&rig, &first, "107", "PAUSED").await;
    rig.server.advance(HOUR_MS / 1000).await;
    waits_for_its_template(&rig, &path).await;
    says(&rig, &first, "107", "APPROVED").await;
    rig.api.post(&format!("{path}/resume"), json!({})).await.ok();
    completes(&rig, &path).await;
    assert_eq!([asked_of(&rig, "106").len(), asked_of(&rig, "206").len()], [60, 0]);
}

#[tokio::test]
async fn variables_of_recipients_are_for_the_templates_that_they_fit() {
    let first = vec![hello("Hi {{1}}", "UTILITY", "APPROVED")];
    let second = vec![hello("Hi {{1}} {{2}}", "UTILITY", "APPROVED")];
    let (rig, [first, second]) = rig_of(first, second).await;
    let preview = async |body: &Value| {
        let seen = rig.api.post(&format!("{PATH}/preview"), body).await.ok();
        (seen["missing_variables"].clone(), seen["samples"][0]["text"].clone())
    };
    let (one, two) = (body(0..60, &["Ada"]), body(0..60, &["Ada", "L"]));
    assert_eq!(preview(&one).await, (json!(0), json!("Hi Ada")));
    assert_eq!(shares(&rig, &one).await, [60, 0]);
    assert_eq!(preview(&two).await, (json!(0), json!("Hi Ada L")));
    assert_eq!(shares(&rig, &two).await, [0, 60]);
    let three = body(0..3, &["Ada", "L", "K"]);
    assert_eq!(preview(&three).await.0, 3);
    rig.api.post(PATH, &three).await.check_field("recipients[0].variables");
    // A named number is the only one whose template counts.
    let named = |body: &Value, from: &str| {
        let mut body = body.clone();
        body["from"] = json!([from]);
        body
    };
    assert_eq!(shares(&rig, &named(&two, &second)).await, [0, 60]);
    let misfit = named(&two, &first);
    assert_eq!(preview(&misfit).await.0, 60);
    rig.api.post(PATH, &misfit).await.check_field("recipients[0].variables");
}
