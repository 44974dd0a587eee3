//! Pure: claims of single messages.
//!
//! A number claims a message durably before it dispatches it. A message that is claimed and not
//! settled after a crash may have been taken, so it is never dispatched again.

use postrider_domain::{Event, MessageId};

use crate::core::Core;
use crate::core::effects::Effects;

/// Gives up the claims of `released`, which were surely not taken, and claims `asked`. Gives those
/// of `asked` that may be handed over when that is durable: all that are not settled yet.
pub(crate) fn claim(
    core: &mut Core,
    released: &[MessageId],
    mut asked: Vec<MessageId>,
    effects: &mut Effects,
) -> Vec<MessageId> {
    for id in released.iter().copied() {
        if core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageReleased { id }, effects);
        }
    }
    asked.retain(|id| core.hot.messages.contains(*id));
    for id in asked.iter().copied() {
        if !core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageClaimed { id }, effects);
        }
    }
    asked
}
