//! Moves messages from a number of the pool that is down to another one.
//!
//! The number returns what waits, and has it no more. Then the new number is noted and the message
//! is dispatched to it, in this order: after a crash in between it goes out once, through the one
//! that is noted.

use std::sync::Arc;

use postrider_channel::{Origin, Outbound};
use postrider_domain::NumberId;
use postrider_number::capacity::HandedOver;
use postrider_number::{NumberSlot, Numbers};

use crate::actor::state::{StateLost, WorkspaceState};
use crate::core::command::Context;
use crate::core::sticky::Moved;
use crate::messages;
use crate::otp;
use crate::services::Services;
use postrider_domain::unavailable::Unavailable;

/// Most messages of one commit.
const MOVED_MAX: usize = 200;

/// Asks the numbers that are down for what waits, if another one can send it.
pub(super) fn ask(numbers: &Numbers, state: &WorkspaceState) {
    let core = &state.core;
    if !core.pool.is_choice() {
        return;
    }
    let (now, patience) = (core.now(), core.rules.messages.reassign_after);
    let is_up = |(id, slot): &(NumberId, Arc<NumberSlot>)| {
        core.pool.has_templates(*id) && slot.down_for(now).is_none()
    };
    if !state.slots().iter().any(is_up) {
        return;
    }
    for (number, slot) in state.slots() {
        if let (true, Some(since)) = (slot.has_messages(), slot.down_since(now)) {
            numbers.hand_back(*number, since >= patience);
        }
    }
}

/// Dispatches messages that a number has returned through the numbers that can send them.
pub(super) fn take(
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
            Ok(Moved::To(number)) => {
                let moved = Outbound { number, ..message };
                context.effects.outbound.push(HandedOver::from(moved));
            }
            Ok(Moved::Stays) => back.push(message),
            Ok(Moved::Over) => {}
            Err(error) => {
                tracing::warn!(%error, "a message waits for its number, which is down");
                back.push(message);
            }
        }
    }
    // The number may have got it again from its record meanwhile.
    shared.numbers.recover(back);
    state.finish(None)
}

fn move_one(context: &mut Context<'_>, message: &Outbound) -> Result<Moved, Unavailable> {
    match message.origin {
        Origin::Otp { request_id, number } => {
            otp::move_code(context, (request_id, number), message.number)
        }
        Origin::Message(id) => messages::move_message(context, id, message.number),
        Origin::Broadcast { .. } => Ok(Moved::Over),
    }
}
