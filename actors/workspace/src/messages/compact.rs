//! The record of a single message, as bytes.
//!
//! [`Table::Messages`] has it under `workspace ‖ 0 ‖ message`: a version (1), and then the fields
//! in postcard's format. The id is left to the key, and moments are kept by how much later they are
//! than the one before them, because a message is written twice at least.

use serde::{Deserialize, Serialize};

use postrider_domain::template::TemplateName;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    MediaId, MessageId, MessageKind, NumberId, PartyId, SenderNotes, Timestamp, WorkspaceId, event,
};
use postrider_store::{StoreError, Table, View};

use crate::core::command::Context;
use crate::core::message_status::MessageStatus;
use crate::core::view::unreadable;
use crate::messages::record::{MessageError, MessageState};

/// The first byte of a record.
const VERSION: u8 = 1;

/// The milliseconds by which a moment is later than another; damaged ones have a difference too.
type Later = i64;

/// The order of the fields is part of the format.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    number: [u8; 16],
    to: PartyId,
    kind: MessageKind,
    status: MessageStatus,
    template: Option<(&'a str, &'a str)>,
    error: Option<(&'a str, Option<u32>, &'a str)>,
    price: u64,
    /// The difference to the moment of its id.
    created_at: Later,
    /// This difference and all that follow are to the moment at which it was accepted.
    give_up_at: Later,
    unknown_at: Option<Later>,
    held_at: Option<Later>,
    sent_at: Option<Later>,
    delivered_at: Option<Later>,
    read_at: Option<Later>,
    failed_at: Option<Later>,
    reference: Option<&'a str>,
    metadata: Vec<(&'a str, &'a str)>,
    pinned: bool,
    answers: Option<&'a str>,
    provider_id: Option<&'a str>,
    media: Option<MediaId>,
}

const fn later(at: Timestamp, than: Timestamp) -> Later {
    at.as_millis().wrapping_sub(than.as_millis()).cast_signed()
}

const fn moment(later: Later, than: Timestamp) -> Timestamp {
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
        let stored = Stored {
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
        let Ok((stored, [])) = postcard::take_from_bytes::<Stored<'_>>(stored) else {
            return Err(StoreError::Damaged("a message is not what was written".into()));
        };
        let created_at = moment(stored.created_at, id.timestamp());
        let at = |since: Option<Later>| since.map(|since| moment(since, created_at));
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

    /// Reads a message with the changes by this and earlier commands.
    pub(crate) fn get(context: &Context<'_>, id: MessageId) -> Result<Option<Self>, Unavailable> {
        let found = context.get(Table::Messages, &Self::key(&context.core.id, id))?;
        found.map(|bytes| Self::decode(id, &bytes).map_err(unreadable)).transpose()
    }

    /// Writes the message.
    pub(crate) fn write(&self, context: &mut Context<'_>) {
        let key = Self::key(&context.core.id, self.message_id);
        context.put(Table::Messages, key, self.encode());
    }
}
