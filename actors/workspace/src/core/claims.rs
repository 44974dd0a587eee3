//! Pure: claims of single messages.
//!
//! A number claims a message durably before it dispatches it. A message that is claimed and not
//! settled after a crash may have been taken, so it is never dispatched again.

use postrider_domain::{Event, MessageId, NumberId};

use crate::core::Core;
use crate::core::effects::Effects;

/// Releases the claims of `released`, which were surely not taken.
pub(crate) fn release(core: &mut Core, released: &[MessageId], effects: &mut Effects) {
    for id in released.iter().copied() {
        if core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageReleased { id }, effects);
        }
    }
}

/// Claims `asked` for a number. Returns the messages that it may hand over once that is durable.
///
/// These are all that are not settled yet and that no other number has taken over.
pub(crate) fn claim(
    core: &mut Core,
    number: NumberId,
    mut asked: Vec<MessageId>,
    effects: &mut Effects,
) -> Vec<MessageId> {
    let messages = &core.hot.messages;
    asked.retain(|id| {
        messages.contains(*id) && messages.number(*id).is_none_or(|own| own == number)
    });
    for id in asked.iter().copied() {
        if !core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageClaimed { id }, effects);
        }
    }
    asked
}
