//! Who writes, where the channel says that a number has changed.

use serde_json::{Value, json};

use crate::channel::callbacks::{post, wrote};
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::reader;
use crate::fake::callback;

const OLD: &str = "+16505551234";
const NEW: &str = "+16505559876";

/// The notice that somebody has another number now.
fn changed_number(id: &str, (old, new): (&str, &str), at: u64) -> Value {
    let message = json!({
        "from": &old[1..], "id": id, "timestamp": at.to_string(), "type": "system",
        "system": {
            "type": "user_changed_number", "wa_id": &new[1..],
            "body": "User changed from one number to another",
        },
    });
    callback("106", json!({"messages": [message]}))
}

fn text(to: &str) -> Value {
    json!({"to": to, "type": "text", "text": "Hello"})
}

#[tokio::test]
async fn a_notice_of_the_channel_is_not_a_message_of_the_customer() {
    let rig = Rig::new().await;
    let scopes = ["contacts:read", "contacts:write"];
    let (_, api) = rig.server.key("acme", &scopes, json!({})).await;
    let made = api.post("/v1/contacts", json!({"name": "Sheena", "phone": OLD})).await.ok();
    api.post("/v1/suppressions", json!({"phone": OLD})).await.ok();
    for to in [OLD, NEW] {
        rig.api.post("/v1/messaging/send", &text(to)).await.check(422, "UNPROCESSABLE");
    }
    for _ in 0..2 {
        assert_eq!(
            post(&rig, &changed_number("wamid.s", (OLD, NEW), 1_749_416_390)).await.status,
            200
        );
    }
    for to in [OLD, NEW] {
        rig.api.post("/v1/messaging/send", &text(to)).await.check(422, "UNPROCESSABLE");
    }
    assert_eq!(api.get("/v1/conversations").await.ok()["total"], 0);
    assert_eq!(rig.api.get("/v1/events?type=message.received").await.ok()["data"], json!([]));
    let path = format!("/v1/contacts/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["phone"], NEW);
    let emitted = rig.api.get("/v1/events?type=contact.updated").await.ok();
    let emitted = emitted["data"].as_array().unwrap();
    assert_eq!(emitted.len(), 1, "a repeated notice changes nothing");
    assert_eq!(
        (&emitted[0]["data"]["phone"], &emitted[0]["data"]["previous_phone"]),
        (&NEW.into(), &OLD.into())
    );
    // The opt-out moves along, and stays.
    let listed = api.get("/v1/suppressions").await.ok();
    let phones: Vec<_> = listed["data"].as_array().unwrap().iter().map(|it| &it["phone"]).collect();
    assert_eq!(phones, [OLD, NEW]);
}

#[tokio::test]
async fn a_changed_number_closes_the_window_of_the_old_one() {
    let rig = Rig::new().await;
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let seconds = crate::support::millis(now.as_str().unwrap()) / 1000;
    let mut hello = wrote("106", &OLD[1..], "wamid.h", "Hi");
    hello["entry"][0]["changes"][0]["value"]["messages"][0]["timestamp"] =
        seconds.to_string().into();
    assert_eq!(post(&rig, &hello).await.status, 200);
    rig.api.post("/v1/messaging/send", &text(OLD)).await.ok();
    assert_eq!(post(&rig, &changed_number("wamid.s", (OLD, NEW), seconds)).await.status, 200);
    for to in [OLD, NEW] {
        rig.api.post("/v1/messaging/send", &text(to)).await.check(422, "UNPROCESSABLE");
    }
    // What is written from the new number belongs to the same contact.
    let mut again = wrote("106", &NEW[1..], "wamid.a", "It is me");
    again["entry"][0]["changes"][0]["value"]["messages"][0]["timestamp"] =
        seconds.to_string().into();
    assert_eq!(post(&rig, &again).await.status, 200);
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    let rows = received["data"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["data"]["conversation_id"], rows[1]["data"]["conversation_id"]);
    rig.api.post("/v1/messaging/send", &text(NEW)).await.ok();
}

#[tokio::test]
async fn what_was_written_before_a_change_opens_no_window_after_it() {
    let rig = Rig::new().await;
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let changed_at = crate::support::millis(now.as_str().unwrap()) / 1000;
    let says = async |from: &str, user_id: Option<&str>, id: &str, at: u64| {
        let mut said = wrote("106", &from[1..], id, "Hi");
        let message = &mut said["entry"][0]["changes"][0]["value"]["messages"][0];
        message["timestamp"] = at.to_string().into();
        if let Some(user_id) = user_id {
            message["from_user_id"] = user_id.into();
        }
        if from == "+" {
            message.as_object_mut().unwrap().remove("from");
        }
        assert_eq!(post(&rig, &said).await.status, 200);
    };
    says(OLD, Some("US.A1"), "wamid.first", changed_at - 60).await;
    let mut notice = changed_number("wamid.s", (OLD, NEW), changed_at);
    let system = &mut notice["entry"][0]["changes"][0]["value"]["messages"][0]["system"];
    system["user_id"] = "US.B2".into();
    assert_eq!(post(&rig, &notice).await.status, 200);
    // By each of the old names, earlier and in the second of the notice.
    let names = [(OLD, None), (OLD, Some("US.A1")), ("+", Some("US.A1"))];
    for (at, (from, user_id)) in names.into_iter().enumerate() {
        for before in [30, 0] {
            says(from, user_id, &format!("wamid.{at}.{before}"), changed_at - before).await;
        }
    }
    for to in [OLD, NEW] {
        rig.api.post("/v1/messaging/send", &text(to)).await.check(422, "UNPROCESSABLE");
    }
    let by_id = json!({"recipient": "US.B2", "type": "text", "text": "Hello"});
    rig.api.post("/v1/messaging/send", &by_id).await.check(422, "UNPROCESSABLE");
    // All of it is in the conversation.
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    let rows = received["data"].as_array().unwrap();
    let conversation = &rows[0]["data"]["conversation_id"];
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|row| row["data"]["conversation_id"] == *conversation));
    says(NEW, Some("US.B2"), "wamid.new", changed_at + 1).await;
    rig.api.post("/v1/messaging/send", &text(NEW)).await.ok();
}

#[tokio::test]
async fn an_id_that_stays_opens_no_window_of_a_number_that_came_later() {
    let rig = Rig::new().await;
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let changed_at = crate::support::millis(now.as_str().unwrap()) / 1000;
    let says = async |from: Option<&str>, id: &str, at: u64| {
        let mut said = wrote("106", &from.unwrap_or(OLD)[1..], id, "Hi");
        let message = &mut said["entry"][0]["changes"][0]["value"]["messages"][0];
        message["timestamp"] = at.to_string().into();
        message["from_user_id"] = "US.A1".into();
        if from.is_none() {
            message.as_object_mut().unwrap().remove("from");
        }
        assert_eq!(post(&rig, &said).await.status, 200);
    };
    says(Some(OLD), "wamid.first", changed_at - 60).await;
    assert_eq!(post(&rig, &changed_number("wamid.s", (OLD, NEW), changed_at)).await.status, 200);
    says(None, "wamid.late", changed_at - 30).await;
    rig.api.post("/v1/messaging/send", &text(NEW)).await.check(422, "UNPROCESSABLE");
    let by_id = json!({"recipient": "US.A1", "type": "text", "text": "Hello"});
    rig.api.post("/v1/messaging/send", &by_id).await.ok();
    says(Some(NEW), "wamid.new", changed_at + 1).await;
    rig.api.post("/v1/messaging/send", &text(NEW)).await.ok();
}

/// Somebody gets the number that another gave up, and writes before the notice of that comes.
#[tokio::test]
async fn a_late_notice_does_not_make_one_of_two_people() {
    let rig = Rig::new().await;
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let now = crate::support::millis(now.as_str().unwrap()) / 1000;
    let says = async |(from, user_id): (&str, &str), id: &str, text: &str, at: u64| {
        let mut said = wrote("106", &from[1..], id, text);
        let message = &mut said["entry"][0]["changes"][0]["value"]["messages"][0];
        message["timestamp"] = at.to_string().into();
        message["from_user_id"] = user_id.into();
        assert_eq!(post(&rig, &said).await.status, 200);
    };
    let (before, after, newcomer) = ((OLD, "US.C1"), (NEW, "US.C2"), (OLD, "US.D1"));
    says(before, "wamid.c", "It is C", now - 100).await;
    says(newcomer, "wamid.d", "It is D", now - 10).await;
    let mut notice = changed_number("wamid.s", (OLD, NEW), now - 60);
    let system = &mut notice["entry"][0]["changes"][0]["value"]["messages"][0]["system"];
    system["user_id"] = "US.C2".into();
    system["previous_user_id"] = "US.C1".into();
    assert_eq!(post(&rig, &notice).await.status, 200);
    says(newcomer, "wamid.stop", "STOP", now - 5).await;
    says(after, "wamid.c2", "It is C again", now - 4).await;
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    let rows = received["data"].as_array().unwrap();
    let [first, _, stop, again] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(first["data"]["contact_id"], again["data"]["contact_id"]);
    assert_ne!(first["data"]["contact_id"], stop["data"]["contact_id"]);
    let names = |row: &Value| (row["data"]["from"].clone(), row["data"]["user_id"].clone());
    assert_eq!(names(stop), (json!(OLD), json!("US.D1")));
    assert_eq!(names(again), (json!(NEW), json!("US.C2")));
    let (api, out) =
        (reader(&rig).await, |phone: &str| format!("/v1/suppressions?phone=%2B{}", &phone[1..]));
    assert_eq!(api.get(&out(OLD)).await.ok()["total"], 1);
    assert_eq!(api.get(&out(NEW)).await.ok()["total"], 0);
    rig.api.post("/v1/messaging/send", &text(NEW)).await.ok();
    // A late notice of another id, which names the number that is the newcomer's, leaves it theirs.
    let mut notice = changed_number("wamid.t", (OLD, NEW), now - 50);
    let system = &mut notice["entry"][0]["changes"][0]["value"]["messages"][0]["system"];
    *system = json!({"type": "user_changed_user_id", "body": "b",
        "previous_user_id": "US.C2", "user_id": "US.C3"});
    assert_eq!(post(&rig, &notice).await.status, 200);
    says((NEW, "US.C3"), "wamid.c3", "It is C", now - 3).await;
    says(newcomer, "wamid.d3", "It is D", now - 2).await;
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    let rows = received["data"].as_array().unwrap();
    assert_eq!(rows[4]["data"]["contact_id"], first["data"]["contact_id"]);
    assert_eq!(rows[5]["data"]["contact_id"], stop["data"]["contact_id"]);
}
