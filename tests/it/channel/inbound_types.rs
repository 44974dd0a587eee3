//! Every type of message that people send, from a signed callback to the event and the row.

use serde_json::{Value, json};

use crate::channel::callbacks::{post, post_raw};
use crate::channel::cloud_api::{Rig, number};
use crate::channel::hidden_phones::{counts, received};
use crate::fake::callback;
use crate::support::Api;

const DIGITS: &str = "16505551234";

/// What of a message the channel reports, and what is kept of it.
struct Case {
    kind: &'static str,
    /// The object of that type.
    part: Value,
    /// What else the message has.
    more: Value,
    text: &'static str,
    content: Value,
}

fn case(kind: &'static str, part: Value, text: &'static str, content: Value) -> Case {
    Case { kind, part, more: json!({}), text, content }
}

fn files() -> Vec<Case> {
    let file = |more: Value| {
        let mut file =
            json!({"id": "801", "mime_type": "image/png", "url": "https://x.example.com"});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let kept = |more: Value| {
        let mut kept = json!({"mime_type": "image/png"});
        kept.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        kept
    };
    let same = |more: Value| (file(more.clone()), kept(more));
    let (image, image_kept) = same(json!({"caption": "Look"}));
    let (document, document_kept) = same(json!({"filename": "plan.pdf"}));
    let (audio, audio_kept) = same(json!({"voice": true}));
    let (sticker, sticker_kept) = same(json!({"animated": true}));
    vec![
        case("image", image, "Look", image_kept),
        case("video", file(json!({})), "", kept(json!({}))),
        case("audio", audio, "", audio_kept),
        case("document", document, "plan.pdf", document_kept),
        case("sticker", sticker, "", sticker_kept),
    ]
}

fn choices() -> Vec<Case> {
    let reply = |kind: &str, reply: Value| json!({"type": kind, kind: reply});
    let form = |response: &str| {
        reply("nfm_reply", json!({"name": "flow", "body": "Sent", "response_json": response}))
    };
    let of_form = |response: Value| json!({"type": "nfm_reply", "name": "flow", "body": "Sent", "response": response});
    vec![
        case(
            "interactive",
            reply("button_reply", json!({"id": "b1", "title": "Yes"})),
            "Yes",
            json!({"type": "button_reply", "id": "b1", "title": "Yes"}),
        ),
        case(
            "interactive",
            reply("list_reply", json!({"id": "r1", "title": "One", "description": "The first"})),
            "One",
            json!({"type": "list_reply", "id": "r1", "title": "One", "description": "The first"}),
        ),
        case(
            "interactive",
            form(r#"{"day": "Monday", "guests": [1, 2]}"#),
            "Sent",
            of_form(json!({"day": "Monday", "guests": [1, 2]})),
        ),
        case(
            "interactive",
            form(r#"{"day": "\ud83d"}"#),
            "Sent",
            of_form(json!({"day": "\u{fffd}"})),
        ),
        case(
            "interactive",
            reply("poll_reply", json!("A")),
            "",
            json!({"type": "poll_reply", "poll_reply": "A"}),
        ),
        case(
            "button",
            json!({"text": "Stop it", "payload": "p1"}),
            "Stop it",
            json!({"text": "Stop it", "payload": "p1"}),
        ),
    ]
}

fn others() -> Vec<Case> {
    let place = json!({"latitude": 48.85, "longitude": 2.35, "name": "Office", "url": "https://x"});
    let bare = json!({"latitude": 48.85, "longitude": -2});
    let cards = json!([{"name": {"formatted_name": "Ann"}, "phones": [{"phone": "+15550123457"}]},
        {"name": {}, "phones": [{"phone": "+15550123458"}]}]);
    let order = json!({"catalog_id": "7", "text": "Soon please", "product_items":
        [{"product_retailer_id": "sku-1", "quantity": 2, "item_price": 9.5, "currency": "USD"}]});
    let mut silent = order.clone();
    silent.as_object_mut().unwrap().remove("text");
    let errors = json!([{"code": 131_051, "title": "Unsupported message type"}]);
    let unsupported = json!({"type": "unsupported", "errors": errors});
    let mut all = vec![
        case("text", json!({"body": "Hi"}), "Hi", Value::Null),
        case("location", place.clone(), "Office", place),
        case("location", bare.clone(), "48.85, -2", bare),
        case("contacts", cards.clone(), "Ann, +15550123458", json!({"contacts": cards})),
        case("order", order.clone(), "Soon please", order),
        case("order", silent.clone(), "2 × sku-1", silent),
        case("request_welcome", Value::Null, "", Value::Null),
        case("poll", json!({"question": "When?", "id": "1"}), "", json!({"question": "When?"})),
        case("polls", json!(["When?"]), "", json!({"polls": ["When?"]})),
    ];
    all.push(Case {
        more: json!({"errors": errors}),
        ..case(
            "unsupported",
            json!({"type": "unsupported"}),
            "Unsupported message type",
            unsupported,
        )
    });
    let edited = json!({"edited": {"text": "b"}});
    all.push(Case { more: edited.clone(), ..case("edit", Value::Null, "", edited) });
    let new = json!({"type": "text", "text": {"body": "b"}});
    let changed = json!({"original_message_id": "wamid.0", "message": new});
    all.push(case("edit", changed, "", json!({"message": new})));
    let taken_back = json!({"original_message_id": "wamid.0"});
    all.push(case("revoke", taken_back, "", Value::Null));
    all
}

async fn row(api: &Api, event: &Value) -> Value {
    let path = format!(
        "/v1/conversations/{}/messages?limit=50",
        event["conversation_id"].as_str().unwrap()
    );
    let rows = api.get(&path).await.ok();
    let rows = rows["data"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == event["message_id"]).unwrap().clone()
}

/// A key that may read.
async fn reader(rig: &Rig) -> Api {
    rig.server.key("acme", &["contacts:read"], json!({})).await.1
}

#[tokio::test]
async fn each_type_is_kept_whole() {
    let rig = Rig::with(&[], number()).await;
    let api = reader(&rig).await;
    let cases: Vec<_> = files().into_iter().chain(choices()).chain(others()).collect();
    let now = postrider_actors::Clock::system().now().as_secs();
    for (at, case) in cases.iter().enumerate() {
        let mut message = json!({
            "from": DIGITS, "id": format!("wamid.{at}"), "timestamp": now.to_string(),
            "type": case.kind, "context": {"forwarded": true},
            "referral": {"source_type": "ad", "source_id": "7", "ctwa_clid": "c1",
                "source_url": "https://ad.example.com", "body": "Now"},
        });
        message.as_object_mut().unwrap().extend(case.more.as_object().unwrap().clone());
        if !case.part.is_null() {
            message[case.kind] = case.part.clone();
        }
        assert_eq!(post(&rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
        let event = received(&rig).await.pop().unwrap();
        let row = row(&api, &event).await;
        for shown in [&event, &row] {
            let mut content = shown["content"].clone();
            if case.content.get("mime_type").is_some() {
                let media = content.as_object_mut().unwrap().remove("media_id").unwrap();
                assert_eq!(media, shown["media"]["media_id"], "{}", case.kind);
            }
            assert_eq!((&shown["type"], &shown["text"]), (&json!(case.kind), &json!(case.text)));
            assert_eq!(content, case.content, "{}", case.kind);
            assert_eq!(shown["context"]["forwarded"], true);
            assert_eq!(shown["referral"], event["referral"]);
            assert_ne!(shown["content_truncated"], true);
        }
        let names_another = case.part.get("original_message_id").is_some();
        assert_eq!(event["context"]["message_id"].is_string(), names_another, "{}", case.kind);
        assert_eq!(event["referral"]["ctwa_clid"], "c1", "{}", event["referral"]);
        assert_eq!(event["referral"]["source_url"], "https://ad.example.com");
    }
    counts(&rig, "messages", "taken", u32::try_from(cases.len()).unwrap()).await;
    let ignored = rig.api.get("/v1/events?type=channel.ignored").await.ok();
    assert_eq!(ignored["data"], json!([]));
    // Of a person's names and places no word opts out: nobody wrote it.
    let named = json!({"messages": [{"from": DIGITS, "id": "wamid.place", "type": "location",
        "timestamp": now.to_string(), "location": {"name": "STOP", "latitude": 1, "longitude": 2}}]});
    assert_eq!(post(&rig, &callback("106", named)).await.status, 200);
    assert_eq!(api.get("/v1/suppressions").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn what_is_too_long_says_so() {
    let rig = Rig::with(&[], number()).await;
    let api = reader(&rig).await;
    let now = postrider_actors::Clock::system().now().as_secs();
    let long = |chars: usize| "é".repeat(chars);
    for (at, (body, is_whole)) in [(long(5000), true), (long(20_000), false)].iter().enumerate() {
        let message = json!({"from": DIGITS, "id": format!("wamid.{at}"), "type": "text",
            "timestamp": now.to_string(), "text": {"body": body}});
        assert_eq!(post(&rig, &callback("106", json!({"messages": [message]}))).await.status, 200);
        let event = received(&rig).await.pop().unwrap();
        for shown in [&event, &row(&api, &event).await] {
            assert_eq!(shown["text"].as_str().unwrap().chars().count(), 4096);
            let kept = shown["content"]["body"].as_str().unwrap();
            assert!(body.starts_with(kept) && kept.len() > 8192);
            assert_eq!(kept == body, *is_whole);
            assert_eq!(shown["content_truncated"] == true, !is_whole);
            assert!(shown["content"].to_string().len() <= 16 * 1024);
        }
    }
}

#[tokio::test]
async fn half_a_sign_costs_nothing_of_a_callback() {
    let rig = Rig::with(&[], number()).await;
    let api = reader(&rig).await;
    let now = postrider_actors::Clock::system().now().as_secs();
    let message = |id: &str, more: Value| {
        let mut message =
            json!({"from": DIGITS, "id": id, "timestamp": now.to_string(), "type": "text"});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    let body = callback(
        "106",
        json!({
            "contacts": [{"profile": {"name": "Ana HALF"}, "wa_id": DIGITS}],
            "messages": [
                message("wamid.1", json!({"text": {"body": "Hi HALF"}})),
                message("wamid.2", json!({"type": "button", "button": {"text": "aHALF", "payload": "HALFp"}})),
                message("wamid.3", json!({"type": "unsupported", "errors": [{"code": 1, "title": "HALF"}]})),
                message("wamid.4", json!({"text": {"body": "STOP HALF"}})),
            ],
        }),
    );
    for half in [r"\ud83d", r"\uDE00", "\u{1}"] {
        // The last one stands for bytes that are not UTF-8.
        let raw = body.to_string().replace("HALF", half);
        let raw: Vec<u8> =
            raw.into_bytes().into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        assert_eq!(post_raw(&rig, &raw).await.status, 200);
    }
    let events = received(&rig).await;
    let texts: Vec<_> = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Hi \u{fffd}", "a\u{fffd}", "\u{fffd}", "STOP \u{fffd}"]);
    assert_eq!(events[0]["name"], "Ana \u{fffd}");
    assert_eq!(events[1]["content"]["payload"], "\u{fffd}p");
    let out = api.get("/v1/suppressions").await.ok();
    assert_eq!(out["data"][0]["phone"], format!("+{DIGITS}"));
    counts(&rig, "messages", "taken", 4).await;
    counts(&rig, "messages", "repeated", 8).await;
}
