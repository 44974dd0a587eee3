//! Pure: the envelope of a callback, with its parts and the number or account of each.
//!
//! Each item is parsed separately, so that one that cannot be parsed does not affect the others.

use std::collections::BTreeSet;

use postrider_domain::{Phone, json};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::callback;
use super::items::{FieldNumber, ItemCounts};
use super::news::{self, ACCOUNT_FIELDS, NUMBER_FIELDS};
use crate::callback::{Callback, IgnoredReason};

/// A part of a callback.
///
/// One callback may have parts about several numbers and accounts, because those of one app share
/// its callback address.
#[derive(Debug)]
pub struct Part {
    /// The number or account that the part concerns.
    pub about: About,
    /// The reports of the part.
    pub callback: Callback,
    /// The field in which it arrived, and the number of its parsed items.
    pub parsed: (FieldNumber, u64),
}

/// The number or account that a part of a callback concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A number, by the provider's id; `None` if the part has none.
    Number(Option<Box<str>>),
    /// A number of an account, by its phone and the provider's id of the account, if the part has
    /// one.
    ///
    /// Without a phone the part concerns no number.
    Phone {
        /// The provider's id of the account.
        account: Option<Box<str>>,
        /// The number's phone.
        phone: Option<Phone>,
    },
    /// An account, by the provider's id; `None` if the part has none.
    Account(Option<Box<str>>),
}

impl About {
    /// Returns whether it names neither number nor account: then it concerns the callback's
    /// addressee.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        matches!(self, Self::Number(None) | Self::Account(None))
    }
}

/// The body of a callback, with `E` as its list of entries.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CallbackBody<E> {
    entry: E,
}

/// The news of one account, with `C` as its list of changes.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "C: Default + Deserialize<'de>"))]
struct AccountEntry<'a, C> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    changes: C,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldChange<'a> {
    #[serde(borrow)]
    field: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// The value of a change about messages, with `L` as a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "L: Default + Deserialize<'de>"))]
struct MessagesValue<'a, L> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    contacts: L,
    messages: L,
    statuses: L,
    user_preferences: L,
    errors: L,
}

/// The elements of a list.
type Items<'a> = Vec<&'a RawValue>;
/// An entry: an account's id, and the changes of its fields.
type Entry<'a> = (Option<&'a RawValue>, Vec<FieldChange<'a>>);

/// Parses a callback's body into its parts; `None` if the body is not JSON.
///
/// Items that cannot be parsed are skipped and counted. Parsed items are counted once their
/// addressee is known.
pub fn read(raw: &[u8], counts: &ItemCounts) -> Option<Vec<Part>> {
    let raw = json::mended(raw);
    let mut parts = Vec::new();
    for (id, changes) in entries(&raw)? {
        for FieldChange { field, value } in changes {
            let field = read_value(field);
            match field.as_str().unwrap_or_default() {
                field @ ("messages" | "user_preferences") => {
                    parts.push(messages(field, messages_value(value), counts));
                }
                field if callback::TEMPLATE_FIELDS.contains(&field) => {
                    let template = callback::template(field, &read_value(value));
                    let template = template.ok_or(Some(IgnoredReason::Unreadable));
                    let mut tally = counts.tally(field);
                    let templates = tally.take(template).into_iter().collect();
                    let about = About::Account(read_value(id).as_str().map(Into::into));
                    let ignored = tally.ignored();
                    let callback = Callback { templates, ignored, ..Callback::default() };
                    parts.push(Part { about, callback, parsed: tally.parsed() });
                }
                field if NUMBER_FIELDS.contains(&field) => {
                    parts.push(number(field, id, value, counts));
                }
                field if ACCOUNT_FIELDS.contains(&field) => {
                    parts.push(account(field, id, value, counts));
                }
                field @ "user_id_update" => {
                    parts.push(forwarded(field, &read_value(value), counts));
                }
                field => {
                    let tally = counts.tally(field).parsed();
                    let ignored = counts.pass_over(field);
                    if !ignored.is_empty() {
                        let about = about(id, messages_value(value));
                        let callback = Callback { ignored, ..Callback::default() };
                        parts.push(Part { about, callback, parsed: tally });
                    }
                }
            }
        }
    }
    Some(parts)
}

/// Returns the numbers that a callback concerns, by the provider's ids.
///
/// Returns `None` if it may concern others too. A part that names none concerns the number to which
/// the callback was sent.
#[must_use]
pub fn numbers_of(raw: &[u8]) -> Option<BTreeSet<Box<str>>> {
    let raw = json::mended(raw);
    let mut numbers = BTreeSet::new();
    for FieldChange { field, value } in entries(&raw)?.into_iter().flat_map(|(_, changes)| changes)
    {
        let metadata = match read_value(field).as_str()? {
            "messages" | "user_preferences" => read_value(messages_value(value).metadata),
            "user_id_update" => read_value(value)["metadata"].clone(),
            _ => return None,
        };
        numbers.extend(metadata["phone_number_id"].as_str().map(Box::from));
    }
    Some(numbers)
}

/// Returns the entries of a body; `None` if it is not JSON.
fn entries(raw: &[u8]) -> Option<Vec<Entry<'_>>> {
    typed_entries(raw).or_else(|| readable_entries(raw))
}

/// Reads the entries in one pass; `None` if a part of the body has another type than it should.
fn typed_entries(raw: &[u8]) -> Option<Vec<Entry<'_>>> {
    let body: CallbackBody<Vec<AccountEntry<'_, Vec<FieldChange<'_>>>>> =
        serde_json::from_slice(raw).ok()?;
    Some(body.entry.into_iter().map(|entry| (entry.id, entry.changes)).collect())
}

/// Reads the parts that have the right type, with a pass for each level; `None` if it is not JSON.
fn readable_entries(raw: &[u8]) -> Option<Vec<Entry<'_>>> {
    let body: &RawValue = serde_json::from_slice(raw).ok()?;
    let entries = items(parsed::<CallbackBody<Option<&RawValue>>>(Some(body)).entry);
    let changes = entries.map(|entry| {
        let entry: AccountEntry<'_, Option<&RawValue>> = parsed(Some(entry));
        (entry.id, items(entry.changes).map(|change| parsed(Some(change))).collect())
    });
    Some(changes.collect())
}

/// Returns the value of a change about messages, as far as it can be read.
fn messages_value(value: Option<&RawValue>) -> MessagesValue<'_, Items<'_>> {
    let typed = value.and_then(|value| serde_json::from_str(value.get()).ok());
    typed.unwrap_or_else(|| readable_messages_value(value))
}

/// Reads the lists that are lists, with a pass for each of them.
fn readable_messages_value(value: Option<&RawValue>) -> MessagesValue<'_, Items<'_>> {
    let value: MessagesValue<'_, Option<&RawValue>> = parsed(value);
    MessagesValue {
        metadata: value.metadata,
        contacts: items(value.contacts).collect(),
        messages: items(value.messages).collect(),
        statuses: items(value.statuses).collect(),
        user_preferences: items(value.user_preferences).collect(),
        errors: items(value.errors).collect(),
    }
}

/// Parses the news of a number, which each field names in another way.
fn number(
    field: &str,
    account: Option<&RawValue>,
    value: Option<&RawValue>,
    counts: &ItemCounts,
) -> Part {
    let change = read_value(value);
    let of = read_value(account).as_str().map(Into::into);
    let about = match field {
        "business_capability_update" => About::Account(of),
        "smb_message_echoes" => about(account, messages_value(value)),
        _ => About::Phone { account: of, phone: news::changed_phone(&change) },
    };
    let mut tally = counts.tally(field);
    let facts = tally.take(news::number_news(field, &change)).into_iter().collect();
    let ignored = tally.ignored();
    Part {
        about,
        callback: Callback { facts, ignored, ..Callback::default() },
        parsed: tally.parsed(),
    }
}

/// Parses the news of an account, or a warning about one of its numbers.
fn account(
    field: &str,
    account: Option<&RawValue>,
    value: Option<&RawValue>,
    counts: &ItemCounts,
) -> Part {
    let change = read_value(value);
    let of = read_value(account).as_str().map(Into::into);
    let about = match news::alerted_number(&change) {
        Some(number) => About::Number(Some(number)),
        None if field == "security" => {
            About::Phone { account: of, phone: news::changed_phone(&change) }
        }
        None => About::Account(of),
    };
    let mut tally = counts.tally(field);
    let errors = tally.take(news::account_news(field, &change)).into_iter().collect();
    let ignored = tally.ignored();
    let callback = Callback { errors, ignored, ..Callback::default() };
    Part { about, callback, parsed: tally.parsed() }
}

/// Returns the number that a change of an unknown field names, else the account.
fn about(account: Option<&RawValue>, report: MessagesValue<'_, Items<'_>>) -> About {
    let number = read_value(report.metadata)["phone_number_id"].as_str().map(Box::from);
    match number {
        Some(number) => About::Number(Some(number)),
        None => About::Account(read_value(account).as_str().map(Into::into)),
    }
}

fn messages(field: &str, report: MessagesValue<'_, Items<'_>>, counts: &ItemCounts) -> Part {
    let of = read_value(report.metadata)["phone_number_id"].as_str().map(Into::into);
    let contacts: Vec<_> = values(report.contacts).collect();
    let (mut callback, mut tally) = (Callback::default(), counts.tally(field));
    for status in values(report.statuses) {
        let status =
            callback::status(&status).ok_or_else(|| callback::ignored_status_reason(&status));
        callback.statuses.extend(tally.take(status));
    }
    for message in values(report.messages) {
        if callback::is_notice(&message) {
            let change = callback::identity_change(&message);
            let change = change.ok_or_else(|| callback::ignored_change_reason(&message));
            callback.identity_changes.extend(tally.take(change));
        } else {
            let inbound = callback::inbound(&message, &contacts);
            let inbound =
                inbound.ok_or_else(|| callback::ignored_message_reason(&message, &contacts));
            callback.inbound.extend(tally.take(inbound));
        }
    }
    for choice in values(report.user_preferences) {
        let choice = callback::choice(&choice).ok_or(Some(IgnoredReason::Unreadable));
        callback.choices.extend(tally.take(choice));
    }
    for error in values(report.errors) {
        let error = callback::channel_fault(&error).ok_or(Some(IgnoredReason::Unreadable));
        callback.errors.extend(tally.take(error));
    }
    callback.ignored = tally.ignored();
    Part { about: About::Number(of), callback, parsed: tally.parsed() }
}

/// Parses changes of ids, which partners of the provider forward.
///
/// They are a list, an object or the value itself.
fn forwarded(field: &str, value: &Value, counts: &ItemCounts) -> Part {
    let of = value["metadata"]["phone_number_id"].as_str().map(Into::into);
    let (mut callback, mut tally) = (Callback::default(), counts.tally(field));
    let changes = match &value[field] {
        Value::Array(changes) => changes.as_slice(),
        Value::Null => std::slice::from_ref(value),
        change => std::slice::from_ref(change),
    };
    for change in changes {
        let change = callback::forwarded_change(change).ok_or(Some(IgnoredReason::Unreadable));
        callback.identity_changes.extend(tally.take(change));
    }
    callback.ignored = tally.ignored();
    Part { about: About::Number(of), callback, parsed: tally.parsed() }
}

/// Returns the elements of a list, as far as each can be read.
fn values<'a>(list: Items<'a>) -> impl Iterator<Item = Value> + use<'a> {
    list.into_iter().map(json::readable)
}

/// Returns the elements of a list; none if the value is no list.
fn items(list: Option<&RawValue>) -> impl Iterator<Item = &RawValue> {
    parsed::<Vec<&RawValue>>(list).into_iter()
}

/// Returns the value, as far as it can be read; null if it is missing.
fn read_value(value: Option<&RawValue>) -> Value {
    value.map(json::readable).unwrap_or_default()
}

/// Returns the parsed value; the default if it is missing or of another type.
fn parsed<'a, T: Default + Deserialize<'a>>(value: Option<&'a RawValue>) -> T {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// Asserts that one pass reads the same as a pass for each level, if it reads anything.
///
/// Returns whether one pass reads the entries and the value of each change.
#[cfg(test)]
pub(crate) fn assert_passes_agree(raw: &[u8]) -> bool {
    let raw = json::mended(raw);
    let (typed, readable) = (typed_entries(&raw), readable_entries(&raw));
    let mut one_pass = typed.is_some();
    if one_pass {
        assert_eq!(format!("{typed:?}"), format!("{readable:?}"));
    }
    let changes = readable.into_iter().flatten().flat_map(|(_, changes)| changes);
    for value in changes.map(|change| change.value) {
        let text = value.map_or("null", RawValue::get);
        match serde_json::from_str::<MessagesValue<'_, Items<'_>>>(text) {
            Ok(typed) => {
                let readable = readable_messages_value(value);
                assert_eq!(format!("{typed:?}"), format!("{readable:?}"), "{text}");
            }
            Err(_) => one_pass = false,
        }
    }
    one_pass
}

#[cfg(test)]
mod tests;
