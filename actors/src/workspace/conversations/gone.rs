//! Conversations whose contact was deleted: what was written in them is deleted part by part.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0`, `g ‖ id` while something may be left: the
//! address that the contact wrote from, of one by e-mail.

use std::ops::ControlFlow;

use crate::domain::{ConversationId, Email, MessageId};
use crate::store::Table;
use crate::workspace::command::Context;
use crate::workspace::messages::Unavailable;
use crate::workspace::view::unreadable;
use crate::workspace::{email, records};

use super::record::{Conversation, Written, delete, messages_prefix, prefix};

/// Messages that one call of [`sweep`] deletes at the most.
const SWEEP_MAX: usize = 250;

/// Deletes a conversation, whose contact is deleted. What was written in it goes later.
pub(in crate::workspace) fn forget(context: &mut Context<'_>, conversation: &Conversation) {
    delete(context, conversation);
    let key = [&*prefix(&context.core.id, b'g'), conversation.id.as_bytes()].concat();
    let address = conversation.mail.as_ref().map(|mail| mail.address.as_str()).unwrap_or_default();
    context.put(Table::Conversations, key, address.as_bytes().to_vec());
    *context.conversations_gone = true;
}

/// Deletes some of what was written in conversations that are gone. Returns whether there may be
/// more.
pub(in crate::workspace) fn sweep(context: &mut Context<'_>) -> Result<bool, Unavailable> {
    if !*context.conversations_gone {
        return Ok(false);
    }
    let prefix = prefix(&context.core.id, b'g');
    let mut gone = None;
    context.scan(Table::Conversations, &prefix, &mut |key, address| {
        let id = key.last_chunk().map(|id| ConversationId::from_bytes(*id));
        gone = id.map(|id| (key.to_vec(), id, address.to_vec()));
        ControlFlow::Break(())
    })?;
    let Some((key, id, address)) = gone else {
        // One that is on its way to the store is not seen yet.
        *context.conversations_gone = context.has_pending();
        return Ok(false);
    };
    let mut rows = Vec::new();
    context.scan(
        Table::Conversations,
        &messages_prefix(&context.core.id, id),
        &mut |key, row| {
            let message = key.last_chunk().map(|id| MessageId::from_bytes(*id));
            rows.extend(message.map(|message| (key.to_vec(), message, row.to_vec())));
            if rows.len() < SWEEP_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    )?;
    if rows.is_empty() {
        // Last, so that nothing is left that nobody knows of.
        let address = std::str::from_utf8(&address).ok().filter(|address| !address.is_empty());
        if let Some(address) = address.and_then(|address| Email::new(address).ok()) {
            email::forget_address(context, id, &address)?;
        }
        context.delete(Table::Conversations, key);
    }
    for (key, message, row) in rows {
        let written: Written = records::decode(&row).map_err(unreadable)?;
        email::forget(context, id, message, &written)?;
        context.delete(Table::Conversations, key);
    }
    Ok(true)
}
