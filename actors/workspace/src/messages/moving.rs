//! Moves a message that waits for a number which is down to another one.

use postrider_domain::template::TemplateName;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, NumberId};

use crate::core::command::Context;
use crate::core::sticky::{self, Moved};
use crate::messages::record::MessageState;
use crate::templates::find_template;

/// Moves a message made of a template that the number `from` has returned.
///
/// A message whose sender has named its number stays. Its contact stays with the new number.
pub(crate) fn move_message(
    context: &mut Context<'_>,
    id: MessageId,
    from: NumberId,
) -> Result<Moved, Unavailable> {
    let state = match context.core.hot.messages.contains(id) {
        true => MessageState::get(context, id)?,
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
    let template = match &state.template {
        Some(TemplateName { name, language }) => find_template(context, name, language)?,
        None => None,
    };
    let pool = &context.core.pool;
    let own = pool.account(from);
    // Its parameters, price and opt-out rule are of one account's template.
    let has_template = |account: Option<&str>| {
        own.is_none_or(|own| own == account)
            && template.as_ref().is_some_and(|template| template.is_approved(pool, account))
    };
    match sticky::choose(context, &state.to, patience, has_template)? {
        Some(to) if to != from && context.down_for(to).is_none() => {
            sticky::note(context, &state.to, to, context.now())?;
            MessageState { number: to, ..state }.write(context);
            context.core.hot.messages.set_number(id, to);
            Ok(Moved::To(to))
        }
        _ => Ok(Moved::Stays),
    }
}
