//! Pure: the events of messages of numbers, broadcasts and mails, with their payloads.
//!
//! A single message through a number has at least two events, so their size on disk counts. They
//! are stored without their JSON. A [`MessageStep`] takes fifty bytes and the template's name; the
//! JSON of [`MessageData`] takes 230 bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EventKind;
use super::payload::as_text;
use crate::template::TemplateName;
use crate::{
    BroadcastId, ContactId, ConversationId, MediaId, MessageId, MessageKind, NumberId, PartyId,
    Timestamp, UserId,
};

/// A message that goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageData {
    /// The message.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub message_id: MessageId,
    /// The broadcast that it is of; its other fields are then reported by the broadcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub broadcast_id: Option<BroadcastId>,
    /// Who gets it: a phone in E.164, or of a mail the address. Of a broadcast's message where the
    /// channel reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Who gets it, by the channel's id: of a message that does not go to a phone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub recipient: Option<UserId>,
    /// `email`, or the kind of a message: `text`, `template`, `image`, `video`, `document`,
    /// `audio`, `sticker`, `location`, `contacts`, `reaction` or `interactive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    /// `queued`, `sent`, `held`, `delivered`, `read` or `failed`.
    pub status: &'static str,
    /// The template that it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<MessageTemplateData>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageErrorData>,
    /// The number that it leaves through, or left through; left out of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
    /// What its sender calls it, or calls its broadcast; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it, or with its broadcast; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl MessageData {
    /// The type of a mail.
    pub const EMAIL: &'static str = "email";
}

/// The template of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = UsedTemplate))]
pub struct MessageTemplateData {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(example = "order_update"))]
    pub name: Box<str>,
    /// Its language.
    #[cfg_attr(feature = "schema", schema(example = "en"))]
    pub language: Box<str>,
}

/// Why a message failed.
// Stored events have its fields in this order and without their names: none can be added, moved or
// left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MessageError))]
pub struct MessageErrorData {
    /// `channel_refused`, `not_sent_in_time`, or of a broadcast's message `cancelled`.
    #[cfg_attr(feature = "schema", schema(example = "channel_refused"))]
    pub reason: Box<str>,
    /// The channel's error code, where it gave one.
    #[cfg_attr(feature = "schema", schema(example = 131_026))]
    pub code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageReceivedData {
    /// The message.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub message_id: MessageId,
    /// The conversation that it is in.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub conversation_id: ConversationId,
    /// Who wrote it, or has just been made for whoever did.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub contact_id: ContactId,
    /// The number that it came to; left out of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub number_id: Option<NumberId>,
    /// `email` of a mail; left out of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'static str>,
    /// Who wrote it: a phone in E.164, or of a mail the address; null of somebody who hides the
    /// phone.
    #[cfg_attr(feature = "schema", schema(required))]
    pub from: Option<String>,
    /// The channel's id of whoever wrote it, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub user_id: Option<UserId>,
    /// The name that they have chosen on the channel, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<Box<str>>,
    /// The subject of a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the sender is called on the channel, where that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `text`, `email`, or what else the channel calls it.
    pub r#type: Box<str>,
    /// Its text, caption or choice. Of what has no words, what can be shown of it, such as the name
    /// of a place; empty where its type says all.
    pub text: Box<str>,
    /// When it was written.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The advertisement that it was written from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referral: Option<ReferralData>,
    /// The file that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<ReceivedMediaData>,
    /// What it has beside its text, in the channel's own form, of at most 16 KiB: a place, cards,
    /// what was chosen, a file with its `media_id`, a reaction with its `message_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>,
        example = json!({"latitude": 48.85, "longitude": 2.35, "name": "Office"})))]
    pub content: Option<Value>,
    /// `true` where `content` would be larger. Then the last elements of its lists and the ends of
    /// its largest texts are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schema(required = false))]
    pub content_truncated: bool,
    /// The message that it answers, or that it was written to somebody else before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<MessageContextData>,
}

/// What a message answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MessageContext))]
pub struct MessageContextData {
    /// The message that it answers; left out where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub message_id: Option<MessageId>,
    /// Whether it was written to somebody else before.
    pub forwarded: bool,
}

/// A file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReceivedMediaData {
    /// Names it in every call.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub media_id: MediaId,
    /// Its type.
    #[cfg_attr(feature = "schema", schema(example = "image/jpeg"))]
    pub mime_type: String,
    /// Its name, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `pending`: `media.ready` or `media.failed` follows.
    #[cfg_attr(feature = "schema", schema(example = "pending"))]
    pub state: &'static str,
}

/// An advertisement that led to a message. The message's record has it too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReferralData {
    /// `ad` or `post`; empty where the provider does not report it.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_type: Box<str>,
    /// Its id at the provider, likewise.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, required))]
    pub source_id: Box<str>,
    /// Its headline, where the provider reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Box<str>>,
    /// What it says, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<str>>,
    /// Its address, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_url: Option<Box<str>>,
    /// The provider's id of the click, which conversions are reported with, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctwa_clid: Option<Box<str>>,
}

/// An event of a single message. The order of the fields is part of the format on disk; so is the
/// order of the fields of [`TemplateName`] and [`MessageErrorData`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageStep {
    /// The step: `message.queued` and the types that follow it.
    pub kind: EventKind,
    /// The message.
    pub message_id: MessageId,
    /// The recipient.
    pub to: PartyId,
    /// The kind of the message.
    pub r#type: MessageKind,
    /// The template from which it is made.
    pub template: Option<TemplateName>,
    /// The reason for its failure.
    pub error: Option<MessageErrorData>,
    /// The number that it leaves through.
    pub number_id: NumberId,
    /// The sender's name for it.
    pub reference: Option<String>,
    /// The sender's data about it.
    pub metadata: BTreeMap<String, String>,
}

impl MessageStep {
    /// Returns the status as the payload spells it, or `None` if the type is no such event.
    pub(super) const fn status(&self) -> Option<&'static str> {
        Some(match self.kind {
            EventKind::MessageQueued => "queued",
            EventKind::MessageSent => "sent",
            EventKind::MessageHeld => "held",
            EventKind::MessageDelivered => "delivered",
            EventKind::MessageRead => "read",
            EventKind::MessageFailed => "failed",
            _ => return None,
        })
    }

    /// Returns the payload.
    pub(super) fn data(&self) -> MessageData {
        let named = |it: TemplateName| MessageTemplateData { name: it.name, language: it.language };
        MessageData {
            message_id: self.message_id,
            broadcast_id: None,
            to: self.to.phone().map(|phone| phone.to_string()),
            recipient: self.to.user_id().cloned(),
            r#type: Some(self.r#type.as_str()),
            status: self.status().unwrap_or_default(),
            template: self.template.clone().map(named),
            error: self.error.clone(),
            number_id: Some(self.number_id),
            reference: self.reference.clone(),
            metadata: (!self.metadata.is_empty()).then(|| self.metadata.clone()),
        }
    }

    /// Returns the approximate length of the payload as JSON, in bytes, without escapes.
    pub(super) fn data_len(&self) -> usize {
        // Beside the texts, each part has names, quotes and separators; an error has its code.
        let to = self.to.user_id().map_or(14, |user| 7 + user.as_str().len());
        let words = self.r#type.as_str().len() + self.status().map_or(0, str::len);
        let template = self.template.as_ref();
        let template = template.map_or(0, |it| 37 + it.name.len() + it.language.len());
        let error = self.error.as_ref();
        let error = error.map_or(0, |it| 48 + it.reason.len() + it.details.len());
        let reference = self.reference.as_ref().map_or(0, |it| 15 + it.len());
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len() + 6);
        let metadata = if self.metadata.is_empty() { 0 } else { 14 + metadata.sum::<usize>() };
        122 + to + words + template + error + reference + metadata
    }

    /// Returns whether one of the payload's values may be this text. A search calls it for every
    /// message, so no payload is made for it.
    #[must_use]
    pub fn may_have(&self, text: &str) -> bool {
        let of_ids = || {
            text.parse() == Ok(self.message_id)
                || text.parse() == Ok(self.number_id)
                || text.parse().as_ref() == Ok(&self.to)
        };
        let of_words = || text == self.r#type.as_str() || Some(text) == self.status();
        let of_template =
            || self.template.as_ref().is_some_and(|it| *it.name == *text || *it.language == *text);
        let of_error =
            || self.error.as_ref().is_some_and(|it| *it.reason == *text || *it.details == *text);
        let of_notes = || {
            self.reference.as_deref() == Some(text)
                || self.metadata.values().any(|value| value == text)
        };
        of_ids() || of_words() || of_template() || of_error() || of_notes()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use expect_test::expect;

    use super::*;
    use crate::event::{LogEntry, PublicEvent};
    use crate::golden::{AT, Sheet, UNIQUE};

    /// Returns events of single messages in their own stored form.
    pub(in crate::event) fn steps() -> impl Iterator<Item = (&'static str, Box<MessageStep>)> {
        let queued = MessageStep {
            kind: EventKind::MessageQueued,
            message_id: MessageId::from_parts(AT, UNIQUE),
            to: "+15550123456".parse().unwrap(),
            r#type: MessageKind::Template,
            template: Some(TemplateName { name: "offer".into(), language: "en".into() }),
            error: None,
            number_id: NumberId::from_parts(AT, UNIQUE + 1),
            reference: None,
            metadata: [].into(),
        };
        let user: crate::UserId = "US.13491208".parse().unwrap();
        let error = MessageErrorData {
            reason: "channel_refused".into(),
            code: Some(131_026),
            details: "no such phone".into(),
        };
        let late = MessageErrorData {
            reason: "not_sent_in_time".into(),
            code: None,
            details: "too late".into(),
        };
        let late =
            MessageStep { kind: EventKind::MessageFailed, error: Some(late), ..queued.clone() };
        let failed = MessageStep {
            kind: EventKind::MessageFailed,
            to: user.into(),
            r#type: MessageKind::Text,
            template: None,
            error: Some(error),
            reference: Some("order-7".to_owned()),
            metadata: [("é".to_owned(), "1".to_owned())].into(),
            ..queued.clone()
        };
        [("message queued", queued), ("message late", late), ("message failed", failed)]
            .into_iter()
            .map(|(name, step)| (name, Box::new(step)))
    }

    #[test]
    fn events_of_a_message_have_the_payload_that_they_always_had() {
        let mut sheet = Sheet::default();
        for (_, step) in steps() {
            let event = PublicEvent::Message(step.clone());
            let data = event.data();
            sheet.plain(event.kind(), &data.to_string());
            assert_eq!(event.subject(), Some(step.to.to_string()));
            let values = ["message_id", "type", "status", "number_id"].map(|it| data[it].clone());
            for value in values.iter().chain(data.get("to")).chain(data.get("recipient")) {
                assert!(step.may_have(value.as_str().unwrap()), "{value}");
            }
            assert!(!step.may_have("+15550123457") && !step.may_have(""));
        }
        let failed = steps().last().unwrap().1;
        for text in ["channel_refused", "no such phone", "order-7", "1"] {
            assert!(failed.may_have(text), "{text}");
        }
        let queued = steps().next().unwrap().1;
        assert!(queued.may_have("offer") && queued.may_have("en"));
        sheet.is(expect![[r#"
        message.queued: {"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28b","status":"queued","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.failed: {"error":{"code":null,"details":"too late","reason":"not_sent_in_time"},"message_id":"msg_01hf7yat3v041061050r3gg28a","number_id":"num_01hf7yat3v041061050r3gg28b","status":"failed","template":{"language":"en","name":"offer"},"to":"+15550123456","type":"template"}
        message.failed: {"error":{"code":131026,"details":"no such phone","reason":"channel_refused"},"message_id":"msg_01hf7yat3v041061050r3gg28a","metadata":{"é":"1"},"number_id":"num_01hf7yat3v041061050r3gg28b","recipient":"US.13491208","reference":"order-7","status":"failed","type":"text"}
    "#]]);
    }

    /// A page of events ends by this length, whatever the name of a template.
    #[test]
    fn the_length_of_a_payload_is_known_without_its_json() {
        let name = TemplateName { name: "n".repeat(512).into(), language: "pt_BR".into() };
        let long = |step: &MessageStep| {
            let notes: Vec<_> = (10..30).map(|key| (key.to_string(), "v".repeat(500))).collect();
            let to: crate::UserId = format!("US.{}", "1".repeat(60)).parse().unwrap();
            MessageStep {
                template: Some(name.clone()),
                to: to.into(),
                reference: Some("r".repeat(200)),
                metadata: notes.into_iter().collect(),
                ..step.clone()
            }
        };
        for (_, step) in steps() {
            for step in [Box::new(long(&step)), step] {
                let event = PublicEvent::Message(step);
                let (json, known) = (event.data().to_string(), event.data_len());
                assert!(json.len().abs_diff(known) < 10, "{known} of {}: {json}", json.len());
            }
        }
    }

    #[test]
    fn only_a_message_that_goes_out_is_one() {
        for (_, step) in steps() {
            let mut bytes = Vec::new();
            let event = PublicEvent::Message(step);
            LogEntry { at: Timestamp::from_millis(0), event }.encode_into(&mut bytes);
            let kinds = (0..40).filter(|kind| {
                bytes[2] = *kind;
                LogEntry::decode_all(&bytes).all(|entry| entry.is_ok())
            });
            assert_eq!(kinds.collect::<Vec<_>>(), [16, 17, 18, 19, 20, 37]);
        }
    }

    #[test]
    fn the_kinds_of_messages_keep_their_numbers() {
        let mut sheet = Sheet::default();
        for word in MessageKind::WORDS {
            sheet.postcard(word, &word.parse::<MessageKind>().unwrap());
        }
        sheet.is(expect![[r#"
        template: 00
        text: 01
        image: 02
        video: 03
        document: 04
        audio: 05
        sticker: 06
        location: 07
        contacts: 08
        reaction: 09
        interactive: 0a
    "#]]);
    }
}
