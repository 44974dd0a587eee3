//! Messages that are neither text nor template, in the sandbox.

use serde_json::{Value, json};

use crate::messages::{send_waiting, write};
use crate::otp::PHONE;
use crate::support::{Api, TestServer};

const SEND: &str = "/v1/messaging/send";
const LINK: &str = "https://example.com/a";

fn message(kind: &str, object: Value) -> Value {
    json!({"to": PHONE, "type": kind, kind: object})
}

/// Returns an interactive message of this type, with this action.
fn interactive(kind: &str, action: Value) -> Value {
    let body = json!({"text": "Which?"});
    message("interactive", json!({"type": kind, "body": body, "action": action}))
}

/// Sends a message, and returns its type and text in the sandbox.
async fn shown(api: &Api, body: &Value) -> (String, String) {
    let sent = send_waiting(api, body, &[]).await.ok();
    assert_eq!(sent["status"], "sent");
    let messages = api.get("/v1/sandbox/messages?limit=1").await.ok();
    let row = &messages["data"][0];
    assert_eq!(row["message_id"], sent["message_id"]);
    let text = |field: &str| row[field].as_str().unwrap().to_owned();
    (text("kind"), text("text"))
}

#[tokio::test]
async fn the_sandbox_shows_a_line_of_each() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    write(&api, PHONE).await;
    let theirs = api.get("/v1/events?type=message.received").await.ok();
    let theirs = theirs["data"][0]["data"]["message_id"].clone();
    let cards = json!([{"name": {"formatted_name": "Ada"}}, {"name": {"formatted_name": "Bo"}}]);
    for (body, line) in [
        (message("image", json!({"link": LINK, "caption": "The plan"})), "The plan"),
        (message("video", json!({"link": LINK})), "[video]"),
        (message("document", json!({"link": LINK, "filename": "a.pdf"})), "a.pdf"),
        (message("audio", json!({"link": LINK})), "[audio]"),
        (message("sticker", json!({"link": LINK})), "[sticker]"),
        (message("location", json!({"latitude": 1.5, "longitude": -2.0})), "1.5, -2"),
        (message("location", json!({"latitude": 1, "longitude": 2, "name": "Here"})), "Here"),
        (message("contacts", cards), "Ada, Bo"),
        (message("reaction", json!({"message_id": theirs, "emoji": "👍"})), "👍"),
        (message("reaction", json!({"message_id": theirs, "emoji": ""})), "[reaction]"),
        (interactive("location_request_message", json!({"name": "send_location"})), "Which?"),
    ] {
        let kind = body["type"].as_str().unwrap().to_owned();
        assert_eq!(shown(&api, &body).await, (kind, line.to_owned()));
    }
    let row = api.get("/v1/messaging/messages?limit=1&type=interactive").await.ok();
    assert_eq!(
        (&row["data"][0]["type"], &row["data"][0]["price"]),
        (&json!("interactive"), &json!(1))
    );
    let emitted = api.get("/v1/events?limit=200&type=message.sent").await.ok();
    assert_eq!(emitted["data"][0]["data"]["type"], "image");
}

#[tokio::test]
async fn they_need_an_open_window_and_a_message_of_the_conversation() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let place = message("location", json!({"latitude": 1, "longitude": 2}));
    let refused = api.post(SEND, &place).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "conversation_window_closed");
    write(&api, PHONE).await;
    write(&api, "+15550123499").await;
    let events = api.get("/v1/events?type=message.received").await.ok();
    let id = |index: usize| events["data"][index]["data"]["message_id"].clone();
    let (own, of_another) = (id(0), id(1));
    let nobody = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y";
    let mut answer = place.clone();
    for unknown in [of_another.clone(), nobody.into()] {
        answer["context"] = json!({"message_id": unknown});
        let refused = api.post(SEND, &answer).await.check(422, "UNPROCESSABLE");
        assert_eq!(refused["reason"], "unknown_message");
        let reaction = message("reaction", json!({"message_id": unknown, "emoji": "a"}));
        let refused = api.post(SEND, &reaction).await.check(422, "UNPROCESSABLE");
        assert_eq!(refused["reason"], "unknown_message");
    }
    answer["context"] = json!({"message_id": own});
    let sent = send_waiting(&api, &answer, &[]).await.ok();
    // In the conversation the same holds, and a message of ours can be answered too.
    let list = api.get("/v1/conversations").await.ok();
    let named = |row: &&Value| row["contact"]["phone"] == PHONE;
    let found = list["data"].as_array().unwrap().iter().find(named).unwrap()["id"].clone();
    let path = format!("/v1/conversations/{}/messages", found.as_str().unwrap());
    let reply = |id: &Value| json!({"type": "text", "text": "So", "context": {"message_id": id}});
    for (id, status) in [(&own, 200), (&sent["message_id"], 200), (&of_another, 422)] {
        assert_eq!(api.post(&path, reply(id)).await.status, status);
    }
    let rows = api.get(&path).await.ok();
    let rows = rows["data"].as_array().unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "text", "location", "text"]);
    assert_eq!(rows[2]["text"], "1, 2");
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let long = |chars: usize| "x".repeat(chars);
    let mut context = message("location", json!({"latitude": 1, "longitude": 2}));
    context["context"] = json!({"message_id": "wamid.1"});
    let mut reaction =
        message("reaction", json!({"message_id": "msg_01jd3v0x5n8m7k2q4r6s8t0w2y", "emoji": ""}));
    reaction["context"] = json!({"message_id": "msg_01jd3v0x5n8m7k2q4r6s8t0w2y"});
    for (body, field) in [
        (json!({"to": PHONE, "type": "poll"}), "type"),
        (json!({"to": PHONE, "type": "image"}), "image"),
        (json!({"to": PHONE, "type": "image", "image": []}), "image"),
        (message("image", json!({})), "image.media_id"),
        (message("image", json!({"media_id": "med_1"})), "image.media_id"),
        (
            message("image", json!({"media_id": "med_01jd3v0x5n8m7k2q4r6s8t0w2y", "link": LINK})),
            "image.media_id",
        ),
        (message("image", json!({"link": "file:///etc/passwd"})), "image.link"),
        (message("image", json!({"link": "/a.png"})), "image.link"),
        (message("image", json!({"link": LINK, "caption": long(1025)})), "image.caption"),
        (message("image", json!({"link": LINK, "filename": "a"})), "image.filename"),
        (message("audio", json!({"link": LINK, "caption": "a"})), "audio.caption"),
        (message("sticker", json!({"link": LINK, "caption": "a"})), "sticker.caption"),
        (message("video", json!({"link": LINK, "voice": true})), "video.voice"),
        (message("document", json!({"link": LINK, "filename": "a/b"})), "document.filename"),
        (message("location", json!({"longitude": 2})), "location"),
        (message("location", json!({"latitude": 90.1, "longitude": 2})), "location.latitude"),
        (message("location", json!({"latitude": 1, "longitude": -181})), "location.longitude"),
        (message("contacts", json!([])), "contacts"),
        (message("contacts", json!([{"name": {}}])), "contacts[0].name.formatted_name"),
        (message("reaction", json!({"message_id": "1", "emoji": ""})), "reaction.message_id"),
        (reaction, "context"),
        (context, "context.message_id"),
    ] {
        api.post(SEND, body).await.check_field(field);
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_interactive_message_is_named() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let long = |chars: usize| "x".repeat(chars);
    let button =
        |id: &str, title: &str| json!({"type": "reply", "reply": {"id": id, "title": title}});
    let rows = |count: usize| {
        let row = |at: usize| json!({"id": at.to_string(), "title": "t"});
        (0..count).map(row).collect::<Vec<_>>()
    };
    let list = |sections: Value| interactive("list", json!({"button": "b", "sections": sections}));
    let mut body_missing = interactive("flow", json!({"name": "flow"}));
    body_missing["interactive"]["body"] = Value::Null;
    let mut footer = interactive("flow", json!({"name": "flow"}));
    footer["interactive"]["footer"] = json!({"text": long(61)});
    let link = |url: &str| {
        let parameters = json!({"display_text": "Go", "url": url});
        interactive("cta_url", json!({"name": "cta_url", "parameters": parameters}))
    };
    for (body, field) in [
        (interactive("carousel", json!({})), "interactive.type"),
        (body_missing, "interactive.body.text"),
        (footer, "interactive.footer.text"),
        (interactive("button", json!({"buttons": []})), "interactive.action.buttons"),
        (
            interactive("button", json!({"buttons": vec![button("1", "a"); 4]})),
            "interactive.action.buttons",
        ),
        (
            interactive("button", json!({"buttons": [button("1", &long(21))]})),
            "interactive.action.buttons[0].reply.title",
        ),
        (
            interactive("button", json!({"buttons": [button(&long(257), "a")]})),
            "interactive.action.buttons[0].reply.id",
        ),
        (list(json!([])), "interactive.action.sections"),
        (list(json!([{"rows": rows(11)}])), "interactive.action.sections[0].rows"),
        (
            list(json!([{"rows": rows(1)}, {"rows": rows(1)}])),
            "interactive.action.sections[0].title",
        ),
        (
            list(json!([{"title": "a", "rows": rows(6)}, {"title": "b", "rows": rows(5)}])),
            "interactive.action.sections",
        ),
        (interactive("list", json!({"button": long(21)})), "interactive.action.button"),
        (link("javascript:alert(1)"), "interactive.action.parameters.url"),
        (interactive("flow", json!({"name": "x"})), "interactive.action.name"),
    ] {
        api.post(SEND, body).await.check_field(field);
    }
}
