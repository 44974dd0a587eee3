//! Pure: the words of a message, and the line that stands for it where it has none.
//!
//! Only words opt somebody out or verify a code: a place may be called anything.

use postrider_domain::printable;
use serde_json::Value;

use super::{items, text};
use crate::callback::TEXT_CHARS_MAX;

/// What a person wrote, or the title of what they chose; each type has it in another field.
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

/// What shows a person what a message without words is; `None` where its type says all.
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

/// A text that is not empty.
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

/// A place by its name, else by where it is.
fn place(place: &Value) -> Option<String> {
    let at = || {
        let [latitude, longitude] = [&place["latitude"], &place["longitude"]];
        (latitude.is_number() && longitude.is_number()).then(|| format!("{latitude}, {longitude}"))
    };
    first(place, &["name", "address"]).map(str::to_owned).or_else(at)
}

/// A card by its name, else by its first phone.
fn card(card: &Value) -> Option<String> {
    let name = first(&card["name"], &["formatted_name", "first_name"]);
    name.or_else(|| written(&card["phones"][0]["phone"])).map(str::to_owned)
}

/// What is ordered, and how many of it.
fn product(item: &Value) -> Option<String> {
    let name = written(&item["product_retailer_id"])?;
    let count = item["quantity"].as_u64().or_else(|| item["quantity"].as_str()?.parse().ok());
    Some(format!("{} × {name}", count.unwrap_or(1)))
}
