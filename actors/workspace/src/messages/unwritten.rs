//! Messages without records, which the journal and the actor's memory have.
//!
//! Most messages have their outcome milliseconds after they were accepted. So their acceptance
//! writes no records: the outcome writes the message's record and its entries of the index, and
//! nothing writes the content. The records of a message that waits longer are written by the
//! actor's beat, and before a reader looks for messages. So a reader finds every message.
//!
//! The bytes of such a message are the length of its record (u32, big endian), the record, and the
//! record of its content.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_channel::Outbound;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, MessageId, PartyId, RenderedContent};
use postrider_store::{StoreError, Table};

use crate::Workspace;
use crate::core::command::{Command, Context, Footprint};
use crate::core::view::unreadable;
use crate::messages::content::{self, content_key, outbound};
use crate::messages::index;
use crate::messages::record::MessageState;
use crate::messages::texts;

/// The bytes above which the records of a message are written when it is accepted: the journal has
/// it in one frame, together with others.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;
/// The time for which a message is without records, if it has no outcome.
const UNWRITTEN_FOR: Duration = Duration::from_secs(1);
/// The bytes of records after which a commit of them ends: the writer takes more for bulk.
const SLICE_BYTES: usize = 32 * 1024;
/// The most messages whose records one commit has, so that its events fit in a frame.
const SLICE_MAX: usize = 250;
/// The commits after which a reader does not wait for more: its messages are among them.
const SLICES_MAX: usize = 64;

/// Returns the bytes of a message that needs no records yet; none if they must be written.
pub(super) fn encode(
    context: &Context<'_>,
    state: &MessageState,
    content: &RenderedContent,
) -> Box<[u8]> {
    let (state, content) = (state.encode(), content.to_bytes());
    let bytes = [&(state.len() as u32).to_be_bytes(), &*state, &*content].concat();
    let has_room = context.core.hot.messages.has_room_for(bytes.len());
    if has_room && bytes.len() <= MESSAGE_BYTES_MAX { bytes.into() } else { Box::default() }
}

fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), StoreError> {
    let parts = bytes
        .split_first_chunk()
        .and_then(|(length, rest)| rest.split_at_checked(u32::from_be_bytes(*length) as usize));
    parts.ok_or_else(|| StoreError::Damaged("a message is not what was written".into()))
}

/// Reads the bytes of a message without its content.
///
/// # Errors
/// Those of [`MessageState::decode`].
fn decode(id: MessageId, bytes: &[u8]) -> Result<MessageState, StoreError> {
    MessageState::decode(id, split(bytes)?.0)
}

impl MessageState {
    /// Reads a message with the changes by this and earlier commands, whether it has records or
    /// not.
    pub(crate) fn get(context: &Context<'_>, id: MessageId) -> Result<Option<Self>, Unavailable> {
        if let Some(bytes) = context.core.hot.messages.unwritten(id) {
            return decode(id, bytes).map(Some).map_err(unreadable);
        }
        let found = context.get(Table::Messages, &Self::key(&context.core.id, id))?;
        found.map(|bytes| Self::decode(id, &bytes).map_err(unreadable)).transpose()
    }
}

/// Writes the records of a message that has none: the message, its content, its index entries.
///
/// # Errors
/// [`Unavailable`]: its bytes cannot be read.
pub(super) fn write(context: &mut Context<'_>, id: MessageId) -> Result<(), Unavailable> {
    let Some(bytes) = context.core.hot.messages.unwritten(id) else { return Ok(()) };
    let (state, content) = split(bytes).map_err(unreadable)?;
    let content = content.to_vec();
    let state = MessageState::decode(id, state).map_err(unreadable)?;
    write_new(context, &state, content);
    context.core.perform(Event::MessageWritten { id }, context.effects);
    Ok(())
}

/// Writes the records of a message for the first time.
pub(super) fn write_new(context: &mut Context<'_>, state: &MessageState, content: Vec<u8>) {
    let key = content_key(&context.core.id, state.message_id);
    texts::write(context, state, texts::of_content(&content));
    context.put(Table::Messages, key, content);
    state.write(context);
    write_index(context, state);
}

/// Writes the text of a message that has no records, and gets them now without its content.
pub(super) fn write_text(context: &mut Context<'_>, state: &MessageState) {
    let unwritten = context.core.hot.messages.unwritten(state.message_id);
    if let Some(Ok((_, content))) = unwritten.map(split) {
        let text = texts::of_content(content);
        texts::write(context, state, text);
    }
}

/// Returns the messages without records to a person.
pub(super) fn of_party(context: &Context<'_>, party: &PartyId) -> Vec<MessageId> {
    let messages = &context.core.hot.messages;
    let is_theirs = |id: &MessageId| {
        let state = messages.unwritten(*id).map(|bytes| decode(*id, bytes));
        matches!(state, Some(Ok(state)) if state.to == *party)
    };
    messages.all_unwritten().filter(is_theirs).collect()
}

/// Writes the entries of a message in the index.
pub(super) fn write_index(context: &mut Context<'_>, state: &MessageState) {
    let workspace = context.core.id.clone();
    for key in index::entry_keys(&workspace, state) {
        context.put(Table::MessageIndex, key, Vec::new());
    }
}

/// Writes the records of messages that have been without them for long, as many as a commit takes.
///
/// Returns whether there are more.
pub(crate) fn write_old(context: &mut Context<'_>) -> bool {
    let (now, messages) = (context.now(), &context.core.hot.messages);
    let old = messages.old_unwritten(now.minus(UNWRITTEN_FOR), now).take(SLICE_MAX + 1).collect();
    write_some(context, old)
}

/// Writes records of these messages, as many as a commit takes. Returns whether there are more.
fn write_some(context: &mut Context<'_>, ids: Vec<MessageId>) -> bool {
    for (count, id) in ids.into_iter().enumerate() {
        if count == SLICE_MAX || context.effects.bytes() > SLICE_BYTES {
            return true;
        }
        // The error was logged, and a later beat tries it again.
        write(context, id).ok();
    }
    false
}

/// Returns those of the messages that can be read without the committed records, and the others.
///
/// The record of a message may be written and not durable yet.
pub(crate) fn in_memory(
    context: &Context<'_>,
    ids: Vec<MessageId>,
) -> (Vec<Outbound>, Vec<MessageId>) {
    let (mut messages, mut others) = (Vec::new(), Vec::new());
    for id in ids {
        match read_memory(context, id) {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => others.push(id),
            Err(error) => {
                let workspace = &context.core.id;
                tracing::error!(%workspace, message = %id, %error, "an unsent message cannot be read");
            }
        }
    }
    (messages, others)
}

fn read_memory(context: &Context<'_>, id: MessageId) -> Result<Option<Outbound>, StoreError> {
    let workspace = &context.core.id;
    let pending = |key: &[u8]| context.pending_value(Table::Messages, key);
    let (state, content) = match context.core.hot.messages.unwritten(id) {
        Some(bytes) => split(bytes)?,
        None => match pending(&MessageState::key(workspace, id))
            .zip(pending(&content_key(workspace, id)))
        {
            Some(both) => both,
            None => return Ok(None),
        },
    };
    let state = MessageState::decode(id, state)?;
    Ok(Some(outbound(workspace, &state, content::decode(content)?)))
}

/// The command that writes the records of messages for a reader: as many as a commit takes.
///
/// It returns whether there are more.
struct WriteSome;

impl Command for WriteSome {
    type Answer = bool;
    type Error = Unavailable;

    // The records were paid for when the messages were accepted.
    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<bool, Unavailable> {
        let ids = context.core.hot.messages.all_unwritten().take(SLICE_MAX + 1).collect();
        Ok(write_some(context, ids))
    }
}

impl Workspace {
    /// Has the records of all accepted messages written, if some may have none.
    ///
    /// A reader that begins afterwards finds each message that was acknowledged before. If the
    /// workspace's state is damaged, it finds those with records.
    ///
    /// # Errors
    /// [`Unavailable`]: they cannot be written now.
    pub(crate) async fn write_messages(&self) -> Result<(), Unavailable> {
        for _ in 0..SLICES_MAX {
            if !self.may_hide_messages() {
                return Ok(());
            }
            match self.perform(WriteSome).await {
                Ok(true) => {}
                Ok(false) | Err(Unavailable { reason: UnavailableReason::Parked(_), .. }) => break,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Returns whether accepted messages may have no durable records.
    pub(crate) fn may_hide_messages(&self) -> bool {
        self.slot.may_hide_messages.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::fuzz::each_fault;

    use super::*;
    use crate::messages::golden::queued;

    #[test]
    fn damaged_bytes_are_an_error() {
        let (state, content) = (queued(), RenderedContent::Text("Hi".parse().unwrap()));
        let record = state.encode();
        let length = (record.len() as u32).to_be_bytes();
        let bytes = [&length, &*record, &*content.to_bytes()].concat();
        assert!(decode(state.message_id, &bytes).as_ref() == Ok(&state));
        assert_eq!(content::decode(split(&bytes).unwrap().1).unwrap(), content);
        each_fault(&bytes, |damaged| drop(decode(state.message_id, damaged)));
        for cut in 0..4 + record.len() {
            assert!(decode(state.message_id, &bytes[..cut]).is_err(), "{cut}");
        }
    }
}
