//! Pure: the content of a message: its words, its object, and the message to which it refers.
//!
//! A line replaces the words of a message that has none. Only words opt a person out or verify a
//! code: a place may have any name.

use postrider_domain::json::given;
use postrider_domain::printable;
use serde_json::{Map, Value, json};

use super::{id, items, media, text};
use crate::callback::{InboundMedia, TEXT_CHARS_MAX};
use crate::inbound_content::InboundContent;

/// The type of contact cards, whose part is a list.
const CARDS: &str = "contacts";
/// Fields of a file that are the provider's own, or reported elsewhere.
const OF_THE_PROVIDER: [&str; 4] = ["id", "url", "sha256", CHANGED];
/// The field of an edit or a deletion that names the message.
const CHANGED: &str = "original_message_id";
/// The fields of every message: its writer, its time, and what it is about.
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
        text: words(&message).unwrap_or_default(),
        line: line(&message).unwrap_or_default(),
        content: of_message(&message),
        about: about(&message),
    }
}

/// Returns the sender's words, or the title of a choice; each type has them in another field.
pub(super) fn words(message: &Value) -> Option<Box<str>> {
    let kind = message["type"].as_str()?;
    let part = &message[kind];
    let found = match kind {
        "text" => written(&part["body"]).or(written(part)),
        "button" | "order" => written(&part["text"]),
        "reaction" => written(&part["emoji"]),
        "interactive" => {
            written(&part["button_reply"]["title"]).or(written(&part["list_reply"]["title"]))
        }
        "location" | "contacts" => None,
        _ => first(part, &["caption", "text", "body"]),
    };
    found.map(cut)
}

/// Returns the line that describes a message without words; `None` if its type is enough.
pub(super) fn line(message: &Value) -> Option<Box<str>> {
    let kind = message["type"].as_str()?;
    let part = &message[kind];
    let found = match kind {
        "location" => place(part),
        "contacts" => joined(items(part).filter_map(card)),
        "order" => joined(items(&part["product_items"]).filter_map(product)),
        "button" => written(&part["payload"]).map(str::to_owned),
        "interactive" => {
            let reply = part["type"].as_str().map_or(&Value::Null, |kind| &part[kind]);
            first(reply, &["title", "body", "name", "id"]).map(str::to_owned)
        }
        _ => first(part, &["filename", "title", "name"]).map(str::to_owned),
    };
    let reason = || {
        let errors = items(&message["errors"]);
        errors.filter_map(|error| first(error, &["title", "message"])).next().map(str::to_owned)
    };
    found.or_else(reason).map(|line| cut(&printable::harmless(&line)))
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
        (_, None) => own_fields(message),
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
fn own_fields(message: &Value) -> Map<String, Value> {
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

/// Returns the provider's id of the message that one answers, reacts to, edits or deletes.
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

/// Returns a place by its name, else by its coordinates.
fn place(place: &Value) -> Option<String> {
    let at = || {
        let [latitude, longitude] = [&place["latitude"], &place["longitude"]];
        (latitude.is_number() && longitude.is_number()).then(|| format!("{latitude}, {longitude}"))
    };
    first(place, &["name", "address"]).map(str::to_owned).or_else(at)
}

/// Returns a card by its name, else by its first phone.
fn card(card: &Value) -> Option<String> {
    let name = first(&card["name"], &["formatted_name", "first_name"]);
    name.or_else(|| written(&card["phones"][0]["phone"])).map(str::to_owned)
}

/// Returns the ordered product and its quantity.
fn product(item: &Value) -> Option<String> {
    let name = written(&item["product_retailer_id"])?;
    let count = item["quantity"].as_u64().or_else(|| item["quantity"].as_str()?.parse().ok());
    Some(format!("{} × {name}", count.unwrap_or(1)))
}

/// Returns a text that is not empty.
fn written(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn first<'a>(value: &'a Value, fields: &[&str]) -> Option<&'a str> {
    fields.iter().find_map(|field| written(&value[*field]))
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    Some(parts.collect::<Vec<_>>().join(", ")).filter(|line| !line.is_empty())
}

fn cut(line: &str) -> Box<str> {
    text(line, TEXT_CHARS_MAX)
}
