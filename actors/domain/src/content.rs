//! Pure: the content of a message, from the request for it to the channel.
//!
//! A new kind of message is a word of [`MessageKind`]: a variant of [`MessageContent`], or one that
//! [`ObjectContent`] carries in the channel's own form. This file answers the engine's questions
//! about a kind. Elsewhere only the parser of requests, the channels and replies by mail match the
//! variants.

use std::convert::Infallible;

use crate::id::{MediaId, MessageId};
use crate::prices::PriceClass;
use crate::template::{TemplateCategory, TemplateName};
use crate::text::MessageText;
use crate::words::words;

mod compact;

pub use compact::ContentDecodeError;

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
    ///
    /// # Errors
    /// The error of `map`.
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
    /// Returns the text that the recipient reads, without media. Conversations show it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text.as_str(),
            Self::Template(content) => &content.text,
            Self::Object(content) => &content.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> MessageText {
        "Hé".parse().unwrap()
    }

    fn template() -> TemplateContent {
        TemplateContent {
            template: TemplateName { name: "offer".into(), language: "en".into() },
            components: r#"[{"type":"body"}]"#.into(),
            text: "Hi".into(),
        }
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
}
