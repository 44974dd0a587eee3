//! Templates are synchronized with the channel's without a request.

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, TOKEN, number};
use crate::fake::{FakeCloudApi, sign, template};
use crate::support::eventually;

const TEMPLATES: &str = "/admin/v1/workspaces/acme/templates";

async fn names(rig: &Rig) -> Vec<String> {
    let listed = rig.server.admin().get(TEMPLATES).await.ok();
    let rows = listed["data"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

async fn are(rig: &Rig, expected: &[&str]) {
    eventually("the templates", async || (names(rig).await == expected).then_some(())).await;
}

/// Reports that the channel has approved a template.
async fn approved(rig: &Rig, name: &str) {
    let update = json!({"entry": [{"id": "107", "changes": [{
        "field": "message_template_status_update",
        "value": {
            "event": "APPROVED", "message_template_name": name, "message_template_language": "en",
        },
    }]}]});
    let body = update.to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let headers = [("X-Hub-Signature-256", &*signature), ("Content-Type", "application/json")];
    let path = rig.number["callback_path"].as_str().unwrap();
    rig.server.stranger().call("POST", path, &headers, body.as_bytes()).await.ok();
}

fn utility(name: &str) -> Value {
    template(name, "en", "UTILITY", "APPROVED", "Hello")
}

#[tokio::test]
async fn a_new_number_brings_its_templates_and_a_new_template_comes_by_itself() {
    let fake = FakeCloudApi::start();
    fake.set_templates(vec![utility("one"), utility("two")]);
    let rig = Rig::before(fake, &[], number()).await;
    are(&rig, &["one", "two"]).await;
    assert_eq!(rig.fake.template_calls(), 1);
    rig.fake.set_templates(vec![utility("one"), utility("three"), utility("two")]);
    // A known template is no reason to ask; an unknown one leads to one list of all.
    approved(&rig, "one").await;
    for _ in 0..20 {
        approved(&rig, "three").await;
    }
    assert_eq!(names(&rig).await, ["one", "two"], "the channel is not asked so soon");
    rig.server.advance(40).await;
    are(&rig, &["one", "three", "two"]).await;
    rig.server.advance(40).await;
    approved(&rig, "three").await;
    assert_eq!(rig.fake.template_calls(), 2);
}

#[tokio::test]
async fn what_fails_is_tried_again_and_a_new_token_helps() {
    let mut wrong = number();
    wrong["token"] = json!("expired");
    let fake = FakeCloudApi::start();
    fake.set_templates(vec![utility("one")]);
    let rig = Rig::before(fake, &[], wrong).await;
    let failed = async || rig.server.log().contains("templates could not be").then_some(());
    eventually("the failure", failed).await;
    let path = format!("/admin/v1/workspaces/acme/numbers/{}", rig.number["id"].as_str().unwrap());
    rig.server.admin().send_json("PATCH", &path, &json!({"token": TOKEN})).await.ok();
    rig.server.advance(300).await;
    are(&rig, &["one"]).await;
}

#[tokio::test]
async fn what_a_crash_cut_short_comes_with_the_next_start_and_only_that() {
    let mut wrong = number();
    wrong["token"] = json!("expired");
    let fake = FakeCloudApi::start();
    fake.set_templates(vec![utility("one")]);
    let mut rig = Rig::before(fake, &[], wrong).await;
    rig.server.crash().await;
    // The channel has recovered meanwhile.
    rig.fake.set_token("expired");
    rig.server.advance(60).await;
    are(&rig, &["one"]).await;
    // The pause after the list is over, and so is the record that a list is due.
    rig.server.advance(40).await;
    let calls = rig.fake.template_calls();
    rig.fake.set_templates(vec![utility("one"), utility("two")]);
    rig.server.restart().await;
    rig.server.advance(60).await;
    assert_eq!((rig.fake.template_calls(), names(&rig).await), (calls, vec!["one".to_owned()]));
    // A reported template is recorded with the callback.
    rig.fake.set_token("another");
    approved(&rig, "two").await;
    rig.server.crash().await;
    rig.fake.set_token("expired");
    rig.server.advance(60).await;
    are(&rig, &["one", "two"]).await;
}
