//! Contacts that turn out to be one person, and people whose id or phone changes.

use serde_json::{Value, json};

use crate::channel::callbacks::{path, post};
use crate::channel::cloud_api::{APP_SECRET, Rig};
use crate::channel::hidden_phones::{
    PHONE, USER, counts, phoneless, reader, received, seconds, wrote,
};
use crate::fake::{Callbacks, callback};
use crate::support::{Api, eventually};

pub const NEXT: &str = "US.999";

pub fn both() -> Value {
    json!({"from": &PHONE[1..], "from_user_id": USER})
}

pub async fn contact(api: &Api, id: &Value) -> Value {
    api.get(&format!("/v1/contacts/{}", id.as_str().unwrap())).await.ok()
}

/// Returns the names of a contact: its phone and its id.
pub fn names(contact: &Value) -> (&Value, &Value) {
    (&contact["phone"], &contact["user_id"])
}

async fn text_in(api: &Api, conversation: &Value) -> Vec<Value> {
    let path = format!("/v1/conversations/{}/messages", conversation.as_str().unwrap());
    let rows = api.get(&path).await.ok();
    rows["data"].as_array().unwrap().iter().map(|row| row["text"].clone()).collect()
}

#[tokio::test]
async fn two_contacts_that_turn_out_to_be_one_are_merged() {
    let mut rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    let own = json!({
        "name": "Sheena Ray", "phone": PHONE, "tags": ["vip"], "custom_fields": {"plan": "gold"},
    });
    let own = api.post("/v1/contacts", own).await.ok();
    let by_phone = json!({"from": &PHONE[1..]});
    assert_eq!(post(&rig, &wrote(&by_phone, "wamid.p", "By phone", at)).await.status, 200);
    assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.s", "STOP", at)).await.status, 200);
    let rows = received(&rig).await;
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(first["contact_id"], own["id"]);
    assert_ne!(first["contact_id"], second["contact_id"]);
    let other = json!({"name": "Other", "tags": ["b"], "custom_fields": {"plan": "x", "age": 3}});
    let path = format!("/v1/contacts/{}", second["contact_id"].as_str().unwrap());
    api.send_json("PATCH", &path, &other).await.ok();
    let hello = wrote(&both(), "wamid.b", "Both", at);
    for _ in 0..2 {
        assert_eq!(post(&rig, &hello).await.status, 200);
        rig.server.restart().await;
    }
    assert_eq!(api.get("/v1/contacts").await.ok()["total"], 1);
    for id in [&first["contact_id"], &second["contact_id"]] {
        let contact = contact(&api, id).await;
        assert_eq!((&contact["id"], &contact["name"]), (&own["id"], &json!("Sheena Ray")));
        assert_eq!(names(&contact), (&json!(PHONE), &json!(USER)));
        assert_eq!(contact["tags"], json!(["vip", "b"]));
        assert_eq!(contact["custom_fields"], json!({"plan": "gold", "age": 3}));
    }
    let emitted = rig.api.get("/v1/events?type=contact.merged").await.ok();
    let [emitted] = &emitted["data"].as_array().unwrap()[..] else { panic!("one: {emitted}") };
    let merged = json!({"contact_id": own["id"], "merged_contact_id": second["contact_id"]});
    assert_eq!(emitted["data"], merged);
    // Both conversations keep their ids. Later messages are in the one that was written in last.
    let listed = api.get("/v1/conversations").await.ok();
    assert_eq!(listed["total"], 2);
    for row in listed["data"].as_array().unwrap() {
        assert_eq!(row["contact"]["id"], own["id"]);
    }
    assert_eq!(text_in(&api, &first["conversation_id"]).await, ["By phone"]);
    let last = received(&rig).await.pop().unwrap();
    assert_eq!(last["conversation_id"], second["conversation_id"]);
    assert_eq!(text_in(&api, &second["conversation_id"]).await.len(), 2);
    let conversations = [first, second].map(|row| row["conversation_id"].clone());
    a_reply_in_the_former_appears_in_the_current(&api, &conversations).await;
    // An opt-out by one name is an opt-out by both.
    assert_eq!(api.get("/v1/suppressions").await.ok()["total"], 2);
    // Deleting it by either id deletes all of it.
    assert_eq!(api.delete(&path).await.status, 204);
    for id in [&first["contact_id"], &second["contact_id"]] {
        let path = format!("/v1/contacts/{}", id.as_str().unwrap());
        api.get(&path).await.check(404, "NOT_FOUND");
    }
    assert_eq!(api.get("/v1/conversations").await.ok()["total"], 0);
}

async fn a_reply_in_the_former_appears_in_the_current(api: &Api, [former, current]: &[Value; 2]) {
    let reply = json!({"type": "text", "text": "A reply"});
    let path = format!("/v1/conversations/{}", former.as_str().unwrap());
    api.post(&format!("{path}/messages"), &reply).await.ok();
    assert_eq!(text_in(api, former).await, ["By phone"]);
    assert_eq!(text_in(api, current).await[0], "A reply");
    // The former conversation can still be read.
    assert_eq!(api.get(&path).await.ok()["id"], *former);
}

#[tokio::test]
async fn an_answer_or_a_report_that_names_the_id_binds_it() {
    for reported in [false, true] {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        let own = json!({"name": "Sheena", "phone": PHONE});
        let own = api.post("/v1/contacts", own).await.ok();
        assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "Hi", at)).await.status, 200);
        let other = received(&rig).await[0]["contact_id"].clone();
        let by_phone = json!({"from": &PHONE[1..]});
        assert_eq!(post(&rig, &wrote(&by_phone, "wamid.p", "Hi", at)).await.status, 200);
        if reported {
            let report = json!({"statuses": [{
                "id": "wamid.x", "status": "delivered", "timestamp": at.to_string(),
                "recipient_id": &PHONE[1..], "recipient_user_id": USER,
                "biz_opaque_callback_data": message(&rig).await,
            }]});
            assert_eq!(post(&rig, &callback("106", report)).await.status, 200);
        } else {
            rig.fake.report_user_id(&PHONE[1..], USER);
            message(&rig).await;
        }
        eventually("they are one", async || {
            let total = api.get("/v1/contacts").await.ok()["total"].clone();
            (total == 1).then_some(())
        })
        .await;
        let merged = contact(&api, &other).await;
        assert_eq!((&merged["id"], names(&merged)), (&own["id"], (&json!(PHONE), &json!(USER))));
        assert_eq!(post(&rig, &wrote(&phoneless()[1], "wamid.z", "Me", at)).await.status, 200);
        let last = received(&rig).await.pop().unwrap();
        assert_eq!((&last["contact_id"], &last["from"]), (&own["id"], &json!(PHONE)));
    }
}

/// Sends a text to the phone; returns the message's id.
pub async fn message(rig: &Rig) -> Value {
    let text = json!({"to": PHONE, "type": "text", "text": "Hello"});
    rig.api.post("/v1/messaging/send", &text).await.ok()["message_id"].clone()
}

#[tokio::test]
async fn reports_of_the_fake_bind_the_recipient_of_an_id() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    rig.fake.call_back(Some(Callbacks {
        server: rig.server.address(),
        path: path(&rig),
        app_secret: APP_SECRET.into(),
        statuses: vec!["sent".into(), "delivered".into()],
        delay: std::time::Duration::ZERO,
        times: 1,
    }));
    assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "Hi", at)).await.status, 200);
    let text = json!({"recipient": USER, "type": "text", "text": "Hello"});
    let sent = rig.api.post("/v1/messaging/send", &text).await.ok();
    let path = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    let read = eventually("it is delivered", async || {
        let read = rig.api.get(&path).await.ok();
        (read["status"] == "delivered").then_some(read)
    });
    assert_eq!(read.await["recipient"], USER);
    assert_eq!(api.get("/v1/contacts").await.ok()["total"], 1);
}

/// Returns the notice that somebody's names have changed.
pub fn notice(id: &str, from: &str, system: Value, at: u64) -> Value {
    let message = json!({
        "from": from, "id": id, "timestamp": at.to_string(), "type": "system", "system": system,
    });
    callback("106", json!({"messages": [message]}))
}

/// Returns the two notices of a changed id.
pub fn changed_ids(at: u64) -> [Value; 2] {
    let ids = json!({
        "type": "user_changed_user_id", "user_id": NEXT, "previous_user_id": USER, "body": "x",
    });
    let mut forwarded = callback(
        "106",
        json!({"user_id_update": [
            {"user_id": {"previous": USER, "current": NEXT}, "timestamp": at.to_string()},
        ]}),
    );
    forwarded["entry"][0]["changes"][0]["field"] = "user_id_update".into();
    [notice("wamid.s", "", ids, at), forwarded]
}

#[tokio::test]
async fn a_changed_id_moves_to_the_contact() {
    for which in [0, 1] {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        let text = |to: &str| json!({"recipient": to, "type": "text", "text": "Hello"});
        assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "STOP", at)).await.status, 200);
        rig.api.post("/v1/messaging/send", text(USER)).await.ok();
        for _ in 0..2 {
            assert_eq!(post(&rig, &changed_ids(at)[which]).await.status, 200);
        }
        let rows = received(&rig).await;
        let contact = contact(&api, &rows[0]["contact_id"]).await;
        assert_eq!(names(&contact), (&Value::Null, &json!(NEXT)));
        let emitted = rig.api.get("/v1/events?type=contact.updated").await.ok();
        let [emitted] = &emitted["data"].as_array().unwrap()[..] else { panic!("one: {emitted}") };
        assert_eq!(emitted["data"]["previous_user_id"], USER);
        // The opt-out moves along and stays; the window does not, and no notice opens one.
        assert_eq!(api.get("/v1/suppressions").await.ok()["total"], 2);
        for to in [USER, NEXT] {
            rig.api.post("/v1/messaging/send", text(to)).await.check(422, "UNPROCESSABLE");
        }
        let mut again = wrote(&json!({"from_user_id": NEXT}), "wamid.n", "Me", at);
        again["entry"][0]["changes"][0]["value"]["contacts"] = json!([]);
        assert_eq!(post(&rig, &again).await.status, 200);
        let last = received(&rig).await.pop().unwrap();
        assert_eq!(last["contact_id"], rows[0]["contact_id"]);
        let field = ["messages", "user_id_update"][which];
        counts(&rig, field, "taken", [3, 1][which]).await;
        counts(&rig, field, "repeated", 1).await;
    }
}

#[tokio::test]
async fn a_changed_number_that_another_contact_has_merges_the_two() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    let new = "+16505559876";
    let own = api.post("/v1/contacts", json!({"name": "New", "phone": new})).await.ok();
    assert_eq!(post(&rig, &wrote(&both(), "wamid.a", "Hi", at)).await.status, 200);
    let old = received(&rig).await[0]["contact_id"].clone();
    let change = json!({
        "type": "user_changed_number", "wa_id": &new[1..], "user_id": NEXT,
        "previous_user_id": USER, "body": "x",
    });
    for _ in 0..2 {
        let notice = notice("wamid.s", &PHONE[1..], change.clone(), at);
        assert_eq!(post(&rig, &notice).await.status, 200);
    }
    let contact = contact(&api, &old).await;
    assert_eq!((&contact["id"], names(&contact)), (&own["id"], (&json!(new), &json!(NEXT))));
    assert_eq!(api.get("/v1/contacts").await.ok()["total"], 1);
    let listed = api.get("/v1/conversations").await.ok();
    assert_eq!((&listed["total"], &listed["data"][0]["contact"]["id"]), (&json!(1), &own["id"]));
    let emitted = rig.api.get("/v1/events?type=contact.merged").await.ok();
    assert_eq!(emitted["data"].as_array().unwrap().len(), 1);
}
