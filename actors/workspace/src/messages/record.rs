//! The state of a message, its transitions, and its record.
//!
//! [`Table::Messages`] has it under `workspace ‖ 0 ‖ message`: a version (1), and then the fields
//! in postcard's format. The id is left to the key, and moments are kept by how much later they are
//! than the one before them, because a message is written twice at least.

use std::time::Duration;

use postrider_domain::event::message::MessageErrorData;
use postrider_domain::event::message_step::MessageStep;
use postrider_domain::template::TemplateName;
use postrider_domain::{
    BroadcastId, EventKind, MediaId, MessageId, MessageKind, NumberId, PartyId, PublicEvent,
    RenderedContent, SenderNotes, Timestamp, WorkspaceId, event,
};
use postrider_store::{StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::core::command::Context;
use crate::core::message_status::MessageStatus;

/// The reason why a message failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageError {
    /// `channel_refused` or `not_sent_in_time`.
    pub reason: Box<str>,
    /// The channel's error code, if it gave one.
    pub code: Option<u32>,
    /// The channel's explanation; empty if it gave none.
    pub details: Box<str>,
}

impl MessageError {
    /// Returns the error in the payload of an event.
    pub(crate) fn event_data(&self) -> MessageErrorData {
        let Self { reason, code, details } = self.clone();
        MessageErrorData { reason, code, details }
    }
}

/// A message and where it stands.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageState {
    /// The message.
    pub message_id: MessageId,
    /// The recipient.
    pub to: PartyId,
    /// The kind of the message.
    pub kind: MessageKind,
    /// The template that it is made of, if it is one.
    pub template: Option<TemplateName>,
    /// The status.
    pub status: MessageStatus,
    /// Why it failed, if it did.
    pub error: Option<MessageError>,
    /// The number through which it leaves.
    pub number: NumberId,
    /// The credits that were paid for it.
    pub price: u64,
    /// The time at which it was accepted.
    pub created_at: Timestamp,
    /// The time after which it is not worth sending.
    pub give_up_at: Timestamp,
    /// When it became known that no answer comes.
    pub unknown_at: Option<Timestamp>,
    /// When the channel took it and held it back.
    pub held_at: Option<Timestamp>,
    /// When the channel took it.
    pub sent_at: Option<Timestamp>,
    /// When it was delivered.
    pub delivered_at: Option<Timestamp>,
    /// When it was opened.
    pub read_at: Option<Timestamp>,
    /// When it failed.
    pub failed_at: Option<Timestamp>,
    /// The sender's notes.
    pub notes: SenderNotes,
    /// Set if its sender has named its number, or it answers a message: it leaves through no other.
    pub pinned: bool,
    /// The provider's id of the message that it answers, if it answers one.
    pub answers: Option<Box<str>>,
    /// The provider's id of the message, once that is known.
    pub provider_id: Option<Box<str>>,
    /// The file that it has, where that was uploaded here.
    pub media: Option<MediaId>,
    /// The broadcast that it is of; no record of a single message has it.
    pub broadcast: Option<BroadcastId>,
    /// Set if the broadcast leaves through several numbers: which one took the message is not kept.
    pub of_several: bool,
}

impl std::fmt::Debug for MessageState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("MessageState");
        shown.field("message_id", &self.message_id).field("to", &self.to);
        shown.field("status", &self.status).field("error", &self.error).finish_non_exhaustive()
    }
}

/// A fact about a message that becomes known after it was accepted.
#[derive(Debug, Clone)]
pub(crate) enum Learned {
    Unknown,
    Held,
    Sent,
    Delivered,
    Read,
    Failed(MessageError),
}

impl MessageState {
    /// Creates a message that is accepted at the moment of its id, for a number at a price.
    pub(super) fn new(
        message_id: MessageId,
        to: PartyId,
        (number, price): (NumberId, u64),
        content: &RenderedContent,
    ) -> Self {
        let created_at = message_id.timestamp();
        Self {
            message_id,
            to,
            kind: content.kind(),
            template: content.template().map(|content| content.template.clone()),
            status: MessageStatus::Queued,
            error: None,
            number,
            price,
            created_at,
            give_up_at: created_at,
            unknown_at: None,
            held_at: None,
            sent_at: None,
            delivered_at: None,
            read_at: None,
            failed_at: None,
            notes: SenderNotes::default(),
            pinned: false,
            answers: None,
            provider_id: None,
            media: None,
            broadcast: None,
            of_several: false,
        }
    }

    /// Returns the key prefix of a workspace's messages.
    pub(crate) fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
        [workspace.as_str().as_bytes(), &[0]].concat()
    }

    /// Returns the key of a message's record.
    pub fn key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
        [workspace.as_str().as_bytes(), &[0], id.as_bytes()].concat()
    }

    /// Applies a fact that became known at `at`. Returns whether it changed anything.
    ///
    /// A message never goes back, does not fail once it was delivered, and fails once.
    pub(crate) fn learn(&mut self, learned: Learned, at: Timestamp) -> bool {
        use MessageStatus::{Delivered, Failed, Held, Read, Sent, Unknown};
        let next = match learned {
            Learned::Unknown => Unknown,
            Learned::Held => Held,
            Learned::Sent => Sent,
            Learned::Delivered => Delivered,
            Learned::Read => Read,
            Learned::Failed(_) => Failed,
        };
        let too_late = next == Failed && matches!(self.status, Delivered | Read);
        if next <= self.status || too_late {
            return false;
        }
        self.status = next;
        match learned {
            Learned::Unknown => self.unknown_at = Some(at),
            Learned::Held => self.held_at = Some(at),
            Learned::Sent => self.sent_at = Some(at),
            Learned::Delivered => self.delivered_at = Some(at),
            Learned::Read => self.read_at = Some(at),
            Learned::Failed(error) => (self.failed_at, self.error) = (Some(at), Some(error)),
        }
        true
    }

    /// Returns the number through which it leaves, if that is known.
    #[must_use]
    pub fn known_number(&self) -> Option<NumberId> {
        (!self.of_several).then_some(self.number)
    }

    /// Returns the last known moment of the message.
    pub(crate) fn last_moment(&self) -> Timestamp {
        let first = [self.unknown_at, self.held_at];
        let later = [self.sent_at, self.delivered_at, self.read_at];
        first.into_iter().chain(later).flatten().fold(self.created_at, Timestamp::max)
    }

    /// Returns whether it has been unknown for so long that it stays so.
    pub(crate) fn stays_unknown(&self, now: Timestamp, unknown_after: Duration) -> bool {
        let long_ago = self.unknown_at.is_some_and(|at| at.plus(unknown_after) <= now);
        self.status == MessageStatus::Unknown && long_ago
    }

    /// Returns the event of its status; none of a message whose answer got lost.
    pub(crate) fn event(&self) -> Option<PublicEvent> {
        let kind = match self.status {
            MessageStatus::Queued => EventKind::MessageQueued,
            MessageStatus::Unknown => return None,
            MessageStatus::Held => EventKind::MessageHeld,
            MessageStatus::Sent => EventKind::MessageSent,
            MessageStatus::Delivered => EventKind::MessageDelivered,
            MessageStatus::Read => EventKind::MessageRead,
            MessageStatus::Failed => EventKind::MessageFailed,
        };
        let SenderNotes { reference, metadata } = self.notes.clone();
        let step = MessageStep {
            kind,
            message_id: self.message_id,
            to: self.to.clone(),
            r#type: self.kind,
            template: self.template.clone(),
            error: self.error.as_ref().map(MessageError::event_data),
            number_id: self.number,
            reference,
            metadata,
        };
        Some(PublicEvent::Message(Box::new(step)))
    }
}

/// The first byte of a record.
const VERSION: u8 = 1;

/// The milliseconds by which a moment is later than another; damaged ones have a difference too.
type MomentOffset = i64;

/// The order of the fields is part of the format.
#[derive(Serialize, Deserialize)]
struct StoredMessage<'a> {
    number: [u8; 16],
    to: PartyId,
    kind: MessageKind,
    status: MessageStatus,
    template: Option<(&'a str, &'a str)>,
    error: Option<(&'a str, Option<u32>, &'a str)>,
    price: u64,
    /// The difference to the moment of its id.
    created_at: MomentOffset,
    /// This difference and all that follow are to the moment at which it was accepted.
    give_up_at: MomentOffset,
    unknown_at: Option<MomentOffset>,
    held_at: Option<MomentOffset>,
    sent_at: Option<MomentOffset>,
    delivered_at: Option<MomentOffset>,
    read_at: Option<MomentOffset>,
    failed_at: Option<MomentOffset>,
    reference: Option<&'a str>,
    metadata: Vec<(&'a str, &'a str)>,
    pinned: bool,
    answers: Option<&'a str>,
    provider_id: Option<&'a str>,
    media: Option<MediaId>,
}

const fn later(at: Timestamp, than: Timestamp) -> MomentOffset {
    at.as_millis().wrapping_sub(than.as_millis()).cast_signed()
}

const fn moment(later: MomentOffset, than: Timestamp) -> Timestamp {
    Timestamp::from_millis(than.as_millis().wrapping_add_signed(later))
}

impl MessageState {
    /// Encodes the message as its record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let than = self.created_at;
        let since = |at: Option<Timestamp>| at.map(|at| later(at, than));
        let template = self.template.as_ref().map(|it| (&*it.name, &*it.language));
        let error = self.error.as_ref().map(|it| (&*it.reason, it.code, &*it.details));
        let metadata = self.notes.metadata.iter().map(|(key, value)| (&**key, &**value));
        let stored = StoredMessage {
            number: *self.number.as_bytes(),
            to: self.to.clone(),
            kind: self.kind,
            status: self.status,
            template,
            error,
            price: self.price,
            created_at: later(than, self.message_id.timestamp()),
            give_up_at: later(self.give_up_at, than),
            unknown_at: since(self.unknown_at),
            held_at: since(self.held_at),
            sent_at: since(self.sent_at),
            delivered_at: since(self.delivered_at),
            read_at: since(self.read_at),
            failed_at: since(self.failed_at),
            reference: self.notes.reference.as_deref(),
            metadata: metadata.collect(),
            pinned: self.pinned,
            answers: self.answers.as_deref(),
            provider_id: self.provider_id.as_deref(),
            media: self.media,
        };
        let mut bytes = Vec::with_capacity(128);
        bytes.push(VERSION);
        event::encode(&stored, &mut bytes);
        bytes
    }

    /// Reads the record of the message of this id.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]: it is none. [`StoreError::Newer`]: a newer version wrote it.
    pub(crate) fn decode(id: MessageId, bytes: &[u8]) -> Result<Self, StoreError> {
        let stored = match bytes {
            [VERSION, stored @ ..] => stored,
            [version, ..] if *version > VERSION => {
                return Err(StoreError::Newer(format!("a message has version {version}")));
            }
            _ => &[],
        };
        let Ok((stored, [])) = postcard::take_from_bytes::<StoredMessage<'_>>(stored) else {
            return Err(StoreError::Damaged("a message is not what was written".into()));
        };
        let created_at = moment(stored.created_at, id.timestamp());
        let at = |since: Option<MomentOffset>| since.map(|since| moment(since, created_at));
        let named = |(name, language): (&str, &str)| TemplateName {
            name: name.into(),
            language: language.into(),
        };
        let failure = |(reason, code, details): (&str, Option<u32>, &str)| MessageError {
            reason: reason.into(),
            code,
            details: details.into(),
        };
        let metadata = stored.metadata.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Ok(Self {
            message_id: id,
            to: stored.to,
            kind: stored.kind,
            template: stored.template.map(named),
            status: stored.status,
            error: stored.error.map(failure),
            number: NumberId::from_bytes(stored.number),
            price: stored.price,
            created_at,
            give_up_at: moment(stored.give_up_at, created_at),
            unknown_at: at(stored.unknown_at),
            held_at: at(stored.held_at),
            sent_at: at(stored.sent_at),
            delivered_at: at(stored.delivered_at),
            read_at: at(stored.read_at),
            failed_at: at(stored.failed_at),
            notes: SenderNotes {
                reference: stored.reference.map(Into::into),
                metadata: metadata.collect(),
            },
            pinned: stored.pinned,
            answers: stored.answers.map(Into::into),
            provider_id: stored.provider_id.map(Into::into),
            media: stored.media,
            broadcast: None,
            of_several: false,
        })
    }

    /// Reads the committed state of a message.
    pub(crate) fn read(
        store: &dyn View,
        workspace: &WorkspaceId,
        id: MessageId,
    ) -> Result<Option<Self>, StoreError> {
        let found = store.get(Table::Messages, &Self::key(workspace, id))?;
        found.map(|bytes| Self::decode(id, &bytes)).transpose()
    }

    /// Writes the message.
    pub(crate) fn write(&self, context: &mut Context<'_>) {
        let key = Self::key(&context.core.id, self.message_id);
        context.put(Table::Messages, key, self.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a text to a phone with this status.
    fn state(status: MessageStatus) -> MessageState {
        let to = PartyId::Phone("+15550123456".parse().unwrap());
        let text = RenderedContent::Text("hello".parse().unwrap());
        let number = NumberId::from_bytes([2; 16]);
        let state = MessageState::new(MessageId::from_bytes([1; 16]), to, (number, 1), &text);
        MessageState { status, ..state }
    }

    #[test]
    fn a_message_only_moves_on() {
        use MessageStatus::{Delivered, Failed, Held, Queued, Read, Sent, Unknown};
        let error = MessageError { reason: "r".into(), code: None, details: "".into() };
        let learned = [
            Learned::Unknown,
            Learned::Held,
            Learned::Sent,
            Learned::Delivered,
            Learned::Read,
            Learned::Failed(error),
        ];
        let table = [
            (Queued, [Unknown, Held, Sent, Delivered, Read, Failed]),
            (Unknown, [Unknown, Held, Sent, Delivered, Read, Failed]),
            (Held, [Held, Held, Sent, Delivered, Read, Failed]),
            (Sent, [Sent, Sent, Sent, Delivered, Read, Failed]),
            (Delivered, [Delivered, Delivered, Delivered, Delivered, Read, Delivered]),
            (Read, [Read; 6]),
            (Failed, [Failed; 6]),
        ];
        for (before, after) in table {
            for (learned, after) in learned.iter().zip(after) {
                let mut state = state(before);
                let changed = state.learn(learned.clone(), Timestamp::from_millis(9));
                assert_eq!(
                    (state.status, changed),
                    (after, before != after),
                    "{before:?} {learned:?}"
                );
                let times = [state.sent_at, state.delivered_at, state.read_at, state.failed_at];
                let first = [state.unknown_at, state.held_at];
                let moments = times.iter().chain(&first).flatten().count();
                assert_eq!(moments, usize::from(changed));
            }
        }
    }

    #[test]
    fn events_report_where_it_stands() {
        let mut state = state(MessageStatus::Queued);
        let emitted = |state: &MessageState| {
            let event = state.event()?;
            Some((event.kind(), event.data()))
        };
        let mut expected = serde_json::json!({
            "message_id": state.message_id.to_string(),
            "to": "+15550123456",
            "type": "text",
            "status": "queued",
            "number_id": state.number.to_string(),
        });
        assert_eq!(emitted(&state), Some(("message.queued", expected.clone())));
        state.template = Some(TemplateName { name: "t".into(), language: "en".into() });
        expected["template"] = serde_json::json!({"name": "t", "language": "en"});
        expected["status"] = "sent".into();
        state.status = MessageStatus::Sent;
        assert_eq!(emitted(&state), Some(("message.sent", expected)));
        state.status = MessageStatus::Unknown;
        assert_eq!(emitted(&state), None);
    }

    #[test]
    fn unknown_becomes_final() {
        let mut state = state(MessageStatus::Queued);
        let (at, day) = (Timestamp::from_millis(5), Duration::from_secs(86_400));
        assert!(state.learn(Learned::Unknown, at));
        assert!(!state.stays_unknown(Timestamp::from_millis(86_400_004), day));
        assert!(state.stays_unknown(Timestamp::from_millis(86_400_005), day));
        assert!(state.learn(Learned::Sent, at));
        assert!(!state.stays_unknown(Timestamp::from_millis(86_400_005), day));
    }
}
