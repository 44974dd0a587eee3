//! Several numbers of a workspace are a pool: which contact is written to from which number.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, number};
use crate::fake::{Scripted, callback, sign, template};
use crate::support::{Api, eventually, millis};

pub const NUMBERS: &str = "/admin/v1/workspaces/acme/numbers";
pub const SEND: &str = "/v1/messaging/send";

/// Starts a rig with a template, and one for codes.
pub async fn rig() -> Rig {
    let rig = Rig::new().await;
    for (name, category) in [("hello", "utility"), ("otp_code", "authentication")] {
        let made = template(name, "en", category, "approved", "Hello.");
        rig.server.admin().post("/admin/v1/workspaces/acme/templates", made).await.ok();
    }
    rig
}

/// Connects one more number of the same account; returns its id.
pub async fn connect(rig: &Rig, phone_number_id: &str) -> String {
    let mut more = number();
    more["phone"] = json!(format!("+15550002{phone_number_id}"));
    more["phone_number_id"] = json!(phone_number_id);
    let connected = rig.server.admin().post(NUMBERS, more).await.ok();
    assert_eq!(connected["pool"], true);
    connected["id"].as_str().unwrap().to_owned()
}

pub fn phone(number: u32) -> String {
    format!("+1555{number:07}")
}

pub fn hello(to: &str) -> Value {
    json!({"to": to, "type": "template", "template": {"name": "hello"}})
}

/// Returns the number that a message leaves through.
async fn number_of(api: &Api, message: &Value) -> String {
    let path = format!("/v1/messaging/messages/{}", message["message_id"].as_str().unwrap());
    api.get(&path).await.ok()["number_id"].as_str().unwrap().to_owned()
}

/// Sends a template; returns the number that it leaves through.
pub async fn through(rig: &Rig, to: &str) -> String {
    let sent = rig.api.post(SEND, hello(to)).await.ok();
    number_of(&rig.api, &sent).await
}

/// Sends a code; returns the request, and the number that it leaves through.
pub async fn code_through(rig: &Rig, to: &str) -> (String, String) {
    let sent = rig.api.post("/v1/otp/send", json!({"phone": to})).await.ok();
    let id = sent["request_id"].as_str().unwrap().to_owned();
    let number = code_number(rig, &id).await;
    (id, number)
}

pub async fn code_number(rig: &Rig, id: &str) -> String {
    let found = rig.api.get(&format!("/v1/otp/{id}")).await.ok();
    found["number_id"].as_str().unwrap().to_owned()
}

/// A contact writes to a number.
async fn write(rig: &Rig, from: &str, (number, phone_number_id): (&str, &str), id: &str) {
    let acme = rig.server.admin().get("/admin/v1/workspaces/acme").await;
    // A message that is reported too late counts as reported now.
    let now = millis(acme.json()["created_at"].as_str().unwrap()) / 1000 + 3600;
    let message = json!({
        "from": from.trim_start_matches('+'), "id": id, "timestamp": now.to_string(),
        "type": "text", "text": {"body": "Hi"},
    });
    let body = callback(phone_number_id, json!({"messages": [message]})).to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let headers =
        [("X-Hub-Signature-256", signature.as_str()), ("Content-Type", "application/json")];
    let path = format!("/channels/cloud-api/{number}");
    let taken = rig.server.stranger().call("POST", &path, &headers, body.as_bytes()).await;
    assert_eq!(taken.status, 200);
}

/// Returns the first of these phones whose number is that one.
pub async fn phone_of(rig: &Rig, number: &str) -> String {
    for of in 0..64 {
        if through(rig, &phone(of)).await == number {
            return phone(of);
        }
    }
    panic!("no contact has {number}")
}

#[tokio::test]
async fn a_contact_keeps_its_number_when_others_join_and_through_a_crash() {
    let mut rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    for of in 0..10 {
        assert_eq!(through(&rig, &phone(of)).await, first);
        assert_eq!(code_through(&rig, &phone(100 + of)).await.1, first);
    }
    let second = connect(&rig, "206").await;
    let mut known = BTreeMap::new();
    for of in 0..10 {
        assert_eq!(through(&rig, &phone(of)).await, first, "it was written to from the first");
        assert_eq!(code_through(&rig, &phone(100 + of)).await.1, first, "it had a code");
        known.insert(phone(of), first.clone());
        known.insert(phone(100 + of), first.clone());
    }
    for of in 200..240 {
        known.insert(phone(of), code_through(&rig, &phone(of)).await.1);
    }
    let of_second = known.values().filter(|number| **number == second).count();
    assert!((8..=32).contains(&of_second), "{of_second} of 40 are new to both");
    connect(&rig, "306").await;
    rig.server.crash().await;
    for (phone, number) in &known {
        assert_eq!(through(&rig, phone).await, *number, "{phone}");
    }
}

#[tokio::test]
async fn who_writes_to_another_number_is_written_to_from_it() {
    let rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    let ada = phone_of(&rig, &first).await;
    write(&rig, &ada, (&second, "206"), "wamid.1").await;
    assert_eq!(through(&rig, &ada).await, second);
    assert_eq!(code_through(&rig, &ada).await.1, second);
    let text = json!({"to": ada, "type": "text", "text": "Hi"});
    let sent = rig.api.post(SEND, text).await.ok();
    assert_eq!(number_of(&rig.api, &sent).await, second);
    // Messages of both sides count: the contact stays with the number that was named.
    let mut named = hello(&ada);
    named["from"] = json!(first);
    let sent = rig.api.post(SEND, named).await.ok();
    assert_eq!(number_of(&rig.api, &sent).await, first);
    assert_eq!(through(&rig, &ada).await, first);
}

#[tokio::test]
async fn a_sender_may_name_a_number_of_the_workspace() {
    let rig = rig().await;
    let admin = rig.server.admin();
    connect(&rig, "206").await;
    let second = rig.server.admin().get(NUMBERS).await.ok()["data"][1].clone();
    admin.post("/admin/v1/workspaces", json!({"id": "other", "name": "Other"})).await.ok();
    let mut foreign = number();
    foreign["phone_number_id"] = json!("900");
    foreign["phone"] = json!("+15550009000");
    let foreign = admin.post("/admin/v1/workspaces/other/numbers", foreign).await.ok();
    let (_, writer) = rig.server.key("acme", &["messaging:send"], json!({})).await;
    for (from, is_known) in [
        (second["id"].clone(), true),
        (second["phone"].clone(), true),
        (foreign["id"].clone(), false),
        (foreign["phone"].clone(), false),
        (json!("me"), false),
    ] {
        let to = phone(1);
        let mut message = hello(&to);
        message["from"] = from.clone();
        let code = json!({"phone": to, "from": from});
        let broadcast = json!({
            "name": "Sale", "template_name": "hello", "recipients": [to], "from": [from],
        });
        for (path, body) in
            [(SEND, message), ("/v1/otp/send", code), ("/v1/messaging/broadcasts", broadcast)]
        {
            let answer = writer.post(path, body).await;
            if is_known {
                answer.ok();
            } else {
                assert_eq!(answer.check(422, "UNPROCESSABLE")["reason"], "unknown_number");
            }
        }
    }
    let used = async || {
        let requests = rig.fake.requests();
        (requests.len() == 6).then(|| requests.into_iter().all(|it| it.path.contains("/206/")))
    };
    assert!(eventually("all six", used).await);
}

#[tokio::test]
async fn only_numbers_of_the_pool_are_chosen() {
    let rig = rig().await;
    let admin = rig.server.admin();
    let first = rig.number["id"].as_str().unwrap().to_owned();
    admin.post(NUMBERS, json!({"kind": "sandbox"})).await.ok();
    let second = connect(&rig, "206").await;
    let path = format!("{NUMBERS}/{first}");
    let changed = admin.send_json("PATCH", &path, &json!({"pool": false})).await.ok();
    assert_eq!(changed["pool"], false);
    for of in 0..8 {
        assert_eq!(through(&rig, &phone(of)).await, second);
    }
    admin.send_json("PATCH", &path, &json!({"pool": true})).await.ok();
    for of in 0..8 {
        assert_eq!(through(&rig, &phone(of)).await, second, "it stays");
    }
    for more in 3..64 {
        connect(&rig, &format!("9{more:02}")).await;
    }
    let mut last = number();
    last["phone_number_id"] = json!("1000");
    let refused = admin.post(NUMBERS, last).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "number_limit");
}

#[tokio::test]
async fn a_code_leaves_by_another_number_at_once_when_its_own_is_stopped() {
    let rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    let ada = phone_of(&rig, &first).await;
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    // The code may have moved before its number is requested.
    let (waits, _) = code_through(&rig, &ada).await;
    let moved = async || {
        rig.server.advance(1).await;
        (rig.taken(&waits) == 1).then_some(())
    };
    eventually("the code that found its number stopped", moved).await;
    assert_eq!(code_number(&rig, &waits).await, second);
    let stopped = rig.api.get("/v1/events?type=number.stopped").await.ok();
    assert_eq!(stopped["data"][0]["data"]["number_id"], first.as_str(), "its own tried first");
    let (id, number) = code_through(&rig, &ada).await;
    assert_eq!(number, second, "it does not wait");
    rig.becomes(&id, "sent").await;
    // A request that names the number waits for it, and no other number can take it.
    let named = json!({"phone": phone(300), "from": first});
    rig.api.post("/v1/otp/send", named).await.check(503, "SERVICE_UNAVAILABLE");
    rig.fake.script_number("206", Scripted::Error { status: 401, code: 190 });
    code_through(&rig, &ada).await;
    let refused = async || {
        let answer = rig.api.post("/v1/otp/send", json!({"phone": phone(301)})).await;
        (answer.status == 503).then_some(())
    };
    eventually("no number can take it", refused).await;
}

#[tokio::test]
async fn a_template_moves_to_another_number_after_a_while_and_a_text_never() {
    let mut rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    let ada = phone_of(&rig, &first).await;
    write(&rig, &ada, (&first, "106"), "wamid.1").await;
    let taken = rig.fake.accepted_count();
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    let text = json!({"to": ada, "type": "text", "text": "Hi"});
    let text = rig.api.post(SEND, text).await.ok();
    let stopped = async || {
        let events = rig.api.get("/v1/events?type=number.stopped").await.ok();
        (!events["data"].as_array().unwrap().is_empty()).then_some(())
    };
    eventually("the number stops", stopped).await;
    let sent = rig.api.post(SEND, hello(&ada)).await.ok();
    assert_eq!(number_of(&rig.api, &sent).await, first);
    rig.server.advance(20).await;
    assert_eq!(rig.fake.accepted_count(), taken, "it waits for its number");
    rig.server.crash().await;
    let id = sent["message_id"].as_str().unwrap().to_owned();
    let moved = async || {
        rig.server.advance(5).await;
        (rig.fake.accepted_of(&id) == 1).then_some(())
    };
    eventually("it moves", moved).await;
    assert_eq!(number_of(&rig.api, &sent).await, second);
    assert_eq!(through(&rig, &ada).await, second, "the contact sticks to it");
    assert_eq!(number_of(&rig.api, &text).await, first);
    assert_eq!(rig.fake.accepted_of(text["message_id"].as_str().unwrap()), 0);
    rig.fake.heal();
    let sent = async || {
        rig.server.advance(30).await;
        (rig.fake.accepted_of(text["message_id"].as_str().unwrap()) == 1).then_some(())
    };
    eventually("the text is sent by its own number", sent).await;
    assert_eq!(rig.fake.most_of_one(), 1);
}

/// Creates a broadcast to these phones; returns its path.
async fn broadcast(rig: &Rig, recipients: std::ops::Range<u32>) -> String {
    let recipients: Vec<_> = recipients.map(phone).collect();
    let body = json!({"name": "Sale", "template_name": "hello", "recipients": recipients});
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap())
}

/// Moves time until a broadcast is complete.
pub async fn completes(rig: &Rig, path: &str) -> Value {
    eventually("the broadcast is complete", async || {
        rig.server.advance(1).await;
        let found = rig.api.get(path).await.ok();
        (found["status"] == "completed").then_some(found)
    })
    .await
}

/// Returns the number of messages to each phone that a number was asked to send.
pub fn asked_of(rig: &Rig, phone_number_id: &str) -> BTreeMap<String, u32> {
    let mut asked = BTreeMap::new();
    let path = format!("/{phone_number_id}/messages");
    for request in rig.fake.requests().iter().filter(|request| request.path.ends_with(&path)) {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        *asked.entry(format!("+{}", body["to"].as_str().unwrap())).or_default() += 1;
    }
    asked
}

#[tokio::test]
async fn a_broadcast_uses_all_numbers_and_keeps_that_of_each_contact() {
    let rig = rig().await;
    connect(&rig, "206").await;
    let path = broadcast(&rig, 0..400).await;
    let done = completes(&rig, &path).await;
    assert_eq!(done["counts"]["sent"], 400);
    let shares = ["106", "206"].map(|number| asked_of(&rig, number));
    assert!(shares.iter().all(|share| share.len() >= 120), "{:?}", shares.map(|it| it.len()));
    connect(&rig, "306").await;
    completes(&rig, &broadcast(&rig, 0..400).await).await;
    let again = ["106", "206"].map(|number| asked_of(&rig, number));
    for (before, after) in shares.iter().zip(&again) {
        assert!(before.keys().eq(after.keys()) && after.values().all(|times| *times == 2));
    }
    assert!(asked_of(&rig, "306").is_empty());
}

#[tokio::test]
async fn a_broadcast_goes_on_while_one_of_its_numbers_is_stopped() {
    let mut rig = rig().await;
    connect(&rig, "206").await;
    completes(&rig, &broadcast(&rig, 0..100).await).await;
    let of_first = asked_of(&rig, "106").len();
    assert!((30..=70).contains(&of_first), "{of_first}");
    rig.fake.script_number("106", Scripted::Error { status: 401, code: 190 });
    let path = broadcast(&rig, 0..200).await;
    // Others take over the waiting recipients after a minute; this is at most half of it.
    let mut seconds = 0..30;
    let others = async || {
        if seconds.next().is_some() {
            rig.server.advance(1).await;
        }
        let found = rig.api.get(&path).await.ok();
        assert!(found["status"] == "queued" || found["status"] == "sending", "{found}");
        (found["counts"]["sent"].as_u64().unwrap() >= 150 - 64).then_some(())
    };
    eventually("the other number goes on", others).await;
    // The recipients of the stopped number are taken over after a minute.
    let done = completes(&rig, &path).await;
    assert_eq!(done["counts"]["sent"], 200);
    assert_eq!(rig.fake.most_of_one(), 1);
    rig.server.restart().await;
    rig.fake.heal();
    let before = asked_of(&rig, "106");
    completes(&rig, &broadcast(&rig, 0..100).await).await;
    assert_eq!(asked_of(&rig, "106"), before, "all have the second one now");
}
