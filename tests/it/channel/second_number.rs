//! A message to a workspace's second number is answered through that number.

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, number};
use crate::channel::pool;
use crate::fake::{callback, sign, template};
use crate::support::{Api, eventually, millis};

const NUMBERS: &str = "/admin/v1/workspaces/acme/numbers";

/// Starts a rig with another key, as its own may not read conversations.
async fn rig() -> (Rig, Api) {
    let rig = Rig::new().await;
    let (_, api) = rig.server.key("acme", &["messaging:send", "contacts:read"], json!({})).await;
    (rig, api)
}

/// Connects one more number.
async fn connect(rig: &Rig, phone_number_id: &str, account_id: &str) -> Value {
    let mut second = number();
    second["phone"] = json!(format!("+15550002{phone_number_id}"));
    second["phone_number_id"] = json!(phone_number_id);
    second["account_id"] = json!(account_id);
    rig.server.admin().post(NUMBERS, second).await.ok()
}

/// The contact writes to a number; returns the path of the conversation's messages.
async fn write(rig: &Rig, api: &Api, number: &Value, phone_number_id: &str, id: &str) -> String {
    let acme = rig.server.admin().get("/admin/v1/workspaces/acme").await;
    let now = millis(acme.json()["created_at"].as_str().unwrap()) / 1000;
    let body = callback(
        phone_number_id,
        json!({"messages": [{
            "from": "16505551234", "id": id, "timestamp": now.to_string(),
            "type": "text", "text": {"body": "Is there a table?"},
        }]}),
    )
    .to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let headers =
        [("X-Hub-Signature-256", signature.as_str()), ("Content-Type", "application/json")];
    let path = number["callback_path"].as_str().unwrap();
    let taken = rig.server.stranger().call("POST", path, &headers, body.as_bytes()).await;
    assert_eq!(taken.status, 200);
    let conversations = api.get("/v1/conversations?status=open").await.ok();
    format!("/v1/conversations/{}/messages", conversations["data"][0]["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_reply_leaves_through_the_number_that_was_written_to() {
    let (rig, api) = rig().await;
    let second = connect(&rig, "206", "107").await;
    let path = write(&rig, &api, &second, "206", "wamid.in").await;
    let text = json!({"type": "text", "text": "At eight."});
    let sent = api.post(&path, text).await.ok();
    let id = sent["message_id"].as_str().unwrap();
    eventually("the reply", async || (rig.fake.accepted_of(id) == 1).then_some(())).await;
    let paths: Vec<_> = rig.fake.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v24.0/206/messages"]);
    // Once the number is removed, no number is left to answer through.
    let number = format!("{NUMBERS}/{}", second["id"].as_str().unwrap());
    assert_eq!(rig.server.admin().delete(&number).await.status, 204);
    let text = json!({"type": "text", "text": "Are you coming?"});
    let refused = api.post(&path, text).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    assert!(refused["message"].as_str().unwrap().contains("connected number"), "{refused}");
}

#[tokio::test]
async fn a_template_leaves_through_a_number_whose_account_has_it() {
    let (rig, api) = rig().await;
    let made = template("hello", "en", "utility", "approved", "Hello.");
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", made).await.ok();
    let body = json!({"type": "template", "template": {"name": "hello"}});
    let other = connect(&rig, "206", "208").await;
    for (number, phone_number_id) in [(other, "206"), (rig.number.clone(), "106")] {
        let id = format!("wamid.{phone_number_id}");
        let path = write(&rig, &api, &number, phone_number_id, &id).await;
        let sent = api.post(&path, &body).await.ok();
        let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
        let message = api.get(&path).await.ok();
        assert_eq!(message["number_id"], rig.number["id"], "written to {phone_number_id}");
    }
    let same = connect(&rig, "306", "107").await;
    let path = write(&rig, &api, &same, "306", "wamid.306").await;
    let sent = api.post(&path, &body).await.ok();
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["number_id"], same["id"]);
}

#[tokio::test]
async fn a_code_that_its_person_sends_goes_to_the_number_that_is_named() {
    let rig = pool::rig().await;
    let second = pool::connect(&rig, "108").await;
    let ask = async |to: u32, from: Value| {
        let mut body = json!({"phone": format!("+1555123000{to}"), "mode": "inbound"});
        if from.is_string() {
            body["from"] = from;
        }
        let made = rig.api.post("/v1/otp/send", body).await.ok();
        let path = format!("/v1/otp/{}", made["request_id"].as_str().unwrap());
        let number_id = rig.api.get(&path).await.ok()["number_id"].clone();
        (made["number"].clone(), made["link"].as_str().unwrap().to_owned(), number_id)
    };
    let first = rig.number["id"].clone();
    for (to, (from, phone, id)) in (0..).zip([
        (json!(second), "+15550002108", &json!(second)),
        (json!("+15550002108"), "+15550002108", &json!(second)),
        (first.clone(), "+15550001111", &first),
        (Value::Null, "+15550001111", &first),
    ]) {
        let (number, link, number_id) = ask(to, from.clone()).await;
        assert_eq!((number, &number_id), (json!(phone), id), "{from}");
        assert!(link.starts_with(&format!("https://wa.me/{}?text=", &phone[1..])), "{link}");
    }
}
