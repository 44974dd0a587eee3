//! A live number's secrets and pace are replaced, and one number is connected only once.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, TOKEN, VERIFY_TOKEN, number};
use crate::fake::{Scripted, callback, sign, template};
use crate::support::{Reply, TestServer, eventually};

const NUMBERS: &str = "/admin/v1/workspaces/acme/numbers";

fn path(rig: &Rig) -> String {
    format!("{NUMBERS}/{}", rig.number["id"].as_str().unwrap())
}

async fn update(rig: &Rig, change: Value) -> Reply {
    rig.server.admin().send_json("PATCH", &path(rig), &change).await
}

/// Returns the data of all events of this type.
async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let events = rig.api.get(&format!("/v1/events?type={kind}")).await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Returns the messages that the fake took, in order, by our ids.
fn taken(rig: &Rig) -> Vec<String> {
    rig.fake.accepted().into_iter().map(|accepted| accepted.opaque).collect()
}

/// Returns a rig whose token is not valid any more, and the messages that wait for a new one.
async fn expired() -> (Rig, Vec<String>) {
    let rig = Rig::new().await;
    let welcome = json!({
        "name": "welcome", "language": "en", "category": "utility",
        "components": [{"type": "BODY", "text": "Welcome"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", welcome).await.ok();
    // The answers come when all are with the channel, so that no request is refused.
    rig.fake.set_token("the-next-one");
    let mut held = Vec::new();
    for last in 0..4 {
        let to = format!("+1555123456{last}");
        let template = json!({"name": "welcome", "language": "en"});
        let body = json!({"to": to, "type": "template", "template": template});
        let sent = rig.api.post("/v1/messaging/send", body).await;
        if sent.status == 503 {
            break;
        }
        held.push(sent.ok()["message_id"].as_str().unwrap().to_owned());
    }
    eventually("the stop", async || emitted(&rig, "number.stopped").await.pop()).await;
    (rig, held)
}

#[tokio::test]
async fn a_stopped_number_revives_with_a_new_token_and_sends_what_it_held_in_order() {
    let (mut rig, held) = expired().await;
    let problems = async |rig: &Rig| rig.api.get("/v1/workspace").await.ok()["problems"].clone();
    let stopped = problems(&rig).await;
    assert_eq!(stopped[0]["number_id"], rig.number["id"]);
    assert!(stopped[0]["reason"].as_str().unwrap().contains("190"), "{stopped}");
    let changed = update(&rig, json!({"token": "the-next-one"})).await.ok();
    assert_eq!(changed, rig.number, "nothing of it is shown");
    let all = async || (taken(&rig).len() == held.len()).then_some(());
    eventually("all are taken, without any wait", all).await;
    assert_eq!(taken(&rig), held);
    let recovered = eventually("the event", async || emitted(&rig, "number.recovered").await.pop());
    assert_eq!(recovered.await, json!({"number_id": rig.number["id"]}));
    assert_eq!(emitted(&rig, "number.stopped").await.len(), 1);
    assert_eq!(problems(&rig).await, json!([]));
    // The token outlives a restart, and cannot be read anywhere.
    rig.server.restart().await;
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "sent").await;
    assert!(!rig.server.log().contains("the-next-one"));
    assert_eq!(rig.fake.most_of_one(), 1);
}

#[tokio::test]
async fn a_token_that_is_wrong_too_changes_nothing_and_the_next_one_does() {
    let (rig, held) = expired().await;
    let before = rig.fake.requests().len();
    update(&rig, json!({"token": "wrong-too"})).await.ok();
    let tried = async || (rig.fake.requests().len() == before + 1).then_some(());
    eventually("one try", tried).await;
    rig.fake.set_token(TOKEN);
    update(&rig, json!({"token": TOKEN})).await.ok();
    eventually("all", async || (taken(&rig).len() == held.len()).then_some(())).await;
    assert_eq!(taken(&rig), held);
    assert_eq!(emitted(&rig, "number.stopped").await.len(), 1);
}

#[tokio::test]
async fn callbacks_are_held_against_the_new_secrets_at_once() {
    let rig = Rig::new().await;
    let stranger = rig.server.stranger();
    let callbacks = rig.number["callback_path"].as_str().unwrap();
    let post = async |secret: &str| {
        let body = callback("106", json!({"statuses": []})).to_string();
        let signature = sign(secret, body.as_bytes());
        let headers = [("X-Hub-Signature-256", &*signature), ("Content-Type", "application/json")];
        stranger.call("POST", callbacks, &headers, body.as_bytes()).await
    };
    let verify = async |token: &str| {
        let query = format!("hub.mode=subscribe&hub.verify_token={token}&hub.challenge=7");
        stranger.get(&format!("{callbacks}?{query}")).await.status
    };
    post(APP_SECRET).await.ok();
    update(&rig, json!({"app_secret": "rotated"})).await.ok();
    post("rotated").await.ok();
    post(APP_SECRET).await.check(401, "UNAUTHORIZED");
    assert_eq!([verify(VERIFY_TOKEN).await, verify("another").await], [200, 403]);
    update(&rig, json!({"verify_token": "another"})).await.ok();
    assert_eq!([verify(VERIFY_TOKEN).await, verify("another").await], [403, 200]);
    post("rotated").await.ok();
    let id = rig.send("+15551234567").await;
    rig.becomes(&id, "sent").await;
}

#[tokio::test]
async fn an_update_must_make_sense() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    for (name, values) in [
        ("token", vec![json!(""), json!("a\nb"), json!(7), json!("x".repeat(1025))]),
        ("app_secret", vec![json!("")]),
        ("verify_token", vec![json!("ä")]),
        ("messages_per_second", vec![json!(-1), json!("80"), json!(100_001)]),
    ] {
        for value in values {
            update(&rig, json!({ name: value })).await.check_field(name);
        }
    }
    let slow = update(&rig, json!({"messages_per_second": 2})).await.ok();
    assert_eq!(slow["messages_per_second"], 2);
    let same = update(&rig, json!({"token": null})).await.ok();
    assert_eq!(same, slow, "what is left out stays");
    let cleared = update(&rig, json!({"messages_per_second": null})).await.ok();
    assert_eq!(cleared["messages_per_second"], Value::Null);
    assert_eq!(admin.get(&path(&rig)).await.ok()["pace"]["set"], 80, "that of its kind");
    let slow = update(&rig, json!({"messages_per_second": 2})).await.ok();
    let listed = admin.get(NUMBERS).await.ok()["data"][0].clone();
    for (name, value) in slow.as_object().unwrap() {
        assert_eq!(listed[name], *value, "{name}");
    }
    let unknown = format!("{NUMBERS}/num_01jd3v0x5n8m7k2q4r6s8t0w2y");
    admin.send_json("PATCH", &unknown, &json!({})).await.check(404, "NOT_FOUND");
    let elsewhere = path(&rig).replace("acme", "demo");
    admin.send_json("PATCH", &elsewhere, &json!({})).await.check(404, "NOT_FOUND");
    let sandbox = admin.post(NUMBERS, json!({"kind": "sandbox"})).await.ok();
    let sandbox = format!("{NUMBERS}/{}", sandbox["id"].as_str().unwrap());
    admin.send_json("PATCH", &sandbox, &json!({"token": "t"})).await.check_field("token");
    let paced = json!({"messages_per_second": 3});
    let paced = admin.send_json("PATCH", &sandbox, &paced).await.ok();
    assert_eq!(paced["messages_per_second"], 3);
}

#[tokio::test]
async fn a_number_of_the_channel_is_connected_once() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    server.workspace("beta").await;
    let admin = server.admin();
    let elsewhere = "/admin/v1/workspaces/beta/numbers";
    let connected = admin.post(NUMBERS, number()).await.ok();
    for path in [NUMBERS, elsewhere] {
        admin.post(path, number()).await.check(409, "CONFLICT");
    }
    let mut other = number();
    other["phone_number_id"] = json!("206");
    admin.post(elsewhere, other).await.ok();
    server.restart().await;
    admin.post(elsewhere, number()).await.check(409, "CONFLICT");
    let path = format!("{NUMBERS}/{}", connected["id"].as_str().unwrap());
    admin.delete(&path).await.ok();
    admin.send_json("PATCH", &path, &json!({})).await.check(404, "NOT_FOUND");
    admin.post(elsewhere, number()).await.ok();
}

#[tokio::test]
async fn a_throttled_app_is_not_felt_by_the_number_of_another_app() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    rig.server.workspace("beta").await;
    let numbers = "/admin/v1/workspaces/beta/numbers";
    let sandbox = admin.get(numbers).await.ok()["data"][0]["id"].clone();
    admin.delete(&format!("{numbers}/{}", sandbox.as_str().unwrap())).await.ok();
    // The account's id is the same, because anybody can enter it.
    let mut other = number();
    (other["phone_number_id"], other["app_secret"]) = (json!("206"), json!("another-app"));
    admin.post(numbers, other).await.ok();
    let template = template("otp_code", "en", "authentication", "approved", "{{1}}");
    admin.post("/admin/v1/workspaces/beta/templates", template).await.ok();
    let (_, beta) = rig.server.key("beta", &["messaging:send"], json!({})).await;
    for (code, phone) in [(4, "15550000004"), (80_007, "15550000007")] {
        rig.fake.script(Some(phone), Scripted::Error { status: 400, code }, None);
        let before = rig.fake.requests().len();
        rig.send(&format!("+{phone}")).await;
        // Each pause in a row is twice as long, up to a minute, which is longer than a test waits.
        for tried in 0..7 {
            let asked = Cell::new(0);
            let again = async || {
                let is_tried = rig.fake.requests().len() > before + tried;
                // Sometimes once more: a pause that starts after time was moved is not over.
                if tried > 0 && !is_tried && asked.replace(asked.get() + 1) % 40 == 0 {
                    rig.server.advance(1 << (tried - 1)).await;
                }
                is_tried.then_some(())
            };
            eventually("a try", again).await;
        }
        let body = json!({"phone": format!("+2{phone}")});
        beta.post("/v1/otp/send", body).await.ok();
        let to = format!("2{phone}");
        eventually("it is sent", async || (rig.fake.accepted_to(&to) == 1).then_some(())).await;
        rig.fake.heal();
        rig.server.advance(60).await;
        let sent = async || (rig.fake.accepted_to(phone) == 1).then_some(());
        eventually("the other one after its pause", sent).await;
    }
}
