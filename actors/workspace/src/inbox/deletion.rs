//! Conversations whose contact was deleted: their messages are deleted part by part.
//!
//! [`Table::Conversations`] has `g ‖ sequence ‖ id` under `workspace ‖ 0` while messages may be
//! left. Its value is the address that the contact wrote from, for a conversation by e-mail.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::core::command::Context;
use crate::email;
use crate::media;
use crate::messages::texts;
use crate::sweep::{Look, NEVER, RecordKeys, SweepCursor, after};
use postrider_domain::{ConversationId, Email, MessageId, WorkspaceId};
use postrider_store::{Direction as Order, StoreError, Table, View};

use crate::conversations::notes::notes_prefix;
use crate::conversations::record::{
    Conversation, Direction, Written, delete, messages_prefix, prefix,
};

/// The maximum number of messages that one slice deletes: one by e-mail has four records.
const SLICE_MAX: usize = 250;

/// Deletes a conversation whose contact is deleted. Its messages are deleted later.
pub(crate) fn forget_conversation(context: &mut Context<'_>, conversation: &Conversation) {
    delete(context, conversation);
    // The sequence is that of the event log, which reports each deleted contact.
    let sequence = context.log_next.to_be_bytes();
    let key = [&*prefix(&context.core.id, b'g'), &sequence, conversation.id.as_bytes()].concat();
    let address = conversation.mail.as_ref().map(|mail| mail.address.as_str()).unwrap_or_default();
    context.put(Table::Conversations, key, address.as_bytes().to_vec());
}

/// Returns whether anything is left that was written with a contact who was deleted.
pub fn any_deleted(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    let marked = first_record(store, &prefix(workspace, b'g'), &[])?;
    Ok(marked.is_some() || texts::any_forgotten(store, workspace)?)
}

/// A record's key and value.
type StoredRow = (Vec<u8>, Vec<u8>);

/// Returns the first record at or after a key.
fn first_record(
    store: &dyn View,
    prefix: &[u8],
    from: &[u8],
) -> Result<Option<StoredRow>, StoreError> {
    let mut found = None;
    let from = from.starts_with(prefix).then_some(from);
    store.scan(Table::Conversations, prefix, from, Order::Forward, &mut |key, value| {
        found = Some((key.to_vec(), value.to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Reads some of the messages of deleted conversations.
///
/// Messages are deleted before the mark of their conversation, so that none is left unmarked.
pub(crate) fn of_deleted(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let marks = marks(look.workspace);
    let Some((key, address)) = first_record(look.store, &marks, &cursor.from)? else {
        // A later mark lies before this key, and the next round reaches it.
        cursor.pass(&[&*marks, &[0xff; 9]].concat());
        cursor.rest_until(NEVER);
        return Ok(Vec::new());
    };
    let Some(id) = key.last_chunk().map(|id| ConversationId::from_bytes(*id)) else {
        cursor.pass(&key);
        return Ok(Vec::new());
    };
    if cursor.from != key {
        cursor.from.clone_from(&key);
        cursor.within.clear();
    }
    let rows = messages_of(look, id, &cursor.within)?;
    let mut keys = Vec::new();
    if rows.is_empty() {
        let notes = notes_of(look, id, &cursor.within)?;
        if let Some((_, last)) = notes.last() {
            cursor.within = after(last);
            return Ok(notes);
        }
        let address = std::str::from_utf8(&address).ok().filter(|address| !address.is_empty());
        if let Some(address) = address.and_then(|address| Email::new(address).ok()) {
            keys.extend(email::address_record(look, id, &address)?);
        }
        cursor.pass(&key);
        keys.push((Table::Conversations, key));
    }
    for (key, message, row) in rows {
        let written: Written = codec::decode(&row)?;
        keys.extend(email::records_with_conversation(look, id, message, &written)?);
        if let (Direction::In, Some(file)) = (written.direction, &written.media) {
            keys.extend(media::records(look.store, look.workspace, file.media_id)?);
        }
        cursor.within = after(&key);
        keys.push((Table::Conversations, key));
    }
    Ok(keys)
}

/// A message's key, its id and its record.
type DeletedMessage = (Vec<u8>, MessageId, Vec<u8>);

/// Returns some messages of a deleted conversation from a key on; none after the first note.
fn messages_of(
    look: &Look<'_>,
    id: ConversationId,
    from: &[u8],
) -> Result<Vec<DeletedMessage>, StoreError> {
    let (mut rows, prefix) = (Vec::new(), messages_prefix(look.workspace, id));
    if !from.is_empty() && !from.starts_with(&prefix) {
        return Ok(rows);
    }
    look.scan(Table::Conversations, &prefix, from, &mut |key, row| {
        let message = key.last_chunk().map(|id| MessageId::from_bytes(*id));
        rows.extend(message.map(|message| (key.to_vec(), message, row.to_vec())));
        if rows.len() < SLICE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(rows)
}

/// Returns some notes of a deleted conversation.
fn notes_of(look: &Look<'_>, id: ConversationId, from: &[u8]) -> Result<RecordKeys, StoreError> {
    let mut keys = Vec::new();
    let prefix = notes_prefix(look.workspace, id);
    let from = if from.starts_with(&prefix) { from } else { &[] };
    look.scan(Table::Conversations, &prefix, from, &mut |key, _| {
        keys.push((Table::Conversations, key.to_vec()));
        if keys.len() < SLICE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(keys)
}

/// Returns the prefix of the marks of deleted conversations.
pub(crate) fn marks(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'g')
}
