//! Chooses the number through which a message leaves, and moves a message from one that is down.
//!
//! The number that was last used with a contact is found by its newest message and its
//! conversation.

use std::time::Duration;

use postrider_domain::template::TemplateName;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, NumberId, PartyId, Timestamp, WorkspaceId};
use postrider_store::{StoreError, View};

use crate::conversations;
use crate::core::command::Context;
use crate::core::senders::pool::LastSender;
use crate::core::senders::sticky_sender;
use crate::core::senders::takeover::MoveOutcome;
use crate::core::view::unreadable;
use crate::messages::error::SendMessageError;
use crate::messages::index::{self, By};
use crate::messages::record::MessageState;
use crate::messages::{service_window, unwritten};
use crate::templates::{Template, find_template};

/// The candidates for the number of a message.
#[derive(Clone, Copy)]
pub(super) struct NumberCandidates {
    /// The number that its sender names.
    pub(super) from: Option<NumberId>,
    /// The number to which the answered message was written.
    pub(super) through: Option<NumberId>,
    /// The number to which the recipient last wrote.
    pub(super) written_to: Option<NumberId>,
}

/// Returns the number for free-form content.
///
/// The channel accepts it only while a conversation window is open. It is that of the number to
/// which the recipient last wrote, if it is still connected, or of another one. If the sender names
/// one, no other will do.
pub(super) fn open_number(
    context: &Context<'_>,
    to: &PartyId,
    NumberCandidates { from, written_to, .. }: NumberCandidates,
) -> Result<NumberId, SendMessageError> {
    let connected = || context.numbers.iter().map(|(id, _)| *id);
    connected().next().ok_or(SendMessageError::NotConnected)?;
    let preferred = from.or_else(|| connected().find(|id| Some(*id) == written_to));
    let others = connected().filter(|id| from.is_none() && Some(*id) != preferred);
    for number in preferred.into_iter().chain(others) {
        if service_window::is_open(context, number, to)? {
            return Ok(number);
        }
    }
    Err(SendMessageError::WindowClosed)
}

/// Returns the number for a message that is made of this template, if there is one.
///
/// It is the one that the sender names, or to which the answered message was written, or the
/// contact's. Another one is chosen at once for a message that could not move later.
pub(super) fn template_number(
    context: &Context<'_>,
    to: &PartyId,
    NumberCandidates { from, through, .. }: NumberCandidates,
    row: &Template,
) -> Result<Option<NumberId>, Unavailable> {
    let pool = &context.core.pool;
    let is_stuck = |number: &NumberId| !takes(context, *number, true);
    let through = through.filter(|it| row.can_leave(pool, *it) && !is_stuck(it));
    if let Some(number) = from.or(through) {
        return Ok(Some(number));
    }
    let has = |account: Option<&str>| row.is_approved(pool, account);
    let patience = context.core.rules.messages.reassign_after;
    let own = sticky_sender::choose(context, to, patience, has)?;
    match own.filter(is_stuck) {
        // It could not move later: its content is of this account's template.
        Some(_) => sticky_sender::choose(context, to, Duration::ZERO, has),
        None => Ok(own),
    }
}

/// Returns whether a number is up, or another one of its account if the message may move.
pub(super) fn takes(context: &Context<'_>, number: NumberId, may_move: bool) -> bool {
    let is_up = |id| context.down_for(id).is_none();
    let pool = &context.core.pool;
    let is_of_same = |id: &NumberId| pool.account(*id) == pool.account(number);
    is_up(number) || may_move && pool.numbers().filter(is_of_same).any(is_up)
}

/// Returns when a number was last used with a contact, and its line.
pub(crate) fn last_sender(
    context: &Context<'_>,
    contact: &PartyId,
) -> Result<Option<LastSender>, Unavailable> {
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

/// Moves a message made of a template that the number `from` has returned.
///
/// A message whose sender has named its number stays. Its contact stays with the new number.
pub(crate) fn move_message(
    context: &mut Context<'_>,
    id: MessageId,
    from: NumberId,
) -> Result<MoveOutcome, Unavailable> {
    let state = match context.core.hot.messages.contains(id) {
        true => MessageState::get(context, id)?,
        false => None,
    };
    let Some(state) = state else { return Ok(MoveOutcome::Over) };
    if state.number != from {
        // Another number has it.
        return Ok(MoveOutcome::Over);
    }
    if state.pinned {
        return Ok(MoveOutcome::Stays);
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
    match sticky_sender::choose(context, &state.to, patience, has_template)? {
        Some(to) if to != from && context.down_for(to).is_none() => {
            sticky_sender::note(context, &state.to, to, context.now())?;
            unwritten::write(context, id)?;
            MessageState { number: to, ..state }.write(context);
            context.core.hot.messages.set_number(id, to);
            Ok(MoveOutcome::To(to))
        }
        _ => Ok(MoveOutcome::Stays),
    }
}
