//! Returns what waits of a number that is down, so that another number can send it.

use postrider_channel::{Content, Origin};
use postrider_domain::RenderedContent;

use super::NumberActor;
use super::state::State;
use crate::queue::Attempt;

/// Takes the codes that wait out of every queue, and the messages made of templates if they are
/// wanted too. A number that sends keeps its own.
pub(super) fn take(templates: bool, state: &mut State) {
    if state.breaker.open_until().is_none() {
        return;
    }
    let is_wanted = |attempt: &Attempt| may_leave(attempt, templates);
    let mut out = state.recipients.take(&is_wanted);
    out.extend(state.queue.take_first(&is_wanted));
    let delayed = state.delayed.extract_if(.., |_, attempt| is_wanted(attempt));
    out.extend(delayed.map(|(_, attempt)| attempt));
    out.sort_unstable_by_key(|attempt| attempt.sequence);
    for mut attempt in out {
        state.cancel_trial(&mut attempt);
        state.release(&mut attempt);
        state.requeue_released_by(&attempt);
        state.ledger.left(&attempt.message);
        state.handed_back.push(attempt.message);
    }
}

/// Whether another number may send it. Free text belongs to the number that it answers through.
fn may_leave(attempt: &Attempt, templates: bool) -> bool {
    match (&attempt.message.origin, &attempt.message.content) {
        (Origin::Otp { .. }, _) => true,
        (Origin::Message(_), Content::Message(content)) => {
            templates && matches!(**content, RenderedContent::Template(_))
        }
        _ => false,
    }
}

/// Reports what was taken, after the claims that ended by it.
pub(super) fn report(actor: &NumberActor, state: &mut State) {
    let messages = std::mem::take(&mut state.handed_back);
    if let (false, Some(sink)) = (messages.is_empty(), actor.reporter.sink()) {
        sink.handed_back(&actor.workspace, messages);
    }
}
