//! Numbers of two accounts in one workspace: each sends the templates of its own account only.

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, number};
use crate::channel::pool::{NUMBERS, SEND, asked_of, completes, hello, phone};
use crate::fake::{FakeCloudApi, Scripted, sign, template};
use crate::support::eventually;

pub const TEMPLATES: &str = "/admin/v1/workspaces/acme/templates";

pub fn listed(name: &str, category: &str, status: &str) -> Value {
    template(name, "en", category, status, "Hello.")
}

/// Starts a rig with a number of each of two accounts that have these templates; returns both ids.
pub async fn rig_of(first: Vec<Value>, second: Vec<Value>) -> (Rig, [String; 2]) {
    let fake = FakeCloudApi::start();
    let expected = first.len() + second.len();
    fake.set_templates(first);
    fake.set_templates_of("208", second);
    let rig = Rig::before(fake, &[], number()).await;
    let mut other = number();
    other["phone"] = json!("+15550002206");
    (other["phone_number_id"], other["account_id"]) = (json!("206"), json!("208"));
    let other = rig.server.admin().post(NUMBERS, other).await.ok();
    let ids = [&rig.number, &other].map(|it| it["id"].as_str().unwrap().to_owned());
    have(&rig, expected).await;
    (rig, ids)
}

/// Waits until so many templates of accounts are known; returns the rows.
async fn have(rig: &Rig, expected: usize) -> Vec<Value> {
    let all_of_them = async || {
        rig.server.advance(40).await;
        let rows = rig.server.admin().get(TEMPLATES).await.ok();
        let rows = rows["data"].as_array().unwrap().clone();
        let all: usize = rows.iter().map(|it| it["accounts"].as_array().unwrap().len()).sum();
        (all == expected).then_some(rows)
    };
    eventually("the templates of both accounts", all_of_them).await
}

/// Starts a rig of two accounts. `hello` is in both, approved in the first; the second has the
/// template of codes.
async fn rig() -> (Rig, [String; 2]) {
    let hello = |status| listed("hello", "UTILITY", status);
    let first = vec![hello("APPROVED"), listed("first", "UTILITY", "APPROVED")];
    let second = listed("second", "UTILITY", "APPROVED");
    let codes = listed("otp_code", "AUTHENTICATION", "APPROVED");
    let (rig, ids) = rig_of(first, vec![hello("PENDING"), codes, second]).await;
    let rows = have(&rig, 5).await;
    let names: Vec<_> = rows.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "hello", "otp_code", "second"]);
    assert_eq!(
        rows[1]["accounts"],
        json!([
            {"account_id": "107", "category": "utility", "status": "approved"},
            {"account_id": "208", "category": "utility", "status": "pending"},
        ])
    );
    (rig, ids)
}

/// Returns the number that a template to this phone leaves through.
async fn through(rig: &Rig, name: &str, to: u32) -> Value {
    let mut body = hello(&phone(to));
    body["template"]["name"] = json!(name);
    rig.api.post(SEND, body).await.ok()["number_id"].clone()
}

/// Reports the status of a template through a number's channel.
pub async fn says(rig: &Rig, number: &str, account: &str, event: &str) {
    let update = json!({"entry": [{"id": account, "changes": [{
        "field": "message_template_status_update",
        "value": {
            "event": event, "message_template_name": "hello", "message_template_language": "en",
        },
    }]}]});
    let body = update.to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let headers = [("X-Hub-Signature-256", &*signature), ("Content-Type", "application/json")];
    let path = format!("/channels/cloud-api/{number}");
    rig.server.stranger().call("POST", &path, &headers, body.as_bytes()).await.ok();
}

async fn broadcast(rig: &Rig, name: &str, from: &[&str]) -> Value {
    let recipients: Vec<_> = (1000..1200).map(phone).collect();
    let mut body = json!({"name": "Sale", "template_name": name, "recipients": recipients});
    if !from.is_empty() {
        body["from"] = json!(from);
    }
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    completes(rig, &path).await
}

#[tokio::test]
async fn a_number_sends_what_its_account_has_approved_and_says_so_after_a_crash() {
    let (mut rig, [first, second]) = rig().await;
    for of in 0..12 {
        assert_eq!(through(&rig, "hello", of).await, first.as_str());
        assert_eq!(through(&rig, "first", 100 + of).await, first.as_str());
        assert_eq!(through(&rig, "second", 200 + of).await, second.as_str());
        let sent = rig.api.post("/v1/otp/send", json!({"phone": phone(300 + of)})).await.ok();
        assert_eq!(sent["number_id"], second.as_str());
        // The last number that was used does not count if its account has no such template.
        assert_eq!(through(&rig, "second", of).await, second.as_str());
    }
    let mut named = hello(&phone(1));
    named["from"] = json!(second);
    assert_eq!(
        rig.api.post(SEND, &named).await.check(422, "TEMPLATE_NOT_APPROVED")["reason"],
        Value::Null
    );
    named["template"]["name"] = json!("first");
    rig.api.post(SEND, &named).await.check(422, "UNPROCESSABLE");
    let code = json!({"phone": phone(1), "from": first});
    rig.api.post("/v1/otp/send", code).await.check(422, "UNPROCESSABLE");
    // A report concerns the account of the number that receives it.
    says(&rig, &second, "208", "APPROVED").await;
    let events = rig.api.get("/v1/events?type=template.status_changed").await.ok();
    let data = &events["data"][0]["data"];
    assert_eq!(
        (&data["account_id"], &data["status"], &data["previous_status"]),
        (&json!("208"), &json!("approved"), &json!("pending"))
    );
    rig.server.crash().await;
    let mut of_second = 0;
    for of in 400..440 {
        of_second += u32::from(through(&rig, "hello", of).await == second.as_str());
    }
    // Its recipients are chosen by chance; all or none of them would be no chance.
    assert!((1..40).contains(&of_second), "{of_second} of 40");
    says(&rig, &first, "107", "PAUSED").await;
    for of in 500..510 {
        assert_eq!(through(&rig, "hello", of).await, second.as_str());
    }
    says(&rig, &second, "208", "DISABLED").await;
    let refused = rig.api.post(SEND, hello(&phone(600))).await;
    refused.check(422, "TEMPLATE_NOT_APPROVED");
}

#[tokio::test]
async fn a_broadcast_leaves_through_the_numbers_whose_accounts_have_its_template() {
    let (rig, [first, second]) = rig().await;
    let done = broadcast(&rig, "hello", &[]).await;
    assert_eq!(done["counts"]["sent"], 200);
    assert_eq!(asked_of(&rig, "106").len(), 200);
    broadcast(&rig, "second", &[]).await;
    assert_eq!(asked_of(&rig, "206").len(), 200);
    let refused = json!({
        "name": "Sale", "template_name": "first", "recipients": [phone(1)], "from": [second],
    });
    rig.api.post("/v1/messaging/broadcasts", refused).await.check(422, "UNPROCESSABLE");
    says(&rig, &second, "208", "APPROVED").await;
    // Its own account has paused the template: the other number takes all messages.
    let paused = Scripted::Error { status: 400, code: 132_015 };
    rig.fake.script(Some("through 206"), paused, None);
    let before = asked_of(&rig, "106");
    let done = broadcast(&rig, "hello", &[&first, &second]).await;
    assert_eq!((&done["counts"]["sent"], &done["counts"]["failed"]), (&json!(200), &json!(0)));
    let after = asked_of(&rig, "106");
    assert!(after.iter().all(|(to, times)| *times == before[to] + 1));
    let rows = rig.server.admin().get(TEMPLATES).await.ok();
    assert_eq!(rows["data"][1]["accounts"][0]["status"], "approved");
    assert_eq!(rows["data"][1]["accounts"][1]["status"], "paused");
}

#[tokio::test]
async fn a_message_is_not_taken_while_no_number_that_has_its_template_is_up() {
    let (rig, [first, second]) = rig().await;
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    through(&rig, "first", 1).await;
    let stopped = async || {
        let events = rig.api.get("/v1/events?type=number.stopped").await.ok();
        Some(events["data"][0]["data"]["number_id"].clone()).filter(|it| !it.is_null())
    };
    assert_eq!(eventually("the number stops", stopped).await, first.as_str());
    let mut body = hello(&phone(2));
    body["template"]["name"] = json!("first");
    rig.api.post(SEND, body).await.check(503, "SERVICE_UNAVAILABLE");
    through(&rig, "second", 2).await;
    // A template of both goes out through the other number; no message is moved to it later.
    says(&rig, &second, "208", "APPROVED").await;
    for of in 10..20 {
        assert_eq!(through(&rig, "hello", of).await, second.as_str());
    }
}

#[tokio::test]
async fn a_code_is_in_the_language_that_the_number_which_is_named_can_send() {
    let code = |language| template("otp_code", language, "AUTHENTICATION", "APPROVED", "{{1}}");
    let (rig, [first, second]) = rig_of(vec![code("en"), code("pt")], vec![code("en")]).await;
    for (from, expected) in [(&first, "pt"), (&second, "en")] {
        let body = json!({"phone": phone(1), "from": from, "language": "pt"});
        let sent = rig.api.post("/v1/otp/send", body).await.ok();
        let path = format!("/v1/otp/{}", sent["request_id"].as_str().unwrap());
        let row = rig.api.get(&path).await.ok();
        assert_eq!((&row["number_id"], &row["language"]), (&json!(from), &json!(expected)));
    }
    // A number beside the pool sends the templates of its own account.
    let path = format!("{NUMBERS}/{first}");
    rig.server.admin().send_json("PATCH", &path, &json!({"pool": false})).await.ok();
    for (from, expected) in [(Some(&first), "pt"), (None, "en")] {
        let mut body = json!({"phone": phone(2), "language": "pt"});
        if let Some(from) = from {
            body["from"] = json!(from);
        }
        let sent = rig.api.post("/v1/otp/send", body).await.ok();
        let path = format!("/v1/otp/{}", sent["request_id"].as_str().unwrap());
        assert_eq!(rig.api.get(&path).await.ok()["language"], expected);
    }
}

#[tokio::test]
async fn an_account_whose_templates_are_not_known_is_asked_at_a_start() {
    let hello = listed("hello", "UTILITY", "APPROVED");
    let (mut rig, [_, second]) = rig_of(vec![hello.clone()], Vec::new()).await;
    rig.fake.set_templates_of("208", vec![hello]);
    rig.server.restart().await;
    have(&rig, 2).await;
    let mut named = self::hello(&phone(1));
    named["from"] = json!(second);
    rig.api.post(SEND, named).await.ok();
    // Known templates are not requested again.
    let calls = rig.fake.template_calls();
    rig.server.restart().await;
    rig.server.advance(60).await;
    rig.api.get("/v1/events").await.ok();
    assert_eq!(rig.fake.template_calls(), calls);
}

#[tokio::test]
async fn a_template_that_was_made_here_says_whose_it_is_once_another_account_has_it() {
    let (rig, [_, second]) = rig_of(Vec::new(), Vec::new()).await;
    let admin = rig.server.admin();
    admin.post(TEMPLATES, template("own", "en", "utility", "approved", "Hello.")).await.ok();
    rig.fake.set_templates_of("208", vec![listed("own", "MARKETING", "PENDING")]);
    admin.post(&format!("{TEMPLATES}/sync"), json!({})).await.ok();
    let rows = admin.get(TEMPLATES).await.ok();
    let expected = json!([
        {"account_id": "107", "category": "utility", "status": "approved"},
        {"account_id": "208", "category": "marketing", "status": "pending"},
    ]);
    assert_eq!(rows["data"][0]["accounts"], expected);
    // Both accounts keep their rows when the first number leaves the pool.
    let path = format!("{NUMBERS}/{}", rig.number["id"].as_str().unwrap());
    admin.send_json("PATCH", &path, &json!({"pool": false})).await.ok();
    let mut named = hello(&phone(1));
    (named["template"]["name"], named["from"]) = (json!("own"), json!(second));
    rig.api.post(SEND, named).await.check(422, "TEMPLATE_NOT_APPROVED");
}

#[tokio::test]
async fn an_account_that_takes_over_a_row_has_changed_nothing() {
    let hello = |status| listed("hello", "UTILITY", status);
    let (rig, [first, second]) = rig_of(vec![hello("PAUSED")], vec![hello("APPROVED")]).await;
    let admin = rig.server.admin();
    admin.delete(&format!("{NUMBERS}/{first}")).await.ok();
    admin.post(&format!("{TEMPLATES}/sync"), json!({})).await.ok();
    let events = rig.api.get("/v1/events?type=template.status_changed").await.ok();
    assert_eq!(events["data"], json!([]));
    let rows = admin.get(TEMPLATES).await.ok();
    let of_second = json!([{"account_id": "208", "category": "utility", "status": "approved"}]);
    assert_eq!(
        (&rows["data"][0]["accounts"], &rows["data"][0]["status"]),
        (&of_second, &json!("approved"))
    );
    let mut named = self::hello(&phone(1));
    named["from"] = json!(second);
    rig.api.post(SEND, named).await.ok();
}

#[tokio::test]
async fn each_account_has_its_own_recipients_of_a_day_at_the_channel() {
    let (rig, _) = rig().await;
    rig.fake.set_account("206", "208");
    rig.fake.limit_recipients(Some(3));
    let send = async |name: &str, to: u32| {
        let mut body = hello(&phone(to));
        body["template"]["name"] = json!(name);
        let body = body.to_string();
        let headers = [("Prefer", "wait=20"), ("Content-Type", "application/json")];
        rig.api.call("POST", SEND, &headers, body.as_bytes()).await.ok()["status"].clone()
    };
    for of in 0..3 {
        assert_eq!(send("first", of).await, "sent");
        assert_eq!(send("second", 100 + of).await, "sent");
    }
    assert_eq!(rig.fake.refused_recipients(), 0);
    assert_ne!(send("first", 200).await, "sent");
    assert!(rig.fake.refused_recipients() > 0);
}

#[tokio::test]
async fn a_template_that_the_channel_holds_for_authentication_needs_a_phone() {
    let rig = Rig::new().await;
    rig.server
        .admin()
        .post(TEMPLATES, template("hello", "en", "utility", "approved", "Hi"))
        .await
        .ok();
    let listed_once = async || (rig.fake.template_calls() > 0).then_some(());
    eventually("the list of the connecting", listed_once).await;
    rig.fake.set_templates(vec![listed("hello", "AUTHENTICATION", "APPROVED")]);
    let body = json!({"recipient": "US.1", "type": "template", "template": {"name": "hello"}});
    let sent = rig.api.post(SEND, body).await.ok();
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    let failed = async || {
        let row = rig.api.get(&path).await.ok();
        (row["status"] == "failed").then_some(row)
    };
    assert_eq!(eventually("the refusal", failed).await["error"]["code"], 131_062);
}
