//! What messages bring beside text: in events, in conversations, and how much of it.

use serde_json::{Value, json};

use crate::otp::PHONE;
use crate::support::{Api, TestServer};

const INBOUND: &str = "/v1/sandbox/inbound";

/// The event and the row of a message that somebody writes.
async fn written(api: &Api, mut body: Value) -> (Value, Value) {
    body["from"] = json!(PHONE);
    let id = api.post(INBOUND, &body).await.ok()["message_id"].clone();
    let events = api.get("/v1/events?limit=200&type=message.received").await.ok();
    let emitted = events["data"].as_array().unwrap().last().unwrap()["data"].clone();
    let path =
        format!("/v1/conversations/{}/messages", emitted["conversation_id"].as_str().unwrap());
    let row = api.get(&path).await.ok()["data"][0].clone();
    assert_eq!((&emitted["message_id"], &row["id"]), (&id, &id));
    (emitted, row)
}

#[tokio::test]
async fn what_a_message_brings_is_reported_and_kept() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (emitted, row) = written(&api, json!({"text": "Hi"})).await;
    assert!(["content", "content_truncated", "context"].iter().all(|it| emitted.get(it).is_none()));
    assert_eq!((&row["content"], &row["content_truncated"]), (&Value::Null, &json!(false)));
    let card = json!({"name": {"formatted_name": "Ann"}, "phones": [{"phone": "+15550123457"}]});
    let choice = json!({"id": "b1", "title": "Yes"});
    let form = json!({"name": "flow", "body": "Sent", "response_json": r#"{"day": "Monday"}"#});
    for (kind, given, text, content) in [
        (
            "location",
            json!({"latitude": 62.467132758514836, "longitude": 2.35, "name": "Office"}),
            "Office",
            json!({"latitude": 62.467132758514836, "longitude": 2.35, "name": "Office"}),
        ),
        ("contacts", json!({"contacts": [card]}), "Ann", json!({"contacts": [card]})),
        (
            "button",
            json!({"text": "Stop it", "payload": "p"}),
            "Stop it",
            json!({"text": "Stop it", "payload": "p"}),
        ),
        (
            "interactive",
            json!({"type": "button_reply", "button_reply": choice}),
            "Yes",
            json!({"type": "button_reply", "id": "b1", "title": "Yes"}),
        ),
        (
            "interactive",
            json!({"type": "nfm_reply", "nfm_reply": form}),
            "Sent",
            json!({"type": "nfm_reply", "name": "flow", "body": "Sent",
                   "response": {"day": "Monday"}}),
        ),
        ("request_welcome", json!({}), "", Value::Null),
        (
            "unsupported",
            json!({"errors": [{"code": 131_051}]}),
            "",
            json!({"errors": [{"code": 131_051}]}),
        ),
        ("poll", json!({"title": "When?"}), "When?", json!({"title": "When?"})),
        ("order", json!({"catalog_id": "7"}), "", json!({"catalog_id": "7"})),
    ] {
        let (emitted, row) = written(&api, json!({"type": kind, "content": given})).await;
        for shown in [&emitted, &row] {
            assert_eq!(shown["type"], kind);
            let found = (&shown["content"], &shown["text"]);
            assert_eq!(found, (&content, &json!(text)), "{kind}");
        }
    }
    server.crash().await;
    let rows = api.get("/v1/conversations").await.ok();
    let path = format!("/v1/conversations/{}/messages", rows["data"][0]["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["data"][0]["content"], json!({"catalog_id": "7"}));
}

#[tokio::test]
async fn a_name_that_cannot_be_read_again_poisons_no_conversation() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (first, _) = written(&api, json!({"text": "Hi"})).await;
    let hostile = r#"{"a": 1, "$serde_json::private::RawValue": "1"}"#;
    let form = json!({"type": "nfm_reply", "nfm_reply": {"response_json": hostile}});
    let body = json!({"from": PHONE, "type": "interactive", "content": form});
    api.post(INBOUND, &body).await.check_field("content");
    let answer = json!({"text": "yes", "context": {"message_id": first["message_id"]}});
    let (emitted, _) = written(&api, answer).await;
    assert_eq!(emitted["context"]["message_id"], first["message_id"]);
}

#[tokio::test]
async fn a_reaction_and_an_answer_name_a_message_of_the_conversation() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (theirs, _) = written(&api, json!({"text": "Hi"})).await;
    let answer = json!({"to": PHONE, "type": "text", "text": "Hello"});
    let ours = api.post("/v1/messaging/send", &answer).await.ok()["message_id"].clone();
    for named in [&theirs["message_id"], &ours] {
        let content = json!({"message_id": named, "emoji": "👍"});
        let (emitted, row) = written(&api, json!({"type": "reaction", "content": content})).await;
        assert_eq!((&emitted["content"], &row["content"]), (&content, &content));
        assert_eq!((&emitted["text"], emitted.get("context")), (&json!("👍"), None));
        let body = json!({"text": "yes", "context": {"message_id": named}});
        let (emitted, row) = written(&api, body).await;
        let context = json!({"message_id": named, "forwarded": false});
        assert_eq!((&emitted["context"], &row["context"]), (&context, &context));
    }
    let none = json!("msg_01jd3v0x5n8m7k2q4r6s8t0w2y");
    let content = json!({"message_id": none});
    let (emitted, _) = written(&api, json!({"type": "reaction", "content": content})).await;
    assert_eq!(emitted["content"], json!({"message_id": null, "emoji": ""}));
    let (emitted, row) =
        written(&api, json!({"text": "yes", "context": {"message_id": none}})).await;
    assert_eq!(emitted["context"], json!({"forwarded": false}));
    assert_eq!(row["context"], json!({"message_id": null, "forwarded": false}));
}

#[tokio::test]
async fn the_sandbox_writes_what_the_channel_reports_besides() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let ad = json!({"source_type": "ad", "source_id": "7", "headline": "Sale", "body": "Now",
        "source_url": "https://ad.example.com", "ctwa_clid": "c1"});
    let body = json!({"text": "Hi", "referral": ad, "context": {"forwarded": true}});
    let (emitted, row) = written(&api, body).await;
    assert_eq!((&emitted["referral"], &row["referral"]), (&ad, &ad));
    assert_eq!(emitted["context"], json!({"forwarded": true}));
    // A notice is nobody's message, and the person has the new number then.
    let notice = |content: Value| json!({"from": PHONE, "type": "system", "content": content});
    let new = "+15550123459";
    let changed = json!({"type": "user_changed_number", "wa_id": &new[1..]});
    let messages = async || api.get("/v1/events?type=message.received").await.ok()["data"].clone();
    let before = messages().await;
    api.post(INBOUND, notice(changed)).await.ok();
    assert_eq!(messages().await, before);
    let contact = api.get("/v1/contacts").await.ok()["data"][0].clone();
    assert_eq!(contact["phone"], new);
    for refused in [json!({}), json!({"type": "user_changed_number"}), json!({"type": "x"})] {
        api.post(INBOUND, notice(refused)).await.check_field("content");
    }
}

#[tokio::test]
async fn only_what_a_person_writes_or_chooses_is_a_code() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let asked = api.post("/v1/otp/send", json!({"phone": PHONE, "mode": "inbound"})).await.ok();
    let code = &asked["code"];
    let card = json!({"name": {"formatted_name": code}});
    for (kind, given) in [
        ("location", json!({"latitude": 62.5, "longitude": 2.5, "name": code})),
        ("contacts", json!({"contacts": [card]})),
    ] {
        written(&api, json!({"type": kind, "content": given})).await;
    }
    let path = format!("/v1/otp/{}", asked["request_id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["status"], "active");
    let chosen = json!({"text": code, "payload": "p"});
    written(&api, json!({"type": "button", "content": chosen})).await;
    assert_eq!(api.get(&path).await.ok()["status"], "verified");
}
