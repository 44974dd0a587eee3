//! Templates, by their components and by the refusals of their messages.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::channel::pool::{hello, rig};
use crate::fake::{FakeCloudApi, Scripted, callback};
use crate::support::eventually;

const TEMPLATES: &str = "/admin/v1/workspaces/acme/templates";

fn phone(number: u32) -> String {
    format!("+1555123{number:04}")
}

/// Returns the template of codes in a language, with these components beside its body.
fn of_codes(language: &str, more: Value) -> Value {
    let mut components = vec![json!({"type": "BODY", "add_security_recommendation": true})];
    components.extend(more.as_array().unwrap().iter().cloned());
    json!({"name": "otp_code", "language": language, "category": "AUTHENTICATION",
        "status": "APPROVED", "components": components})
}

fn buttons(buttons: Value) -> Value {
    json!([{"type": "BUTTONS", "buttons": buttons}])
}

/// Sends a code; returns the indices of the buttons that it was sent with.
async fn buttons_of(rig: &Rig, to: &str, language: Option<&str>) -> Vec<Value> {
    let mut body = json!({"phone": to});
    if let Some(language) = language {
        body["language"] = json!(language);
    }
    rig.api.post("/v1/otp/send", body).await.ok();
    let sent = async || rig.fake.newest_to(&to[1..]);
    let sent = eventually("the code", sent).await;
    let components = sent.body["template"]["components"].as_array().unwrap().clone();
    assert_eq!(components[0]["type"], "body");
    for button in &components[1..] {
        assert_eq!((&button["type"], &button["sub_type"]), (&json!("button"), &json!("url")));
        assert_eq!(button["parameters"], components[0]["parameters"], "the same code");
    }
    components[1..].iter().map(|button| button["index"].clone()).collect()
}

#[tokio::test]
async fn a_code_is_in_the_button_that_its_template_has() {
    let (call, copy) = (json!({"type": "PHONE_NUMBER"}), json!({"type": "OTP"}));
    let url = json!({"type": "URL", "url": "https://www.whatsapp.com/otp/code/?code=otp{{1}}"});
    let fake = FakeCloudApi::start();
    let english = of_codes("en", buttons(json!([call, copy])));
    fake.set_templates(vec![english.clone(), of_codes("pt", buttons(json!([call, call, url])))]);
    let mut rig = Rig::before(fake, &[], number()).await;
    let sync = async |rig: &Rig| {
        rig.server.admin().post(&format!("{TEMPLATES}/sync"), json!({})).await.ok();
    };
    sync(&rig).await;
    assert_eq!(buttons_of(&rig, &phone(1), None).await, ["1"]);
    assert_eq!(buttons_of(&rig, &phone(2), Some("pt_BR")).await, ["2"]);
    // The channel's template changes, and the change is known after a crash.
    rig.fake.set_templates(vec![of_codes("en", json!([]))]);
    sync(&rig).await;
    assert_eq!(buttons_of(&rig, &phone(3), None).await, [] as [&str; 0]);
    rig.server.crash().await;
    assert_eq!(buttons_of(&rig, &phone(4), None).await, [] as [&str; 0]);
    assert_eq!(buttons_of(&rig, &phone(5), Some("pt")).await, ["2"]);
    // Another template may carry the codes.
    let other = json!({"name": "sign_in", "language": "en", "category": "authentication",
        "components": [{"type": "BODY"}, {"type": "BUTTONS", "buttons": [call, call, copy]}]});
    rig.server.admin().post(TEMPLATES, other).await.ok();
    let chosen = json!({"name": "sign_in", "language": "en"});
    rig.server.admin().put("/admin/v1/workspaces/acme/otp-template", chosen).await.ok();
    assert_eq!(buttons_of(&rig, &phone(6), None).await, ["2"]);
}

/// Returns the status of a template.
async fn status(rig: &Rig, name: &str) -> Value {
    let listed = rig.server.admin().get(TEMPLATES).await.ok();
    let row = listed["data"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    row["status"].clone()
}

async fn stands(rig: &Rig, name: &str, wanted: &str) {
    let seen = async || (status(rig, name).await == wanted).then_some(());
    eventually(&format!("{name} is {wanted}"), seen).await;
}

async fn approve(rig: &Rig, name: &str) {
    let path = format!("{TEMPLATES}/{name}/en");
    rig.server.admin().send_json("PATCH", &path, &json!({"status": "approved"})).await.ok();
}

/// Reports twice, as the channel, that a message has failed with this code.
async fn report_failed(rig: &Rig, opaque: &str, code: u32) {
    let report = json!({"statuses": [{
        "id": "wamid.1", "status": "failed", "timestamp": "1750857384", "recipient_id": "1",
        "biz_opaque_callback_data": opaque, "errors": [{"code": code, "title": "Refused"}],
    }]});
    for _ in 0..2 {
        assert_eq!(post(rig, &callback("106", report.clone())).await.status, 200);
    }
}

#[tokio::test]
async fn a_refused_message_says_how_its_template_stands() {
    let rig = rig().await;
    let send = async |to: &str| {
        let sent = rig.api.post("/v1/messaging/send", hello(to)).await.ok();
        sent["message_id"].as_str().unwrap().to_owned()
    };
    rig.fake.script(None, Scripted::Error { status: 400, code: 132_015 }, Some(1));
    send(&phone(1)).await;
    stands(&rig, "hello", "paused").await;
    let refused = rig.api.post("/v1/messaging/send", hello(&phone(2))).await;
    refused.check(422, "TEMPLATE_NOT_APPROVED");
    approve(&rig, "hello").await;
    let id = send(&phone(3)).await;
    report_failed(&rig, &id, 132_016).await;
    assert_eq!(status(&rig, "hello").await, "disabled");
    approve(&rig, "hello").await;
    report_failed(&rig, &id, 132_016).await;
    assert_eq!(status(&rig, "hello").await, "approved", "a report counts once");
    let changed = rig.api.get("/v1/events?type=template.status_changed").await.ok();
    assert_eq!(changed["data"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_refused_code_says_how_its_template_stands() {
    let rig = rig().await;
    rig.fake.script(None, Scripted::Error { status: 400, code: 132_015 }, Some(1));
    rig.send(&phone(1)).await;
    stands(&rig, "otp_code", "paused").await;
    let refused = rig.api.post("/v1/otp/send", json!({"phone": phone(2)})).await;
    refused.check(422, "TEMPLATE_NOT_APPROVED");
    approve(&rig, "otp_code").await;
    let id = rig.send(&phone(3)).await;
    rig.becomes(&id, "sent").await;
    report_failed(&rig, &format!("{id}:1"), 132_016).await;
    assert_eq!(status(&rig, "otp_code").await, "disabled");
    approve(&rig, "otp_code").await;
    report_failed(&rig, &format!("{id}:1"), 132_016).await;
    assert_eq!(status(&rig, "otp_code").await, "approved", "a report counts once");
    // Another refusal does not change the template.
    let id = rig.send(&phone(4)).await;
    rig.becomes(&id, "sent").await;
    report_failed(&rig, &format!("{id}:1"), 131_026).await;
    assert_eq!(status(&rig, "otp_code").await, "approved");
}
