//! Moves a message that waits for a number which is down to another one.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, NumberId};
use postrider_store::Table;

use crate::core::command::Context;
use crate::core::sticky::{self, Moved};
use crate::messages::record::MessageState;

/// Moves a message made of a template that the number `from` has returned, unless its sender has
/// named its number. Its contact stays with the new number.
pub(crate) fn move_message(
    context: &mut Context<'_>,
    id: MessageId,
    from: NumberId,
) -> Result<Moved, Unavailable> {
    let key = MessageState::key(&context.core.id, id);
    let state: Option<MessageState> = match context.core.hot.messages.contains(id) {
        true => context.get_json(Table::Messages, &key)?,
        false => None,
    };
    let Some(state) = state else { return Ok(Moved::Over) };
    if state.number != from {
        // Another number has it.
        return Ok(Moved::Over);
    }
    if state.pinned {
        return Ok(Moved::Stays);
    }
    let patience = context.core.rules.messages.reassign_after;
    match sticky::choose(context, &state.to, patience)? {
        Some(to) if to != from && context.down_for(to).is_none() => {
            sticky::note(context, &state.to, to, context.now())?;
            context.put_json(Table::Messages, key, &MessageState { number: to, ..state });
            context.core.hot.messages.set_number(id, to);
            Ok(Moved::To(to))
        }
        _ => Ok(Moved::Stays),
    }
}
