//! The envelope of a callback: which number or account each part is about, and its items, each
//! read by itself, so that one that cannot be read costs only itself.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::callback::Callback;

use super::{CloudApiNumber, callback};

/// A part of a callback. Numbers and accounts of one app share its callback address.
#[derive(Debug)]
pub struct Part {
    /// What it is about.
    pub about: About,
    /// What it reports.
    pub callback: Callback,
}

/// What a part of a callback is about, as the provider calls it; `None` where it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A number, by the provider's id, if the part has one.
    Number(Option<Box<str>>),
    /// An account, by the provider's id, if the part has one.
    Account(Option<Box<str>>),
}

impl CloudApiNumber {
    /// Whether a part of a callback of the number's app is about it.
    pub fn is_meant(&self, about: &About) -> bool {
        match about {
            About::Number(id) => id.as_deref().is_none_or(|id| id == self.phone_number_id.as_str()),
            About::Account(id) => id.as_deref().is_none_or(|id| id == self.account_id.as_str()),
        }
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
struct Told<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    contacts: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    statuses: Option<&'a RawValue>,
}

/// What a callback tells; nothing if it is not JSON. What cannot be read of it is passed over.
pub fn read(raw: &[u8]) -> Option<Vec<Part>> {
    let body: &RawValue = serde_json::from_slice(raw).ok()?;
    let mut parts = Vec::new();
    for entry in items(parsed::<Body<'_>>(Some(body)).entry) {
        let entry: Entry<'_> = parsed(Some(entry));
        for change in items(entry.changes) {
            let Change { field, value } = parsed(Some(change));
            match parsed::<Value>(field).as_str() {
                Some("messages") => parts.push(messages(parsed(value))),
                Some("message_template_status_update") => {
                    let templates = callback::template(&parsed(value)).into_iter().collect();
                    let about = About::Account(parsed::<Value>(entry.id).as_str().map(Into::into));
                    let callback = Callback { templates, ..Callback::default() };
                    parts.push(Part { about, callback });
                }
                _ => {}
            }
        }
    }
    Some(parts)
}

fn messages(told: Told<'_>) -> Part {
    let values = |list| items(list).map(|it| parsed::<Value>(Some(it)));
    let of = parsed::<Value>(told.metadata)["phone_number_id"].as_str().map(Into::into);
    let contacts: Vec<_> = values(told.contacts).collect();
    let statuses = values(told.statuses).filter_map(|it| callback::status(&it)).collect();
    let inbound = values(told.messages).filter_map(|it| callback::inbound(&it, &contacts));
    let callback = Callback { statuses, inbound: inbound.collect(), ..Callback::default() };
    Part { about: About::Number(of), callback }
}

/// The elements of what should be a list.
fn items(list: Option<&RawValue>) -> impl Iterator<Item = &RawValue> {
    parsed::<Vec<&RawValue>>(list).into_iter()
}

/// What is read of a value; nothing where it is missing or another.
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
    fn each_part_says_what_it_is_about() {
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
        let parts = read(body.to_string().as_bytes()).unwrap();
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
    fn what_cannot_be_read_costs_only_itself() {
        for bad in [r#""\ud83d""#, "1e999", &format!("{}{}", "[".repeat(130), "]".repeat(130))] {
            let (good, other) = (inbound("a").to_string(), inbound("b").to_string());
            let broken = good.replace(r#""Hi""#, bad);
            let body = format!(
                r#"{{"x": {bad}, "entry": [{bad}, {{"x": {bad}, "changes": [{{"field": {bad}}},
                   {{"field": "messages", "value": {{"x": {bad}, "metadata": {bad}, "contacts": [{bad}],
                   "messages": [{good}, {broken}, {bad}, {other}]}}}}]}}]}}"#
            );
            let parts = read(body.as_bytes()).unwrap();
            let ids: Vec<_> = parts[0].callback.inbound.iter().map(|it| &*it.provider_id).collect();
            assert_eq!(ids, ["a", "b"], "{bad}");
        }
    }

    #[test]
    fn what_is_json_is_read_and_nothing_else_is() {
        for odd in
            ["{}", "[]", "null", "7", r#"{"entry": {}}"#, r#"{"entry": [null, {"changes": 7}]}"#]
        {
            assert!(read(odd.as_bytes()).unwrap().is_empty(), "{odd}");
        }
        for broken in [&b"{"[..], b"", b"{} x", b"\"\xff\""] {
            assert!(read(broken).is_none());
        }
    }
}
