//! Answers and events name the number that a message or a code leaves through.

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig};
use crate::channel::pool::{SEND, completes, connect, hello, phone, rig};
use crate::fake::{callback, sign};
use crate::support::eventually;

/// Returns the row of the message or code in an answer.
async fn row(rig: &Rig, answer: &Value) -> Value {
    let path = match (answer["request_id"].as_str(), answer["message_id"].as_str()) {
        (Some(id), _) => format!("/v1/otp/{id}"),
        (_, id) => format!("/v1/messaging/messages/{}", id.unwrap()),
    };
    rig.api.get(&path).await.ok()
}

#[tokio::test]
async fn the_answer_to_a_send_names_its_number_and_says_the_same_after_a_crash() {
    let mut rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    for of in 0..8 {
        let code = json!({"phone": phone(of), "from": if of < 4 { &first } else { &second }});
        let expected = json!(if of < 4 { &first } else { &second });
        let path = ["/v1/otp/send", "/v1/messaging/otp/send"][of as usize % 2];
        let sent = rig.api.post(path, code).await.ok();
        assert_eq!(sent["number_id"], expected);
        let again = json!({"request_id": sent["request_id"]});
        let path = ["/v1/otp/resend", "/v1/messaging/otp/resend"][of as usize % 2];
        assert_eq!(rig.api.post(path, again).await.ok()["number_id"], expected);
        // The contact keeps the number, and the answer names it though the request does not.
        let sent = rig.api.post("/v1/otp/send", json!({"phone": phone(of)})).await.ok();
        assert_eq!(sent["number_id"], expected);
        let sent = rig.api.post(SEND, hello(&phone(of))).await.ok();
        assert_eq!((&sent["number_id"], &sent["status"]), (&expected, &json!("queued")));
        let body = hello(&phone(of)).to_string();
        let headers = [("Prefer", "wait=20"), ("Content-Type", "application/json")];
        let sent = rig.api.call("POST", SEND, &headers, body.as_bytes()).await.ok();
        assert_eq!((&sent["number_id"], &sent["status"]), (&expected, &json!("sent")));
    }
    let (code, message) = (json!({"phone": phone(20)}).to_string(), hello(&phone(21)).to_string());
    let mut answers = Vec::new();
    for crashed in [false, true] {
        for (path, body) in [("/v1/otp/send", &code), (SEND, &message)] {
            let headers = [("Idempotency-Key", "once"), ("Content-Type", "application/json")];
            let sent = rig.api.call("POST", path, &headers, body.as_bytes()).await.ok();
            assert_eq!(sent["number_id"], row(&rig, &sent).await["number_id"]);
            answers.push(sent);
        }
        if !crashed {
            rig.server.crash().await;
        }
    }
    assert_eq!(answers[..2], answers[2..], "answered again after the crash");
}

#[tokio::test]
async fn what_leaves_through_no_number_names_none() {
    let rig = rig().await;
    let admin = rig.server.admin();
    let path = "/admin/v1/workspaces/acme/sms";
    admin.put(path, json!({"kind": "sandbox"})).await.ok();
    let path = "/admin/v1/workspaces/acme/test-phones";
    admin.put(path, json!({"phones": {"+15550100001": "123456"}})).await.ok();
    for (body, named) in [
        (json!({"phone": "+15550100001"}), Value::Null),
        (json!({"phone": phone(1), "channels": ["sms"]}), Value::Null),
        (json!({"phone": phone(2), "channels": ["sms", "messaging"]}), rig.number["id"].clone()),
        (json!({"phone": phone(3), "mode": "inbound"}), rig.number["id"].clone()),
        (json!({"phone": phone(4), "language": "de"}), rig.number["id"].clone()),
    ] {
        let sent = rig.api.post("/v1/otp/send", &body).await.ok();
        assert!(sent.as_object().unwrap().contains_key("number_id"), "{body}");
        assert_eq!(sent["number_id"], named, "{body}");
        assert_eq!(row(&rig, &sent).await["number_id"], named, "{body}");
    }
}

#[tokio::test]
async fn events_of_a_broadcasts_messages_name_the_number_that_reports_on_them() {
    let rig = rig().await;
    let first = rig.number["id"].as_str().unwrap().to_owned();
    let second = connect(&rig, "206").await;
    let recipients: Vec<_> = (0..40).map(phone).collect();
    let body = json!({"name": "Sale", "template_name": "hello", "recipients": recipients});
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    completes(&rig, &path).await;
    for (number, phone_number_id) in [(&first, "106"), (&second, "206")] {
        let path = format!("/{phone_number_id}/messages");
        let sent = rig.fake.requests().into_iter().filter(|it| it.path.ends_with(&path));
        let sent: Vec<Value> = sent.map(|it| serde_json::from_slice(&it.body).unwrap()).collect();
        let opaque = sent[0]["biz_opaque_callback_data"].clone();
        let report = json!({
            "id": "wamid.any", "status": "delivered", "timestamp": "1750857384",
            "recipient_id": sent[0]["to"], "biz_opaque_callback_data": opaque,
        });
        let body = callback(phone_number_id, json!({"statuses": [report]})).to_string();
        let signature = sign(APP_SECRET, body.as_bytes());
        let headers = [("X-Hub-Signature-256", &*signature), ("Content-Type", "application/json")];
        let path = format!("/channels/cloud-api/{number}");
        rig.server.stranger().call("POST", &path, &headers, body.as_bytes()).await.ok();
        let event = eventually("the event", async || {
            let events = rig.api.get("/v1/events?type=message.delivered").await.ok();
            let all = events["data"].as_array().unwrap().clone();
            all.into_iter().find(|event| event["data"]["number_id"] == number.as_str())
        })
        .await;
        assert_eq!(event["data"]["to"], format!("+{}", sent[0]["to"].as_str().unwrap()));
        assert_eq!(event["data"]["broadcast_id"], made["broadcast_id"]);
    }
}
