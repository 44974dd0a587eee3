//! Moves messages from a number of the pool that is down to another one.
//!
//! The number returns its waiting messages and forgets them. Then the new number is recorded and
//! the message is dispatched to it, in this order. After a crash in between it is sent once,
//! through the recorded number.

use std::sync::Arc;
use std::time::Duration;

use postrider_channel::{Origin, Outbound};
use postrider_domain::NumberId;
use postrider_domain::unavailable::Unavailable;
use postrider_number::{HandedOver, NumberSlot, Numbers, Wanted};

use crate::actor::budget_queue;
use crate::actor::state::{StateLost, WorkspaceState};
use crate::core::command::Context;
use crate::core::senders::code_sender;
use crate::core::senders::takeover::{self, MoveOutcome};
use crate::messages;
use crate::services::Services;

/// The maximum number of messages in one commit.
const MOVED_MAX: usize = 200;

/// Asks the numbers that are down for their waiting messages, if another one can send them.
pub(super) fn ask_for_messages(numbers: &Numbers, state: &WorkspaceState) {
    let patience = state.core.rules.messages.reassign_after;
    for DownNumber { number, slot, since, wanted } in down(state) {
        let templates = wanted.templates && since >= patience;
        if (wanted.codes || templates) && slot.has_messages() {
            numbers.hand_back(number, Wanted { templates, ..wanted });
        }
    }
}

/// Returns the numbers that have been down for so long that another one sends their messages.
pub(super) fn down_for_long(state: &WorkspaceState) -> Vec<NumberId> {
    let patience = state.core.rules.messages.reassign_after;
    let long = down(state).filter(|it| it.wanted.templates && it.since >= patience);
    long.map(|it| it.number).collect()
}

/// A number that is down.
struct DownNumber<'a> {
    number: NumberId,
    slot: &'a Arc<NumberSlot>,
    /// The time for which it has been down.
    since: Duration,
    /// The kinds of its messages that others can send.
    wanted: Wanted,
}

/// Returns the numbers that are down, if others of the pool are up.
fn down(state: &WorkspaceState) -> impl Iterator<Item = DownNumber<'_>> {
    let (core, now) = (&state.core, state.core.now());
    let slots = if core.pool.is_choice() { state.slots() } else { &[] };
    let is_down = slots.iter().any(|(_, slot)| slot.down_since(now).is_some());
    let slots = if is_down { slots } else { &[] };
    let is_up = |(id, slot): &&(NumberId, Arc<NumberSlot>)| {
        slot.down_for(now).is_none() && core.pool.numbers().any(|it| it == *id)
    };
    let up: Vec<_> = slots.iter().filter(is_up).map(|(id, _)| *id).collect();
    let slots = if up.is_empty() { &[][..] } else { slots };
    slots.iter().filter_map(move |(number, slot)| {
        let (number, since) = (*number, slot.down_since(now)?);
        let wanted = takeover::takes_over(core, number, &up);
        Some(DownNumber { number, slot, since, wanted })
    })
}

/// Dispatches messages that a number has returned through the numbers that can send them.
pub(super) fn take_over(
    shared: &Services,
    messages: Vec<Outbound>,
    state: &mut WorkspaceState,
) -> Result<(), StateLost> {
    let mut back = Vec::new();
    for (count, message) in messages.into_iter().enumerate() {
        if count % MOVED_MAX == MOVED_MAX - 1 {
            state.finish(None)?;
        }
        let mut context = state.context(shared.store.as_ref());
        match move_one(&mut context, &message) {
            Ok(MoveOutcome::To(number)) => {
                budget_queue::give_back_moved(&mut context, &message);
                let moved = Outbound { number, ..message };
                context.effects.outbound.push(HandedOver::from(moved));
            }
            Ok(MoveOutcome::Stays) => back.push(message),
            // A message that has ended was settled without its number.
            Ok(MoveOutcome::Over) => budget_queue::give_back_moved(&mut context, &message),
            Err(error) => {
                tracing::warn!(%error, "a message waits for its number, which is down");
                back.push(message);
            }
        }
    }
    // The number may meanwhile have received it again from its record.
    shared.numbers.recover(back);
    state.finish(None)
}

fn move_one(context: &mut Context<'_>, message: &Outbound) -> Result<MoveOutcome, Unavailable> {
    match message.origin {
        Origin::Otp { request_id, number } => {
            code_sender::move_code(context, (request_id, number), message.number)
        }
        Origin::Message(id) => messages::move_message(context, id, message.number),
        Origin::Broadcast { .. } => Ok(MoveOutcome::Over),
    }
}
