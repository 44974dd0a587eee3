//! Pure: the table that declares every type of public event once.
//!
//! A row has the type's number on disk, its payload, the fields of the payload that identify its
//! contact, its name and its meaning. The webhook queues, the event log and the OpenAPI document
//! read the same rows.

use serde::{Deserialize, Serialize};

use super::PublicEvent;
use super::message::{MessageData, MessageReceivedData};
use super::otp::{
    OtpData, OtpDecidedData, OtpFailedData, OtpPumpingData, OtpSentData, OtpTryEndedData,
    OtpTryStartedData,
};
use super::payload::{
    BroadcastCompletedData, BroadcastData, ChannelErrorData, ChannelIgnoredData, ContactData,
    ContactMergedData, ConversationData, LimitFreedData, LimitReachedData, MediaData,
    NumberChangedData, NumberData, NumberStoppedData, OptedInData, OptedOutData,
    TemplateCategoryData, TemplateQualityData, TemplateStatusData, WebhookData,
    WebhookDisabledData,
};

/// Schemas of an OpenAPI document with their names.
#[cfg(feature = "schema")]
pub type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>;

/// The declaration of an event type.
#[derive(Debug, Clone, Copy)]
pub struct EventType {
    /// Its name, such as `message.sent`.
    pub name: &'static str,
    /// Its meaning.
    pub what: &'static str,
    /// The fields of its payload that identify its contact. The first one with a value counts.
    pub subject: &'static [&'static str],
    /// Makes the schema of its payload, and after it the schemas that this one refers to.
    #[cfg(feature = "schema")]
    pub schemas: fn() -> Schemas,
}

#[cfg(feature = "schema")]
fn schemas_of<T: utoipa::ToSchema>() -> Schemas {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    schemas
}

/// No event type has this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no event type has the number {0}")]
pub struct UnknownEventNumber(u32);

/// Encodes an enum as the numbers beside its variants. They are its discriminants, so two variants
/// with one number do not compile.
macro_rules! numbered {
    ($name:ident { $($variant:ident = $number:literal,)* }) => {
        impl From<$name> for u32 {
            fn from(it: $name) -> Self {
                it as Self
            }
        }

        impl TryFrom<u32> for $name {
            type Error = UnknownEventNumber;

            fn try_from(number: u32) -> Result<Self, UnknownEventNumber> {
                match number {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(UnknownEventNumber(number)),
                }
            }
        }
    };
}

macro_rules! row {
    ($data:ty, [$($subject:ident),*], $name:literal, $what:literal) => {
        EventType {
            name: $name,
            what: $what,
            subject: &[$(stringify!($subject)),*],
            #[cfg(feature = "schema")]
            schemas: schemas_of::<$data>,
        }
    };
}

macro_rules! event_types {
    (
        Other is variant $other_number:literal;
        Noted is variant $noted_number:literal;
        Message is variant $message_number:literal;
        $(
            variant $own_number:literal: $own:ident($own_data:ty) of [$($own_subject:ident),*],
                $own_name:literal, $own_what:literal;
        )*
        $(
            kind $number:literal: $kind:ident($data:ty) of [$($subject:ident),*],
                $name:literal, $what:literal;
        )*
    ) => {
        /// The variants of [`PublicEvent`], by their numbers on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "u32", try_from = "u32")]
        #[repr(u32)]
        pub(super) enum Variant {
            $($own = $own_number,)*
            Other = $other_number,
            Noted = $noted_number,
            Message = $message_number,
        }

        numbered!(Variant {
            $($own = $own_number,)*
            Other = $other_number,
            Noted = $noted_number,
            Message = $message_number,
        });

        /// The type of a public event that is stored as [`PublicEvent::Other`]. Its value is its
        /// number on disk, and its serde form is that number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "u32", try_from = "u32")]
        #[repr(u32)]
        pub enum EventKind {
            $(#[doc = concat!("`", $name, "`: ", $what, ".")] $kind = $number,)*
        }

        numbered!(EventKind { $($kind = $number,)* });

        impl EventKind {
            /// Returns the event's type, such as `message.sent`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the declaration of the type.
            const fn event_type(self) -> &'static EventType {
                match self {
                    $(Self::$kind => &row!($data, [$($subject),*], $name, $what),)*
                }
            }
        }

        /// The payload of a public event that is stored as [`PublicEvent::Other`], by its type.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum EventData {
            $(#[doc = concat!("`", $name, "`: ", $what, ".")] $kind($data),)*
        }

        impl EventData {
            /// Returns the event's type.
            #[must_use]
            pub const fn kind(&self) -> EventKind {
                match self { $(Self::$kind(_) => EventKind::$kind,)* }
            }
        }

        impl PublicEvent {
            /// Every event type, with its meaning.
            pub const KINDS: &'static [(&'static str, &'static str)] =
                &[$(($own_name, $own_what),)* $(($name, $what),)*];

            /// The declaration of every event type, in the order of [`KINDS`](Self::KINDS).
            pub const TYPES: &'static [EventType] = &[
                $(row!($own_data, [$($own_subject),*], $own_name, $own_what),)*
                $(row!($data, [$($subject),*], $name, $what),)*
            ];

            /// Returns the declaration of the event's type.
            #[must_use]
            pub fn event_type(&self) -> &'static EventType {
                match self.plain() {
                    $(Self::$own { .. } => {
                        &row!($own_data, [$($own_subject),*], $own_name, $own_what)
                    })*
                    Self::Other { kind, .. } => kind.event_type(),
                    Self::Message(step) => step.kind.event_type(),
                    // `plain` returns none of these.
                    Self::Noted { event, .. } => event.event_type(),
                }
            }
        }

        // A subject that is no field of its payload does not compile.
        $(const _: fn(&$own_data) = |data| { let _ = ($(&data.$own_subject,)* data); };)*
        $(const _: fn(&$data) = |data| { let _ = ($(&data.$subject,)* data); };)*
    };
}

// The most frequent types are variants of their own. A number on disk is permanent: a new type
// takes a new one.
event_types! {
    Other is variant 4;
    Noted is variant 5;
    Message is variant 6;

    variant 0: OtpSent(OtpSentData) of [phone],
        "otp.sent", "a one-time password was accepted for sending";
    variant 1: OtpVerified(OtpData) of [phone],
        "otp.verified", "the code was submitted in time";
    variant 2: OtpExpired(OtpData) of [phone],
        "otp.expired", "nobody submitted the code in time";
    variant 3: OtpFailed(OtpFailedData) of [phone],
        "otp.failed", "the request ended, or its message was not delivered";

    kind 0: OtpDelivered(OtpData) of [phone],
        "otp.delivered", "the channel reports that the code's message was delivered";
    kind 1: BroadcastCreated(BroadcastData) of [],
        "broadcast.created", "a broadcast was accepted";
    kind 2: BroadcastStarted(BroadcastData) of [],
        "broadcast.started", "a broadcast begins to be sent";
    kind 3: BroadcastPaused(BroadcastData) of [],
        "broadcast.paused", "a broadcast is held; `reason` says why if nobody asked for it";
    kind 4: BroadcastResumed(BroadcastData) of [],
        "broadcast.resumed", "a paused broadcast goes on";
    kind 5: BroadcastCompleted(BroadcastCompletedData) of [],
        "broadcast.completed", "all of a broadcast has been handed over";
    kind 6: BroadcastCancelled(BroadcastData) of [],
        "broadcast.cancelled", "a broadcast was stopped; what was not sent is not";
    kind 7: BroadcastFailed(BroadcastData) of [],
        "broadcast.failed", "a broadcast ended early; `reason` says why";
    kind 8: OtpPumpingSuspected(OtpPumpingData) of [],
        "otp.pumping_suspected", "suspiciously many codes to one country were not submitted";
    kind 9: ContactCreated(ContactData) of [phone, contact_id],
        "contact.created", "a contact was made";
    kind 10: ContactUpdated(ContactData) of [phone, contact_id],
        "contact.updated", "a contact was changed";
    kind 11: ContactDeleted(ContactData) of [phone, contact_id],
        "contact.deleted", "a contact was deleted";
    kind 12: ConversationOpened(ConversationData) of [phone, contact_id],
        "conversation.opened", "a contact wrote, in a conversation that was not open";
    kind 13: ConversationUpdated(ConversationData) of [phone, contact_id],
        "conversation.updated", "a conversation's status or assignee was changed";
    kind 14: WebhookDisabled(WebhookDisabledData) of [],
        "webhook.disabled", "a webhook was disabled because its endpoint failed or is gone";
    kind 15: WebhookTest(WebhookData) of [],
        "webhook.test", "somebody asked for a test of one webhook; only that one receives it";
    kind 16: MessageQueued(MessageData) of [to, recipient, message_id],
        "message.queued", "a message was accepted for sending";
    kind 17: MessageSent(MessageData) of [to, recipient, message_id],
        "message.sent", "the channel took the message";
    kind 18: MessageDelivered(MessageData) of [to, recipient, message_id],
        "message.delivered", "the message is on the recipient's device";
    kind 19: MessageRead(MessageData) of [to, recipient, message_id],
        "message.read", "the recipient has opened the message";
    kind 20: MessageFailed(MessageData) of [to, recipient, message_id],
        "message.failed", "the message was not delivered";
    kind 21: MessageReceived(MessageReceivedData) of [from, contact_id, message_id],
        "message.received", "somebody wrote to a number";
    kind 22: TemplateStatusChanged(TemplateStatusData) of [],
        "template.status_changed",
        "the channel has approved, refused, paused or stopped a template";
    kind 23: NumberStopped(NumberStoppedData) of [],
        "number.stopped", "a number's account cannot send; what it has waits";
    kind 24: NumberRecovered(NumberData) of [],
        "number.recovered", "a number that was stopped sends again";
    kind 25: ContactOptedOut(OptedOutData) of [phone, contact_id, user_id],
        "contact.opted_out",
        "a phone wants no marketing and no broadcasts; `contact_id` is whose it is, or null";
    kind 26: ContactOptedIn(OptedInData) of [phone, contact_id, user_id],
        "contact.opted_in", "a phone that had opted out wants messages again";
    kind 27: ChannelError(ChannelErrorData) of [],
        "channel.error",
        "the channel reported an error of a number, or refuses its messages with an unknown code";
    kind 28: ContactMerged(ContactMergedData) of [contact_id],
        "contact.merged", "two contacts turned out to be one person, and are one from now on";
    kind 29: ChannelIgnored(ChannelIgnoredData) of [],
        "channel.ignored",
        "nothing was taken from items of callbacks; at most one a minute, number, field and reason";
    kind 30: OtpCancelled(OtpData) of [phone],
        "otp.cancelled", "its sender has cancelled the request; its code is of no use any more";
    kind 31: OtpTryStarted(OtpTryStartedData) of [phone],
        "otp.try_started", "a step of a request with several channels begins";
    kind 32: OtpTryEnded(OtpTryEndedData) of [phone],
        "otp.try_ended", "a step of a request with several channels is over";
    kind 33: TemplateCategoryChanged(TemplateCategoryData) of [],
        "template.category_changed",
        "the channel has put a template into another category; new messages follow it";
    kind 34: TemplateQualityChanged(TemplateQualityData) of [],
        "template.quality_changed", "the channel rates a template differently";
    kind 35: MediaReady(MediaData) of [message_id],
        "media.ready", "the content of a file that came in is there";
    kind 36: MediaFailed(MediaData) of [message_id],
        "media.failed", "the content of a file that came in will not be there; `error` says why";
    kind 37: MessageHeld(MessageData) of [to, recipient, message_id],
        "message.held", "the channel holds a single message back; a report says more";
    kind 38: NumberChanged(NumberChangedData) of [],
        "number.changed", "a number has another pace, quality, status of its name or limit";
    kind 39: NumberLimitReached(LimitReachedData) of [],
        "number.limit_reached", "broadcasts wait: the portfolio has written to enough new people today";
    kind 40: NumberLimitFreed(LimitFreedData) of [],
        "number.limit_freed", "the portfolio may write to new people again";
    kind 41: OtpDecided(OtpDecidedData) of [phone],
        "otp.decided", "a code to a destination whose codes are rarely verified is sent or refused; \
        in five minutes, the first five of each decision are emitted";
}

#[cfg(test)]
mod tests;
