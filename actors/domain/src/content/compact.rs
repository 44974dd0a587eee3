//! Pure: stored rendered content: a version, and then postcard's format.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{MessageKind, ObjectContent, RenderedContent, TemplateContent, TemplateName};
use crate::id::MediaId;
use crate::text::{self, MessageText};

/// The first byte.
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

/// The order of variants and fields is part of the format; so is that of [`TemplateName`]'s fields.
#[derive(Serialize, Deserialize)]
enum Stored<'a> {
    Text(#[serde(with = "text::stored")] MessageText),
    Template { template: Cow<'a, TemplateName>, components: &'a str, text: &'a str },
    Object { kind: MessageKind, object: &'a str, text: &'a str, media: Option<MediaId> },
}

impl RenderedContent {
    /// Returns the content in its stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let stored = match self {
            Self::Text(text) => Stored::Text(text.clone()),
            Self::Template(TemplateContent { template, components, text }) => {
                Stored::Template { template: Cow::Borrowed(template), components, text }
            }
            Self::Object(ObjectContent { kind, object, text, about: _, media }) => {
                Stored::Object { kind: *kind, object, text, media: *media }
            }
        };
        let mut bytes = vec![VERSION];
        crate::event::encode(&stored, &mut bytes);
        bytes
    }

    /// Reads stored content.
    ///
    /// # Errors
    /// [`ContentDecodeError`].
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
            Stored::Text(text) => Self::Text(text),
            Stored::Template { template, components, text } => Self::Template(TemplateContent {
                template: template.into_owned(),
                components: components.into(),
                text: text.into(),
            }),
            Stored::Object { kind, object, text, media } => Self::Object(ObjectContent {
                kind,
                object: object.into(),
                text: text.into(),
                about: None,
                media,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::each_fault;
    use crate::golden::{AT, Sheet, UNIQUE};

    /// Returns one content of each form.
    fn examples() -> [RenderedContent; 4] {
        let template = TemplateName { name: "offer".into(), language: "en".into() };
        let components = r#"[{"type":"body"}]"#.into();
        let template = TemplateContent { template, components, text: "Hi".into() };
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
            template: 0101056f6666657202656e115b7b2274797065223a22626f6479227d5d024869
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
