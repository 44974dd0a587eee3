//! Tests of the objects of messages.

use serde_json::{Value, json};

use super::messages;

#[test]
fn the_object_of_a_message_is_parsed_without_the_providers_ids() {
    let read = |kind: &str, part: Value| {
        let message = json!({
            "from": "16505551234", "id": "wamid.i", "timestamp": "1", "type": kind, kind: part,
            "context": {"id": "wamid.q", "forwarded": true},
        });
        let inbound = messages(json!({"messages": [message]})).inbound.pop().unwrap();
        let content = inbound.content.map(|content| Value::Object(content.fields().clone()));
        (content, inbound.about, inbound.forwarded)
    };
    let context = |content: Value| (Some(content), Some("wamid.q".into()), true);
    let place = json!({"latitude": 48.85, "longitude": 2.35, "name": "Office"});
    assert_eq!(read("location", place.clone()), context(place));
    let cards = json!([{"name": {"formatted_name": "Ann"}}]);
    assert_eq!(read("contacts", cards.clone()), context(json!({"contacts": cards})));
    let button = json!({"text": "Yes", "payload": "y"});
    assert_eq!(read("button", button.clone()), context(button));
    let list = json!({"id": "1", "title": "One", "description": "d"});
    let reply = json!({"type": "list_reply", "list_reply": list});
    let mut chosen = list;
    chosen["type"] = json!("list_reply");
    assert_eq!(read("interactive", reply), context(chosen));
    for (json, response) in [(r#"{"a": 1}"#, Some(json!({"a": 1}))), ("{", None)] {
        let form = json!({"name": "flow", "body": "Sent", "response_json": json});
        let reply = json!({"type": "nfm_reply", "nfm_reply": form});
        let (content, ..) = read("interactive", reply);
        assert_eq!(content.unwrap().get("response"), response.as_ref());
    }
    let file = json!({"id": "1", "sha256": "x", "url": "https://x", "caption": "Look"});
    let kept = json!({"caption": "Look", "mime_type": "application/octet-stream"});
    assert_eq!(read("image", file), context(kept));
    let file = json!({"id": "1", "filename": "a\u{202e}\0b", "mime_type": "text/html; x=\u{1}"});
    let content = read("document", file).0.unwrap();
    for field in ["filename", "mime_type"] {
        let shown = content[field].as_str().unwrap();
        assert!(!shown.contains(['\u{202e}', '\0', '\u{1}']), "{shown:?}");
    }
    let edit = json!({"id": "wamid.1", "url": "https://x", "text": "b"});
    assert_eq!(read("edit", edit), context(json!({"text": "b"})));
    for (emoji, shown) in [(json!("👍"), "👍"), (Value::Null, "")] {
        let reaction = json!({"message_id": "wamid.r", "emoji": emoji});
        let expected = (Some(json!({"emoji": shown})), Some("wamid.r".into()), true);
        assert_eq!(read("reaction", reaction), expected);
    }
    assert_eq!(read("text", json!({"body": "Hi"})), (None, Some("wamid.q".into()), true));
    assert_eq!(read("new_type", json!("odd")).0, Some(json!({"new_type": "odd"})));
    assert_eq!(read("text", json!("Hi")).0, Some(json!({"text": "Hi"})));
    assert_eq!(read("id", json!("wamid.i")).0, None);
}
