//! Pure: the envelope of a callback, with its parts and the number or account of each.
//!
//! Each item is parsed by itself, so that one that cannot be parsed does not cost the others.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use postrider_domain::Phone;

use crate::callback::{Callback, IgnoredReason};

use super::account_news::{self, ACCOUNT_FIELDS};
use super::callback;
use super::items::{FieldNumber, ItemCounts};
use super::number_news::{self, NUMBER_FIELDS};

/// A part of a callback. One callback may have parts about several numbers and accounts, because
/// those of one app share its callback address.
#[derive(Debug)]
pub struct Part {
    /// The number or account that it is about.
    pub about: About,
    /// What it reports.
    pub callback: Callback,
    /// The field that it came in, and how many items of it were parsed.
    pub parsed: (FieldNumber, u64),
}

/// The number or account that a part of a callback is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A number, by the provider's id; `None` if the part has none.
    Number(Option<Box<str>>),
    /// A number of an account, by its phone and the provider's id of the account, if the part has
    /// one. It is about none if it has no phone.
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
    /// Whether it names neither number nor account: then it is about whom it was sent to.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        matches!(self, Self::Number(None) | Self::Account(None))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body<'a> {
    #[serde(borrow)]
    entry: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Change<'a> {
    #[serde(borrow)]
    field: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Report<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    contacts: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    statuses: Option<&'a RawValue>,
    #[serde(borrow)]
    user_preferences: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
}

/// The parts of a callback's body; `None` if the body is not JSON. Items that cannot be parsed are
/// skipped and counted. Those that can be are counted once it is known whom they are for.
pub fn read(raw: &[u8], counts: &ItemCounts) -> Option<Vec<Part>> {
    let body: &RawValue = serde_json::from_slice(raw).ok()?;
    let mut parts = Vec::new();
    for entry in items(parsed::<Body<'_>>(Some(body)).entry) {
        let entry: Entry<'_> = parsed(Some(entry));
        for change in items(entry.changes) {
            let Change { field, value } = parsed(Some(change));
            let field = parsed::<Value>(field);
            match field.as_str().unwrap_or_default() {
                field @ ("messages" | "user_preferences") => {
                    parts.push(messages(field, parsed(value), counts));
                }
                field if callback::TEMPLATE_FIELDS.contains(&field) => {
                    let template = callback::template(field, &parsed(value));
                    let template = template.ok_or(Some(IgnoredReason::Unreadable));
                    let mut tally = counts.tally(field);
                    let templates = tally.take(template).into_iter().collect();
                    let about = About::Account(parsed::<Value>(entry.id).as_str().map(Into::into));
                    let ignored = tally.ignored();
                    let callback = Callback { templates, ignored, ..Callback::default() };
                    parts.push(Part { about, callback, parsed: tally.parsed() });
                }
                field if NUMBER_FIELDS.contains(&field) => {
                    parts.push(number(field, entry.id, value, counts));
                }
                field if ACCOUNT_FIELDS.contains(&field) => {
                    parts.push(account(field, entry.id, value, counts));
                }
                field @ "user_id_update" => {
                    parts.push(forwarded(field, &parsed(value), counts));
                }
                field => {
                    let tally = counts.tally(field).parsed();
                    let ignored = counts.pass_over(field);
                    if !ignored.is_empty() {
                        let about = about(entry.id, parsed(value));
                        let callback = Callback { ignored, ..Callback::default() };
                        parts.push(Part { about, callback, parsed: tally });
                    }
                }
            }
        }
    }
    Some(parts)
}

/// The numbers that a callback is about, by the provider's ids; `None` if it may be about others
/// too. A part that names none is about the number that the callback was sent to.
#[must_use]
pub fn numbers_of(raw: &[u8]) -> Option<BTreeSet<Box<str>>> {
    let body: &RawValue = serde_json::from_slice(raw).ok()?;
    let mut numbers = BTreeSet::new();
    for entry in items(parsed::<Body<'_>>(Some(body)).entry) {
        for change in items(parsed::<Entry<'_>>(Some(entry)).changes) {
            let Change { field, value } = parsed(Some(change));
            let metadata = match parsed::<Value>(field).as_str()? {
                "messages" | "user_preferences" => parsed(parsed::<Report<'_>>(value).metadata),
                "user_id_update" => parsed::<Value>(value)["metadata"].clone(),
                _ => return None,
            };
            numbers.extend(metadata["phone_number_id"].as_str().map(Box::from));
        }
    }
    Some(numbers)
}

/// What a change says of a number, which each field names in another way.
fn number(
    field: &str,
    account: Option<&RawValue>,
    value: Option<&RawValue>,
    counts: &ItemCounts,
) -> Part {
    let change = parsed::<Value>(value);
    let of = parsed::<Value>(account).as_str().map(Into::into);
    let about = match field {
        "business_capability_update" => About::Account(of),
        "smb_message_echoes" => about(account, parsed(value)),
        _ => About::Phone { account: of, phone: number_news::phone(&change) },
    };
    let mut tally = counts.tally(field);
    let facts = tally.take(number_news::facts(field, &change)).into_iter().collect();
    let ignored = tally.ignored();
    Part {
        about,
        callback: Callback { facts, ignored, ..Callback::default() },
        parsed: tally.parsed(),
    }
}

/// What a change says of an account, or warns of a number of it.
fn account(
    field: &str,
    account: Option<&RawValue>,
    value: Option<&RawValue>,
    counts: &ItemCounts,
) -> Part {
    let change = parsed::<Value>(value);
    let of = parsed::<Value>(account).as_str().map(Into::into);
    let about = match account_news::alerted_number(&change) {
        Some(number) => About::Number(Some(number)),
        None if field == "security" => {
            About::Phone { account: of, phone: number_news::phone(&change) }
        }
        None => About::Account(of),
    };
    let mut tally = counts.tally(field);
    let errors = tally.take(account_news::news(field, &change)).into_iter().collect();
    let ignored = tally.ignored();
    let callback = Callback { errors, ignored, ..Callback::default() };
    Part { about, callback, parsed: tally.parsed() }
}

/// The number that a change of an unknown field is about if it says so, else the account.
fn about(account: Option<&RawValue>, report: Report<'_>) -> About {
    let number = parsed::<Value>(report.metadata)["phone_number_id"].as_str().map(Box::from);
    match number {
        Some(number) => About::Number(Some(number)),
        None => About::Account(parsed::<Value>(account).as_str().map(Into::into)),
    }
}

fn messages(field: &str, report: Report<'_>, counts: &ItemCounts) -> Part {
    let values = |list| items(list).map(|it| parsed::<Value>(Some(it)));
    let of = parsed::<Value>(report.metadata)["phone_number_id"].as_str().map(Into::into);
    let contacts: Vec<_> = values(report.contacts).collect();
    let (mut callback, mut tally) = (Callback::default(), counts.tally(field));
    for status in values(report.statuses) {
        let status = callback::status(&status).ok_or_else(|| callback::why_no_status(&status));
        callback.statuses.extend(tally.take(status));
    }
    for message in values(report.messages) {
        if callback::is_notice(&message) {
            let change = callback::identity_change(&message);
            let change = change.ok_or_else(|| callback::why_no_change(&message));
            callback.identity_changes.extend(tally.take(change));
        } else {
            let inbound = callback::inbound(&message, &contacts);
            let inbound = inbound.ok_or_else(|| callback::why_no_message(&message, &contacts));
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

/// Parses changes of ids, which partners of the provider forward as a list, an object or the value
/// itself.
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

/// The elements of a list; none if the value is no list.
fn items(list: Option<&RawValue>) -> impl Iterator<Item = &RawValue> {
    parsed::<Vec<&RawValue>>(list).into_iter()
}

/// The parsed value; the default if it is missing or of another type.
fn parsed<'a, T: Default + Deserialize<'a>>(value: Option<&'a RawValue>) -> T {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inbound(id: &str) -> Value {
        json!({"from": "16505551234", "id": id, "timestamp": "1", "type": "text", "text": {"body": "Hi"}})
    }

    fn change(about: &Value, messages: &Value) -> Value {
        json!({"field": "messages", "value": {
            "metadata": {"phone_number_id": about}, "messages": messages,
        }})
    }

    #[test]
    fn each_part_names_its_number_or_account() {
        let template = json!({"field": "message_template_status_update", "value": {
            "event": "PAUSED", "message_template_name": "sale", "message_template_language": "en",
        }});
        let first = change(&json!("106"), &json!([inbound("a"), inbound("b")]));
        let second = change(&json!("777"), &json!([inbound("c")]));
        let unsaid = change(&json!(null), &json!([]));
        let body = json!({"entry": [
            {"id": "107", "changes": [first, template]},
            {"id": null, "changes": [second, template, unsaid]},
        ]});
        let parts = read(body.to_string().as_bytes(), &ItemCounts::default()).unwrap();
        let about: Vec<_> = parts.iter().map(|part| part.about.clone()).collect();
        let number = |id: Option<&str>| About::Number(id.map(Into::into));
        let account = |id: Option<&str>| About::Account(id.map(Into::into));
        let expected = [
            number(Some("106")),
            account(Some("107")),
            number(Some("777")),
            account(None),
            number(None),
        ];
        assert_eq!(about, expected);
        let counts: Vec<_> = parts
            .iter()
            .map(|Part { callback, .. }| (callback.inbound.len(), callback.templates.len()))
            .collect();
        assert_eq!(counts, [(2, 0), (0, 1), (1, 0), (0, 1), (0, 0)]);
    }

    #[test]
    fn the_numbers_of_a_callback_are_known_unless_a_part_is_about_something_else() {
        let of = |changes: Value| {
            let body = json!({"entry": [{"id": "107", "changes": changes}]}).to_string();
            numbers_of(body.as_bytes()).map(|all| all.iter().map(ToString::to_string).collect())
        };
        let number = |id: Value| change(&id, &json!([]));
        let forwarded = json!({"field": "user_id_update", "value": {
            "metadata": {"phone_number_id": "9"}}});
        let parts = json!([number(json!("106")), number(json!(null)), forwarded]);
        assert_eq!(of(parts), Some(vec!["106".to_owned(), "9".to_owned()]));
        assert_eq!(of(json!([number(json!(null))])), Some(Vec::new()));
        for field in ["message_template_status_update", "phone_number_quality_update", "new"] {
            let other = json!({"field": field, "value": {}});
            assert_eq!(of(json!([number(json!("106")), other])), None, "{field}");
        }
        assert_eq!((of(json!([{}])), numbers_of(b"{")), (None, None));
        for field in ["messages", "user_preferences", "user_id_update"] {
            for odd in [json!([]), json!("x"), json!(1), json!(true), json!(null), json!([[]])] {
                let part = json!({"field": field, "value": odd});
                assert_eq!(of(json!([part])), Some(Vec::new()), "{part}");
                let part = json!({"field": field, "value": {"metadata": odd}});
                assert_eq!(of(json!([part])), Some(Vec::new()), "{part}");
            }
        }
    }

    #[test]
    fn an_item_that_cannot_be_parsed_costs_no_other() {
        for bad in [r#""\ud83d""#, "1e999", &format!("{}{}", "[".repeat(130), "]".repeat(130))] {
            let (good, other) = (inbound("a").to_string(), inbound("b").to_string());
            let broken = good.replace(r#""Hi""#, bad);
            let body = format!(
                r#"{{"x": {bad}, "entry": [{bad}, {{"x": {bad}, "changes": [{{"field": {bad}}},
                   {{"field": "messages", "value": {{"x": {bad}, "metadata": {bad}, "contacts": [{bad}],
                   "messages": [{good}, {broken}, {bad}, {other}]}}}}]}}]}}"#
            );
            let parts = read(body.as_bytes(), &ItemCounts::default()).unwrap();
            let ids: Vec<_> = parts[1].callback.inbound.iter().map(|it| &*it.provider_id).collect();
            assert_eq!(ids, ["a", "b"], "{bad}");
        }
    }

    #[test]
    fn any_json_is_accepted_and_nothing_else() {
        for odd in
            ["{}", "[]", "null", "7", r#"{"entry": {}}"#, r#"{"entry": [null, {"changes": 7}]}"#]
        {
            assert!(read(odd.as_bytes(), &ItemCounts::default()).unwrap().is_empty(), "{odd}");
        }
        for broken in [&b"{"[..], b"", b"{} x", b"\"\xff\""] {
            assert!(read(broken, &ItemCounts::default()).is_none());
        }
    }
}
