//! Callbacks: whether they are the provider's, and what they tell.

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::channel::callback::{
    Callback, Inbound, Progress, Referral, StatusUpdate, TemplateUpdate,
};
use crate::channel::{Failure, TemplateName};
use crate::domain::{Phone, Timestamp};

use super::answer::{ErrorBody, failure};
use super::{CloudApiNumber, body};

/// Most characters that are kept of what somebody wrote: as many as a message of ours may have.
const TEXT_CHARS_MAX: usize = 4096;
/// The same of a writer's name.
const NAME_CHARS_MAX: usize = 200;
/// The same of the provider's own words, such as `image` or `PAUSED`.
const WORD_CHARS_MAX: usize = 64;
/// Most bytes of a provider's id, or of a template's name.
const ID_BYTES_MAX: usize = 512;

impl CloudApiNumber {
    /// Whether the provider shows the token that was agreed on.
    pub(crate) fn knows(&self, verify_token: &str) -> bool {
        let expected = self.secrets.verify_token.reveal().as_bytes();
        expected.ct_eq(verify_token.as_bytes()).into()
    }

    /// Whether `signature`, the header's value, is the provider's for these bytes.
    pub(crate) fn signed(&self, signature: &str, raw: &[u8]) -> bool {
        let secret = self.secrets.app_secret.reveal().as_bytes();
        let mac = Hmac::<Sha256>::new_from_slice(secret).ok();
        let given = signature.strip_prefix("sha256=").and_then(digest);
        match (mac, given) {
            (Some(mac), Some(given)) => mac.chain_update(raw).verify_slice(&given).is_ok(),
            _ => false,
        }
    }

    /// What a callback tells of this number; nothing if it is not JSON. What cannot be read of it is
    /// passed over, item by item.
    pub(crate) fn read(&self, raw: &[u8]) -> Option<Callback> {
        let value: Value = serde_json::from_slice(raw).ok()?;
        let mut callback = Callback::default();
        let entries = items(&value["entry"]);
        let changes = entries.flat_map(|entry| items(&entry["changes"]).map(move |it| (entry, it)));
        for (entry, change) in changes {
            let told = &change["value"];
            match change["field"].as_str() {
                Some("messages") if self.is_about(told) => {
                    callback.statuses.extend(items(&told["statuses"]).filter_map(status));
                    let messages = items(&told["messages"]);
                    callback.inbound.extend(messages.filter_map(|it| inbound(it, told)));
                }
                Some("message_template_status_update") if self.is_of_account(entry) => {
                    callback.templates.extend(template(told));
                }
                _ => {}
            }
        }
        Some(callback)
    }

    /// So may an app's accounts.
    fn is_of_account(&self, entry: &Value) -> bool {
        entry["id"].as_str().is_none_or(|id| id == self.account_id.as_str())
    }

    /// An app's numbers may share one callback address.
    fn is_about(&self, told: &Value) -> bool {
        let of = told["metadata"]["phone_number_id"].as_str();
        of.is_none_or(|of| of == self.phone_number_id.as_str())
    }
}

/// The 32 bytes that 64 hexadecimal digits spell.
fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

/// The elements of what should be a list.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Unix seconds, written as text.
fn moment(value: &Value) -> Option<Timestamp> {
    let seconds: u64 = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_u64()?,
    };
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}

/// A text, cut where it is longer than any that is of use: strangers write them.
fn text(value: &Value, chars_max: usize) -> Option<Box<str>> {
    let text = value.as_str()?;
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(end, _)| end);
    Some(text[..end].into())
}

/// An id: one that is too long is none.
fn id(value: &Value) -> Option<Box<str>> {
    value.as_str().filter(|id| id.len() <= ID_BYTES_MAX).map(Box::from)
}

fn status(value: &Value) -> Option<StatusUpdate> {
    let progress = match value["status"].as_str()? {
        "sent" => Progress::Sent,
        "delivered" => Progress::Delivered,
        "read" => Progress::Read,
        "failed" => Progress::Failed(failure_of(&value["errors"])),
        _ => return None,
    };
    Some(StatusUpdate {
        origin: body::origin(value["biz_opaque_callback_data"].as_str()?)?,
        provider_id: id(&value["id"])?,
        status: progress,
        at: moment(&value["timestamp"])?,
    })
}

fn failure_of(errors: &Value) -> Failure {
    let first = items(errors).next().map(ErrorBody::deserialize);
    failure(&first.and_then(Result::ok).unwrap_or_default())
}

fn inbound(value: &Value, told: &Value) -> Option<Inbound> {
    let from = value["from"].as_str()?;
    let writer = items(&told["contacts"]).find(|contact| contact["wa_id"].as_str() == Some(from));
    let referral = &value["referral"];
    let headline = text(&referral["headline"], NAME_CHARS_MAX);
    let source_type = text(&referral["source_type"], WORD_CHARS_MAX);
    let referral = source_type.zip(id(&referral["source_id"]));
    Some(Inbound {
        provider_id: id(&value["id"])?,
        from: from.parse().ok().and_then(|digits| Phone::from_digits(digits).ok())?,
        name: writer.and_then(|writer| text(&writer["profile"]["name"], NAME_CHARS_MAX)),
        kind: text(&value["type"], WORD_CHARS_MAX)?,
        text: said(value).unwrap_or_default(),
        at: moment(&value["timestamp"])?,
        referral: referral.map(|(kind, id)| Referral {
            source_type: kind,
            source_id: id,
            headline,
        }),
    })
}

/// The text of a message, wherever its type has it.
fn said(message: &Value) -> Option<Box<str>> {
    let kind = message["type"].as_str()?;
    let part = &message[kind];
    let text_of = |value: &Value| text(value, TEXT_CHARS_MAX);
    match kind {
        "text" => text_of(&part["body"]),
        "button" => text_of(&part["text"]),
        "reaction" => text_of(&part["emoji"]),
        "interactive" => text_of(&part["button_reply"]["title"])
            .or_else(|| text_of(&part["list_reply"]["title"])),
        "location" => text_of(&part["name"]).or_else(|| text_of(&part["address"])),
        _ => text_of(&part["caption"]),
    }
}

fn template(value: &Value) -> Option<TemplateUpdate> {
    Some(TemplateUpdate {
        template: TemplateName {
            name: id(&value["message_template_name"])?,
            language: id(&value["message_template_language"])?,
        },
        status: text(&value["event"], WORD_CHARS_MAX)?,
    })
}

#[cfg(test)]
mod tests;
