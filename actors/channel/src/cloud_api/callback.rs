//! Pure: verifies callbacks of the provider and parses their items.

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::Failure;
use crate::callback::{
    Inbound, Progress, Referral, StatusUpdate, TEXT_CHARS_MAX, TemplateUpdate, WORD_CHARS_MAX,
};
use postrider_domain::Timestamp;
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::printable;
use postrider_domain::template::TemplateName;

use super::answer::{ErrorBody, failure};
use super::{CloudApiNumber, body};

/// Most bytes of a provider's id, or of a template's name.
const ID_BYTES_MAX: usize = 512;

impl CloudApiNumber {
    /// Whether this is the number's verify token. It is compared in constant time.
    pub fn knows(&self, verify_token: &str) -> bool {
        let expected = self.secrets.verify_token.reveal().as_bytes();
        expected.ct_eq(verify_token.as_bytes()).into()
    }

    /// Whether `signature`, the value of the header, is the provider's signature of the raw body:
    /// `sha256=` and the HMAC-SHA256 in hexadecimal digits, under the app's secret.
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

/// The elements of a list; none if the value is no list.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A time in Unix seconds, as text or number.
fn timestamp(value: &Value) -> Option<Timestamp> {
    let seconds: u64 = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_u64()?,
    };
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}

/// A text, cut to `chars_max` characters: strangers write these texts.
fn text(value: &Value, chars_max: usize) -> Option<Box<str>> {
    let text = value.as_str()?;
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(end, _)| end);
    Some(text[..end].into())
}

/// A name, cut and made harmless.
fn name(value: &Value) -> Option<Box<str>> {
    text(value, NAME_CHARS_MAX).map(|name| printable::harmless(&name).into())
}

/// An id; `None` if it is too long.
fn id(value: &Value) -> Option<Box<str>> {
    value.as_str().filter(|id| id.len() <= ID_BYTES_MAX).map(Box::from)
}

/// Parses a report on a message.
pub(super) fn status(value: &Value) -> Option<StatusUpdate> {
    let progress = match value["status"].as_str()? {
        "sent" => Progress::Sent,
        "delivered" => Progress::Delivered,
        "read" => Progress::Read,
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
        known_as: value["recipient_id"].as_str().and_then(body::phone),
    })
}

fn failure_of(errors: &Value) -> Failure {
    let first = items(errors).next().map(ErrorBody::deserialize);
    failure(&first.and_then(Result::ok).unwrap_or_default())
}

/// Parses a message that one of the contacts wrote.
pub(super) fn inbound(value: &Value, contacts: &[Value]) -> Option<Inbound> {
    let from = value["from"].as_str()?;
    let writer = contacts.iter().find(|contact| contact["wa_id"].as_str() == Some(from));
    let referral = &value["referral"];
    let headline = text(&referral["headline"], NAME_CHARS_MAX);
    let source_type = text(&referral["source_type"], WORD_CHARS_MAX);
    let referral = source_type.zip(id(&referral["source_id"]));
    Some(Inbound {
        provider_id: id(&value["id"])?,
        from: body::phone(from)?,
        name: writer.and_then(|writer| name(&writer["profile"]["name"])),
        kind: text(&value["type"], WORD_CHARS_MAX)?,
        text: text_of_message(value).unwrap_or_default(),
        at: timestamp(&value["timestamp"])?,
        referral: referral.map(|(kind, id)| Referral {
            source_type: kind,
            source_id: id,
            headline,
        }),
    })
}

/// The text of a message, which each type has in another field.
fn text_of_message(message: &Value) -> Option<Box<str>> {
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

/// Parses a new status of a template.
pub(super) fn template(value: &Value) -> Option<TemplateUpdate> {
    Some(TemplateUpdate {
        template: TemplateName {
            name: id(&value["message_template_name"])?,
            language: id(&value["message_template_language"])?,
        },
        status: text(&value["event"], WORD_CHARS_MAX)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::callback::Callback;
    use crate::cloud_api::envelope::{self, About};
    use crate::cloud_api::{CloudApi, CloudApiAccount, CloudApiOptions, CloudApiSecrets};
    use crate::{FailureClass, Origin};
    use postrider_runtime::Secret;

    const OTP: &str = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y";
    const MESSAGE: &str = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y";

    fn number() -> CloudApiNumber {
        let account = CloudApiAccount {
            phone: "+15550001111".parse().unwrap(),
            phone_number_id: "106".parse().unwrap(),
            account_id: "107".parse().unwrap(),
        };
        let secrets = CloudApiSecrets {
            token: Secret::new("t"),
            app_secret: Secret::new("key"),
            verify_token: Secret::new("v"),
        };
        let options = CloudApiOptions { base_url: "http://h".to_owned(), ..Default::default() };
        CloudApi::new(options).unwrap().number(&account, secrets).unwrap()
    }

    fn read(field: &str, value: Value) -> Callback {
        let body = json!({"object": "whatsapp_business_account", "entry": [
            {"id": "107", "changes": [{"field": field, "value": value}]},
        ]});
        let [part] = &mut envelope::read(body.to_string().as_bytes()).unwrap()[..] else {
            panic!("one")
        };
        std::mem::take(&mut part.callback)
    }

    fn messages(mut value: Value) -> Callback {
        value["metadata"] = json!({"phone_number_id": "106"});
        read("messages", value)
    }

    #[test]
    fn only_the_providers_signature_is_valid() {
        let number = number();
        let text = b"The quick brown fox jumps over the lazy dog";
        // A well-known example of HMAC-SHA256 under "key".
        let digest = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert!(number.signed(&format!("sha256={digest}"), text));
        assert!(number.signed(&format!("sha256={}", digest.to_uppercase()), text));
        assert!(!number.signed(&format!("sha256={digest}"), b"The quick brown fox"));
        for bad in [
            String::new(),
            digest.to_owned(),
            format!("sha1={digest}"),
            format!("sha256={}", &digest[..62]),
            format!("sha256={digest}00"),
            format!("sha256={}", digest.replace('f', "0")),
            format!("sha256={}", digest.replace('f', "g")),
            format!("sha256={}", "é".repeat(32)),
        ] {
            assert!(!number.signed(&bad, text), "{bad}");
        }
        assert!(number.knows("v") && !number.knows("") && !number.knows("vv"));
    }

    #[test]
    fn a_status_report_is_parsed() {
        let report = |status: &str, opaque: &str| {
            json!({
                "id": "wamid.x", "status": status, "timestamp": "1750857384",
                "recipient_id": "5516", "biz_opaque_callback_data": opaque,
                "errors": [{"code": 131_049, "title": "t", "error_data": {"details": "why"}}],
            })
        };
        let callback = messages(json!({"statuses": [
            report("sent", OTP), report("delivered", MESSAGE), report("read", MESSAGE),
            report("failed", MESSAGE),
        ]}));
        let [sent, delivered, read, failed] = &callback.statuses[..] else { panic!("four") };
        assert_eq!(sent.origin, Origin::Otp { request_id: OTP.parse().unwrap(), number: 0 });
        assert_eq!(delivered.origin, Origin::Message(MESSAGE.parse().unwrap()));
        assert_eq!((&*sent.provider_id, sent.at.as_millis()), ("wamid.x", 1_750_857_384_000));
        let progress = [&sent.status, &delivered.status, &read.status];
        assert_eq!(progress, [&Progress::Sent, &Progress::Delivered, &Progress::Read]);
        let class = FailureClass::MarketingHeldBack;
        let failure = Failure { class, code: Some(131_049), details: "why".into() };
        assert_eq!(failed.status, Progress::Failed(failure));
    }

    #[test]
    fn an_inbound_message_is_parsed() {
        let contacts = json!([{"profile": {"name": "Sheena"}, "wa_id": "16505551234"}]);
        let part = |kind: &str, part: Value| {
            let mut message = json!({
                "from": "16505551234", "id": "wamid.i", "timestamp": "1749416383", "type": kind,
            });
            message[kind] = part;
            message
        };
        let mut ad = part("text", json!({"body": "Hi"}));
        ad["referral"] = json!({"source_type": "ad", "source_id": "7", "headline": "x"});
        let callback = messages(json!({"contacts": contacts, "messages": [
            ad,
            part("image", json!({"caption": "Look", "id": "1"})),
            part("audio", json!({"id": "1"})),
            part("button", json!({"text": "Yes", "payload": "y"})),
            part("interactive", json!({"type": "button_reply", "button_reply": {"title": "No"}})),
            part("interactive", json!({"type": "list_reply", "list_reply": {"title": "One"}})),
            part("reaction", json!({"emoji": "👍", "message_id": "x"})),
            part("unsupported", json!(null)),
        ]}));
        let said: Vec<_> = callback.inbound.iter().map(|it| (&*it.kind, &*it.text)).collect();
        let expected = [
            ("text", "Hi"),
            ("image", "Look"),
            ("audio", ""),
            ("button", "Yes"),
            ("interactive", "No"),
            ("interactive", "One"),
            ("reaction", "👍"),
            ("unsupported", ""),
        ];
        assert_eq!(said, expected);
        let first = &callback.inbound[0];
        assert_eq!(first.from.to_string(), "+16505551234");
        assert_eq!(first.name.as_deref(), Some("Sheena"));
        assert_eq!(first.at.as_millis(), 1_749_416_383_000);
        let (source_type, source_id) = ("ad".into(), "7".into());
        let referral = Referral { source_type, source_id, headline: Some("x".into()) };
        assert_eq!(first.referral, Some(referral));
        assert_eq!(callback.inbound[1].referral, None);
    }

    #[test]
    fn a_templates_status_is_parsed() {
        let callback = read(
            "message_template_status_update",
            json!({
                "event": "PAUSED", "message_template_id": 1, "reason": "NONE",
                "message_template_name": "spring_sale", "message_template_language": "en_US",
            }),
        );
        let [update] = &callback.templates[..] else { panic!("one") };
        assert_eq!((&*update.template.name, &*update.template.language), ("spring_sale", "en_US"));
        assert_eq!(&*update.status, "PAUSED");
    }

    #[test]
    fn one_broken_item_does_not_fail_the_others() {
        let good = json!({
            "id": "w", "status": "sent", "timestamp": 1, "biz_opaque_callback_data": OTP
        });
        let mut broken = Vec::new();
        for (name, value) in [
            ("id", json!(7)),
            ("status", json!("warning")),
            ("status", json!(null)),
            ("timestamp", json!("soon")),
            ("timestamp", json!(-1)),
            ("biz_opaque_callback_data", json!("somebody else's")),
            ("biz_opaque_callback_data", json!(null)),
        ] {
            let mut report = good.clone();
            report[name] = value;
            broken.push(report);
        }
        broken.extend([json!(null), json!("text"), json!([]), good.clone()]);
        let callback = messages(json!({"statuses": broken, "messages": [{"from": "x"}, 7, null]}));
        assert_eq!((callback.statuses.len(), callback.inbound.len()), (1, 0));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "\u{1f600}".repeat(70_000);
        let callback = messages(json!({
            "contacts": [{"profile": {"name": long}, "wa_id": "16505551234"}],
            "messages": [
                {"from": "16505551234", "id": "a", "timestamp": "1", "type": "text", "text": {"body": long}},
                {"from": "16505551234", "id": "b", "timestamp": "1", "type": long},
                {"from": "16505551234", "id": long, "timestamp": "1", "type": "text"},
            ],
        }));
        let [text, kind] = &callback.inbound[..] else { panic!("two") };
        assert_eq!(text.text.chars().count(), TEXT_CHARS_MAX);
        assert_eq!(text.name.as_ref().unwrap().chars().count(), NAME_CHARS_MAX);
        assert_eq!(kind.kind.chars().count(), WORD_CHARS_MAX);
    }

    #[test]
    fn a_number_recognizes_the_parts_about_it() {
        let is_meant = |about| number().is_meant(&about);
        for (id, meant) in [(None, true), (Some("106"), true), (Some("107"), false)] {
            assert_eq!(is_meant(About::Number(id.map(Into::into))), meant, "{id:?}");
        }
        for (id, meant) in [(None, true), (Some("107"), true), (Some("106"), false)] {
            assert_eq!(is_meant(About::Account(id.map(Into::into))), meant, "{id:?}");
        }
    }
}
