//! The old names of somebody whose phone or id changes.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::{PHONE, USER, phoneless, reader, received, seconds, wrote};
use crate::channel::merged_contacts::{NEXT, both, changed_ids, contact, message, names, notice};
use crate::fake::callback;
use crate::support::eventually;

const NEW: &str = "+16505559876";

fn text(names: Value) -> Value {
    let mut body = json!({"type": "text", "text": "Hello"});
    body.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_changed_id_without_a_phone_takes_the_phone_away() {
    for which in [0, 1] {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        assert_eq!(post(&rig, &wrote(&both(), "wamid.a", "STOP", at)).await.status, 200);
        let first = received(&rig).await.remove(0);
        assert_eq!(post(&rig, &changed_ids(at)[which]).await.status, 200);
        let changed = contact(&api, &first["contact_id"]).await;
        assert_eq!(names(&changed), (&Value::Null, &json!(NEXT)));
        let emitted = rig.api.get("/v1/events?type=contact.updated").await.ok();
        assert_eq!(emitted["data"][0]["data"]["previous_phone"], PHONE);
        // The opt-out holds for all three names; every window is closed.
        assert_eq!(api.get("/v1/suppressions").await.ok()["total"], 3);
        for to in [json!({"to": PHONE}), json!({"recipient": USER}), json!({"recipient": NEXT})] {
            rig.api.post("/v1/messaging/send", text(to)).await.check(422, "UNPROCESSABLE");
        }
        // The phone is free, and messages to the person go to the new id.
        let other = api.post("/v1/contacts", json!({"name": "Other", "phone": PHONE})).await;
        assert_eq!(other.status, 201);
        let mut again = wrote(&json!({"from_user_id": NEXT}), "wamid.n", "Me", at + 1);
        again["entry"][0]["changes"][0]["value"]["contacts"] = json!([]);
        assert_eq!(post(&rig, &again).await.status, 200);
        let path =
            format!("/v1/conversations/{}/messages", first["conversation_id"].as_str().unwrap());
        api.post(&path, text(json!({}))).await.ok();
        let body = eventually("the reply", async || rig.fake.accepted().pop()).await.body;
        assert_eq!((&body["recipient"], body.get("to")), (&json!(NEXT), None));
    }
}

#[tokio::test]
async fn a_changed_number_of_two_contacts_makes_one_of_them() {
    let own_ids = [
        json!({"user_id": NEXT, "previous_user_id": USER}),
        // The id does not change.
        json!({"user_id": USER}),
    ];
    for ids in own_ids {
        let rig = Rig::new().await;
        let api = reader(&rig).await;
        let at = seconds(&rig).await;
        let own = api.post("/v1/contacts", json!({"name": "Own", "phone": PHONE})).await.ok();
        assert_eq!(post(&rig, &wrote(&phoneless()[0], "wamid.a", "STOP", at)).await.status, 200);
        let other = received(&rig).await[0]["contact_id"].clone();
        assert_ne!(other, own["id"]);
        let mut change = json!({"type": "user_changed_number", "wa_id": &NEW[1..], "body": "x"});
        change.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
        for _ in 0..2 {
            let change = notice("wamid.s", &PHONE[1..], change.clone(), at);
            assert_eq!(post(&rig, &change).await.status, 200);
        }
        assert_eq!(api.get("/v1/contacts").await.ok()["total"], 1, "{ids}");
        for id in [&own["id"], &other] {
            let changed = contact(&api, id).await;
            assert_eq!(names(&changed), (&json!(NEW), &ids["user_id"]));
        }
        let emitted = rig.api.get("/v1/events?type=contact.merged").await.ok();
        assert_eq!(emitted["data"].as_array().unwrap().len(), 1);
        let listed = api.get("/v1/suppressions").await.ok();
        let phones: Vec<_> =
            listed["data"].as_array().unwrap().iter().map(|it| &it["phone"]).collect();
        assert!(phones.contains(&&json!(NEW)), "{phones:?}");
    }
}

#[tokio::test]
async fn a_report_takes_no_id_from_a_contact_with_another_phone() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    for (id, by) in [
        ("wamid.a", json!({"from": &NEW[1..], "from_user_id": USER})),
        ("wamid.b", json!({"from": &PHONE[1..]})),
    ] {
        assert_eq!(post(&rig, &wrote(&by, id, "Hi", at)).await.status, 200);
    }
    let report = json!({"statuses": [{
        "id": "wamid.x", "status": "delivered", "timestamp": at.to_string(),
        "recipient_id": &PHONE[1..], "recipient_user_id": USER,
        "biz_opaque_callback_data": message(&rig).await,
    }]});
    assert_eq!(post(&rig, &callback("106", report)).await.status, 200);
    let rows = received(&rig).await;
    let [first, second] = [&rows[0], &rows[1]].map(|row| &row["contact_id"]);
    assert_eq!(names(&contact(&api, first).await), (&json!(NEW), &json!(USER)));
    assert_eq!(names(&contact(&api, second).await), (&json!(PHONE), &Value::Null));
}
