//! Pure: the object of a message, and the message to which it refers.

use postrider_domain::json::given;
use serde_json::{Map, Value, json};

use super::{id, line, media};
use crate::callback::{InboundMedia, TEXT_CHARS_MAX};
use crate::inbound_content::InboundContent;

/// The type of contact cards, whose part is a list.
const CARDS: &str = "contacts";
/// Fields of a file that are the provider's own, or reported elsewhere.
const OF_THE_PROVIDER: [&str; 4] = ["id", "url", "sha256", CHANGED];
/// The field of an edit or a deletion that names the message.
const CHANGED: &str = "original_message_id";
/// What messages of each type have: who wrote them, when, and what they are about.
const OF_EVERY_MESSAGE: [&str; 9] = [
    "id",
    "from",
    "from_user_id",
    "from_parent_user_id",
    "timestamp",
    "type",
    "context",
    "referral",
    "errors",
];

/// The content of a message beside its text.
#[derive(Debug, Clone, Default)]
pub struct MessageObject {
    /// The words, such as the title of a choice; empty if there are none.
    pub text: Box<str>,
    /// The line that describes a message without words; empty if its type is description enough.
    pub line: Box<str>,
    /// The object of the message, without the provider's ids.
    pub content: Option<InboundContent>,
    /// The provider's id of the message to which it refers.
    pub about: Option<Box<str>>,
}

/// Parses the object of a message of that type, in the provider's own form.
#[must_use]
pub fn read_object(kind: &str, mut object: Value) -> MessageObject {
    if kind == CARDS {
        object = object[CARDS].take();
    }
    let message = json!({"type": kind, kind: object});
    MessageObject {
        text: line::words(&message).unwrap_or_default(),
        line: line::line(&message).unwrap_or_default(),
        content: of_message(&message),
        about: about(&message),
    }
}

/// Returns the object of a message, without the provider's ids; `None` if it has nothing else.
///
/// A text has one if it is too long for its words to be whole.
pub(super) fn of_message(message: &Value) -> Option<InboundContent> {
    let kind = message["type"].as_str()?;
    let errors = message["errors"].as_array().filter(|errors| !errors.is_empty());
    let part = message.get(kind).filter(|part| !part.is_null());
    let part = part.filter(|_| !OF_EVERY_MESSAGE.contains(&kind)).cloned();
    let mut fields = match (kind, part) {
        ("text", Some(text)) if is_whole(&text["body"]) => Map::new(),
        ("image" | "video" | "audio" | "document" | "sticker", Some(Value::Object(file))) => {
            self::file(without_providers(file), message)
        }
        // A reaction without an emoji is taken back.
        ("reaction", Some(Value::Object(part))) => {
            let emoji = part.get("emoji").filter(|emoji| emoji.is_string());
            let emoji = emoji.cloned().unwrap_or_else(|| "".into());
            Map::from_iter([("emoji".to_owned(), emoji)])
        }
        ("interactive", Some(Value::Object(part))) => interactive(part),
        ("location" | "button" | "order" | "text", Some(Value::Object(part))) => part,
        (_, Some(Value::Object(part))) => without_providers(part),
        // The part is a list, such as that of cards, or has an undocumented form.
        (_, Some(part)) => Map::from_iter([(kind.to_owned(), part)]),
        (_, None) => beside(message),
    };
    if let Some(errors) = errors {
        // A message that the provider does not pass on may have nothing but the reason.
        fields.insert("errors".to_owned(), errors.clone().into());
    }
    (!fields.is_empty()).then(|| InboundContent::new(fields))
}

/// Returns whether a text is short enough to be stored whole.
fn is_whole(body: &Value) -> bool {
    body.as_str().is_some_and(|body| body.chars().nth(TEXT_CHARS_MAX).is_none())
}

/// Returns the own fields of a message whose type has no part of that name.
fn beside(message: &Value) -> Map<String, Value> {
    let mut fields = message.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !OF_EVERY_MESSAGE.contains(&name.as_str()));
    without_providers(fields)
}

fn without_providers(mut part: Map<String, Value>) -> Map<String, Value> {
    part.retain(|name, _| !OF_THE_PROVIDER.contains(&name.as_str()));
    part
}

/// Returns the fields of a file, with its stored name and type, which are harmless.
fn file(mut file: Map<String, Value>, message: &Value) -> Map<String, Value> {
    if let Some(InboundMedia { mime_type, filename, .. }) = media(message) {
        file.insert("mime_type".to_owned(), (*mime_type).into());
        file.remove("filename");
        file.extend(filename.map(|name| ("filename".to_owned(), (*name).into())));
    }
    file
}

/// Returns an answer to buttons, a list or a form: the choice is beside its type.
fn interactive(mut part: Map<String, Value>) -> Map<String, Value> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut reply = match part.remove(&kind) {
        Some(Value::Object(reply)) => reply,
        other => {
            part.extend(other.map(|reply| (kind, reply)));
            return part;
        }
    };
    let response = match reply.get_mut("response_json") {
        Some(Value::String(text)) => given(text),
        Some(response) => Some(response.take()),
        None => None,
    };
    if let Some(response) = response {
        reply.remove("response_json");
        reply.insert("response".to_owned(), response);
    }
    part.extend(reply);
    // A field of the reply may have this name too.
    part.insert("type".to_owned(), kind.into());
    part
}

/// The provider's id of the message that one answers, reacts to, edits or deletes.
pub(super) fn about(message: &Value) -> Option<Box<str>> {
    let kind = message["type"].as_str().unwrap_or_default();
    match (kind, &message[kind][CHANGED]) {
        ("reaction", _) => id(&message["reaction"]["message_id"]),
        (_, Value::Null) => id(&message["context"]["id"]),
        (_, changed) => id(changed),
    }
}

/// Returns whether a message was written to somebody else before.
pub(super) fn is_forwarded(message: &Value) -> bool {
    let context = &message["context"];
    ["forwarded", "frequently_forwarded"].iter().any(|flag| context[flag] == true)
}
