//! Pure: the words of a message, and the line that replaces them if it has none.
//!
//! Only words opt a person out or verify a code: a place may have any name.

use postrider_domain::printable;
use serde_json::Value;

use super::{items, text};
use crate::callback::TEXT_CHARS_MAX;

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

/// Returns a text that is not empty.
fn written(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn first<'a>(value: &'a Value, fields: &[&str]) -> Option<&'a str> {
    fields.iter().find_map(|field| written(&value[*field]))
}

fn cut(line: &str) -> Box<str> {
    text(line, TEXT_CHARS_MAX)
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    Some(parts.collect::<Vec<_>>().join(", ")).filter(|line| !line.is_empty())
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
