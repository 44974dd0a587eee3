//! Pure: the object of a message, and the message that it is about.

use postrider_domain::json::tree;
use serde_json::{Map, Value, json};

use super::{id, media, text_of_message};
use crate::callback::InboundMedia;
use crate::inbound_content::InboundContent;

/// The type of cards, whose part is a list.
const CARDS: &str = "contacts";
/// Fields of a file that are the provider's own, or reported elsewhere.
const OF_THE_PROVIDER: [&str; 3] = ["id", "url", "sha256"];

/// What a message has beside its text.
#[derive(Debug, Clone, Default)]
pub struct MessageObject {
    /// A line that shows a person what it is; empty where its type says all.
    pub text: Box<str>,
    /// Its object, without the provider's ids.
    pub content: Option<InboundContent>,
    /// What the provider calls the message that it is about.
    pub about: Option<Box<str>>,
}

/// Reads the object of a message of that type, in the provider's own form.
#[must_use]
pub fn read_object(kind: &str, mut object: Value) -> MessageObject {
    if kind == CARDS {
        object = object[CARDS].take();
    }
    let message = json!({"type": kind, kind: object});
    MessageObject {
        text: text_of_message(&message).unwrap_or_default(),
        content: of_message(&message),
        about: about(&message),
    }
}

/// The object of a message, without the provider's ids; `None` of a text.
pub(super) fn of_message(message: &Value) -> Option<InboundContent> {
    let kind = message["type"].as_str().filter(|kind| *kind != "text")?;
    let errors = message["errors"].as_array().filter(|errors| !errors.is_empty());
    let part = message.get(kind).filter(|part| !part.is_null()).cloned();
    // Of one that the provider does not pass on there may be nothing but the reason.
    let part = part.or_else(|| errors.map(|_| json!({})))?;
    let mut value = match (kind, part) {
        ("image" | "video" | "audio" | "document" | "sticker", Value::Object(file)) => {
            self::file(without_providers(file), message)
        }
        // Without an emoji it is taken back.
        ("reaction", part) => json!({"emoji": part["emoji"].as_str().unwrap_or_default()}),
        ("interactive", Value::Object(part)) => interactive(part),
        (CARDS, part) => json!({CARDS: part}),
        ("location" | "button" | "order", part) => part,
        (_, Value::Object(part)) => Value::Object(without_providers(part)),
        (_, part) => part,
    };
    if let (Some(errors), Value::Object(fields)) = (errors, &mut value) {
        fields.insert("errors".to_owned(), errors.clone().into());
    }
    match value {
        Value::Object(fields) => Some(InboundContent::new(fields)),
        _ => None,
    }
}

fn without_providers(mut part: Map<String, Value>) -> Map<String, Value> {
    part.retain(|name, _| !OF_THE_PROVIDER.contains(&name.as_str()));
    part
}

/// A file. Its name and its type are those that it is kept by, which are harmless.
fn file(mut file: Map<String, Value>, message: &Value) -> Value {
    if let Some(InboundMedia { mime_type, filename, .. }) = media(message) {
        file.insert("mime_type".to_owned(), (*mime_type).into());
        file.remove("filename");
        file.extend(filename.map(|name| ("filename".to_owned(), (*name).into())));
    }
    Value::Object(file)
}

/// An answer to buttons, a list or a form: what was chosen stands beside its type.
fn interactive(mut part: Map<String, Value>) -> Value {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Object(mut reply)) = part.remove(&kind) else { return Value::Object(part) };
    if let Some(Value::String(text)) = reply.get("response_json")
        && let Some(response) = tree(text)
    {
        reply.remove("response_json");
        reply.insert("response".to_owned(), response);
    }
    reply.insert("type".to_owned(), kind.into());
    Value::Object(reply)
}

/// What the provider calls the message that one answers, or that it is a reaction to.
pub(super) fn about(message: &Value) -> Option<Box<str>> {
    match message["type"].as_str() {
        Some("reaction") => id(&message["reaction"]["message_id"]),
        _ => id(&message["context"]["id"]),
    }
}

/// Whether a message was written to somebody else before.
pub(super) fn is_forwarded(message: &Value) -> bool {
    let context = &message["context"];
    ["forwarded", "frequently_forwarded"].iter().any(|flag| context[flag] == true)
}
