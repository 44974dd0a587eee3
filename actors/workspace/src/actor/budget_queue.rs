//! Messages that wait for the budget of their number's portfolio.
//!
//! No number has them: they are claimed again once there is room, or end with their life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postrider_channel::{Origin, Outbound};
use postrider_domain::{MessageId, NumberId, Timestamp};
use ractor::ActorRef;

use crate::actor::WorkspaceActor;
use crate::actor::state::{LOG_BYTES_MAX, StateLost, WorkspaceState};
use crate::core::command::Context;
use crate::core::portfolio::{MessageMark, portfolio_of};
use crate::mailbox::message::WorkspaceMessage;
use crate::messages::{self, BudgetRoom};
use crate::services::Services;
use postrider_channel::outcome::FinalOutcome;

/// The maximum number of messages that one tick looks at.
const AGAIN_MAX: usize = 200;

/// Returns the messages that a number may claim now; the others wait for room.
///
/// A message that was denied under a ticket is denied again when the ticket is repeated. The number
/// applies the first answer, and would not send a message that the second one grants.
pub(super) fn claimable(
    shared: &Services,
    (number, ticket): (NumberId, Option<u64>),
    mut asked: Vec<MessageId>,
    state: &mut WorkspaceState,
) -> Vec<MessageId> {
    let Some(ticket) = ticket else { return asked };
    let denied = state.waiting.take_denied(number, ticket);
    let mut held = BTreeSet::new();
    let mut context = state.context(shared.store.as_ref());
    asked.retain(|id| {
        let may_claim = match denied.contains(id) {
            true => Ok(false),
            false => messages::may_claim(&mut context, *id, number),
        };
        let may_claim = may_claim.unwrap_or_else(|error| {
            tracing::warn!(%error, "a message waits for what is counted of its recipient");
            false
        });
        if !may_claim {
            held.insert(*id);
        }
        may_claim
    });
    for id in &held {
        let give_up_at = state.core.hot.messages.give_up_at(*id).unwrap_or_default();
        state.waiting.add(*id, number, give_up_at);
    }
    state.waiting.note_denied(number, ticket, held);
    asked
}

/// Counts the recipients of codes that are sent once the current effects are durable.
pub(super) fn count_codes(state: &mut WorkspaceState) {
    let outbound = &state.effects.outbound;
    if outbound.is_empty() || state.numbers.iter().all(|number| portfolio_of(number).is_none()) {
        return;
    }
    let codes = outbound.iter().filter_map(|it| {
        let mark = mark_of(&it.message.origin)?;
        Some((it.message.to.clone(), it.message.number, mark))
    });
    let codes: Vec<_> = codes.collect();
    let store = Arc::clone(&state.store);
    let mut context = state.context(store.as_ref());
    for (to, number, mark) in codes {
        if let Err(error) = messages::count_code(&mut context, (&to, number, mark)) {
            // A code does not wait.
            tracing::warn!(%error, "the recipient of a code is not counted");
        }
    }
}

/// Returns the mark that counts the message of a code; `None` for another message.
const fn mark_of(origin: &Origin) -> Option<MessageMark> {
    match origin {
        Origin::Otp { request_id, number } => {
            Some(MessageMark::of_code(request_id.as_bytes(), *number))
        }
        _ => None,
    }
}

/// Takes back a code's count for its number if this outcome means that it was not sent.
pub(super) fn give_back_code(
    state: &mut WorkspaceState,
    (origin, number): (&Origin, NumberId),
    settled: &FinalOutcome,
) {
    let is_unsent = matches!(settled, FinalOutcome::Failed(_) | FinalOutcome::NotSentInTime);
    let Origin::Otp { request_id: id, .. } = *origin else { return };
    let Some(mark) = mark_of(origin).filter(|_| is_unsent) else { return };
    let store = Arc::clone(&state.store);
    let mut context = state.context(store.as_ref());
    let Some(otp) = context.core.known(id) else { return };
    if let Err(error) = messages::give_back_code(&mut context, (&otp.phone.into(), number, mark)) {
        tracing::warn!(%error, "a budget stays as it is");
    }
}

/// Takes back a code's count for a number that it leaves, for another one or for good.
pub(super) fn give_back_moved(context: &mut Context<'_>, message: &Outbound) {
    let Some(mark) = mark_of(&message.origin) else { return };
    let of = (&message.to, message.number, mark);
    if let Err(error) = messages::give_back_code(context, of) {
        tracing::warn!(%error, "a budget stays as it is");
    }
}

/// Takes back the counts of messages whose claims end.
pub(super) fn give_back(released: &[MessageId], state: &mut WorkspaceState) {
    let store = Arc::clone(&state.store);
    let mut context = state.context(store.as_ref());
    for id in released {
        if let Err(error) = messages::release(&mut context, *id) {
            // It keeps its place for the day.
            tracing::warn!(%error, "a budget stays as it is");
        }
    }
}

/// Claims waiting messages again as far as there is room, oldest first, and ends expired ones.
///
/// Messages of numbers that are `down` for long are moved. If they returned to their number, it
/// might try them one after the other, find no room, and send them back here.
pub(super) fn claim_again(
    actor: &WorkspaceActor,
    myself: &ActorRef<WorkspaceMessage>,
    (down, state): (&[NumberId], &mut WorkspaceState),
) -> Result<(), StateLost> {
    let context = state.context(actor.shared.store.as_ref());
    // Records that cannot be read now are read with the next tick.
    let rooms = messages::rooms(&context).unwrap_or_default();
    note_full(&actor.shared, &rooms, state);
    if state.waiting.is_empty() {
        return Ok(());
    }
    let unsent = &state.core.hot.messages;
    let give_up_at = |id| unsent.give_up_at(id).filter(|_| !unsent.is_claimed(id));
    let over = state.waiting.over(state.core.now(), give_up_at);
    if !over.is_empty() {
        end(&actor.shared, &over, state)?;
    }
    let (mut again, mut leaving) = state.waiting.take_claimable(rooms, down);
    let unsent = &state.core.hot.messages;
    again.retain(|id| unsent.contains(*id) && !unsent.is_claimed(*id));
    leaving.retain(|id| unsent.contains(*id) && !unsent.is_claimed(*id));
    actor.read_messages(myself, (again, &mut *state), WorkspaceMessage::Recovered);
    actor.read_messages(myself, (leaving, state), WorkspaceMessage::HandedBack);
    Ok(())
}

/// Records the numbers whose portfolios have no room, for codes.
fn note_full(shared: &Services, rooms: &[BudgetRoom], state: &mut WorkspaceState) {
    let full = rooms.iter().filter(|room| room.left == Some(0));
    let full: Vec<_> = full.flat_map(|room| &room.numbers).collect();
    let full = state.numbers.iter().filter(|info| full.contains(&&info.id));
    let known = (&shared.portfolios, &shared.store);
    state.core.full = messages::full_numbers(known, &state.core.id, full.cloned().collect());
}

/// Ends expired messages, in parts, because a commit is bounded.
fn end(shared: &Services, over: &[MessageId], state: &mut WorkspaceState) -> Result<(), StateLost> {
    for id in over {
        if state.effects.log.len() > LOG_BYTES_MAX {
            state.finish(None)?;
        }
        let mut context = state.context(shared.store.as_ref());
        // A message that cannot be read is found again by the task that ends overdue messages.
        messages::settle(&mut context, *id, &FinalOutcome::NotSentInTime).ok();
    }
    state.finish(None)
}

/// Messages that wait for a budget, by their number.
#[derive(Debug, Default)]
pub(crate) struct BudgetQueue {
    messages: BTreeMap<NumberId, BTreeSet<MessageId>>,
    /// The earliest time at which one of them can expire.
    due: Timestamp,
    /// The messages that the last answer to a number denied, and its ticket.
    denied: BTreeMap<NumberId, (u64, BTreeSet<MessageId>)>,
}

impl BudgetQueue {
    /// Removes and returns the messages that were denied to a number under this ticket.
    fn take_denied(&mut self, number: NumberId, ticket: u64) -> BTreeSet<MessageId> {
        let last = self.denied.remove(&number).filter(|(of, _)| *of == ticket);
        last.map(|(_, ids)| ids).unwrap_or_default()
    }

    /// Records the messages that are denied to a number under a ticket.
    fn note_denied(&mut self, number: NumberId, ticket: u64, ids: BTreeSet<MessageId>) {
        if !ids.is_empty() {
            self.denied.insert(number, (ticket, ids));
        }
    }

    fn add(&mut self, id: MessageId, number: NumberId, give_up_at: Timestamp) {
        self.due = if self.is_empty() { give_up_at } else { self.due.min(give_up_at) };
        self.messages.entry(number).or_default().insert(id);
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Removes and returns some of the expired messages.
    ///
    /// Messages that no longer wait are also removed: `give_up_at` returns `None` for these.
    fn over(
        &mut self,
        now: Timestamp,
        give_up_at: impl Fn(MessageId) -> Option<Timestamp>,
    ) -> Vec<MessageId> {
        let mut over = Vec::new();
        if now < self.due {
            return over;
        }
        let mut due: Option<Timestamp> = None;
        self.messages.retain(|_, ids| {
            ids.retain(|id| {
                let Some(at) = give_up_at(*id) else { return false };
                let is_over = at <= now && over.len() < AGAIN_MAX;
                if is_over {
                    over.push(*id);
                } else {
                    due = Some(due.map_or(at, |due| due.min(at)));
                }
                !is_over
            });
            !ids.is_empty()
        });
        self.due = due.unwrap_or_default();
        over
    }

    /// Removes the messages for which there is room, oldest first, and those of numbers that are
    /// `down`.
    ///
    /// Returns the two apart. Messages of one portfolio or number do not hold up those of others.
    /// Messages of a removed number are settled where they are sent.
    fn take_claimable(
        &mut self,
        rooms: Vec<BudgetRoom>,
        down: &[NumberId],
    ) -> (Vec<MessageId>, Vec<MessageId>) {
        let again = self.take_out(rooms, |number| !down.contains(number));
        (again, self.take_out(Vec::new(), |number| down.contains(number)))
    }

    /// Removes and returns messages of the `wanted` numbers, as far as there is room.
    fn take_out(
        &mut self,
        mut rooms: Vec<BudgetRoom>,
        wanted: impl Fn(&NumberId) -> bool,
    ) -> Vec<MessageId> {
        let mut again = Vec::new();
        self.messages.retain(|number, ids| {
            if !wanted(number) {
                return true;
            }
            let room = rooms.iter_mut().find(|room| room.numbers.contains(number));
            let mut places = room.and_then(|room| room.left.as_mut());
            while again.len() < AGAIN_MAX && places.as_ref().is_none_or(|places| **places > 0) {
                let Some(id) = ids.pop_first() else { break };
                again.push(id);
                if let Some(places) = &mut places {
                    **places -= 1;
                }
            }
            !ids.is_empty()
        });
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(of: u8) -> NumberId {
        NumberId::from_bytes([of; 16])
    }

    fn message(of: u16) -> MessageId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&of.to_be_bytes());
        MessageId::from_bytes(bytes)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_portfolio_without_room_holds_up_nobody_elses_messages() {
        let mut waiting = BudgetQueue::default();
        // The messages of the first number wait longer, and exceed the limit of one tick.
        (0..300).for_each(|of| waiting.add(message(of), number(1), at(9)));
        (300..310).for_each(|of| waiting.add(message(of), number(2), at(9)));
        waiting.add(message(310), number(3), at(9));
        let room = |of, left| BudgetRoom { numbers: vec![number(of)], left };
        let rooms = || vec![room(1, Some(0)), room(2, Some(4)), room(3, Some(0))];
        let room_for = [300, 301, 302, 303].map(message).to_vec();
        assert_eq!(waiting.take_claimable(rooms(), &[]), (room_for, Vec::new()));
        // The number of the last message was removed.
        let full = || vec![room(1, Some(0)), room(2, Some(0))];
        assert_eq!(waiting.take_claimable(full(), &[]).0, [message(310)]);
        // Messages that wait for a number that is down need no room there.
        let (again, leaving) = waiting.take_claimable(full(), &[number(2)]);
        assert_eq!((again.len(), leaving.len()), (0, 6));
        // They hold up no others, however many there are.
        waiting.add(message(400), number(3), at(9));
        let (again, leaving) = waiting.take_claimable(vec![room(3, None)], &[number(1)]);
        assert_eq!((again, leaving.len()), (vec![message(400)], AGAIN_MAX));
        (0..200).for_each(|of| waiting.add(message(of), number(1), at(9)));
        let unlimited = || vec![room(1, None), room(2, None)];
        assert_eq!(waiting.take_claimable(unlimited(), &[]).0.len(), AGAIN_MAX);
        assert_eq!(waiting.take_claimable(unlimited(), &[]).0.len(), 100);
        assert!(waiting.is_empty());
    }

    #[test]
    fn those_whose_life_is_over_are_found_when_the_first_is_due() {
        let mut waiting = BudgetQueue::default();
        for (of, due) in [(1, 50), (2, 40), (3, 60), (4, 40)] {
            waiting.add(message(of), number(1), at(due));
        }
        let looks = std::cell::Cell::new(0);
        // The last one waits no longer.
        let give_up_at = |id| {
            looks.set(looks.get() + 1);
            [(1, 50), (2, 40), (3, 60)]
                .into_iter()
                .find(|it| message(it.0) == id)
                .map(|it| at(it.1))
        };
        assert_eq!(waiting.over(at(39), give_up_at), []);
        assert_eq!(looks.get(), 0, "it is not looked before one is due");
        assert_eq!(waiting.over(at(40), give_up_at), [message(2)]);
        assert_eq!(waiting.over(at(49), give_up_at), []);
        assert_eq!(looks.get(), 4);
        assert_eq!(waiting.over(at(60), give_up_at), [message(1), message(3)]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn what_is_denied_to_a_number_is_known_while_it_repeats_that_request() {
        let mut waiting = BudgetQueue::default();
        let ids = BTreeSet::from([message(1), message(2)]);
        waiting.note_denied(number(1), 7, ids.clone());
        waiting.note_denied(number(2), 7, BTreeSet::new());
        assert_eq!(waiting.take_denied(number(2), 7), BTreeSet::new());
        assert_eq!(waiting.take_denied(number(1), 7), ids);
        waiting.note_denied(number(1), 7, ids);
        assert_eq!(waiting.take_denied(number(1), 8), BTreeSet::new());
        assert_eq!(waiting.take_denied(number(1), 7), BTreeSet::new(), "it was another request's");
    }
}
