//! The two kinds of events.
//!
//! A journal [`Event`] is what rebuilds the state that a workspace keeps in memory; it is read by
//! nobody else and trimmed once a snapshot covers it. A [`PublicEvent`] is what a user is told, in
//! the workspace's event log. Both are appended by the commit that makes them true.

mod journal;

use serde::{Deserialize, Serialize};

use super::{EventId, Phone, RequestId, Timestamp, WorkspaceId};

pub use journal::{Event, Repeat};

/// Whether a request for a one-time password can still be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtpStatus {
    /// It can.
    Active,
    /// The code was submitted.
    Verified,
    /// Its time has passed.
    Expired,
    /// Five wrong codes were submitted.
    Invalidated,
}

/// What became of the message that carries a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Durable, not yet taken by the channel.
    Queued,
    /// The channel took it.
    Sent,
    /// The channel refused it, or it could not be handed over in its time.
    Failed,
    /// It was handed over and no answer came.
    Unknown,
    /// It is on the recipient's device.
    Delivered,
    /// The recipient has opened it.
    Read,
}

/// The bytes are not events of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event of this version")]
pub struct EventDecodeError;

/// What a user is told. The `type` and `data` of an entry of the event log; a code is in none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublicEvent {
    /// `otp.sent`: a one-time password was accepted for sending.
    OtpSent {
        /// The request.
        request_id: RequestId,
        /// Where it goes.
        phone: Phone,
        /// When the code stops being valid.
        expires_at: Timestamp,
        /// Whether this is the same code once more.
        resend: bool,
    },
    /// `otp.verified`: the code was submitted in time.
    OtpVerified {
        /// The request.
        request_id: RequestId,
        /// Whose it is.
        phone: Phone,
    },
    /// `otp.expired`: nobody submitted the code in time.
    OtpExpired {
        /// The request.
        request_id: RequestId,
        /// Whose it was.
        phone: Phone,
    },
    /// `otp.failed`: the request ended, or its message was not delivered.
    OtpFailed {
        /// The request.
        request_id: RequestId,
        /// Whose it was.
        phone: Phone,
        /// Why.
        reason: OtpFailure,
    },
    /// Anything that is rarer than one-time passwords.
    Other {
        /// What happened.
        kind: EventKind,
        /// The event's `data`, a JSON object.
        data: Box<str>,
    },
}

macro_rules! event_kinds {
    ($($variant:ident = $name:literal, $what:literal;)*) => {
        /// What happened, of all that is rarer than one-time passwords.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum EventKind {
            $(#[doc = concat!("`", $name, "`: ", $what, ".")] $variant,)*
        }

        impl EventKind {
            /// The event's type, such as `message.sent`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl PublicEvent {
            /// Every type of event that exists, with what it tells.
            pub const KINDS: &'static [(&'static str, &'static str)] = &[
                ("otp.sent", "a one-time password was accepted for sending"),
                ("otp.verified", "the code was submitted in time"),
                ("otp.expired", "nobody submitted the code in time"),
                ("otp.failed", "the request ended, or its message was not delivered"),
                $(($name, $what),)*
            ];
        }
    };
}

event_kinds! {
    OtpDelivered = "otp.delivered", "the channel reports that the code's message was delivered";
    BroadcastCreated = "broadcast.created", "a broadcast was accepted";
    BroadcastStarted = "broadcast.started", "a broadcast begins to be sent";
    BroadcastPaused = "broadcast.paused", "a broadcast is held; `reason` says why if nobody asked for it";
    BroadcastResumed = "broadcast.resumed", "a paused broadcast goes on";
    BroadcastCompleted = "broadcast.completed", "all of a broadcast has been handed over";
    BroadcastCancelled = "broadcast.cancelled", "a broadcast was stopped; what was not sent is not";
    BroadcastFailed = "broadcast.failed", "a broadcast ended early; `reason` says why";
    OtpPumpingSuspected = "otp.pumping_suspected", "suspiciously many codes to one country were not submitted";
    ContactCreated = "contact.created", "a contact was made";
    ContactUpdated = "contact.updated", "a contact was changed";
    ContactDeleted = "contact.deleted", "a contact was deleted";
    ConversationOpened = "conversation.opened", "a contact wrote, in a conversation that was not open";
    ConversationUpdated = "conversation.updated", "a conversation's status or assignee was changed";
    WebhookDisabled = "webhook.disabled", "a webhook was disabled because its endpoint failed or is gone";
    WebhookTest = "webhook.test", "somebody asked for a test of one webhook; only that one receives it";
    MessageQueued = "message.queued", "a message was accepted for sending";
    MessageSent = "message.sent", "the channel took the message";
    MessageDelivered = "message.delivered", "the message is on the recipient's device";
    MessageRead = "message.read", "the recipient has opened the message";
    MessageFailed = "message.failed", "the message was not delivered";
    MessageReceived = "message.received", "somebody wrote to a number";
    TemplateStatusChanged = "template.status_changed", "the channel has approved, refused, paused or stopped a template";
    NumberStopped = "number.stopped", "a number's account cannot send; what it has waits";
    NumberRecovered = "number.recovered", "a number that was stopped sends again";
    ContactOptedOut = "contact.opted_out", "a phone wants no marketing and no broadcasts; `contact_id` is whose it is, or null";
    ContactOptedIn = "contact.opted_in", "a phone that had opted out wants messages again";
}

/// Why a one-time password failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtpFailure {
    /// Five wrong codes were submitted.
    MaxAttempts,
    /// The channel refused the message; its own error code, where it gave one.
    Channel {
        /// The channel's error code.
        error_code: Option<u32>,
    },
    /// The channel did not take the message while the code was valid.
    NotSentInTime,
}

impl OtpFailure {
    /// The reason's name in an event: `max_attempts`, `channel_refused` or `not_sent_in_time`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxAttempts => "max_attempts",
            Self::Channel { .. } => "channel_refused",
            Self::NotSentInTime => "not_sent_in_time",
        }
    }
}

impl PublicEvent {
    /// The event's type, such as `otp.sent`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OtpSent { .. } => "otp.sent",
            Self::OtpVerified { .. } => "otp.verified",
            Self::OtpExpired { .. } => "otp.expired",
            Self::OtpFailed { .. } => "otp.failed",
            Self::Other { kind, .. } => kind.as_str(),
        }
    }

    /// About how many bytes [`data`](Self::data) has as JSON.
    #[must_use]
    pub fn data_len(&self) -> usize {
        match self {
            Self::Other { data, .. } => data.len(),
            _ => 200,
        }
    }

    /// The event's `data`: the ids of what it is about and the public fields of the thing.
    #[must_use]
    pub fn data(&self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Self::OtpSent { request_id, phone, expires_at, resend } => json!({
                "request_id": request_id.to_string(),
                "phone": phone.to_string(),
                "expires_at": expires_at.to_string(),
                "resend": resend,
            }),
            Self::OtpVerified { request_id, phone } | Self::OtpExpired { request_id, phone } => {
                json!({ "request_id": request_id.to_string(), "phone": phone.to_string() })
            }
            // It was written as JSON; what cannot be read is shown as nothing.
            Self::Other { data, .. } => serde_json::from_str(data).unwrap_or_default(),
            Self::OtpFailed { request_id, phone, reason } => {
                let mut data = json!({
                    "request_id": request_id.to_string(),
                    "phone": phone.to_string(),
                    "reason": reason.as_str(),
                });
                if let OtpFailure::Channel { error_code: Some(error_code) } = reason {
                    data["error_code"] = (*error_code).into();
                }
                data
            }
        }
    }
}

/// An entry of a workspace's event log, without its sequence: that is its place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: PublicEvent,
}

impl LogEntry {
    /// Appends the entry in postcard's format.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Reads entries that were encoded one after the other.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Result<Self, EventDecodeError>> {
        decode_all(bytes)
    }

    /// The lower 40 bits of the sequence of the entry of this id.
    #[must_use]
    pub fn sequence_of(id: EventId) -> u64 {
        u64::try_from(u128::from_be_bytes(*id.as_bytes()) & FORTY_BITS).unwrap_or_default()
    }

    /// The id of the entry at `sequence` of a workspace's log. It is worked out, not stored: the
    /// moment, 40 bits of the workspace's name and 40 bits of the sequence.
    #[must_use]
    pub fn id(&self, workspace: &WorkspaceId, sequence: u64) -> EventId {
        // FNV-1a: stable across versions, and it guards nothing.
        let name = workspace.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let unique = (u128::from(name) & FORTY_BITS) << 40 | u128::from(sequence) & FORTY_BITS;
        EventId::from_parts(self.at, unique)
    }
}

const FORTY_BITS: u128 = (1 << 40) - 1;

/// Appends the postcard form of a value, as it is kept on disk.
pub fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Postcard fails only when its output is full or a length is not known; a growing vector and
    // these fixed shapes are neither.
    #[expect(clippy::expect_used)]
    postcard::serialize_with_flavor::<_, _, ()>(value, Append(out)).expect("encodes into a Vec");
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

/// Lets postcard append to a buffer that is reused.
struct Append<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Append<'_> {
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
