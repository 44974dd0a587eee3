//! Pure: verifies callbacks of the provider and parses their items.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::template::{TemplateName, TemplateQuality};
use postrider_domain::{PartyId, PartyNames, Phone, Timestamp, UserId, printable};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::answer::{ProviderError, failure};
use super::items::PassedOver;
use super::{CloudApiNumber, ProviderId, body};
use crate::Failure;
use crate::callback::{
    ChannelFault, IdentityChange, IgnoredReason, Inbound, InboundMedia, MarketingChoice, Progress,
    REFERRAL_CHARS_MAX, Referral, StatusUpdate, TemplateNews, TemplateUpdate, WORD_CHARS_MAX,
};

pub use content::{MessageObject, read_object};

/// The maximum number of bytes of a provider's id, or of a template's name.
const ID_BYTES_MAX: usize = 512;
/// The maximum number of bytes of the type of a file.
const MIME_TYPE_BYTES_MAX: usize = 127;
/// Fractions of seconds are read below this: the year 9999.
const SECONDS_MAX: f64 = 253_402_300_800.0;
/// The type of a file whose type the provider does not give, or gives in a wrong form.
pub(super) const UNKNOWN_TYPE: &str = "application/octet-stream";

mod content;

impl CloudApiNumber {
    /// Returns whether this is the number's verify token. It is compared in constant time.
    pub fn knows(&self, verify_token: &str) -> bool {
        let expected = self.secrets.verify_token.reveal().as_bytes();
        expected.ct_eq(verify_token.as_bytes()).into()
    }

    /// Returns whether `signature`, the value of the header, is the provider's signature of the raw
    /// body.
    ///
    /// It is `sha256=` and the HMAC-SHA256 in hexadecimal digits, under the app's secret.
    pub fn signed(&self, signature: &str, raw: &[u8]) -> bool {
        let secret = self.secrets.app_secret.reveal().as_bytes();
        let mac = Hmac::<Sha256>::new_from_slice(secret).ok();
        let given = signature.strip_prefix("sha256=").and_then(decode_hex);
        match (mac, given) {
            (Some(mac), Some(given)) => mac.chain_update(raw).verify_slice(&given).is_ok(),
            _ => false,
        }
    }
}

/// Decodes 64 hexadecimal digits.
fn decode_hex(hex: &str) -> Option<[u8; 32]> {
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

/// Returns the elements of a list; none if the value is no list.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Reads a time: Unix seconds as text or number, with a fraction or without, or RFC 3339.
fn timestamp(value: &Value) -> Option<Timestamp> {
    let text = value.as_str();
    if let Some(at) = text.and_then(|text| text.parse().ok()) {
        return Some(at);
    }
    let whole = text.map_or_else(|| value.as_u64(), |text| text.parse().ok());
    let whole = whole.or_else(|| {
        let seconds = text.map_or_else(|| value.as_f64(), |text| text.parse().ok());
        seconds.filter(|seconds| (0.0..SECONDS_MAX).contains(seconds)).map(|it| it as u64)
    });
    whole?.checked_mul(1000).map(Timestamp::from_millis)
}

/// Returns a text, cut to `chars_max` characters: strangers write these texts.
fn text(text: &str, chars_max: usize) -> Box<str> {
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(end, _)| end);
    text[..end].into()
}

/// Returns the text of a value, likewise.
fn text_of(value: &Value, chars_max: usize) -> Option<Box<str>> {
    value.as_str().map(|given| text(given, chars_max))
}

/// Returns a name, cut and made harmless.
fn name(value: &Value) -> Option<Box<str>> {
    text_of(value, NAME_CHARS_MAX).map(|name| printable::harmless(&name).into())
}

/// Reads an id, a text or a whole number; `None` if it is too long.
fn id(value: &Value) -> Option<Box<str>> {
    digits(value).filter(|id| id.len() <= ID_BYTES_MAX).map(Box::from)
}

/// Returns a text, or the digits of a whole number.
fn digits(value: &Value) -> Option<Cow<'_, str>> {
    let number = || value.as_u64().map(|number| number.to_string().into());
    value.as_str().map(Cow::from).or_else(number)
}

/// Parses a report on a message.
pub(super) fn status(value: &Value) -> Option<StatusUpdate> {
    let progress = match value["status"].as_str()? {
        "sent" => Progress::Sent,
        "delivered" => Progress::Delivered,
        // A voice message is played only by a recipient who has opened it.
        "read" | "played" => Progress::Read,
        "failed" => Progress::Failed(failure_of(&value["errors"])),
        _ => return None,
    };
    let body::Opaque { origin, to } =
        body::parse_opaque(value["biz_opaque_callback_data"].as_str()?)?;
    Some(StatusUpdate {
        origin,
        provider_id: id(&value["id"])?,
        status: progress,
        at: timestamp(&value["timestamp"])?,
        to,
        known_as: phone(&value["recipient_id"]),
        user_id: user_id(&value["recipient_user_id"]),
    })
}

/// Parses a phone in the provider's form.
fn phone(value: &Value) -> Option<Phone> {
    digits(value).and_then(|digits| body::phone(&digits))
}

/// Parses the provider's id of a person.
fn user_id(value: &Value) -> Option<UserId> {
    value.as_str()?.parse().ok()
}

/// Returns the reason why a report on a message is ignored.
pub(super) fn ignored_status_reason(value: &Value) -> PassedOver {
    let opaque = value["biz_opaque_callback_data"].as_str();
    let words = ["sent", "delivered", "read", "played", "failed"];
    match value["status"].as_str() {
        // The message was not sent from here.
        Some(_) if opaque.and_then(body::parse_opaque).is_none() => None,
        Some(word) if !words.contains(&word) => Some(IgnoredReason::UnknownType),
        _ => Some(IgnoredReason::Unreadable),
    }
}

/// Returns the reason why a notice of the provider is ignored.
pub(super) fn ignored_change_reason(value: &Value) -> PassedOver {
    match value["system"]["type"].as_str() {
        Some("customer_identity_changed") => None,
        Some("user_changed_number" | "user_changed_user_id") | None => {
            Some(IgnoredReason::Unreadable)
        }
        Some(_) => Some(IgnoredReason::UnknownType),
    }
}

/// Returns the reason why a message is ignored.
pub(super) fn ignored_message_reason(value: &Value, contacts: &[Value]) -> PassedOver {
    let (from, user, _) = sender(value, contacts);
    let is_nobodys = value.is_object() && from.is_none() && user.is_none();
    Some(if is_nobodys { IgnoredReason::NoSender } else { IgnoredReason::Unreadable })
}

fn failure_of(errors: &Value) -> Failure {
    let first = items(errors).next().map(ProviderError::deserialize);
    failure(&first.and_then(Result::ok).unwrap_or_default())
}

/// Returns whether an item of the messages is a notice of the provider, which nobody wrote.
pub(super) fn is_notice(value: &Value) -> bool {
    value["type"].as_str() == Some("system")
}

/// Parses the notice that a person has another number or another id.
#[must_use]
pub fn identity_change(value: &Value) -> Option<IdentityChange> {
    let notice = &value["system"];
    if !matches!(notice["type"].as_str()?, "user_changed_number" | "user_changed_user_id") {
        return None;
    }
    let new = PartyNames { phone: phone(&notice["wa_id"]), user_id: user_id(&notice["user_id"]) };
    let previous = [&notice["previous_user_id"], &value["from_user_id"], &value["from"]];
    let previous =
        previous.into_iter().filter_map(user_id).find(|id| Some(id) != new.user_id.as_ref());
    let old = PartyNames { phone: phone(&value["from"]), user_id: previous };
    let at = Some(timestamp(&value["timestamp"])?);
    let change = IdentityChange { provider_id: id(&value["id"])?, old, new, at };
    (!change.old.is_empty() && !change.new.is_empty()).then_some(change)
}

/// Parses the change of an id in the form in which partners of the provider forward it.
///
/// It has no id of its own, so the two ids are used as one.
pub(super) fn forwarded_change(value: &Value) -> Option<IdentityChange> {
    let ids = &value["user_id"];
    let [previous, current] = [&ids["previous"], &ids["current"]].map(user_id);
    let (previous, current) = (previous?, current?);
    Some(IdentityChange {
        provider_id: format!("user_id_update:{previous}:{current}").into(),
        old: PartyNames { phone: None, user_id: Some(previous) },
        new: PartyNames { phone: phone(&value["wa_id"]), user_id: Some(current) },
        at: timestamp(&value["timestamp"]),
    })
}

/// Parses an error that concerns no message.
pub(super) fn channel_fault(value: &Value) -> Option<ChannelFault> {
    let error = ProviderError::deserialize(value).ok()?;
    Some(ChannelFault { failure: failure(&error), title: error.title(), of_account: false })
}

/// Parses a person's choice about marketing messages.
pub(super) fn choice(value: &Value) -> Option<MarketingChoice> {
    if value["category"].as_str()? != "marketing_messages" {
        return None;
    }
    let wanted = match value["value"].as_str()? {
        "stop" => false,
        "resume" | "signup" => true,
        _ => return None,
    };
    let phone = phone(&value["wa_id"]).map(PartyId::from);
    let user = user_id(&value["user_id"]).map(PartyId::from);
    let parties: Vec<_> = phone.into_iter().chain(user).collect();
    let at = timestamp(&value["timestamp"])?;
    (!parties.is_empty()).then_some(MarketingChoice { parties, wanted, at })
}

/// Returns the writer of a message, by phone and by id, and the contact of the writer.
fn sender<'a>(
    value: &Value,
    contacts: &'a [Value],
) -> (Option<Phone>, Option<UserId>, Option<&'a Value>) {
    let from = phone(&value["from"]);
    // Some partners write the id in place of the phone.
    let user = user_id(&value["from_user_id"]).or_else(|| user_id(&value["from"]));
    let writer = contacts.iter().find(|contact| match &user {
        Some(user) if contact["user_id"].is_string() => contact["user_id"] == user.as_str(),
        _ => from.is_some() && phone(&contact["wa_id"]) == from,
    });
    let user = user.or_else(|| writer.and_then(|writer| user_id(&writer["user_id"])));
    let from = from.or_else(|| writer.and_then(|writer| phone(&writer["wa_id"])));
    (from, user, writer)
}

/// Parses a message that one of the contacts wrote.
pub(super) fn inbound(value: &Value, contacts: &[Value]) -> Option<Inbound> {
    let (from, user, writer) = sender(value, contacts);
    if from.is_none() && user.is_none() {
        return None;
    }
    Some(Inbound {
        provider_id: id(&value["id"])?,
        from,
        user_id: user,
        username: writer
            .and_then(|writer| name(&writer["profile"]["username"]))
            .filter(|name| !name.is_empty()),
        name: writer.and_then(|writer| name(&writer["profile"]["name"])),
        kind: text_of(&value["type"], WORD_CHARS_MAX)?,
        text: content::words(value).unwrap_or_default(),
        line: content::line(value).unwrap_or_default(),
        at: timestamp(&value["timestamp"])?,
        referral: referral(&value["referral"]),
        media: media(value),
        content: content::of_message(value),
        about: content::about(value),
        forwarded: content::is_forwarded(value),
    })
}

/// Parses the advertisement that led to a message, as far as it is reported.
fn referral(value: &Value) -> Option<Referral> {
    let long = |field: &str| text_of(&value[field], REFERRAL_CHARS_MAX);
    let referral = Referral {
        source_type: text_of(&value["source_type"], WORD_CHARS_MAX).unwrap_or_default(),
        source_id: id(&value["source_id"]).unwrap_or_default(),
        headline: text_of(&value["headline"], NAME_CHARS_MAX),
        body: long("body"),
        source_url: long("source_url"),
        ctwa_clid: long("ctwa_clid"),
    };
    (referral != Referral::default()).then_some(referral)
}

/// Parses the file of a message; `None` if it has none, or none that can be downloaded.
fn media(message: &Value) -> Option<InboundMedia> {
    let kind = message["type"].as_str()?;
    if !["image", "video", "document", "audio", "sticker"].contains(&kind) {
        return None;
    }
    let part = &message[kind];
    let id = part["id"].as_str().filter(|id| id.parse::<ProviderId>().is_ok())?;
    let mime_type = part["mime_type"].as_str().and_then(mime_type).unwrap_or(UNKNOWN_TYPE);
    let sha256 = part["sha256"].as_str().and_then(|hash| STANDARD.decode(hash).ok());
    let filename = name(&part["filename"]).filter(|name| !name.is_empty());
    Some(InboundMedia {
        id: id.into(),
        mime_type: mime_type.into(),
        sha256: sha256.and_then(|hash| hash.try_into().ok()),
        filename,
    })
}

/// Returns a type without its parameters, if this is one: strangers write these.
fn mime_type(text: &str) -> Option<&str> {
    let essence = text.split(';').next()?.trim();
    let is_token = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(allowed)
    };
    let (kind, of) = essence.split_once('/')?;
    let fits = essence.len() <= MIME_TYPE_BYTES_MAX && is_token(kind) && is_token(of);
    fits.then_some(essence)
}

/// The fields of callbacks with news of a template.
pub(super) const TEMPLATE_FIELDS: [&str; 4] = [
    "message_template_status_update",
    "template_category_update",
    "message_template_quality_update",
    "message_template_components_update",
];

/// Parses the news of a template in a change of one of [`TEMPLATE_FIELDS`].
pub(super) fn template(field: &str, value: &Value) -> Option<TemplateUpdate> {
    let news = match field {
        "template_category_update" => category(value)?,
        "message_template_quality_update" => TemplateNews::Quality(TemplateQuality::from_channel(
            value["new_quality_score"].as_str()?,
        )),
        "message_template_components_update" => TemplateNews::Components,
        _ => TemplateNews::Status {
            word: text_of(&value["event"], WORD_CHARS_MAX)?,
            reason: rejected_reason(&value["reason"]),
        },
    };
    Some(TemplateUpdate {
        template: TemplateName {
            name: id(&value["message_template_name"])?,
            language: id(&value["message_template_language"])?,
        },
        news,
    })
}

/// Returns the provider's word for the reason of a rejection; `NONE` is no reason.
pub(super) fn rejected_reason(value: &Value) -> Option<Box<str>> {
    let word = value.as_str().filter(|word| !word.is_empty() && *word != "NONE")?;
    Some(word.chars().take(WORD_CHARS_MAX).collect::<String>().into())
}

/// Parses the category that a template has or will have; `None` if neither is known.
fn category(value: &Value) -> Option<TemplateNews> {
    let word = |name: &str| value[name].as_str()?.to_ascii_lowercase().parse().ok();
    let (new, correct) = (word("new_category"), word("correct_category"));
    (new.is_some() || correct.is_some()).then_some(TemplateNews::Category { new, correct })
}

#[cfg(test)]
mod tests;
