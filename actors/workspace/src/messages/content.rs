//! The content of a message is kept in a record of its own.
//!
//! It is written once, read to hand the message over again, and deleted when the outcome of the
//! message is known.

use postrider_store::view::codec;
use std::sync::Arc;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::{MessageId, RenderedContent, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::core::message_status::MessageStatus;
use crate::messages::record::MessageState;

/// The key of the content's record: that of the message, and one letter. The record is
/// [`RenderedContent`] as JSON.
pub(crate) fn content_key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], id.as_bytes(), b"c"].concat()
}

/// The message as its number gets it.
pub(crate) fn outbound(
    workspace: &WorkspaceId,
    state: &MessageState,
    content: RenderedContent,
) -> Outbound {
    Outbound {
        message_id: state.message_id,
        origin: Origin::Message(state.message_id),
        number: state.number,
        workspace: workspace.clone(),
        to: state.to.clone(),
        give_up_at: state.give_up_at,
        content: Content::Message(Arc::new(content)),
        answers: state.answers.clone(),
        pinned: state.pinned,
    }
}

/// Reads messages from their records, to hand them over again.
///
/// # Errors
/// [`StoreError`] when the store cannot be read. A message without its records is left out and
/// logged: there is nothing to hand over.
pub(crate) fn unsent(
    store: &dyn View,
    workspace: &WorkspaceId,
    ids: &[MessageId],
) -> Result<Vec<Outbound>, StoreError> {
    let mut messages = Vec::with_capacity(ids.len());
    for id in ids {
        let content = store.get(Table::Messages, &content_key(workspace, *id))?;
        let state = store.get(Table::Messages, &MessageState::key(workspace, *id))?;
        let state = state.and_then(|state| codec::decode::<MessageState>(&state).ok());
        if state.as_ref().is_some_and(|state| state.status != MessageStatus::Queued) {
            // Its answer came meanwhile.
            continue;
        }
        let content = content.and_then(|content| codec::decode::<RenderedContent>(&content).ok());
        match state.zip(content) {
            Some((state, content)) => {
                messages.push(outbound(workspace, &state, content));
            }
            None => tracing::error!(%workspace, message = %id, "an unsent message cannot be read"),
        }
    }
    Ok(messages)
}
