//! Numbers of a pool that stop or go: what is sent again, and through which number.

use serde_json::{Value, json};

use crate::channel::cloud_api::Rig;
use crate::channel::pool::{
    NUMBERS, SEND, asked_of, code_number, code_through, completes, connect, hello, phone, phone_of,
    rig, through,
};
use crate::fake::Scripted;
use crate::support::eventually;

#[tokio::test]
async fn who_gets_a_code_again_through_another_number_keeps_that_one() {
    let rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    let ada = phone_of(&rig, &first).await;
    let (id, number) = code_through(&rig, &ada).await;
    assert_eq!(number, first);
    rig.becomes(&id, "sent").await;
    let bob = another_phone_of(&rig, &first).await;
    let path = "/admin/v1/workspaces/acme/test-phones";
    rig.server.admin().put(path, json!({"phones": {(&bob): "0042"}})).await.ok();
    let test = rig.api.post("/v1/otp/send", json!({"phone": bob})).await.ok();
    rig.fake.script(Some("through 106"), Scripted::Error { status: 401, code: 190 }, None);
    // Another contact's code stops the number.
    let other = phone_of(&rig, &first).await;
    rig.api.post(SEND, hello(&other)).await.ok();
    let stopped = async || {
        let emitted = rig.api.get("/v1/events?type=number.stopped").await.ok();
        (!emitted["data"].as_array().unwrap().is_empty()).then_some(())
    };
    eventually("the first one is stopped", stopped).await;
    rig.api.post("/v1/otp/resend", json!({"request_id": id})).await.ok();
    assert_eq!(code_number(&rig, &id).await, second);
    rig.api.post("/v1/otp/resend", json!({"request_id": test["request_id"]})).await.ok();
    rig.server.admin().put(path, json!({"phones": {}})).await.ok();
    // Once the first number has recovered, the contact stays with the second.
    rig.fake.script(Some("through 106"), Scripted::Slow(std::time::Duration::ZERO), None);
    rig.server.advance(61).await;
    let well = async || {
        let emitted = rig.api.get("/v1/events?type=number.recovered").await.ok();
        (!emitted["data"].as_array().unwrap().is_empty()).then_some(())
    };
    eventually("the first one is well", well).await;
    assert_eq!(through(&rig, &ada).await, second);
    assert_eq!(through(&rig, &bob).await, first, "nothing left to a test phone");
}

/// Returns another contact of a number than the one that [`phone_of`] returns.
async fn another_phone_of(rig: &Rig, number: &str) -> String {
    let mut of = 64;
    while through(rig, &phone(of)).await != number {
        of += 1;
        assert!(of < 128, "no other contact has {number}");
    }
    phone(of)
}

#[tokio::test]
async fn a_retry_leaves_through_what_is_left_of_the_named_numbers_and_through_no_other() {
    let rig = rig().await;
    rig.server.admin().put("/admin/v1/workspaces/acme/credits", json!({"credits": 100})).await.ok();
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    connect(&rig, "306").await;
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_026 }, None);
    let made = async |from: Value| {
        let phones: Vec<_> = (0..4).map(phone).collect();
        let body =
            json!({"name": "x", "template_name": "hello", "recipients": phones, "from": from});
        let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
        let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
        completes(&rig, &path).await;
        path
    };
    let (both, only) = (made(json!([first, second])).await, made(json!([second])).await);
    rig.server.admin().delete(&format!("{NUMBERS}/{second}")).await;
    rig.fake.script(None, Scripted::Slow(std::time::Duration::ZERO), None);
    let retry = async |path: &str| rig.api.call("POST", &format!("{path}/retry"), &[], b"").await;
    let before = rig.fake.accepted_count();
    let refused = retry(&only).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "unknown_number");
    assert!(refused["message"].as_str().unwrap().contains(&second), "{refused}");
    let again = retry(&both).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", again["broadcast_id"].as_str().unwrap());
    assert_eq!(completes(&rig, &path).await["counts"]["sent"], 4);
    assert_eq!(rig.fake.accepted_count() - before, 4);
    assert!(asked_of(&rig, "306").is_empty(), "it was not named");
}
