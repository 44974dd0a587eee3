//! Finds the number that was last used with a contact, by its newest message and its conversation.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, PartyId, Timestamp, WorkspaceId};
use postrider_store::{StoreError, View};

use crate::conversations;
use crate::core::command::Context;
use crate::core::sticky::Used;
use crate::core::view::unreadable;
use crate::messages::index::{self, By};
use crate::messages::record::MessageState;

/// Returns when a number was last used with a contact, and its line.
pub(crate) fn used_with(
    context: &Context<'_>,
    contact: &PartyId,
) -> Result<Option<Used>, Unavailable> {
    let sent = newest_message(context.store(), &context.core.id, contact).map_err(unreadable)?;
    let conversation = conversations::of_party(context, contact)?;
    let written_to = conversation.and_then(|it| it.number_at.zip(it.number));
    Ok(sent.max(written_to).map(|(at, number)| (at, context.line(number))))
}

/// Returns when the newest single message to a contact was accepted, and its number.
pub(crate) fn newest_message(
    store: &dyn View,
    workspace: &WorkspaceId,
    contact: &PartyId,
) -> Result<Option<(Timestamp, NumberId)>, StoreError> {
    let newest = index::before(store, &By::To(contact).prefix(workspace), None, 1)?;
    let Some(id) = newest.first() else { return Ok(None) };
    let state = MessageState::read(store, workspace, *id)?;
    Ok(state.map(|state| (state.created_at, state.number)))
}
