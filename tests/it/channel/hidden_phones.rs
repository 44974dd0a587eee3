//! People who hide their phone, whom the channel knows by an id alone.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::fake::callback;
use crate::support::{Api, clustered, eventually, millis};

pub const USER: &str = "US.13491208655302741918";
pub const PHONE: &str = "+16505551234";

pub async fn seconds(rig: &Rig) -> u64 {
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    millis(now.as_str().unwrap()) / 1000
}

/// Returns the callback of a text by somebody with these names in the channel.
pub fn wrote(names: &Value, id: &str, text: &str, at: u64) -> Value {
    let mut message = json!({
        "id": id, "timestamp": at.to_string(), "type": "text", "text": {"body": text},
    });
    let mut contact = json!({"profile": {"name": "Sheena", "username": "sheena"}});
    for (name, value) in names.as_object().unwrap() {
        if !value.is_null() {
            message[name] = value.clone();
        }
    }
    contact["user_id"] = USER.into();
    callback("106", json!({"contacts": [contact], "messages": [message]}))
}

/// Returns the three forms in which a callback reports somebody without a phone.
pub fn phoneless() -> [Value; 3] {
    [
        json!({"from_user_id": USER}),
        json!({"from": "", "from_user_id": USER}),
        json!({"from": USER}),
    ]
}

pub async fn reader(rig: &Rig) -> Api {
    let scopes = ["contacts:read", "contacts:write", "messaging:send"];
    rig.server.key("acme", &scopes, json!({})).await.1
}

/// Waits until a metric of callbacks' items has this value.
pub async fn counts(rig: &Rig, field: &str, outcome: &str, items: u32) {
    let labels = format!(r#"{{field="{field}",outcome="{outcome}"}}"#);
    let series = format!("postrider_callback_items_total{labels}");
    eventually(&format!("{series} {items}"), async || {
        let metrics = rig.server.stranger().get("/metrics").await.text();
        (clustered::figure(&metrics, &series) == Some(items.into())).then_some(())
    })
    .await;
}

pub async fn received(rig: &Rig) -> Vec<Value> {
    let events = rig.api.get("/v1/events?type=message.received").await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn who_hides_the_phone_has_a_contact_and_a_conversation_and_gets_replies() {
    for names in phoneless() {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        for _ in 0..2 {
            assert_eq!(post(&rig, &wrote(&names, "wamid.a", "Hi", at)).await.status, 200);
        }
        let [emitted] = &received(&rig).await[..] else { panic!("one of {names}") };
        assert_eq!((&emitted["from"], &emitted["user_id"]), (&Value::Null, &json!(USER)));
        assert_eq!((&emitted["username"], &emitted["text"]), (&json!("sheena"), &json!("Hi")));
        let path = format!("/v1/contacts/{}", emitted["contact_id"].as_str().unwrap());
        let contact = api.get(&path).await.ok();
        assert_eq!((&contact["phone"], &contact["user_id"]), (&Value::Null, &json!(USER)));
        assert_eq!((&contact["name"], &contact["username"]), (&json!("Sheena"), &json!("sheena")));
        let found = api.get("/v1/contacts?search=13491208655302741918").await.ok();
        assert_eq!(found["total"], 1);
        let conversation = emitted["conversation_id"].as_str().unwrap();
        let reply = json!({"type": "text", "text": "Hello"});
        let path = format!("/v1/conversations/{conversation}/messages");
        let sent = api.post(&path, &reply).await.ok();
        let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
        let read = eventually("it is sent", || async {
            let read = rig.api.get(&path).await.ok();
            (read["status"] == "sent").then_some(read)
        });
        let read = read.await;
        assert_eq!((&read["to"], &read["recipient"]), (&Value::Null, &json!(USER)));
        let body = rig.fake.accepted().pop().unwrap().body;
        assert_eq!((&body["recipient"], body.get("to")), (&json!(USER), None));
        assert_eq!(body["text"]["body"], "Hello");
    }
}

#[tokio::test]
async fn a_phone_that_was_merely_written_into_a_contact_gets_no_replies() {
    const VICTIM: &str = "+16505559999";
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    let names = json!({"from_user_id": USER});
    assert_eq!(post(&rig, &wrote(&names, "wamid.a", "Hi", at)).await.status, 200);
    let wrote_first = received(&rig).await.pop().unwrap();
    let id = |name: &str| wrote_first[name].as_str().unwrap().to_owned();
    let change = json!({"name": "Sheena", "phone": VICTIM});
    api.send_json("PATCH", &format!("/v1/contacts/{}", id("contact_id")), &change).await.ok();
    let conversation = format!("/v1/conversations/{}", id("conversation_id"));
    let reply = json!({"type": "text", "text": "Hello"});
    let replied = async |count: usize| {
        assert_eq!(api.get(&conversation).await.ok()["reply_window"]["open"], true);
        api.post(&format!("{conversation}/messages"), &reply).await.ok();
        eventually("it is sent", || async { (rig.fake.accepted().len() == count).then_some(()) })
            .await;
        let body = rig.fake.accepted().pop().unwrap().body;
        assert_eq!((&body["recipient"], body.get("to")), (&json!(USER), None));
    };
    replied(1).await;
    assert_eq!(post(&rig, &wrote(&names, "wamid.b", "Still me", at)).await.status, 200);
    replied(2).await;
    let text = json!({"to": VICTIM, "type": "text", "text": "Hello"});
    rig.api.post("/v1/messaging/send", &text).await.check(422, "UNPROCESSABLE");
    // Once the channel names the phone with the id, it is theirs.
    let both = json!({"from": &VICTIM[1..], "from_user_id": USER});
    assert_eq!(post(&rig, &wrote(&both, "wamid.c", "Me", at)).await.status, 200);
    api.post(&format!("{conversation}/messages"), &reply).await.ok();
    eventually("it is sent", || async { (rig.fake.accepted().len() == 3).then_some(()) }).await;
    assert_eq!(rig.fake.accepted().pop().unwrap().body["to"], VICTIM[1..]);
}

#[tokio::test]
async fn a_recipient_is_named_by_phone_or_by_id() {
    let rig = Rig::new().await;
    let text = |names: Value| {
        let mut body = json!({"type": "text", "text": "Hello"});
        body.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        body
    };
    let send = async |names: Value| rig.api.post("/v1/messaging/send", text(names)).await;
    for bad in [json!({}), json!({"to": PHONE, "recipient": USER})] {
        send(bad).await.check_field("to");
    }
    send(json!({"recipient": "us.1"})).await.check_field("recipient");
    send(json!({"recipient": USER})).await.check(422, "UNPROCESSABLE");
    let at = seconds(&rig).await;
    let hello = wrote(&phoneless()[0], "wamid.a", "Hi", at);
    assert_eq!(post(&rig, &hello).await.status, 200);
    send(json!({"recipient": USER})).await.ok();
}

#[tokio::test]
async fn who_stops_without_a_phone_is_suppressed() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "STOP", at)).await.status, 200);
    let listed = api.get("/v1/suppressions").await.ok();
    let row = &listed["data"][0];
    assert_eq!((&listed["total"], &row["source"]), (&json!(1), &json!("word")));
    assert_eq!((&row["phone"], &row["user_id"]), (&Value::Null, &json!(USER)));
    let emitted = rig.api.get("/v1/events?type=contact.opted_out").await.ok();
    assert_eq!(emitted["data"][0]["data"]["user_id"], USER);
    assert_eq!(post(&rig, &wrote(&phoneless()[1], "wamid.b", "START", at)).await.status, 200);
    assert_eq!(api.get("/v1/suppressions").await.ok()["total"], 0);
}

#[tokio::test]
async fn a_phone_and_an_id_that_are_known_together_are_one_contacts() {
    let both = json!({"from": &PHONE[1..], "from_user_id": USER});
    let by_phone = json!({"from": &PHONE[1..]});
    let [by_id, ..] = phoneless();
    for order in [[&both, &by_id, &by_phone], [&by_id, &both, &by_phone]] {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        for (number, names) in order.into_iter().enumerate() {
            let text = if number == 0 { "STOP" } else { "Hi" };
            let id = format!("wamid.{number}");
            assert_eq!(post(&rig, &wrote(names, &id, text, at)).await.status, 200);
        }
        let rows = received(&rig).await;
        assert_eq!(rows.len(), 3);
        for row in &rows {
            assert_eq!(row["contact_id"], rows[0]["contact_id"], "{order:?}");
            assert_eq!(row["conversation_id"], rows[0]["conversation_id"]);
        }
        let contacts = api.get("/v1/contacts").await.ok();
        assert_eq!(contacts["total"], 1);
        let contact = &contacts["data"][0];
        assert_eq!((&contact["phone"], &contact["user_id"]), (&json!(PHONE), &json!(USER)));
        // An opt-out or a window of one of the two holds for the other.
        assert_eq!(api.get("/v1/suppressions").await.ok()["total"], 2, "{order:?}");
        for names in [json!({"to": PHONE}), json!({"recipient": USER})] {
            let mut body = json!({"type": "text", "text": "Hello"});
            body.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
            api.post("/v1/messaging/send", body).await.ok();
        }
    }
}

#[tokio::test]
async fn nothing_of_a_callback_is_passed_over_without_being_counted() {
    let rig = Rig::new().await;
    let nobody = json!({"messages": [{
        "id": "wamid.n", "timestamp": "1749416383", "type": "text", "text": {"body": "Hi"},
    }]});
    assert_eq!(post(&rig, &callback("106", nobody)).await.status, 200);
    let hello = wrote(&phoneless()[0], "wamid.a", "Hi", seconds(&rig).await);
    assert_eq!(post(&rig, &hello).await.status, 200);
    for field in ["account_update", "something_new"] {
        let mut notice = callback("106", json!({}));
        notice["entry"][0]["changes"][0]["field"] = field.into();
        assert_eq!(post(&rig, &notice).await.status, 200);
    }
    // It is about an unknown number.
    let mut other = hello;
    other["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "999".into();
    assert_eq!(post(&rig, &other).await.status, 200);
    for (field, outcome) in [
        ("messages", "unreadable"),
        ("messages", "taken"),
        ("messages", "ignored"),
        ("account_update", "ignored"),
        ("other", "unknown"),
    ] {
        counts(&rig, field, outcome, 1).await;
    }
    let emitted = rig.api.get("/v1/events?type=channel.ignored").await.ok();
    let emitted: Vec<_> =
        emitted["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect();
    let ignored = |field: &str, reason: &str| json!({"number_id": rig.number["id"], "field": field, "reason": reason, "count": 1});
    assert_eq!(emitted, [ignored("messages", "no_sender"), ignored("other", "unknown_field")]);
}

#[tokio::test]
async fn an_error_of_a_number_is_an_event_and_may_stop_it() {
    let rig = Rig::new().await;
    let details = "the words of the provider";
    let error = json!({"errors": [
        {"code": 131_016, "title": "Service unavailable", "error_data": {"details": details}},
    ]});
    assert_eq!(post(&rig, &callback("106", error)).await.status, 200);
    let emitted = rig.api.get("/v1/events?type=channel.error").await.ok();
    let [emitted] = &emitted["data"].as_array().unwrap()[..] else { panic!("one: {emitted}") };
    assert_eq!(
        emitted["data"],
        json!({
            "number_id": rig.number["id"], "error_code": 131_016, "title": "Service unavailable",
            "details": details,
        })
    );
    counts(&rig, "messages", "taken", 1).await;
    let locked = json!({"errors": [{"code": 131_031, "title": "Account locked"}]});
    assert_eq!(post(&rig, &callback("106", locked)).await.status, 200);
    let stopped = eventually("the number stops", async || {
        let emitted = rig.api.get("/v1/events?type=number.stopped").await.ok();
        emitted["data"].get(0).cloned()
    });
    assert_eq!(stopped.await["data"]["error_code"], 131_031);
}

#[tokio::test]
async fn who_is_known_by_an_id_alone_can_be_deleted_and_suppressed() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "Hi", at)).await.status, 200);
    let made = api.post("/v1/suppressions", json!({"user_id": USER, "reason": "asked"})).await;
    assert_eq!((made.status, &made.json()["user_id"]), (201, &json!(USER)));
    for bad in [json!({}), json!({"phone": PHONE, "user_id": USER})] {
        api.post("/v1/suppressions", bad).await.check_field("phone");
    }
    api.post("/v1/suppressions", json!({"user_id": "x"})).await.check_field("user_id");
    // A search by name finds the named person alone.
    api.post("/v1/suppressions", json!({"phone": PHONE})).await.ok();
    let by_id = api.get(&format!("/v1/suppressions?user_id={USER}")).await.ok();
    assert_eq!((&by_id["total"], &by_id["data"]), (&json!(1), &json!([made.json()])));
    let by_phone = api.get("/v1/suppressions?phone=%2B16505551234").await.ok();
    assert_eq!((&by_phone["total"], &by_phone["data"][0]["phone"]), (&json!(1), &json!(PHONE)));
    let unknown = api.get("/v1/suppressions?phone=%2B16505551235").await.ok();
    assert_eq!((&unknown["total"], &unknown["data"]), (&json!(0), &json!([])));
    api.get("/v1/suppressions?phone=1650").await.check_field("phone");
    api.get("/v1/suppressions?user_id=x").await.check_field("user_id");
    let both = format!("/v1/suppressions?phone=%2B16505551234&user_id={USER}");
    api.get(&both).await.check_field("phone");
    let path = format!("/v1/suppressions/{USER}");
    assert_eq!(api.delete(&path).await.status, 204);
    api.delete(&path).await.check(404, "NOT_FOUND");
    let contact = received(&rig).await[0]["contact_id"].as_str().unwrap().to_owned();
    assert_eq!(api.delete(&format!("/v1/contacts/{contact}")).await.status, 204);
    api.get(&format!("/v1/contacts/{contact}")).await.check(404, "NOT_FOUND");
    assert_eq!(api.get("/v1/conversations").await.ok()["total"], 0);
    // The window is closed, and the person who writes again gets a new contact.
    let text = json!({"recipient": USER, "type": "text", "text": "Hello"});
    rig.api.post("/v1/messaging/send", &text).await.check(422, "UNPROCESSABLE");
    assert_eq!(post(&rig, &wrote(&phoneless()[1], "wamid.b", "Hi", at)).await.status, 200);
    assert_ne!(received(&rig).await.pop().unwrap()["contact_id"], contact);
}
