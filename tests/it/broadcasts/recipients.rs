//! The channel's answers and reports about recipients.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::channel::hidden_phones;
use crate::fake::{Scripted, callback};
use crate::support::{Api, eventually, millis};

/// Returns a client for the list of opt-outs.
async fn reader(rig: &Rig) -> Api {
    rig.server.key("acme", &["contacts:read", "contacts:write"], json!({})).await.1
}

async fn suppressed(reader: &Api) -> Vec<Value> {
    let page = reader.get("/v1/suppressions").await.ok();
    page["data"].as_array().unwrap().iter().map(|row| row["phone"].clone()).collect()
}

async fn broadcast(rig: &Rig, phones: &[&str]) -> Value {
    let sale = json!({
        "name": "sale", "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", sale).await.ok();
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": phones});
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    eventually("completed", async || {
        let found = rig.api.get(&path).await.ok();
        (found["status"] == "completed").then_some(found)
    })
    .await
}

#[tokio::test]
async fn who_stopped_marketing_is_suppressed_by_a_broadcasts_answer() {
    let rig = Rig::new().await;
    let reader = reader(&rig).await;
    rig.fake.script(Some("15550000001"), Scripted::Error { status: 400, code: 131_050 }, None);
    let done = broadcast(&rig, &["+15550000000", "+15550000001", "+15550000002"]).await;
    assert_eq!((&done["counts"]["sent"], &done["counts"]["failed"]), (&json!(2), &json!(1)));
    let phones = eventually("the suppression", async || {
        Some(suppressed(&reader).await).filter(|phones| !phones.is_empty())
    });
    assert_eq!(phones.await, ["+15550000001"]);
}

#[tokio::test]
async fn who_stopped_marketing_is_suppressed_by_a_broadcasts_report_once() {
    let rig = Rig::new().await;
    let reader = reader(&rig).await;
    broadcast(&rig, &["+15550000000", "+15550000001"]).await;
    let sent = rig.fake.accepted();
    let message = sent.iter().find(|it| it.to == "15550000001").unwrap();
    let report = callback(
        "106",
        json!({"statuses": [{
            "id": message.id, "status": "failed", "timestamp": "1750857384",
            "recipient_id": message.to, "biz_opaque_callback_data": message.opaque,
            "errors": [{"code": 131_050, "title": "stopped"}],
        }]}),
    );
    assert_eq!(post(&rig, &report).await.status, 200);
    assert_eq!(suppressed(&reader).await, ["+15550000001"]);
    let row = "/v1/suppressions/+15550000001";
    assert_eq!(reader.delete(row).await.status, 204);
    assert_eq!(post(&rig, &report).await.status, 200);
    assert_eq!(suppressed(&reader).await, [] as [Value; 0], "it says nothing new");
}

#[tokio::test]
async fn a_phone_that_a_contact_gets_has_opted_out_as_its_id_has() {
    let rig = Rig::new().await;
    let api = hidden_phones::reader(&rig).await;
    let at = hidden_phones::seconds(&rig).await;
    let [by_id, ..] = hidden_phones::phoneless();
    let stop = hidden_phones::wrote(&by_id, "wamid.a", "STOP", at);
    assert_eq!(post(&rig, &stop).await.status, 200);
    let contact = hidden_phones::received(&rig).await[0]["contact_id"].clone();
    let path = format!("/v1/contacts/{}", contact.as_str().unwrap());
    for phone in ["+15550000001", "+15550000002"] {
        let change = json!({"name": "Sheena", "phone": phone});
        api.send_json("PATCH", &path, &change).await.ok();
        assert!(suppressed(&api).await.contains(&json!(phone)), "{phone}");
    }
    let emitted = rig.api.get("/v1/events?type=contact.opted_out").await.ok();
    assert_eq!(emitted["data"].as_array().unwrap().len(), 3);
    broadcast(&rig, &["+15550000000", "+15550000001", "+15550000002"]).await;
    assert_eq!(rig.fake.accepted_to("15550000000"), 1);
    assert_eq!(rig.fake.accepted_to("15550000001") + rig.fake.accepted_to("15550000002"), 0);
}

#[tokio::test]
async fn who_is_called_otherwise_in_an_answer_is_known_when_they_write() {
    let rig = Rig::new().await;
    let reader = reader(&rig).await;
    let (phone, digits, known_as) = ("+2290197123456", "2290197123456", "22997123456");
    rig.fake.call_recipient(digits, known_as);
    let id = rig.send(phone).await;
    rig.becomes(&id, "sent").await;
    let count = std::cell::Cell::new(0);
    // The phone of the answer is recorded beside its recipient.
    let known = async || {
        count.set(count.get() + 1);
        let message = json!({
            "from": known_as, "id": format!("wamid.{}", count.get()), "timestamp": "1750857384",
            "type": "text", "text": {"body": "STOP"},
        });
        let written = callback("106", json!({"messages": [message]}));
        assert_eq!(post(&rig, &written).await.status, 200);
        let phones = suppressed(&reader).await;
        phones.contains(&json!(phone)).then_some(phones)
    };
    eventually("the opt-out of the phone", known).await;
}

#[tokio::test]
async fn a_number_that_is_connected_anew_keeps_what_was_written_to_it() {
    let mut rig = Rig::new().await;
    let reader = reader(&rig).await;
    let text = json!({"to": "+16505551234", "type": "text", "text": "Hello"});
    let now = rig.server.demo().get("/v1/sandbox/clock").await.ok()["now"].clone();
    let seconds = (millis(now.as_str().unwrap()) / 1000).to_string();
    let written = callback(
        "106",
        json!({"messages": [{
            "from": "16505551234", "id": "wamid.in", "timestamp": seconds, "type": "text",
            "text": {"body": "Hi"},
        }]}),
    );
    assert_eq!(post(&rig, &written).await.status, 200);
    rig.api.post("/v1/messaging/send", &text).await.ok();
    let admin = rig.server.admin();
    let numbers = "/admin/v1/workspaces/acme/numbers";
    let old = format!("{numbers}/{}", rig.number["id"].as_str().unwrap());
    assert_eq!(admin.delete(&old).await.status, 204);
    let mut another = number();
    another["phone_number_id"] = json!("777");
    for (new, status) in [(another, 422), (number(), 200)] {
        rig.number = admin.post(numbers, new).await.ok();
        assert_eq!(rig.api.post("/v1/messaging/send", &text).await.status, status);
        if status == 422 {
            let path = format!("{numbers}/{}", rig.number["id"].as_str().unwrap());
            assert_eq!(admin.delete(&path).await.status, 204);
        }
    }
    assert_eq!(post(&rig, &written).await.status, 200);
    let received = rig.api.get("/v1/events?type=message.received").await.ok();
    assert_eq!(received["data"].as_array().unwrap().len(), 1, "it is known already");
    assert_eq!(reader.get("/v1/conversations").await.ok()["total"], 1);
}
