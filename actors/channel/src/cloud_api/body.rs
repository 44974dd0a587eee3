//! Pure: the body of a request to send a message, and the opaque field that callbacks return.

use crate::{Content, Origin, Outbound};
use postrider_domain::template::{CodeButton, TemplateName};
use postrider_domain::{MessageContent, ObjectContent, PartyId, Phone, RenderedContent};

/// Returns the JSON of a request to send `message`, with our id in its opaque field.
pub(super) fn json_of(message: &Outbound) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    json.extend_from_slice(br#"{"messaging_product":"whatsapp","recipient_type":"individual","#);
    // An id has only letters, digits and dots, so nothing needs an escape.
    let (field, party) = match &message.to {
        PartyId::Phone(phone) => ("to", phone.as_u64().to_string()),
        PartyId::User(id) => ("recipient", id.to_string()),
    };
    json.extend_from_slice(format!(r#""{field}":"{party}""#).as_bytes());
    if let Some(answered) = &message.answers {
        json.extend_from_slice(br#","context":{"message_id":"#);
        push_string(&mut json, answered);
        json.push(b'}');
    }
    match &message.content {
        Content::Message(content) => push_content(&mut json, content),
        Content::Otp { template, button, .. } => {
            let code = message.code().map(postrider_domain::OtpCode::reveal).unwrap_or_default();
            push_template(&mut json, template, &otp_components(&code, *button));
        }
    }
    json.extend_from_slice(br#","biz_opaque_callback_data":"#);
    push_string(&mut json, &opaque_of(message));
    json.push(b'}');
    json
}

/// Returns the content of the opaque field, which names the message.
///
/// A broadcast does not look up the recipient of a callback, so its messages carry the phone too.
fn opaque_of(message: &Outbound) -> String {
    match message.origin {
        Origin::Otp { request_id, number } => format!("{request_id}:{number}"),
        Origin::Message(id) => id.to_string(),
        Origin::Broadcast { broadcast, index } => {
            let phone = message.to.phone().map(|phone| format!(":{}", phone.as_u64()));
            format!("{broadcast}:{index}{}", phone.unwrap_or_default())
        }
    }
}

/// The parsed content of a callback's opaque field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opaque {
    pub(super) origin: Origin,
    /// The recipient, if the field has it.
    pub(super) to: Option<Phone>,
}

/// Parses a callback's opaque field; `None` if it is not one of ours.
pub(super) fn parse_opaque(opaque: &str) -> Option<Opaque> {
    let mut parts = opaque.split(':');
    let (id, detail) = (parts.next()?, parts.next());
    let only = |origin| Some(Opaque { origin, to: None });
    if let Ok(request_id) = id.parse() {
        return only(Origin::Otp { request_id, number: detail?.parse().ok()? });
    }
    let Some(index) = detail else { return only(Origin::Message(id.parse().ok()?)) };
    let origin = Origin::Broadcast { broadcast: id.parse().ok()?, index: index.parse().ok()? };
    let to = parts.next().and_then(phone);
    Some(Opaque { origin, to })
}

/// Parses a phone in the provider's form: digits only.
pub(super) fn phone(digits: &str) -> Option<Phone> {
    digits.parse().ok().and_then(|digits| Phone::from_digits(digits).ok())
}

/// Appends the content under the provider's word for its kind.
fn push_content(json: &mut Vec<u8>, content: &RenderedContent) {
    match content {
        MessageContent::Text(text) => {
            json.extend_from_slice(br#","type":"text","text":{"preview_url":false,"body":"#);
            push_string(json, text.as_str());
            json.push(b'}');
        }
        MessageContent::Template(content) => {
            push_template(json, &content.template, &content.components);
        }
        MessageContent::Object(ObjectContent { kind, object, .. }) => {
            // The object is JSON already, and its name is a word.
            let kind = kind.as_str();
            json.extend_from_slice(format!(r#","type":"{kind}","{kind}":{object}"#).as_bytes());
        }
    }
}

/// Appends a template. `components` is JSON already and is inserted unchanged.
fn push_template(json: &mut Vec<u8>, template: &TemplateName, components: &str) {
    json.extend_from_slice(br#","type":"template","template":{"name":"#);
    push_string(json, &template.name);
    json.extend_from_slice(br#","language":{"code":"#);
    push_string(json, &template.language);
    json.push(b'}');
    if !components.is_empty() {
        json.extend_from_slice(br#","components":"#);
        json.extend_from_slice(components.as_bytes());
    }
    json.push(b'}');
}

/// Returns the components of an authentication template.
///
/// The code is in the body and in the button that takes it. It has only digits, so it needs no
/// escaping.
fn otp_components(code: &str, button: CodeButton) -> String {
    let parameters = format!(r#""parameters":[{{"type":"text","text":"{code}"}}]"#);
    let button = match button {
        CodeButton::At(index) => {
            format!(r#",{{"type":"button","sub_type":"url","index":"{index}",{parameters}}}"#)
        }
        CodeButton::Absent => String::new(),
    };
    format!(r#"[{{"type":"body",{parameters}}}{button}]"#)
}

fn push_string(json: &mut Vec<u8>, text: &str) {
    // Writing a string into a vector cannot fail.
    serde_json::to_writer(json, text).ok();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use postrider_domain::TemplateContent;
    use postrider_domain::code::CodeLength;
    use postrider_domain::template::TemplateCategory;
    use postrider_domain::{CodeKey, MessageId, NumberId, RequestId, Timestamp};

    fn message(origin: Origin, content: Content) -> Outbound {
        let at = Timestamp::from_millis(1_700_000_000_000);
        Outbound {
            message_id: MessageId::from_parts(at, 1),
            origin,
            number: NumberId::from_parts(at, 2),
            workspace: "acme".parse().unwrap(),
            to: "+15551234567".parse().unwrap(),
            give_up_at: at,
            content,
            answers: None,
            pinned: false,
        }
    }

    fn name(name: &str, language: &str) -> TemplateName {
        TemplateName { name: name.into(), language: language.into() }
    }

    fn text_of(message: &Outbound) -> String {
        String::from_utf8(json_of(message)).unwrap()
    }

    #[test]
    fn a_person_without_a_phone_is_the_recipient() {
        let id = MessageId::from_parts(Timestamp::from_millis(1), 7);
        let content = RenderedContent::Text("Hi".parse().unwrap());
        let to = "US.13491208655302741918".parse().unwrap();
        let message =
            Outbound { to, ..message(Origin::Message(id), Content::Message(Arc::new(content))) };
        let json: serde_json::Value = serde_json::from_slice(&json_of(&message)).unwrap();
        assert_eq!(json["recipient"], "US.13491208655302741918");
        assert_eq!((json.get("to"), &json["text"]["body"]), (None, &"Hi".into()));
    }

    #[test]
    fn a_text_is_escaped() {
        let id = MessageId::from_parts(Timestamp::from_millis(1_700_000_000_000), 1);
        let text = RenderedContent::Text("Hello \"Ada\"\n".parse().unwrap());
        let message = message(Origin::Message(id), Content::Message(Arc::new(text)));
        let expected = format!(
            r#"{{"messaging_product":"whatsapp","recipient_type":"individual","to":"15551234567","type":"text","text":{{"preview_url":false,"body":"Hello \"Ada\"\n"}},"biz_opaque_callback_data":"{id}"}}"#
        );
        assert_eq!(text_of(&message), expected);
        assert_eq!(parse_opaque(&id.to_string()).unwrap().origin, Origin::Message(id));
    }

    #[test]
    fn a_template_keeps_its_components_as_they_are() {
        let id = MessageId::from_parts(Timestamp::from_millis(1_700_000_000_000), 1);
        let components =
            r#"[{"type":"body", "parameters":[{"type":"text","text":"Ada"}]}]"#.to_owned();
        let template = |components: &str| {
            Content::Message(Arc::new(RenderedContent::Template(TemplateContent {
                template: name("order_update", "en_US"),
                components: components.into(),
                text: "Hello Ada".into(),
                category: TemplateCategory::Utility,
            })))
        };
        let given = message(Origin::Message(id), template(&components));
        let expected = format!(
            r#"{{"messaging_product":"whatsapp","recipient_type":"individual","to":"15551234567","type":"template","template":{{"name":"order_update","language":{{"code":"en_US"}},"components":{components}}},"biz_opaque_callback_data":"{id}"}}"#
        );
        assert_eq!(text_of(&given), expected);
        let bare = text_of(&message(Origin::Message(id), template("")));
        assert!(bare.contains(r#""language":{"code":"en_US"}},"biz"#), "{bare}");
    }

    #[test]
    fn a_code_is_in_body_and_button() {
        let id = RequestId::from_parts(Timestamp::from_millis(1_700_000_000_000), 9);
        let key = CodeKey::derive(&[7; 32], &"acme".parse().unwrap());
        let content = Content::Otp {
            request_id: id,
            length: CodeLength::default(),
            code_key: Arc::new(key),
            template: Arc::new(name("otp_code", "en")),
            button: CodeButton::default(),
            chained: false,
        };
        let origin_of = |number| Origin::Otp { request_id: id, number };
        let message = message(origin_of(2), content);
        let code = message.code().unwrap().reveal();
        let expected = format!(
            r#"{{"messaging_product":"whatsapp","recipient_type":"individual","to":"15551234567","type":"template","template":{{"name":"otp_code","language":{{"code":"en"}},"components":[{{"type":"body","parameters":[{{"type":"text","text":"{code}"}}]}},{{"type":"button","sub_type":"url","index":"0","parameters":[{{"type":"text","text":"{code}"}}]}}]}},"biz_opaque_callback_data":"{id}:2"}}"#
        );
        assert_eq!(text_of(&message), expected);
        let components = |button| otp_components("4829", button);
        let in_body = r#"[{"type":"body","parameters":[{"type":"text","text":"4829"}]}"#;
        assert_eq!(components(CodeButton::Absent), format!("{in_body}]"));
        assert_eq!(
            components(CodeButton::At(2)),
            format!(
                "{in_body},{}]",
                in_body[1..].replace(r#""body""#, r#""button","sub_type":"url","index":"2""#)
            )
        );
        let origin = |opaque: &str| parse_opaque(opaque).map(|it| it.origin);
        assert_eq!(origin(&opaque_of(&message)), Some(origin_of(2)));
        for other in [id.to_string(), format!("{id}:x")] {
            assert_eq!(origin(&other), None, "{other}");
        }
        let broadcast = postrider_domain::BroadcastId::from_bytes([7; 16]);
        let origin_of = Origin::Broadcast { broadcast, index: 70_000 };
        let recipient = Outbound { origin: origin_of, ..message };
        let to = recipient.to.phone();
        assert_eq!(parse_opaque(&opaque_of(&recipient)), Some(Opaque { origin: origin_of, to }));
        let without = Some(Opaque { origin: origin_of, to: None });
        assert_eq!(parse_opaque(&format!("{broadcast}:70000")), without);
        assert_eq!(origin(&format!("{broadcast}:x")), None);
        for foreign in ["", "otp_", "msg_x", "key_01jd3v0x5n8m7k2q4r6s8t0w2y", "order 7"] {
            assert_eq!(origin(foreign), None, "{foreign}");
        }
    }
}
