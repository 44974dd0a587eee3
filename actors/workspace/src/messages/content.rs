//! The content of a message that waits for its outcome, stored in a record of its own.
//!
//! It is written when the message has waited for a while, read to hand the message over again, and
//! deleted when the outcome is known. A message whose outcome comes soon has no such record.

use std::sync::Arc;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::content::ContentDecodeError;
use postrider_domain::{MessageId, RenderedContent, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::core::message_status::MessageStatus;
use crate::messages::record::MessageState;

/// Returns the key of the content's record: that of the message, and one letter.
///
/// The record is [`RenderedContent`].
pub(crate) fn content_key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], id.as_bytes(), b"c"].concat()
}

/// Reads a record of content.
pub(crate) fn decode(bytes: &[u8]) -> Result<RenderedContent, StoreError> {
    RenderedContent::from_bytes(bytes).map_err(|error| match error {
        ContentDecodeError::Damaged => StoreError::Damaged(error.to_string()),
        ContentDecodeError::Newer(_) => StoreError::Newer(error.to_string()),
    })
}

/// Returns the message in the form for its number.
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
/// [`StoreError`] when the store cannot be read, and [`StoreError::Newer`] when a newer version
/// wrote a record. A message without its records, or with damaged ones, is left out and logged:
/// there is nothing to hand over.
pub(crate) fn unsent(
    store: &dyn View,
    workspace: &WorkspaceId,
    ids: &[MessageId],
) -> Result<Vec<Outbound>, StoreError> {
    let mut messages = Vec::with_capacity(ids.len());
    for id in ids {
        let content = store.get(Table::Messages, &content_key(workspace, *id))?;
        let state = store.get(Table::Messages, &MessageState::key(workspace, *id))?;
        let state = unless_damaged(state.map(|bytes| MessageState::decode(*id, &bytes)))?;
        if state.as_ref().is_some_and(|state| state.status != MessageStatus::Queued) {
            // Its answer came meanwhile.
            continue;
        }
        let content = unless_damaged(content.map(|bytes| decode(&bytes)))?;
        match state.zip(content) {
            Some((state, content)) => {
                messages.push(outbound(workspace, &state, content));
            }
            None => tracing::error!(%workspace, message = %id, "an unsent message cannot be read"),
        }
    }
    Ok(messages)
}

/// Returns a record that was read, if it exists and is not damaged.
fn unless_damaged<T>(read: Option<Result<T, StoreError>>) -> Result<Option<T>, StoreError> {
    match read {
        Some(Err(StoreError::Damaged(_))) => Ok(None),
        read => read.transpose(),
    }
}

#[cfg(test)]
mod tests {
    use postrider_store::{Change, Group, MemoryStore, Store as _};

    use super::*;
    use crate::messages::golden::queued;

    /// The content of a damaged record is lost; that of a newer version is not.
    #[test]
    fn unsent_messages_of_a_newer_version_are_not_left_out() {
        let workspace: WorkspaceId = "acme".parse().unwrap();
        let (state, content) = (queued(), RenderedContent::Text("Hi".parse().unwrap()));
        let id = state.message_id;
        let (state, content) = (state.encode(), content.to_bytes());
        let with_version = |record: &[u8]| [&[2], &record[1..]].concat();
        let read = |state: &[u8], content: &[u8]| {
            let store = MemoryStore::new();
            let key = content_key(&workspace, id);
            let content = Change::put(Table::Messages, key, content);
            let key = MessageState::key(&workspace, id);
            let state = Change::put(Table::Messages, key, state);
            store.commit(Group::new(None, &[state, content])).unwrap();
            unsent(&store, &workspace, &[id]).map(|messages| messages.len())
        };
        assert_eq!(read(&state, &content), Ok(1));
        assert_eq!(read(&state[1..], &content), Ok(0));
        assert_eq!(read(&state, &[0]), Ok(0));
        let newer = |what: &str| Err(StoreError::Newer(what.to_owned()));
        assert_eq!(read(&with_version(&state), &content), newer("a message has version 2"));
        let reason = "the content of a message has version 2";
        assert_eq!(read(&state, &with_version(&content)), newer(reason));
    }
}
