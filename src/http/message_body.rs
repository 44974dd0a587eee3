//! Parses the content of a message, which two requests have: sending one, and replying.
//!
//! A macro writes the fields once for both bodies, and `type` selects those that count. A tagged
//! enum or a flattened struct would be shorter. But serde buffers those, and then an error does
//! not name its field. The notes of a caller about a sent item are here too, which more requests
//! have.

mod objects;

use std::borrow::Cow;
use std::collections::BTreeMap;

use postrider_actors::domain::{
    MessageId, MessageKind, PartyId, Phone, SenderNotes, UserId, printable,
};
use postrider_actors::{MessageContent, SendMessage, TemplateMessage};
use serde::Deserialize;
use utoipa::ToSchema;

use super::pipeline::ApiError;
use objects::{
    AnsweredMessage, AudioObject, CaptionedObject, DocumentObject, LocationObject, MediaObject,
    ReactionObject, StickerObject, cards, checked_interactive, message_id,
};

pub(crate) use self::objects::check_filename;

/// The language of a template if the body gives none.
const LANGUAGE_DEFAULT: &str = "en";
/// The maximum length of a reference, in characters.
const REFERENCE_CHARS_MAX: usize = 128;
/// The maximum number of strings in `metadata`.
const METADATA_MAX: usize = 16;
/// The maximum length of a key in `metadata`, in characters.
const METADATA_KEY_CHARS_MAX: usize = 40;
/// The maximum length of a value in `metadata`, in characters.
const METADATA_VALUE_CHARS_MAX: usize = 256;

macro_rules! bodies {
    ($($(#[$about:meta])* $name:ident { $($own:tt)* })*) => {$(
        #[derive(Deserialize, ToSchema)]
        $(#[$about])*
        pub(crate) struct $name<'a> {
            $($own)*
            /// What it is, which names the field that counts: `template`, `text`, `image`, `video`,
            /// `document`, `audio`, `sticker`, `location`, `contacts`, `reaction` or `interactive`.
            #[serde(borrow, rename = "type")]
            #[schema(example = "text")]
            kind: Cow<'a, str>,
            /// When `type` is `template`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            template: Option<TemplateBody<'a>>,
            /// Free text, when `type` is `text`: allowed for 24 hours after the recipient has
            /// written, as is everything but a template.
            #[serde(borrow)]
            #[schema(example = "Your table is ready.", min_length = 1, max_length = 4096)]
            text: Option<Cow<'a, str>>,
            /// When `type` is `image`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            #[schema(value_type = Option<CaptionedObject>)]
            image: Option<MediaObject<'a>>,
            /// When `type` is `video`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            #[schema(value_type = Option<CaptionedObject>)]
            video: Option<MediaObject<'a>>,
            /// When `type` is `document`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            #[schema(value_type = Option<DocumentObject>)]
            document: Option<MediaObject<'a>>,
            /// When `type` is `audio`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            #[schema(value_type = Option<AudioObject>)]
            audio: Option<MediaObject<'a>>,
            /// When `type` is `sticker`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            #[schema(value_type = Option<StickerObject>)]
            sticker: Option<MediaObject<'a>>,
            /// When `type` is `location`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            location: Option<LocationObject<'a>>,
            /// When `type` is `contacts`: 1 to 257 address cards in the channel's form.
            #[schema(value_type = Option<Vec<Object>>, min_items = 1, max_items = 257,
                example = json!([{"name": {"formatted_name": "Ada", "first_name": "Ada"},
                    "phones": [{"phone": "+15550123456"}]}]))]
            contacts: Option<Vec<serde_json::Value>>,
            /// When `type` is `reaction`.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            reaction: Option<ReactionObject<'a>>,
            /// When `type` is `interactive`: the channel's object, of the type `button`, `list`,
            /// `cta_url`, `flow` or `location_request_message`.
            #[schema(value_type = Option<Object>)]
            interactive: Option<serde_json::Map<String, serde_json::Value>>,
            /// Makes it an answer to a message.
            #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
            context: Option<AnsweredMessage<'a>>,
            /// What the caller calls the message: 1 to 128 printable characters. Shown in rows and
            /// events.
            #[serde(borrow)]
            #[schema(example = "order-1017", min_length = 1, max_length = 128)]
            reference: Option<Cow<'a, str>>,
            /// At most 16 strings that are kept with the message, with keys of at most 40
            /// characters and values of at most 256.
            #[schema(example = json!({"shop": "north"}))]
            metadata: Option<BTreeMap<String, String>>,
        }

        impl $name<'_> {
            /// Checks the content and returns it.
            fn content(&self) -> Result<MessageContent, ApiError> {
                let fields = ContentFields {
                    template: self.template.as_ref(),
                    text: self.text.as_deref(),
                    image: self.image.as_ref(),
                    video: self.video.as_ref(),
                    document: self.document.as_ref(),
                    audio: self.audio.as_ref(),
                    sticker: self.sticker.as_ref(),
                    location: self.location.as_ref(),
                    contacts: self.contacts.as_deref(),
                    reaction: self.reaction.as_ref(),
                    interactive: self.interactive.as_ref(),
                };
                fields.content(&self.kind)
            }

            /// Checks which message this one answers, and returns its id.
            fn answers(&self) -> Result<Option<MessageId>, ApiError> {
                let Some(context) = &self.context else { return Ok(None) };
                if self.reaction.is_some() && self.kind == MessageKind::Reaction.as_str() {
                    let rule = "must not be given with `type` reaction";
                    return Err(ApiError::field("context", rule));
                }
                message_id("context.message_id", &context.message_id).map(Some)
            }
        }
    )*};
}

bodies! {
    /// Asks for a message to be sent; without `Debug`, as it has the text.
    #[schema(
        as = SendMessage,
        example = json!({"to": "+15550123456", "type": "template", "template": {"name": "welcome"}})
    )]
    SendMessageBody {
        /// Who gets it, in E.164; left out with `recipient`.
        #[serde(borrow)]
        #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
        to: Option<Cow<'a, str>>,
        /// Who gets it, by the channel's id; left out with `to`.
        #[serde(borrow)]
        #[schema(pattern = r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$")]
        recipient: Option<Cow<'a, str>>,
        /// The number that it leaves through, by its id or its phone; left out: the one that was
        /// last used with the recipient, or one of the pool.
        #[serde(borrow)]
        #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
        from: Option<Cow<'a, str>>,
    }
    /// A reply; without `Debug`, as it has the text.
    #[schema(as = Reply, example = json!({"type": "text", "text": "It is on its way."}))]
    ReplyBody {}
}

/// A template and the parameters for its places.
#[derive(Deserialize, ToSchema)]
#[schema(as = MessageTemplate)]
pub(crate) struct TemplateBody<'a> {
    /// The template's name.
    #[serde(borrow)]
    #[schema(example = "order_update")]
    name: Cow<'a, str>,
    /// Its language.
    #[serde(borrow)]
    #[schema(default = "en")]
    language: Option<Cow<'a, str>>,
    /// The parameters, in the channel's form; left out when the template has no places.
    #[schema(value_type = Option<Vec<Object>>, example = json!([{"type": "body", "parameters": [
        {"type": "text", "text": "Ada"}, {"type": "text", "text": "1234"}]}]))]
    components: Option<Vec<serde_json::Value>>,
}

/// The fields of a body that are its content.
struct ContentFields<'a> {
    template: Option<&'a TemplateBody<'a>>,
    text: Option<&'a str>,
    image: Option<&'a MediaObject<'a>>,
    video: Option<&'a MediaObject<'a>>,
    document: Option<&'a MediaObject<'a>>,
    audio: Option<&'a MediaObject<'a>>,
    sticker: Option<&'a MediaObject<'a>>,
    location: Option<&'a LocationObject<'a>>,
    contacts: Option<&'a [serde_json::Value]>,
    reaction: Option<&'a ReactionObject<'a>>,
    interactive: Option<&'a serde_json::Map<String, serde_json::Value>>,
}

impl SendMessageBody<'_> {
    /// Checks the body and returns the message to send.
    pub(crate) fn message(self) -> Result<SendMessage, ApiError> {
        let to = match (&self.to, &self.recipient) {
            (Some(to), None) => {
                let phone: Phone = to.parse().map_err(|error| ApiError::field("to", error))?;
                PartyId::Phone(phone)
            }
            (None, Some(id)) => {
                let id: UserId = id.parse().map_err(|error| ApiError::field("recipient", error))?;
                PartyId::User(id)
            }
            _ => return Err(ApiError::field("to", "must be given, or `recipient`, and not both")),
        };
        let (content, answers) = (self.content()?, self.answers()?);
        let from = self.from.map(|from| from.as_ref().into());
        let notes = sender_notes(self.reference, self.metadata)?;
        Ok(SendMessage { to, content, answers, notes, from })
    }
}

impl ReplyBody<'_> {
    /// Checks the body; returns its content, the message that it answers, and the sender's notes.
    pub(crate) fn message(
        self,
    ) -> Result<(MessageContent, Option<MessageId>, SenderNotes), ApiError> {
        let (content, answers) = (self.content()?, self.answers()?);
        Ok((content, answers, sender_notes(self.reference, self.metadata)?))
    }
}

impl ContentFields<'_> {
    /// Checks the field of the body's type.
    ///
    /// A template beside a text is refused: its sender would surely miss it.
    fn content(&self, kind: &str) -> Result<MessageContent, ApiError> {
        let unknown = |_| {
            let words = MessageKind::WORDS.join(", ");
            ApiError::field("type", format_args!("must be one of {words}"))
        };
        let kind = kind.parse::<MessageKind>().map_err(unknown)?;
        let missing = || ApiError::field(kind.as_str(), "must be given");
        let media = |given: Option<&MediaObject<'_>>| given.ok_or_else(missing)?.checked(kind);
        Ok(MessageContent::Object(match kind {
            MessageKind::Text if self.template.is_some() => {
                return Err(ApiError::field("template", "must not be given with `type` text"));
            }
            MessageKind::Text => {
                let text = self.text.ok_or_else(missing)?;
                let text = text.parse().map_err(|error| ApiError::field("text", error))?;
                return Ok(MessageContent::Text(text));
            }
            MessageKind::Template => {
                let template = self.template.ok_or_else(missing)?;
                return Ok(MessageContent::Template(TemplateMessage {
                    name: (*template.name).into(),
                    language: template.language.as_deref().unwrap_or(LANGUAGE_DEFAULT).into(),
                    components: template.components.clone().unwrap_or_default(),
                }));
            }
            MessageKind::Image => media(self.image)?,
            MessageKind::Video => media(self.video)?,
            MessageKind::Document => media(self.document)?,
            MessageKind::Audio => media(self.audio)?,
            MessageKind::Sticker => media(self.sticker)?,
            MessageKind::Location => self.location.ok_or_else(missing)?.checked()?,
            MessageKind::Contacts => cards(self.contacts.ok_or_else(missing)?)?,
            MessageKind::Reaction => self.reaction.ok_or_else(missing)?.checked()?,
            MessageKind::Interactive => checked_interactive(self.interactive.ok_or_else(missing)?)?,
        }))
    }
}

/// Checks the notes that a caller adds to its request.
pub(crate) fn sender_notes(
    reference: Option<Cow<'_, str>>,
    metadata: Option<BTreeMap<String, String>>,
) -> Result<SenderNotes, ApiError> {
    let metadata = metadata.unwrap_or_default();
    if let Some(reference) = &reference {
        check_chars("reference", reference, 1, REFERENCE_CHARS_MAX)?;
        if printable::has_control(reference) {
            return Err(ApiError::field("reference", "must have printable characters only"));
        }
    }
    if metadata.len() > METADATA_MAX {
        let rule = format_args!("must have at most {METADATA_MAX} entries");
        return Err(ApiError::field("metadata", rule));
    }
    for (key, value) in &metadata {
        check_chars("metadata", key, 0, METADATA_KEY_CHARS_MAX)?;
        check_chars(&format!("metadata.{key}"), value, 0, METADATA_VALUE_CHARS_MAX)?;
    }
    Ok(SenderNotes { reference: reference.map(Cow::into_owned), metadata })
}

/// Checks the number of characters of a text.
pub(crate) fn check_chars(field: &str, text: &str, min: usize, max: usize) -> Result<(), ApiError> {
    if (min..=max).contains(&text.chars().count()) {
        return Ok(());
    }
    let what = if field == "metadata" { "keys of " } else { "" };
    Err(ApiError::field(field, format_args!("must have {what}{min} to {max} characters")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{openapi_document, pipeline::json};

    /// Collects the descriptions of fields named `type` or `kind` that mention templates, by path.
    fn lists(value: &serde_json::Value, path: &str, found: &mut Vec<(String, String)>) {
        let children = value.as_object().into_iter().flatten();
        for (name, child) in children {
            let path = format!("{path}/{name}");
            let description = child["description"].as_str().unwrap_or_default();
            if matches!(name.as_str(), "type" | "kind") && description.contains("`template`") {
                found.push((path.clone(), description.to_owned()));
            }
            lists(child, &path, found);
        }
        for (index, child) in value.as_array().into_iter().flatten().enumerate() {
            lists(child, &format!("{path}/{index}"), found);
        }
    }

    #[test]
    fn the_document_lists_every_kind_of_message() {
        let document = serde_json::to_value(openapi_document()).unwrap();
        let mut found = Vec::new();
        lists(&document["components"]["schemas"], "", &mut found);
        // The two bodies, a message, two rows of the sandbox, one of a conversation, and an event.
        assert_eq!(found.len(), 7, "{found:?}");
        for (path, description) in found {
            for word in MessageKind::WORDS {
                assert!(description.contains(&format!("`{word}`")), "{path}: {description}");
            }
        }
    }

    #[test]
    fn both_bodies_name_the_field_that_is_wrong() {
        let send = |fields: &str| {
            let body = format!(r#"{{"to": "+15550123456"{fields}}}"#);
            let message = json::parse::<SendMessageBody<'_>>(body.as_bytes())?.message();
            message.map(|message| message.content)
        };
        let reply = |fields: &str| {
            let body = format!(r#"{{"x": 1{fields}}}"#);
            json::parse::<ReplyBody<'_>>(body.as_bytes())?.message().map(|(content, ..)| content)
        };
        for (fields, expected) in [
            ("", "missing field `type`"),
            (
                r#", "type": "x""#,
                "`type` must be one of template, text, image, video, document, audio, sticker, location, \
                 contacts, reaction, interactive",
            ),
            (r#", "type": "text""#, "`text` must be given"),
            (r#", "type": "text", "text": """#, "`text` must have 1 to 4096 characters"),
            (r#", "type": "template", "text": "a""#, "`template` must be given"),
            (
                r#", "type": "text", "text": "a", "template": {"name": "b"}"#,
                "`template` must not be given with `type` text",
            ),
            (
                r#", "type": "template", "template": {"name": 1}"#,
                "`template.name`: invalid type: integer `1`, expected a string",
            ),
        ] {
            for refused in [send(fields), reply(fields)] {
                assert_eq!(refused.unwrap_err().message(), expected, "{fields}");
            }
        }
        let MessageContent::Template(asked) =
            reply(r#", "type": "template", "template": {"name": "a"}, "text": """#).unwrap()
        else {
            panic!("a template was asked for")
        };
        assert_eq!((&*asked.name, &*asked.language, asked.components.len()), ("a", "en", 0));
    }
}
