//! The form of each type of message on the channel, and the sources of its ids.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{Scripted, callback};
use crate::messages::send_waiting;
use crate::support::eventually;

const TO: &str = "+16505551234";
const DIGITS: &str = "16505551234";

/// Calls back that the customer wrote a text; returns our id of it.
async fn wrote(rig: &Rig, wamid: &str, seconds: u64) -> String {
    let text = json!({"type": "text", "text": {"body": "Hi"}});
    let received = received(rig, (wamid, seconds), text).await;
    received["message_id"].as_str().unwrap().to_owned()
}

/// Calls back that the customer wrote this; returns the data of the event.
async fn received(rig: &Rig, (wamid, seconds): (&str, u64), mut message: Value) -> Value {
    message["from"] = DIGITS.into();
    message["id"] = wamid.into();
    message["timestamp"] = seconds.to_string().into();
    assert_eq!(post(rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
    let events = rig.api.get("/v1/events?limit=200&type=message.received").await.ok();
    events["data"].as_array().unwrap().last().unwrap()["data"].clone()
}

fn now_seconds() -> u64 {
    postrider_actors::Clock::system().now().as_secs()
}

/// Sends a message; returns what the channel received, without the fields of no interest here.
async fn sent(rig: &Rig, mut body: Value) -> Value {
    body["to"] = TO.into();
    let reply = send_waiting(&rig.api, &body, &[]).await.ok();
    assert_eq!(reply["status"], "sent", "{body}");
    let mut taken = rig.fake.newest_to(DIGITS).unwrap().body;
    assert_eq!(taken["biz_opaque_callback_data"], reply["message_id"]);
    for known in ["messaging_product", "recipient_type", "to", "biz_opaque_callback_data"] {
        assert!(taken.as_object_mut().unwrap().remove(known).is_some());
    }
    taken
}

#[tokio::test]
async fn each_type_has_its_shape() {
    let rig = Rig::with(&[], number()).await;
    wrote(&rig, "wamid.in1", now_seconds()).await;
    let cards = json!([{"name": {"formatted_name": "Ada", "first_name": "Ada"},
        "phones": [{"phone": "+15550123456", "type": "HOME"}], "odd": 1}]);
    let buttons = json!({
        "type": "button", "header": {"type": "text", "text": "Hm"}, "body": {"text": "Shall we?"},
        "footer": {"text": "Today"}, "action": {"buttons": [
            {"type": "reply", "reply": {"id": "yes", "title": "Yes"}},
            {"type": "reply", "reply": {"id": "no", "title": "No"}}]},
    });
    let list = json!({"type": "list", "body": {"text": "Which?"}, "action": {"button": "Show",
        "sections": [{"title": "A", "rows": [{"id": "1", "title": "One", "description": "d"}]},
            {"title": "B", "rows": [{"id": "2", "title": "Two"}]}]}});
    let link = json!({"type": "cta_url", "body": {"text": "Look"}, "action": {"name": "cta_url",
        "parameters": {"display_text": "Go", "url": "https://example.com/?a=1"}}});
    let flow = json!({"type": "flow", "body": {"text": "Fill"}, "action": {"name": "flow",
        "parameters": {"flow_message_version": "3", "flow_id": "1", "flow_cta": "Begin"}}});
    let place = json!({"type": "location_request_message", "body": {"text": "Where?"},
        "action": {"name": "send_location"}});
    let web = |name: &str| format!("https://example.com/{name}");
    for (kind, object) in [
        ("image", json!({"link": web("a.png"), "caption": "A \"plan\""})),
        ("video", json!({"link": web("a.mp4"), "caption": "A film"})),
        ("document", json!({"link": web("a.pdf"), "caption": "A bill", "filename": "bill.pdf"})),
        ("audio", json!({"link": web("a.ogg"), "voice": true})),
        ("sticker", json!({"link": web("a.webp")})),
        ("location", json!({"latitude": 52.52, "longitude": -13.405, "name": "B", "address": "C"})),
        ("contacts", cards),
        ("interactive", buttons),
        ("interactive", list),
        ("interactive", link),
        ("interactive", flow),
        ("interactive", place),
    ] {
        let expected = json!({"type": kind, kind: object.clone()});
        assert_eq!(sent(&rig, json!({"type": kind, kind: object})).await, expected);
    }
    assert_eq!(rig.credits().await, 1000 - 12);
}

#[tokio::test]
async fn ids_of_ours_become_those_of_the_channel() {
    let rig = Rig::with(&[], number()).await;
    let theirs = wrote(&rig, "wamid.in1", now_seconds()).await;
    // The channel's clock may be ahead of ours.
    let ahead = wrote(&rig, "wamid.in2", now_seconds() + 300).await;
    for (id, wamid) in [(&theirs, "wamid.in1"), (&ahead, "wamid.in2")] {
        let body = json!({"type": "text", "text": "Yes", "context": {"message_id": id}});
        let expected = json!({
            "type": "text", "text": {"preview_url": false, "body": "Yes"},
            "context": {"message_id": wamid},
        });
        assert_eq!(sent(&rig, body).await, expected);
        let body = json!({"type": "reaction", "reaction": {"message_id": id, "emoji": "👍"}});
        let reaction = json!({"message_id": wamid, "emoji": "👍"});
        assert_eq!(sent(&rig, body).await, json!({"type": "reaction", "reaction": reaction}));
    }
    // One of our messages, by the id in its answer.
    let text = json!({"to": TO, "type": "text", "text": "One"});
    let one = send_waiting(&rig.api, &text, &[]).await.ok()["message_id"].clone();
    let wamid = rig.fake.newest_to(DIGITS).unwrap().id;
    let body = json!({"type": "reaction", "reaction": {"message_id": one, "emoji": ""}});
    let reaction = json!({"message_id": wamid, "emoji": ""});
    assert_eq!(sent(&rig, body).await, json!({"type": "reaction", "reaction": reaction}));
    // A message whose answer was lost gets its id from the first report on it.
    rig.fake.script(None, Scripted::Lost, Some(1));
    let lost = rig.api.post("/v1/messaging/send", &text).await.ok()["message_id"].clone();
    let path = format!("/v1/messaging/messages/{}", lost.as_str().unwrap());
    let unknown = async || (rig.api.get(&path).await.ok()["status"] == "unknown").then_some(());
    eventually("its answer is lost", unknown).await;
    let body = json!({"to": TO, "type": "text", "text": "x", "context": {"message_id": lost}});
    let refused = rig.api.post("/v1/messaging/send", &body).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "unknown_message");
    let report = json!({"statuses": [{
        "id": "wamid.late", "status": "delivered", "timestamp": "1750857384",
        "recipient_id": DIGITS, "biz_opaque_callback_data": lost,
    }]});
    assert_eq!(post(&rig, &callback("106", report)).await.status, 200);
    let taken = sent(&rig, body).await;
    assert_eq!(taken["context"], json!({"message_id": "wamid.late"}));
}

#[tokio::test]
async fn who_reacts_to_ours_or_answers_it_names_it_by_our_id() {
    let mut rig = Rig::with(&[], number()).await;
    let (_, reader) = rig.server.key("acme", &["contacts:read"], json!({})).await;
    wrote(&rig, "wamid.in1", now_seconds()).await;
    let text = json!({"to": TO, "type": "text", "text": "One"});
    let one = send_waiting(&rig.api, &text, &[]).await.ok()["message_id"].clone();
    let wamid = rig.fake.newest_to(DIGITS).unwrap().id;
    send_waiting(&rig.api, &text, &[]).await.ok();
    let newest = async |of: &Value| {
        let conversation = of["conversation_id"].as_str().unwrap();
        let rows = reader.get(&format!("/v1/conversations/{conversation}/messages")).await.ok();
        assert_eq!(rows["data"][0]["id"], of["message_id"]);
        rows["data"][0].clone()
    };
    for round in 0..2 {
        let reaction = json!({"message_id": wamid, "emoji": "👍"});
        let reaction = json!({"type": "reaction", "reaction": reaction});
        let of = (&*format!("wamid.r{round}"), now_seconds());
        let event = received(&rig, of, reaction).await;
        let content = json!({"message_id": one, "emoji": "👍"});
        assert_eq!((&event["content"], &newest(&event).await["content"]), (&content, &content));
        let answer = json!({
            "type": "text", "text": {"body": "Yes"}, "context": {"from": "15550001", "id": wamid},
        });
        let of = (&*format!("wamid.a{round}"), now_seconds());
        let event = received(&rig, of, answer).await;
        let context = json!({"message_id": one, "forwarded": false});
        assert_eq!((&event["context"], &newest(&event).await["context"]), (&context, &context));
        rig.server.restart().await;
    }
}

#[tokio::test]
async fn an_answer_outlives_a_restart_with_what_it_answers() {
    let mut rig = Rig::with(&[], number()).await;
    let theirs = wrote(&rig, "wamid.in1", now_seconds()).await;
    // The account cannot send, so the message waits.
    rig.fake.script(None, Scripted::Error { status: 401, code: 190 }, None);
    let body = json!({
        "to": TO, "type": "image", "image": {"link": "https://example.com/a.png"},
        "context": {"message_id": theirs},
    });
    let id = rig.api.post("/v1/messaging/send", body).await.ok()["message_id"].clone();
    let tried = async || (!rig.fake.requests().is_empty()).then_some(());
    eventually("it is tried", tried).await;
    rig.server.restart().await;
    rig.fake.heal();
    let path = format!("/v1/messaging/messages/{}", id.as_str().unwrap());
    let is_sent = async || {
        rig.server.advance(61).await;
        (rig.api.get(&path).await.ok()["status"] == "sent").then_some(())
    };
    eventually("it is sent", is_sent).await;
    let taken = rig.fake.newest_to(DIGITS).unwrap().body;
    assert_eq!(taken["context"], json!({"message_id": "wamid.in1"}));
    assert_eq!(taken["image"], json!({"link": "https://example.com/a.png"}));
}

#[tokio::test]
async fn what_was_read_is_reported_once() {
    let rig = Rig::with(&[], number()).await;
    let scopes = ["messaging:send", "contacts:read", "contacts:write"];
    let (_, api) = rig.server.key("acme", &scopes, json!({})).await;
    wrote(&rig, "wamid.in1", now_seconds() - 20).await;
    wrote(&rig, "wamid.in2", now_seconds() - 10).await;
    send_waiting(&rig.api, &json!({"to": TO, "type": "text", "text": "So"}), &[]).await.ok();
    wrote(&rig, "wamid.in3", now_seconds()).await;
    let list = async || api.get("/v1/conversations").await.ok()["data"][0].clone();
    let id = list().await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/conversations/{id}/read");
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_009 }, Some(1));
    api.post(&path, json!({"typing": true})).await.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!((list().await["unread"].clone(), rig.fake.marked_read().len()), (json!(3), 0));
    assert_eq!(api.post(&path, json!({"typing": true})).await.ok(), json!({"read": true}));
    assert_eq!(list().await["unread"], 0);
    assert_eq!(api.post(&path, json!({})).await.ok(), json!({"read": true}));
    let read = json!({
        "messaging_product": "whatsapp", "status": "read", "message_id": "wamid.in3",
    });
    let mut typing = read.clone();
    typing["typing_indicator"] = json!({"type": "text"});
    assert_eq!(rig.fake.marked_read(), [typing, read]);
    // Without a body, nothing is reported to the channel.
    let quietly = api.call("POST", &path, &[], b"").await.ok();
    assert_eq!(quietly, json!({"read": false}));
    assert_eq!(rig.fake.marked_read().len(), 2);
    api.post(&path, json!({"typing": 1})).await.check_field("typing");
    let unknown = "/v1/conversations/cnv_01jd3v0x5n8m7k2q4r6s8t0w2y/read";
    api.post(unknown, json!({})).await.check(404, "NOT_FOUND");
}
