//! The message that somebody answers, found by the channel's id.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::pool::{SEND, completes, connect, hello, phone, rig};
use crate::fake::{Scripted, callback};
use crate::support::eventually;

/// Somebody writes; returns the event.
async fn write(rig: &Rig, from: &str, number: u32, more: Value) -> Value {
    let now = postrider_actors::Clock::system().now().as_secs();
    let mut message = json!({"from": from, "id": format!("wamid.{from}.{number}"),
        "timestamp": now.to_string(), "type": "text", "text": {"body": "Hi"}});
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(post(rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
    let events = rig.api.get("/v1/events?limit=200&type=message.received").await.ok();
    events["data"].as_array().unwrap().last().unwrap()["data"].clone()
}

#[tokio::test]
async fn a_message_of_ours_is_named_however_many_came_after_it() {
    let (mut rig, ada, other) = (rig().await, "15551230001", "15551230002");
    let sent = rig.api.post("/v1/messaging/send", hello(&format!("+{ada}"))).await.ok();
    let id = sent["message_id"].clone();
    let path = format!("/v1/messaging/messages/{}", id.as_str().unwrap());
    let is_sent = async || (rig.api.get(&path).await.ok()["status"] == "sent").then_some(());
    eventually("it is sent", is_sent).await;
    let called = rig.fake.newest_to(ada).unwrap().id;
    for number in 0..40 {
        write(&rig, ada, number, json!({})).await;
    }
    rig.server.crash().await;
    let answer = json!({"context": {"id": called}});
    assert_eq!(write(&rig, ada, 40, answer.clone()).await["context"]["message_id"], id);
    let reaction = json!({"type": "reaction", "reaction": {"message_id": called, "emoji": "x"}});
    assert_eq!(write(&rig, ada, 41, reaction).await["content"]["message_id"], id);
    // It was sent to nobody else.
    assert_eq!(write(&rig, other, 1, answer).await["context"], json!({"forwarded": false}));
    // A message of the contact's own is found among the newest.
    let own = json!({"context": {"id": format!("wamid.{ada}.39")}});
    let named = write(&rig, ada, 42, own).await;
    assert!(named["context"]["message_id"].is_string(), "{named}");
    let old = json!({"context": {"id": format!("wamid.{ada}.0")}});
    assert_eq!(write(&rig, ada, 43, old).await["context"], json!({"forwarded": false}));
}

#[tokio::test]
async fn a_message_of_a_broadcast_is_named_and_answered_after_a_crash() {
    let mut rig = rig().await;
    connect(&rig, "206").await;
    let mut made = Vec::new();
    for has_long_ids in [false, true] {
        if has_long_ids {
            rig.fake.give_long_ids();
        }
        let recipients: Vec<_> = (0..600).map(phone).collect();
        let body = json!({"name": "Sale", "template_name": "hello", "recipients": recipients});
        rig.server
            .admin()
            .put("/admin/v1/workspaces/acme/credits", json!({"credits": 1000}))
            .await
            .ok();
        let broadcast = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
        let id = broadcast["broadcast_id"].as_str().unwrap();
        let done = completes(&rig, &format!("/v1/messaging/broadcasts/{id}")).await;
        assert_eq!(done["counts"]["sent"], 600);
        made.push(id.to_owned());
    }
    rig.server.crash().await;
    for (number, of) in [0, 1, 499, 500, 599].into_iter().enumerate() {
        let (ada, number) = (phone(of).trim_start_matches('+').to_owned(), number as u32 * 10);
        let sent: Vec<_> = rig.fake.accepted().into_iter().filter(|it| it.to == ada).collect();
        for (at, broadcast) in made.iter().enumerate() {
            let (called, number) = (&sent[at].id, number + at as u32 * 4);
            assert_eq!(called.starts_with("wamid.fake"), at == 0);
            let list = format!("/v1/messaging/messages?to=%2B{ada}&broadcast_id={broadcast}");
            let id = rig.api.get(&list).await.ok()["data"][0]["message_id"].clone();
            let answer = json!({"context": {"id": called}});
            let written = write(&rig, &ada, number, answer.clone()).await;
            assert_eq!(written["context"]["message_id"], id, "{called}");
            let reaction = json!({"message_id": called, "emoji": "x"});
            let reaction = json!({"type": "reaction", "reaction": reaction});
            assert_eq!(write(&rig, &ada, number + 1, reaction).await["content"]["message_id"], id);
            // It was sent to nobody else.
            let none = json!({"forwarded": false});
            assert_eq!(write(&rig, "15559990001", number + 2, answer).await["context"], none);
            let text = json!({
                "to": format!("+{ada}"), "type": "text", "text": "Yes", "context": {"message_id": id},
            });
            let reply = rig.api.post(SEND, text).await.ok();
            let reply = reply["message_id"].as_str().unwrap();
            let sent = async || (rig.fake.accepted_of(reply) == 1).then_some(());
            eventually("the reply", sent).await;
            let body = rig.fake.newest_to(&ada).unwrap().body;
            assert_eq!(body["context"]["message_id"], called.as_str());
            let text = json!({
                "to": "+15559990001", "type": "text", "text": "Yes", "context": {"message_id": id},
            });
            let refused = rig.api.post(SEND, text).await.check(422, "UNPROCESSABLE");
            assert_eq!(refused["reason"], "unknown_message");
        }
    }
}

#[tokio::test]
async fn a_message_of_a_broadcast_whose_answer_was_lost_is_named_by_its_report() {
    let rig = rig().await;
    let ada = phone(1).trim_start_matches('+').to_owned();
    rig.fake.script(Some(&ada), Scripted::Lost, Some(1));
    let recipients = [phone(0), phone(1), phone(2)];
    let body = json!({"name": "Sale", "template_name": "hello", "recipients": recipients});
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    let made = made["broadcast_id"].as_str().unwrap();
    let done = completes(&rig, &format!("/v1/messaging/broadcasts/{made}")).await;
    assert_eq!((&done["counts"]["sent"], &done["counts"]["unknown"]), (&json!(2), &json!(1)));
    let sent = rig.fake.newest_to(&ada).unwrap();
    let now = postrider_actors::Clock::system().now().as_secs();
    let report = json!({"id": sent.id, "status": "delivered", "timestamp": now.to_string(),
        "recipient_id": ada, "biz_opaque_callback_data": sent.opaque});
    assert_eq!(post(&rig, &callback("106", json!({"statuses": [report]}))).await.status, 200);
    let list = format!("/v1/messaging/messages?to=%2B{ada}&broadcast_id={made}");
    let id = rig.api.get(&list).await.ok()["data"][0]["message_id"].clone();
    let answer = json!({"context": {"id": sent.id}});
    assert_eq!(write(&rig, &ada, 1, answer).await["context"]["message_id"], id);
    let text = json!({
        "to": phone(1), "type": "text", "text": "Yes", "context": {"message_id": id},
    });
    rig.api.post(SEND, text).await.ok();
}
