//! Pure: the content of a message, from the request for it to the channel, and its stored form.
//!
//! A new kind of message is a word of [`MessageKind`]: a variant of [`MessageContent`], or one that
//! [`ObjectContent`] carries in the channel's own form. This file answers the engine's questions
//! about a kind. Elsewhere only the parser of requests, the channels and replies by mail match the
//! variants.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::id::{MediaId, MessageId};
use crate::prices::PriceClass;
use crate::template::{TemplateCategory, TemplateName};
use crate::text::{self, MessageText};
use crate::words::words;

words! {
    /// The kind of a message, as requests and events spell it. Records and stored events have the
    /// number of the variant: a new one comes last.
    MessageKind {
        /// A template.
        Template = "template",
        /// Free text.
        Text = "text",
        /// A picture.
        Image = "image",
        /// A film.
        Video = "video",
        /// A file.
        Document = "document",
        /// A sound, or a voice message.
        Audio = "audio",
        /// A sticker.
        Sticker = "sticker",
        /// A place.
        Location = "location",
        /// Address cards.
        Contacts = "contacts",
        /// An emoji on another message.
        Reaction = "reaction",
        /// Buttons, a list, a link or a form.
        Interactive = "interactive",
    }
}

/// The content of a message. `T` is its template: a [`TemplateMessage`] in a request, a
/// [`TemplateContent`] once it is rendered.
///
/// All content except a template is free-form: the channel accepts it only while the conversation
/// window is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageContent<T = TemplateMessage> {
    /// Free text.
    Text(MessageText),
    /// A template with its parameters.
    Template(T),
    /// Content that is an object.
    Object(ObjectContent),
}

/// Free-form content that is an object in the channel's own form.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectContent {
    /// Its kind, which is the object's name too.
    pub kind: MessageKind,
    /// The object as JSON, without the channel's own ids until the message is accepted.
    pub object: Box<str>,
    /// A line that describes the object to people; empty if the kind is enough.
    pub text: Box<str>,
    /// The message that it refers to. The channel's id of that message belongs into the object.
    pub about: Option<MessageId>,
    /// Its file. The channel's id of that file belongs into the object.
    pub media: Option<MediaId>,
}

impl ObjectContent {
    /// Puts one of the channel's ids into the object.
    pub fn insert(&mut self, field: &str, id: &str) {
        // The object was parsed before.
        if let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(&self.object) {
            object.insert(field.to_owned(), id.into());
            self.object = serde_json::Value::Object(object).to_string().into();
        }
    }
}

impl std::fmt::Debug for ObjectContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectContent").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Content that can be handed to a channel.
pub type RenderedContent = MessageContent<TemplateContent>;

/// A template and the parameters for its placeholders, as they are requested.
#[derive(Clone, PartialEq, Eq)]
pub struct TemplateMessage {
    /// The template's name.
    pub name: Box<str>,
    /// Its language as the channel writes it.
    pub language: Box<str>,
    /// The parameters: the `components` of a message in the channel's own form.
    pub components: Vec<serde_json::Value>,
}

impl std::fmt::Debug for TemplateMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("TemplateMessage");
        shown.field("name", &self.name).field("language", &self.language).finish_non_exhaustive()
    }
}

/// A template with parameters that fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateContent {
    /// The template's name and language.
    pub template: TemplateName,
    /// The parameters: a JSON array in the channel's own form, `[{"type": "body", "parameters":
    /// [{"type": "text", "text": "Ada"}]}]`.
    pub components: Box<str>,
    /// The text that the recipient reads, without media.
    pub text: Box<str>,
    /// The template's category.
    pub category: TemplateCategory,
}

impl<T> MessageContent<T> {
    /// Returns the kind of the content.
    #[must_use]
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Text(_) => MessageKind::Text,
            Self::Template(_) => MessageKind::Template,
            Self::Object(content) => content.kind,
        }
    }

    /// Returns the template; `None` for free-form content.
    #[must_use]
    pub const fn template(&self) -> Option<&T> {
        match self {
            Self::Template(template) => Some(template),
            Self::Text(_) | Self::Object(_) => None,
        }
    }

    /// Returns the price class of the message. `category_of` returns the category of a template.
    #[must_use]
    pub fn price_class(&self, category_of: impl FnOnce(&T) -> TemplateCategory) -> PriceClass {
        self.template().map_or(PriceClass::FreeForm, |it| PriceClass::Template(category_of(it)))
    }

    /// Returns the content with another form of its template.
    #[must_use]
    pub fn map_template<U>(self, map: impl FnOnce(T) -> U) -> MessageContent<U> {
        let Ok(mapped) = self.try_map_template(|template| Ok::<_, Infallible>(map(template)));
        mapped
    }

    /// Returns the content with another form of its template, which may not exist.
    pub fn try_map_template<U, E>(
        self,
        map: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<MessageContent<U>, E> {
        Ok(match self {
            Self::Text(text) => MessageContent::Text(text),
            Self::Template(template) => MessageContent::Template(map(template)?),
            Self::Object(content) => MessageContent::Object(content),
        })
    }
}

impl RenderedContent {
    /// Returns the text that people of the workspace may read later; empty for an authentication
    /// template, whose parameters are codes.
    #[must_use]
    pub fn shown_text(&self) -> &str {
        match self {
            Self::Template(TemplateContent {
                category: TemplateCategory::Authentication, ..
            }) => "",
            _ => self.text(),
        }
    }

    /// Returns the text that the recipient reads, without media.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text.as_str(),
            Self::Template(content) => &content.text,
            Self::Object(content) => &content.text,
        }
    }
}

/// The first byte of stored content, which postcard's format follows.
const VERSION: u8 = 1;

/// The reason for which bytes are not content of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContentDecodeError {
    /// The bytes are not content.
    #[error("not the content of a message")]
    Damaged,
    /// A newer version wrote them.
    #[error("the content of a message has version {0}")]
    Newer(u8),
}

/// Rendered content as it is stored.
///
/// The order of variants and fields is part of the format; so is that of [`TemplateName`]'s fields.
#[derive(Serialize, Deserialize)]
enum StoredContent<'a> {
    Text(#[serde(with = "text::stored")] MessageText),
    Template {
        template: Cow<'a, TemplateName>,
        components: &'a str,
        text: &'a str,
        category: TemplateCategory,
    },
    Object {
        kind: MessageKind,
        object: &'a str,
        text: &'a str,
        media: Option<MediaId>,
    },
}

impl RenderedContent {
    /// Returns the content in its stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let stored = match self {
            Self::Text(text) => StoredContent::Text(text.clone()),
            Self::Template(TemplateContent { template, components, text, category }) => {
                let (template, category) = (Cow::Borrowed(template), *category);
                StoredContent::Template { template, components, text, category }
            }
            Self::Object(ObjectContent { kind, object, text, about: _, media }) => {
                StoredContent::Object { kind: *kind, object, text, media: *media }
            }
        };
        let mut bytes = Vec::with_capacity(256);
        bytes.push(VERSION);
        crate::event::encode(&stored, &mut bytes);
        bytes
    }

    /// Reads stored content.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContentDecodeError> {
        let stored = match bytes {
            [VERSION, stored @ ..] => stored,
            [version, ..] if *version > VERSION => return Err(ContentDecodeError::Newer(*version)),
            _ => &[],
        };
        let Ok((stored, [])) = postcard::take_from_bytes(stored) else {
            return Err(ContentDecodeError::Damaged);
        };
        Ok(match stored {
            StoredContent::Text(text) => Self::Text(text),
            StoredContent::Template { template, components, text, category } => {
                Self::Template(TemplateContent {
                    template: template.into_owned(),
                    components: components.into(),
                    text: text.into(),
                    category,
                })
            }
            StoredContent::Object { kind, object, text, media } => Self::Object(ObjectContent {
                kind,
                object: object.into(),
                text: text.into(),
                about: None,
                media,
            }),
        })
    }
}

/// A sender's notes of a message or a broadcast. Every row and every event about it shows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderNotes {
    /// The sender's reference; several may have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The sender's own data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl SenderNotes {
    /// Returns whether there are no notes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reference.is_none() && self.metadata.is_empty()
    }

    /// Returns both in the form of an event's payload, which leaves absent values out.
    #[must_use]
    pub fn shown(&self) -> (Option<String>, Option<BTreeMap<String, String>>) {
        let metadata = (!self.metadata.is_empty()).then(|| self.metadata.clone());
        (self.reference.clone(), metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::each_fault;
    use crate::golden::{AT, Sheet, UNIQUE};

    fn text() -> MessageText {
        "Hé".parse().unwrap()
    }

    fn template() -> TemplateContent {
        TemplateContent {
            template: TemplateName { name: "offer".into(), language: "en".into() },
            components: r#"[{"type":"body"}]"#.into(),
            text: "Hi".into(),
            category: TemplateCategory::Utility,
        }
    }

    #[test]
    fn the_text_of_an_authentication_template_is_not_shown() {
        let text = |category| {
            let template = TemplateContent { category, ..template() };
            RenderedContent::Template(template).shown_text().to_owned()
        };
        assert_eq!(text(TemplateCategory::Authentication), "");
        assert_eq!(text(TemplateCategory::Marketing), "Hi");
        assert_eq!(RenderedContent::Text(self::text()).shown_text(), "Hé");
    }

    #[test]
    fn an_object_gets_the_channels_id() {
        let kind = MessageKind::Reaction;
        let object = r#"{"emoji":"a"}"#.into();
        let mut content =
            ObjectContent { kind, object, text: "a".into(), about: None, media: None };
        content.insert("message_id", "wamid.\"1");
        let expected = serde_json::json!({"emoji": "a", "message_id": "wamid.\"1"});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&content.object).unwrap(), expected);
        let free = MessageContent::<u8>::Object(content);
        assert_eq!((free.kind(), free.template()), (kind, None));
        assert_eq!(free.price_class(|_| unreachable!()), PriceClass::FreeForm);
    }

    #[test]
    fn only_a_template_is_mapped_and_priced_by_its_category() {
        let free = MessageContent::<u8>::Text(text());
        assert_eq!(free.price_class(|_| unreachable!()), PriceClass::FreeForm);
        assert_eq!(free.clone().template(), None);
        let refused: Result<MessageContent<()>, &str> = free.try_map_template(|_| Err("no"));
        assert_eq!(refused, Ok(MessageContent::Text(text())));
        let asked = MessageContent::Template(7_u8);
        let class = asked.price_class(|_| TemplateCategory::Marketing);
        assert_eq!(class, PriceClass::Template(TemplateCategory::Marketing));
        assert_eq!(asked.clone().try_map_template(|_| Err::<(), _>("no")), Err("no"));
        let rendered = asked.map_template(|_| template());
        assert_eq!((rendered.template(), rendered.text()), (Some(&template()), "Hi"));
    }

    /// Returns one content of each form.
    fn examples() -> [RenderedContent; 4] {
        let template = TemplateName { name: "offer".into(), language: "en".into() };
        let components = r#"[{"type":"body"}]"#.into();
        let category = TemplateCategory::Utility;
        let template = TemplateContent { template, components, text: "Hi".into(), category };
        let object = ObjectContent {
            kind: MessageKind::Image,
            object: r#"{"link":"l"}"#.into(),
            text: "A".into(),
            about: None,
            media: None,
        };
        let media = Some(MediaId::from_parts(AT, UNIQUE));
        let file = ObjectContent { media, ..object.clone() };
        [
            RenderedContent::Text("Hé".parse().unwrap()),
            RenderedContent::Template(template),
            RenderedContent::Object(object),
            RenderedContent::Object(file),
        ]
    }

    #[test]
    fn content_is_stored_and_read_as_ever() {
        let (mut sheet, damaged) = (Sheet::default(), Err(ContentDecodeError::Damaged));
        for content in examples() {
            let bytes = content.to_bytes();
            sheet.bytes(content.kind().as_str(), &bytes);
            assert_eq!(RenderedContent::from_bytes(&bytes), Ok(content));
            each_fault(&bytes, |damaged| drop(RenderedContent::from_bytes(damaged)));
            for cut in 0..bytes.len() {
                assert_eq!(RenderedContent::from_bytes(&bytes[..cut]), damaged);
            }
            let with_first = |first: u8| [&[first], &bytes[1..]].concat();
            for other in [[&*bytes, &[0]].concat(), with_first(0)] {
                assert_eq!(RenderedContent::from_bytes(&other), damaged);
            }
            for version in [VERSION + 1, 31] {
                let newer = Err(ContentDecodeError::Newer(version));
                assert_eq!(RenderedContent::from_bytes(&with_first(version)), newer);
            }
        }
        sheet.is(expect_test::expect![[r#"
            text: 01000348c3a9
            template: 0101056f6666657202656e115b7b2274797065223a22626f6479227d5d02486900
            image: 0102020c7b226c696e6b223a226c227d014100
            image: 0102020c7b226c696e6b223a226c227d01410110018bcfe5687b0102030405060708090a
        "#]]);
    }

    #[test]
    fn a_text_stays_readable_whatever_the_limit_is() {
        let long = "a".repeat(text::CHARS_MAX + 1);
        let length = u16::try_from(long.len()).unwrap();
        // A length of two bytes, as postcard writes it.
        let length = [length as u8 | 0x80, (length >> 7) as u8];
        let bytes = [&[VERSION, 0], &length[..], long.as_bytes()].concat();
        let content = RenderedContent::from_bytes(&bytes).unwrap();
        assert_eq!((content.text(), content.to_bytes()), (&*long, bytes));
    }
}
