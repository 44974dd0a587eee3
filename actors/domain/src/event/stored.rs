//! Pure: the forms of a public event on disk: a number and its fields.
//!
//! Postcard writes a variant of an enum as its number and its fields. So does this code, with the
//! numbers of the table: the order of the variants' declaration does not matter.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::message_step::MessageStep;
use super::table::Variant;
use super::{EventData, PublicEvent};

impl From<EventData> for PublicEvent {
    fn from(data: EventData) -> Self {
        Self::Other { kind: data.kind(), data: value(&data).to_string().into() }
    }
}

/// Returns a payload as JSON. Payloads are structs of texts and numbers, so they always have a JSON
/// form.
pub(super) fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

impl Serialize for PublicEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::OtpSent { request_id, phone, expires_at, resend } => {
                (Variant::OtpSent, (request_id, phone, expires_at, resend)).serialize(serializer)
            }
            Self::OtpVerified { request_id, phone } => {
                (Variant::OtpVerified, (request_id, phone)).serialize(serializer)
            }
            Self::OtpExpired { request_id, phone } => {
                (Variant::OtpExpired, (request_id, phone)).serialize(serializer)
            }
            Self::OtpFailed { request_id, phone, reason } => {
                (Variant::OtpFailed, (request_id, phone, reason)).serialize(serializer)
            }
            Self::Other { kind, data } => (Variant::Other, (kind, data)).serialize(serializer),
            Self::Noted { event, notes } => (Variant::Noted, (event, notes)).serialize(serializer),
            Self::Message(step) => (Variant::Message, step).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PublicEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, Stored { may_be_noted: true })
    }
}

/// Reads the number of an event, and then the fields of the event of this number.
struct Stored {
    /// Set if the event may have a note. The event inside a note has none.
    may_be_noted: bool,
}

/// An event without a note.
struct Plain(PublicEvent);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, Stored { may_be_noted: false }).map(Self)
    }
}

impl<'de> Visitor<'de> for Stored {
    type Value = PublicEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a public event and its fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<PublicEvent, A::Error> {
        Ok(match next(&mut parts)? {
            Variant::OtpSent => {
                let (request_id, phone, expires_at, resend) = next(&mut parts)?;
                PublicEvent::OtpSent { request_id, phone, expires_at, resend }
            }
            Variant::OtpVerified => {
                let (request_id, phone) = next(&mut parts)?;
                PublicEvent::OtpVerified { request_id, phone }
            }
            Variant::OtpExpired => {
                let (request_id, phone) = next(&mut parts)?;
                PublicEvent::OtpExpired { request_id, phone }
            }
            Variant::OtpFailed => {
                let (request_id, phone, reason) = next(&mut parts)?;
                PublicEvent::OtpFailed { request_id, phone, reason }
            }
            Variant::Other => {
                let (kind, data) = next(&mut parts)?;
                PublicEvent::Other { kind, data }
            }
            Variant::Message => {
                let step: Box<MessageStep> = next(&mut parts)?;
                if step.status().is_none() {
                    return Err(A::Error::custom("not an event of a message that goes out"));
                }
                PublicEvent::Message(step)
            }
            Variant::Noted if self.may_be_noted => {
                let (Plain(event), notes) = next(&mut parts)?;
                PublicEvent::Noted { event: Box::new(event), notes }
            }
            Variant::Noted => return Err(A::Error::custom("a note of a note")),
        })
    }
}

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("a public event is cut off"))
}
