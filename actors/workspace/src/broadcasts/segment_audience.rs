//! The audience of a segment, with each contact's values for the template's places.

use postrider_broadcast::Audience;
use postrider_domain::{Phone, SegmentId};
use serde_json::Value;

use crate::Workspace;
use crate::contacts::{Contact, SegmentError};

/// The number of contacts that are read in one turn of the scan pool.
const READ_AT_ONCE: usize = 2_000;
/// The maximum of contacts without a value that are named.
const NAMED_MAX: usize = 5;

/// The source of the value for a place of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableSource {
    /// The contact's name.
    Name,
    /// A custom field of the contact's, if it is a text, a number or a boolean.
    CustomField(Box<str>),
    /// The same text for all.
    Text(Box<str>),
}

impl VariableSource {
    /// Returns a contact's value for the place, on one line; empty if it has none.
    ///
    /// Each run of white space and control characters becomes one space.
    #[must_use]
    pub fn value_of(&self, contact: &Contact) -> Box<str> {
        match self {
            Self::Name => in_one_line(contact.name.as_str()),
            Self::Text(text) => text.clone(),
            Self::CustomField(name) => match contact.custom_fields.value(name) {
                Some(Value::String(text)) => in_one_line(&text),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string().into(),
                _ => Box::default(),
            },
        }
    }
}

/// Returns a text in the form for a template's place.
///
/// Each run of white space and control characters becomes one space, and none is at an end. The
/// channel refuses line breaks, tabs and more than four spaces.
fn in_one_line(text: &str) -> Box<str> {
    let words = text.split(|char: char| char.is_whitespace() || char.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").into()
}

/// The audience of a segment.
#[derive(Debug, Clone, Default)]
pub struct SegmentAudience {
    /// The segment's contacts that have a phone, newest first.
    pub audience: Audience,
    /// The number of contacts of the segment without a phone, which are left out.
    pub without_phone: usize,
    /// The number of recipients that lack a value for a place.
    pub without_value: usize,
    /// The first of those recipients.
    pub named: Vec<Phone>,
}

impl Workspace {
    /// Returns the audience of a segment with its present contacts, and their values for a
    /// template.
    ///
    /// Without `sources` they have no values.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or not now.
    pub async fn segment_audience(
        &self,
        id: SegmentId,
        sources: &[VariableSource],
    ) -> Result<SegmentAudience, SegmentError> {
        let mut found = SegmentAudience::default();
        let total = self.segment_places(id).await?;
        if sources.is_empty() {
            for phone in self.segment_phones(id).await? {
                found.audience.add(phone, Box::default());
            }
            found.without_phone = total.len().saturating_sub(found.audience.len());
            return Ok(found);
        }
        // Other scans have their turn between the parts.
        for places in total.chunks(READ_AT_ONCE) {
            for contact in self.contacts_at(places.to_vec()).await? {
                let Some(phone) = contact.phone else {
                    found.without_phone += 1;
                    continue;
                };
                let values: Box<[_]> =
                    sources.iter().map(|source| source.value_of(&contact)).collect();
                if values.iter().any(|value| value.is_empty()) {
                    found.without_value += 1;
                    found.named.extend((found.named.len() < NAMED_MAX).then_some(phone));
                }
                found.audience.add(phone, values);
            }
        }
        Ok(found)
    }
}
