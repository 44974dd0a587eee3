//! Pure: journal events rebuild state, and public events notify users.
//!
//! A journal [`Event`] rebuilds the state that a workspace keeps in memory. Nothing else reads it,
//! and it is trimmed once a snapshot covers it. A [`PublicEvent`] is an entry of the workspace's
//! event log, which users read and receive by webhook. The commit that makes an event true appends
//! it. This file has its forms: the variants, the JSON for users and the bytes on disk.

pub mod chain;
mod journal;
pub mod message;
pub mod otp;
pub mod payload;
pub mod subjects;
mod table;

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::words::words;
use super::{EventId, PartyId, Phone, RequestId, Timestamp, WorkspaceId, json};
use message::{MessageData, MessageStep};
use otp::{OtpData, OtpFailedData, OtpSentData};
use table::Variant;

pub use journal::{Event, Repeat};
#[cfg(feature = "schema")]
pub use table::Schemas;
pub use table::{EventData, EventKind, EventType, UnknownEventNumber};
// The same payloads under the name of their subject: embedders rely on these paths.
pub use self::{
    message as message_step, otp as decision, payload as broadcast, payload as contact,
    payload as conversation, payload as media, payload as number, payload as template,
    payload as webhook,
};

words! {
    /// The status of a request for a one-time password.
    OtpStatus {
        /// It can be verified.
        Active = "active",
        /// The right code was submitted.
        Verified = "verified",
        /// It expired before the right code was submitted.
        Expired = "expired",
        /// Five wrong codes were submitted.
        Invalidated = "invalidated",
        /// The caller cancelled it.
        Cancelled = "cancelled",
    }
}

words! {
    /// The delivery status of the message that carries a code.
    Delivery {
        /// The message is durable. The channel has not accepted it yet.
        Queued = "queued",
        /// The channel accepted it.
        Sent = "sent",
        /// The channel refused it, or did not accept it while the code was valid.
        Failed = "failed",
        /// It was sent to the channel, and no answer came.
        Unknown = "unknown",
        /// It is on the recipient's device.
        Delivered = "delivered",
        /// The recipient has opened it.
        Read = "read",
    }
}

/// The bytes cannot be decoded as events of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event of this version")]
pub struct EventDecodeError;

/// The `type` and `data` of an entry of the event log. It never holds a code.
///
/// The types without a variant of their own are made from their payload, [`EventData`]. The serde
/// form is that on disk: a tuple that starts with the variant's number. Users receive
/// [`kind`](Self::kind) and [`data`](Self::data).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicEvent {
    /// `otp.sent`: a one-time password was accepted for sending.
    OtpSent {
        /// The request.
        request_id: RequestId,
        /// The recipient.
        phone: Phone,
        /// The time at which the code expires.
        expires_at: Timestamp,
        /// Set if the same code was sent again.
        resend: bool,
    },
    /// `otp.verified`: the code was submitted in time.
    OtpVerified {
        /// The request.
        request_id: RequestId,
        /// The recipient.
        phone: Phone,
    },
    /// `otp.expired`: nobody submitted the code in time.
    OtpExpired {
        /// The request.
        request_id: RequestId,
        /// The recipient.
        phone: Phone,
    },
    /// `otp.failed`: the request ended, or its message was not delivered.
    OtpFailed {
        /// The request.
        request_id: RequestId,
        /// The recipient.
        phone: Phone,
        /// The reason for the failure.
        reason: OtpFailure,
    },
    /// An event of a request with notes, such as its caller's reference.
    Noted {
        /// The event.
        event: Box<PublicEvent>,
        /// The further fields of its `data`: a JSON object, [`OtpNotes`](otp::OtpNotes).
        notes: Box<str>,
    },
    /// `message.queued` and those that follow it, of a single message through a number.
    Message(Box<MessageStep>),
    /// Every rarer event type.
    Other {
        /// The event's type.
        kind: EventKind,
        /// The event's `data`, a JSON object.
        data: Box<str>,
    },
}

/// The reason for which a one-time password failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtpFailure {
    /// Five wrong codes were submitted.
    MaxAttempts,
    /// The channel refused the message.
    Channel {
        /// The channel's own error code, if it gave one.
        error_code: Option<u32>,
    },
    /// The channel did not accept the message while the code was valid.
    NotSentInTime,
}

impl OtpFailure {
    /// Returns the reason's name in an event: `max_attempts`, `channel_refused` or
    /// `not_sent_in_time`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max_attempts",
            Self::Channel { .. } => "channel_refused",
            Self::NotSentInTime => "not_sent_in_time",
        }
    }

    /// Returns the channel's own error code, if it gave one.
    #[must_use]
    pub const fn error_code(self) -> Option<u32> {
        match self {
            Self::Channel { error_code } => error_code,
            Self::MaxAttempts | Self::NotSentInTime => None,
        }
    }
}

impl PublicEvent {
    /// Returns the event's type, such as `otp.sent`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.event_type().name
    }

    /// Returns the approximate length of [`data`](Self::data) as JSON, in bytes.
    #[must_use]
    pub fn data_len(&self) -> usize {
        match self {
            Self::Other { data, .. } => data.len(),
            Self::Noted { event, notes } => event.data_len() + notes.len(),
            Self::Message(step) => step.data_len(),
            _ => 200,
        }
    }

    /// Returns the event's `data`, a JSON object: the ids of its subject and the subject's public
    /// fields.
    #[must_use]
    pub fn data(&self) -> Value {
        let tree = |data: &RawValue| json::tree(data.get()).unwrap_or_default();
        match self.payload() {
            EventPayload::Stored(data) => tree(data),
            EventPayload::Noted(data) => tree(&data),
            // Payloads are structs of texts and numbers, so they always have a JSON form.
            payload => serde_json::to_value(&payload).unwrap_or_default(),
        }
    }

    /// Returns the event's `data` for JSON, without a tree of values.
    #[must_use]
    pub fn payload(&self) -> EventPayload<'_> {
        match *self {
            Self::OtpSent { request_id, phone, expires_at, resend } => {
                EventPayload::OtpSent(OtpSentData {
                    request_id,
                    phone,
                    expires_at,
                    resend,
                    test: None,
                    reference: None,
                    metadata: None,
                    number_id: None,
                })
            }
            Self::OtpVerified { request_id, phone } | Self::OtpExpired { request_id, phone } => {
                EventPayload::Otp(OtpData::of(request_id, phone))
            }
            Self::OtpFailed { request_id, phone, reason } => {
                EventPayload::OtpFailed(OtpFailedData {
                    request_id,
                    phone,
                    reason: reason.as_str(),
                    error_code: reason.error_code(),
                    test: None,
                    reference: None,
                    metadata: None,
                    number_id: None,
                })
            }
            Self::Noted { ref event, ref notes } => {
                let data = serde_json::to_string(&event.payload()).unwrap_or_default();
                // Notes that are no JSON object are left out.
                let noted = RawValue::from_string(joined(&data, notes));
                let noted = noted.or_else(|_| RawValue::from_string(data));
                EventPayload::Noted(noted.unwrap_or_default())
            }
            Self::Message(ref step) => EventPayload::Message(step.data()),
            // The data was written as JSON. Text that is no JSON becomes null.
            Self::Other { ref data, .. } => {
                EventPayload::Stored(serde_json::from_str(data).unwrap_or(RawValue::NULL))
            }
        }
    }

    /// Returns the event without its notes.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match self {
            Self::Noted { event, .. } => event.plain(),
            event => event,
        }
    }

    /// Returns the text that identifies the contact of the event, such as a phone. It is `None` if
    /// the event concerns no contact. Webhook queues order by it, and store its hash.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        // The notes of a code identify no other contact.
        match self.plain() {
            Self::Message(step) => return Some(step.to.key_text()),
            Self::OtpSent { phone, .. }
            | Self::OtpVerified { phone, .. }
            | Self::OtpExpired { phone, .. }
            | Self::OtpFailed { phone, .. } => return phone.known().map(key_text),
            Self::Noted { .. } | Self::Other { .. } => {}
        }
        let data = self.data();
        let mut fields = self.event_type().subject.iter();
        let text = fields.find_map(|field| data[field].as_str())?;
        Some(text.parse().map_or_else(|_| text.to_owned(), key_text))
    }
}

/// Returns the JSON object with the fields of both objects, which must have no name in common.
fn joined(one: &str, other: &str) -> String {
    match (one.strip_suffix('}'), other.strip_prefix('{')) {
        (Some("{"), Some(_)) => other.to_owned(),
        (Some(fields), Some(others)) if others != "}" => [fields, ",", others].concat(),
        _ => one.to_owned(),
    }
}

/// Returns the text that identifies a phone in any of its forms.
fn key_text(phone: Phone) -> String {
    PartyId::from(phone).key_text()
}

/// The `data` of an event, by its source.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum EventPayload<'a> {
    /// The data of `otp.sent`.
    OtpSent(OtpSentData),
    /// The data of `otp.verified` and `otp.expired`.
    Otp(OtpData),
    /// The data of `otp.failed`.
    OtpFailed(OtpFailedData),
    /// The data of a single message.
    Message(MessageData),
    /// The data of an event with notes.
    Noted(Box<RawValue>),
    /// The data of all others, as it is stored.
    Stored(&'a RawValue),
}

impl From<EventData> for PublicEvent {
    fn from(data: EventData) -> Self {
        // Payloads are structs of texts and numbers, so they always have a JSON form.
        let text = serde_json::to_string(&data).unwrap_or_default();
        Self::Other { kind: data.kind(), data: text.into() }
    }
}

/// Postcard writes a variant of an enum as its number and its fields. So does this code, with the
/// numbers of the table: the order of the variants' declaration does not matter.
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
        deserializer.deserialize_tuple(2, StoredEventVisitor { may_be_noted: true })
    }
}

/// Reads the number of an event, and then the fields of the event of this number.
struct StoredEventVisitor {
    /// Set if the event may have a note. The event inside a note has none.
    may_be_noted: bool,
}

/// An event without a note.
struct PlainEvent(PublicEvent);

impl<'de> Deserialize<'de> for PlainEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, StoredEventVisitor { may_be_noted: false }).map(Self)
    }
}

impl<'de> Visitor<'de> for StoredEventVisitor {
    type Value = PublicEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a public event and its fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<PublicEvent, A::Error> {
        Ok(match next_part(&mut parts)? {
            Variant::OtpSent => {
                let (request_id, phone, expires_at, resend) = next_part(&mut parts)?;
                PublicEvent::OtpSent { request_id, phone, expires_at, resend }
            }
            Variant::OtpVerified => {
                let (request_id, phone) = next_part(&mut parts)?;
                PublicEvent::OtpVerified { request_id, phone }
            }
            Variant::OtpExpired => {
                let (request_id, phone) = next_part(&mut parts)?;
                PublicEvent::OtpExpired { request_id, phone }
            }
            Variant::OtpFailed => {
                let (request_id, phone, reason) = next_part(&mut parts)?;
                PublicEvent::OtpFailed { request_id, phone, reason }
            }
            Variant::Other => {
                let (kind, data) = next_part(&mut parts)?;
                PublicEvent::Other { kind, data }
            }
            Variant::Message => {
                let step: Box<MessageStep> = next_part(&mut parts)?;
                if step.status().is_none() {
                    return Err(A::Error::custom("not an event of a message that goes out"));
                }
                PublicEvent::Message(step)
            }
            Variant::Noted if self.may_be_noted => {
                let (PlainEvent(event), notes) = next_part(&mut parts)?;
                PublicEvent::Noted { event: Box::new(event), notes }
            }
            Variant::Noted => return Err(A::Error::custom("a note of a note")),
        })
    }
}

fn next_part<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("a public event is cut off"))
}

/// An entry of a workspace's event log. Its sequence is its position in the log and is not stored
/// in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The time of the event.
    pub at: Timestamp,
    /// The event.
    pub event: PublicEvent,
}

impl LogEntry {
    /// Appends the entry in postcard's format.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Decodes concatenated entries. The iterator ends after the first error.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Result<Self, EventDecodeError>> {
        decode_all(bytes)
    }

    /// Returns the lower 40 bits of the sequence of the entry of this id.
    #[must_use]
    pub fn sequence_of(id: EventId) -> u64 {
        u64::try_from(u128::from_be_bytes(*id.as_bytes()) & FORTY_BITS).unwrap_or_default()
    }

    /// Returns the id of the entry at `sequence` of a workspace's log. It is derived, not stored:
    /// from the time, 40 bits of a hash of the workspace's id, and 40 bits of the sequence.
    #[must_use]
    pub fn id(&self, workspace: &WorkspaceId, sequence: u64) -> EventId {
        // FNV-1a, because ids must be stable across versions. The hash need not resist attacks.
        let name = workspace.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let unique = (u128::from(name) & FORTY_BITS) << 40 | u128::from(sequence) & FORTY_BITS;
        EventId::from_parts(self.at, unique)
    }
}

const FORTY_BITS: u128 = (1 << 40) - 1;

/// Appends the postcard encoding of a value, which is its format on disk.
pub fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Postcard fails only when its output is full or a length is not known; a growing vector and
    // these fixed shapes are neither.
    #[expect(clippy::expect_used)]
    postcard::serialize_with_flavor::<_, _, ()>(value, AppendFlavor(out))
        .expect("encodes into a Vec");
}

fn decode_all<'a, T: Deserialize<'a> + 'a>(
    mut bytes: &'a [u8],
) -> impl Iterator<Item = Result<T, EventDecodeError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(bytes) {
            Ok((value, rest)) => {
                bytes = rest;
                Some(Ok(value))
            }
            Err(_) => {
                bytes = &[];
                Some(Err(EventDecodeError))
            }
        }
    })
}

/// A postcard output that appends to a reused buffer.
struct AppendFlavor<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for AppendFlavor<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod golden;
