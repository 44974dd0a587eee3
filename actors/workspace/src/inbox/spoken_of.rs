//! Finds the message that another one answers or reacts to, beside the actor.
//!
//! Its channel names it by an id of its own. The index of messages has those of the workspace's
//! own; for others, and those to another name of the same person, the newest messages of the
//! conversation are looked through. One that is not found, or cannot be read, is not named.

use std::ops::ControlFlow;

use postrider_domain::{ConversationId, MessageId, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction as Order, StoreError, Table, View};
use serde::Deserialize;

use crate::conversations::Direction;
use crate::conversations::record::messages_prefix;
use crate::messages::MessageState;

/// The maximum number of a conversation's newest messages that are searched.
const LOOKED_AT_MAX: usize = 32;

/// The fields of a message that are read, whatever else it has.
#[derive(Deserialize)]
struct Named {
    direction: Direction,
    #[serde(default)]
    provider_id: Option<Box<str>>,
}

/// Returns the message of a conversation with this id of its channel.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(super) fn find(
    (store, workspace): (&dyn View, &WorkspaceId),
    conversation: ConversationId,
    name: &str,
) -> Result<Option<MessageId>, StoreError> {
    // Numbers of the sandbox have no names of their own.
    let own = name.parse::<MessageId>().ok();
    let prefix = messages_prefix(workspace, conversation);
    let (mut looked_at, mut found, mut ours) = (0, None, Vec::new());
    store.scan(Table::Conversations, &prefix, None, Order::Backward, &mut |key, row| {
        looked_at += 1;
        let id = key.last_chunk().map(|id| MessageId::from_bytes(*id));
        if let Some((id, Ok(it))) = id.zip(Some(codec::decode::<Named>(row))) {
            let is_it = own == Some(id) || it.provider_id.as_deref() == Some(name);
            found = Some(id).filter(|_| is_it);
            ours.extend(Some(id).filter(|_| it.direction == Direction::Out));
        }
        match found.is_none() && looked_at < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    for id in ours {
        if found.is_some() {
            break;
        }
        let state = match MessageState::read(store, workspace, id) {
            Err(error @ StoreError::Failed(_)) => return Err(error),
            read => read.ok().flatten(),
        };
        let is_it = state.is_some_and(|state| state.provider_id.as_deref() == Some(name));
        found = Some(id).filter(|_| is_it);
    }
    Ok(found)
}
