//! Conversations whose contact was deleted: what was written in them is deleted part by part.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `g ‖ sequence ‖ id` while something may be
//! left: the address that the contact wrote from, of one by e-mail.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::email;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, Email, MessageId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::conversations::record::{Conversation, Written, delete, messages_prefix, prefix};

/// Messages that one call of [`sweep`] deletes at the most.
const SWEEP_MAX: usize = 250;

/// Deletes a conversation, whose contact is deleted. What was written in it goes later.
pub(crate) fn forget(context: &mut Context<'_>, conversation: &Conversation) {
    delete(context, conversation);
    // That of the event log, which tells of each contact that is deleted.
    let sequence = context.log_next.to_be_bytes();
    let key = [&*prefix(&context.core.id, b'g'), &sequence, conversation.id.as_bytes()].concat();
    let address = conversation.mail.as_ref().map(|mail| mail.address.as_str()).unwrap_or_default();
    let gone = &mut *context.deletion;
    if key < gone.from {
        // Earlier versions wrote keys that are behind it.
        gone.from.clear();
    }
    gone.any = true;
    context.put(Table::Conversations, key, address.as_bytes().to_vec());
}

/// Whether something is left of conversations whose contact was deleted, as far as is committed.
pub fn any_gone(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    first(store, &prefix(workspace, b'g'), &[]).map(|found| found.is_some())
}

/// A record's key and value.
type Row = (Vec<u8>, Vec<u8>);

/// The first record at or after a key.
fn first(store: &dyn View, prefix: &[u8], from: &[u8]) -> Result<Option<Row>, StoreError> {
    let mut found = None;
    let from = from.starts_with(prefix).then_some(from);
    store.scan(Table::Conversations, prefix, from, Direction::Forward, &mut |key, value| {
        found = Some((key.to_vec(), value.to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Deletes some of what was written in conversations that are gone. Returns whether there may be
/// more.
pub(crate) fn sweep(context: &mut Context<'_>) -> Result<bool, Unavailable> {
    if !context.deletion.any {
        return Ok(false);
    }
    let prefix = prefix(&context.core.id, b'g');
    let gone = first(context.store(), &prefix, &context.deletion.from);
    let Some((key, address)) = gone.map_err(unreadable)? else {
        // One that is on its way to the store is not seen yet.
        context.deletion.any = context.has_pending();
        return Ok(false);
    };
    let Some(id) = key.last_chunk().map(|id| ConversationId::from_bytes(*id)) else {
        return Ok(false);
    };
    context.deletion.from.clone_from(&key);
    let prefix = messages_prefix(&context.core.id, id);
    let from = &context.deletion.message_from;
    let from = from.starts_with(&prefix).then_some(&**from);
    let mut rows = Vec::new();
    let scanned = context.store().scan(
        Table::Conversations,
        &prefix,
        from,
        Direction::Forward,
        &mut |key, row| {
            let message = key.last_chunk().map(|id| MessageId::from_bytes(*id));
            rows.extend(message.map(|message| (key.to_vec(), message, row.to_vec())));
            if rows.len() < SWEEP_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    );
    scanned.map_err(unreadable)?;
    if rows.is_empty() {
        // Last, so that nothing is left that nobody knows of.
        let address = std::str::from_utf8(&address).ok().filter(|address| !address.is_empty());
        if let Some(address) = address.and_then(|address| Email::new(address).ok()) {
            email::forget_address(context, id, &address)?;
        }
        context.deletion.from.push(0);
        context.delete(Table::Conversations, key);
    }
    for (key, message, row) in rows {
        let written: Written = codec::decode(&row).map_err(unreadable)?;
        email::forget(context, id, message, &written)?;
        context.deletion.message_from = [&*key, &[0]].concat();
        context.delete(Table::Conversations, key);
    }
    Ok(true)
}
