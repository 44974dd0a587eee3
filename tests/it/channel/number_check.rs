//! Checks of a number: the provider's answer is recorded, and each fault is named.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::fake::{FakeCloudApi, template};
use crate::support::{eventually, millis};

fn path(rig: &Rig) -> String {
    format!("/admin/v1/workspaces/acme/numbers/{}", rig.number["id"].as_str().unwrap())
}

async fn row(rig: &Rig) -> Value {
    rig.server.admin().get(&path(rig)).await.ok()
}

async fn check(rig: &Rig) -> Value {
    rig.server.admin().post(&format!("{}/check", path(rig)), json!({})).await.ok()
}

/// Asks the provider again.
async fn check_anew(rig: &Rig) -> Value {
    rig.server.advance(31).await;
    check(rig).await
}

/// Waits for the check that follows the connection.
async fn first_check(rig: &Rig) -> Value {
    let checked = async || Some(row(rig).await).filter(|row| !row["check"].is_null());
    eventually("the first check", checked).await
}

fn codes(check: &Value) -> Vec<&str> {
    let problems = check["problems"].as_array().unwrap().iter();
    problems.map(|problem| problem["code"].as_str().unwrap()).collect()
}

/// Returns a fake whose account has everything that is needed.
fn healthy() -> FakeCloudApi {
    let fake = FakeCloudApi::start();
    fake.set_templates(vec![template("otp_code", "en", "AUTHENTICATION", "APPROVED", "{{1}}")]);
    fake.set_number(json!({
        "id": "106", "verified_name": "Acme", "status": "CONNECTED", "quality_rating": "GREEN",
        "throughput": {"level": "HIGH"}, "name_status": "APPROVED",
        "whatsapp_business_manager_messaging_limit": "TIER_10K",
    }));
    fake
}

#[tokio::test]
async fn a_number_that_is_connected_goes_by_what_the_provider_says() {
    let mut rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    let row_then = first_check(&rig).await;
    let shown = ["quality", "name_status", "throughput"].map(|field| row_then[field].clone());
    assert_eq!(shown, [json!("green"), json!("approved"), json!("high")]);
    assert_eq!(row_then["pace"]["set"], 1000);
    rig.server.admin().post("/admin/v1/workspaces/acme/templates/sync", json!({})).await.ok();
    let found = check(&rig).await;
    assert_eq!(codes(&found), [""; 0]);
    assert_eq!((&found["reachable"], &found["token_accepted"]), (&json!(true), &json!(true)));
    assert_eq!((&found["verified_name"], &found["subscribed_apps"]), (&json!("Acme"), &json!(1)));
    let said = json!({"quality": "green", "name_status": "approved", "throughput": "high",
        "limit": "10000"});
    assert_eq!((&found["number"], &found["last_callback_at"]), (&said, &Value::Null));
    let events = rig.api.get("/v1/events?limit=200&type=number.changed").await.ok();
    let fields: Vec<_> =
        events["data"].as_array().unwrap().iter().map(|it| it["data"]["field"].clone()).collect();
    assert_eq!(fields, ["quality", "name_status", "limit", "pace"], "each is emitted once");
    rig.server.crash().await;
    assert_eq!(row(&rig).await["check"]["checked_at"], found["checked_at"]);
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    first_check(&rig).await;
    rig.fake.set_subscribed(0);
    rig.fake.set_number(json!({
        "status": "BANNED", "quality_rating": "RED", "name_status": "DECLINED",
    }));
    let expected = ["not_subscribed", "not_connected", "name_not_approved", "quality_red"];
    rig.server.admin().post("/admin/v1/workspaces/acme/templates/sync", json!({})).await.ok();
    assert_eq!(codes(&check_anew(&rig).await), expected);
    let other = json!({"name": "code_2", "language": "en"});
    let of_codes = "/admin/v1/workspaces/acme/otp-template";
    rig.server.admin().put(of_codes, other).await.ok();
    // The provider is not asked about the template.
    assert!(codes(&check(&rig).await).contains(&"template_missing"));
    rig.fake.set_token("another");
    let found = check_anew(&rig).await;
    assert_eq!(codes(&found)[0], "token_refused");
    assert_eq!((&found["reachable"], &found["token_accepted"]), (&json!(true), &json!(false)));
    assert_eq!(row(&rig).await["check"]["problems"], found["problems"]);
    let none = "/admin/v1/workspaces/acme/numbers/num_01jd3v0x5n8m7k2q4r6s8t0w2y/check";
    rig.server.admin().post(none, json!({})).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn what_passes_by_itself_is_no_fault_of_the_number() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    rig.server.admin().post("/admin/v1/workspaces/acme/templates/sync", json!({})).await.ok();
    for (code, problems, reachable, token_accepted) in [
        (80007, &["unreachable"][..], false, Value::Null),
        (131_016, &["unreachable"], false, Value::Null),
        (190, &["token_refused"], true, json!(false)),
        (10, &["refused"], true, Value::Null),
        // A field that cannot be requested.
        (100, &[], true, json!(true)),
    ] {
        rig.fake.set_number(json!({"error": {"code": code}}));
        let found = check_anew(&rig).await;
        assert_eq!(codes(&found), problems, "{code}");
        assert_eq!(found["reachable"], reachable, "{code}");
        assert_eq!(found["token_accepted"], token_accepted, "{code}");
    }
}

#[tokio::test]
async fn a_check_is_made_again_after_a_day_and_silence_is_reported() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    let first = first_check(&rig).await["check"]["checked_at"].clone();
    rig.server.advance(23 * 3600).await;
    let again = async || {
        rig.server.advance(3600).await;
        Some(row(&rig).await["check"].clone()).filter(|check| check["checked_at"] != first)
    };
    let found = eventually("another check", again).await;
    assert!(codes(&found).contains(&"no_callback_in_a_day"), "{found}");
}

#[tokio::test]
async fn checks_in_a_row_ask_the_provider_once_and_a_new_token_at_once() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    first_check(&rig).await;
    let asked = rig.fake.number_calls();
    let first = check(&rig).await;
    rig.fake.set_number(json!({"status": "BANNED"}));
    for _ in 0..20 {
        let found = check(&rig).await;
        let shown = ["checked_at", "provider_status"];
        assert!(shown.iter().all(|it| found[it] == first[it]), "{found}");
    }
    assert_eq!(rig.fake.number_calls(), asked);
    rig.server.advance(31).await;
    let many: [Value; 3] = tokio::join!(check(&rig), check(&rig), check(&rig)).into();
    assert!(many.iter().all(|found| found["provider_status"] == "BANNED"));
    assert_eq!(rig.fake.number_calls(), asked + 1, "those at once wait for one answer");
    // A number with a new token is a new number to its provider.
    rig.fake.set_number(json!({"status": "CONNECTED"}));
    rig.fake.set_token("new");
    rig.server.admin().send_json("PATCH", &path(&rig), &json!({"token": "new"})).await.ok();
    assert_eq!(check(&rig).await["provider_status"], "CONNECTED");
}

#[tokio::test]
async fn the_numbers_of_one_account_hold_up_no_other() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    first_check(&rig).await;
    let mut others = Vec::new();
    for (of, account) in [(201, "107"), (202, "107"), (301, "308")] {
        let mut more = crate::channel::cloud_api::number();
        more["phone"] = json!(format!("+15550002{of}"));
        more["phone_number_id"] = json!(of.to_string());
        more["account_id"] = json!(account);
        let made = rig.server.admin().post("/admin/v1/workspaces/acme/numbers", more).await.ok();
        others.push(made["id"].as_str().unwrap().to_owned());
    }
    let at = async |id: &str| {
        let path = format!("/admin/v1/workspaces/acme/numbers/{id}");
        rig.server.admin().get(&path).await.ok()["check"]["checked_at"].clone()
    };
    let mut first = Vec::new();
    for id in &others {
        let checked = async || Some(at(id).await).filter(|at| !at.is_null());
        first.push(eventually("the first check", checked).await);
    }
    // The round starts, and time stops after the first number of each account.
    rig.server.advance(25 * 3600).await;
    let other = async || (at(&others[2]).await != first[2]).then_some(());
    eventually("the other account's check", other).await;
    // A day later one of the others still waits for its turn.
    let last = at(&others[2]).await;
    rig.server.advance(25 * 3600).await;
    let next = async || (at(&others[2]).await != last).then_some(());
    eventually("the other account's next check", next).await;
    let rest = async || {
        rig.server.advance(36).await;
        let now = [at(&others[0]).await, at(&others[1]).await];
        (now[0] != first[0] && now[1] != first[1]).then_some(())
    };
    eventually("the rest", rest).await;
}

#[tokio::test]
async fn a_number_in_the_app_is_slow_until_it_leaves_and_no_field_is_asked_for_in_vain() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    first_check(&rig).await;
    for (in_app, level, throughput, pace) in [
        (true, "HIGH", json!("coexistence"), 20),
        (false, "STANDARD", json!("standard"), 80),
        (true, "STANDARD", json!("coexistence"), 20),
        (false, "NOT_APPLICABLE", Value::Null, 80),
    ] {
        rig.fake.set_number(json!({"throughput": {"level": level}, "is_on_biz_app": in_app}));
        check_anew(&rig).await;
        let row = row(&rig).await;
        assert_eq!((&row["throughput"], &row["pace"]["set"]), (&throughput, &json!(pace)));
    }
    let older = json!({"no_such_field": "is_on_biz_app", "status": "CONNECTED"});
    rig.fake.set_number(older);
    for calls in [2, 1] {
        let asked = rig.fake.number_calls();
        assert_eq!(check_anew(&rig).await["provider_status"], "CONNECTED");
        assert_eq!(rig.fake.number_calls() - asked, calls);
    }
    // A field that one number lacks is still requested for another.
    let asked = rig.fake.number_calls();
    let mut other = crate::channel::cloud_api::number();
    other["phone"] = json!("+15550002201");
    other["phone_number_id"] = json!("201");
    let made = rig.server.admin().post("/admin/v1/workspaces/acme/numbers", other).await.ok();
    let other = format!("/admin/v1/workspaces/acme/numbers/{}", made["id"].as_str().unwrap());
    let checked = async || {
        Some(rig.server.admin().get(&other).await.ok()).filter(|it| !it["check"].is_null())
    };
    eventually("the first check", checked).await;
    assert_eq!(rig.fake.number_calls() - asked, 2, "it is asked for all fields first");
}

#[tokio::test]
async fn a_limit_is_that_of_all_numbers_of_a_portfolio_whatever_their_accounts() {
    let mut number = crate::channel::cloud_api::number();
    number["portfolio_id"] = json!("biz");
    let mut other = number.clone();
    other["phone"] = json!("+15550002301");
    other["phone_number_id"] = json!("301");
    other["account_id"] = json!("308");
    let rig = Rig::before(healthy(), &[], number).await;
    first_check(&rig).await;
    let admin = rig.server.admin();
    let limit = async || {
        let budget = admin.get("/admin/v1/workspaces/acme/portfolios/biz").await.ok();
        budget["daily_recipients"].clone()
    };
    assert_eq!(limit().await, 10_000);
    rig.fake.set_number(json!({"whatsapp_business_manager_messaging_limit": "TIER_100K"}));
    // The number is checked when it is connected.
    admin.post("/admin/v1/workspaces/acme/numbers", other).await.ok();
    eventually("the limit", async || (limit().await == 100_000).then_some(())).await;
}

#[tokio::test]
async fn a_token_that_expires_soon_and_the_fields_that_come_are_shown() {
    let rig = Rig::before(healthy(), &[], crate::channel::cloud_api::number()).await;
    first_check(&rig).await;
    rig.server.admin().post("/admin/v1/workspaces/acme/templates/sync", json!({})).await.ok();
    let now = millis(check(&rig).await["checked_at"].as_str().unwrap()) / 1000;
    for (expires_at, is_shown, is_soon) in
        [(0, false, false), (now + 40 * 86_400, true, false), (now + 6 * 86_400, true, true)]
    {
        rig.fake.set_token_expires_at(expires_at);
        let found = check_anew(&rig).await;
        let expected: &[&str] = if is_soon { &["token_expires_soon"] } else { &[] };
        assert_eq!(codes(&found), expected, "{expires_at}");
        assert_eq!(found["token_expires_at"].is_string(), is_shown);
        assert_eq!(found["webhook_fields_seen"], json!({}));
    }
    let alert = json!({"entry": [{"id": "107", "changes": [
        {"field": "message_template_status_update", "value": {
            "event": "APPROVED", "message_template_name": "otp_code",
            "message_template_language": "en",
        }},
    ]}]});
    assert_eq!(post(&rig, &alert).await.status, 200);
    let found = check(&rig).await;
    let seen = found["webhook_fields_seen"].as_object().unwrap();
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["message_template_status_update"]);
    assert_eq!(row(&rig).await["check"]["webhook_fields_seen"], found["webhook_fields_seen"]);
}
