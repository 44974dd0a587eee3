//! The numbers to which a fan-out dispatches its messages.

use std::sync::Arc;

use hashbrown::HashSet;
use postrider_domain::{NumberId, Phone};
use ractor::ActorProcessingErr;

use super::{Fanout, Running};
use crate::budget::Budget;
use crate::placement::Room;
use crate::record::WINDOW;

/// The smallest claim, so that a few messages in flight do not block the others.
const CLAIMED_MIN: u32 = 50;

/// A claimed recipient, and the numbers that it belongs to.
pub(super) struct Belonging {
    pub(super) index: u32,
    phone: Phone,
    /// The number that was last used with it.
    pub(super) last: Option<NumberId>,
    /// The number that its message is placed with.
    number: Option<NumberId>,
}

impl Fanout {
    fn is_up(&self, number: NumberId) -> bool {
        let numbers = &self.services.numbers;
        let down = || numbers.slot(number).down_for(self.services.clock.now());
        numbers.connected(number).is_some() && down().is_none()
    }

    /// Returns whether another of the broadcast's numbers can send.
    pub(super) fn is_another_up(&self, number: NumberId, state: &Running) -> bool {
        let mut others = state.record.numbers().filter(|other| *other != number);
        others.any(|other| state.is_able(other) && self.is_up(other))
    }

    /// Returns whether any of the broadcast's numbers can send.
    pub(super) fn is_any_up(&self, state: &Running) -> bool {
        state.record.numbers().any(|number| state.is_able(number) && self.is_up(number))
    }

    /// Returns whether other numbers take over from a number. It was removed, cannot send the
    /// template, or has been down for too long.
    pub(super) fn is_given_up(&self, number: NumberId, state: &Running) -> bool {
        if !state.is_able(number) {
            return true;
        }
        let (services, now) = (&self.services, self.services.clock.now());
        let down = || services.numbers.slot(number).down_since(now);
        services.numbers.connected(number).is_none()
            || down().is_some_and(|since| since >= services.reassign_after)
    }

    fn rooms(&self, state: &Running) -> Vec<Room> {
        let room = |number| {
            let connected = self.services.numbers.connected(number);
            let pace = connected.map(|it| it.messages_per_second).filter(|pace| *pace > 0);
            Room {
                number,
                pace: pace.unwrap_or(WINDOW).clamp(CLAIMED_MIN, WINDOW),
                is_up: state.is_able(number) && self.is_up(number),
                is_given_up: self.is_given_up(number, state),
                is_full: false,
            }
        };
        state.record.numbers().map(room).collect()
    }

    /// Returns the rooms of the numbers that can send, or of all numbers if none can.
    fn rooms_in_use(&self, state: &Running) -> Vec<Room> {
        let all = self.rooms(state);
        let up: Vec<_> = all.iter().copied().filter(|room| room.is_up).collect();
        if up.is_empty() { all } else { up }
    }

    /// Returns whether a number will soon need more messages. Messages that are with the channel do
    /// not count against the limit, because their answers may take long. Up to a window of messages
    /// that wait for a number that is down do not count either.
    pub(super) fn has_capacity(&self, state: &Running) -> bool {
        let rooms = self.rooms_in_use(state);
        let slot = |room: &Room| self.services.numbers.slot(room.number);
        let under_way = rooms.iter().map(|room| slot(room).under_way());
        let under_way = under_way.fold(0, u32::saturating_add);
        let limit = u32::try_from(rooms.len()).unwrap_or(u32::MAX).saturating_mul(WINDOW);
        let down = state.record.numbers().filter(|it| !state.is_able(*it) || !self.is_up(*it));
        let in_flight = state.plan.in_flight().saturating_sub(state.placed.stuck(down));
        in_flight <= self.claim_size(state).saturating_add(under_way).min(limit)
    }

    /// Returns the number of recipients of one claim: the numbers' messages per second. A larger
    /// claim would leave more outcomes unknown after a crash.
    pub(super) fn claim_size(&self, state: &Running) -> u32 {
        let rooms = self.rooms_in_use(state);
        rooms.iter().map(|room| room.pace).fold(0, u32::saturating_add).min(WINDOW)
    }

    /// Assigns a number to each claimed recipient. Returns the recipients with their numbers, in
    /// order, or nothing if the broadcast has one number.
    pub(super) async fn place(
        &self,
        budget: &Budget,
        state: &mut Running,
    ) -> Result<Vec<Belonging>, ActorProcessingErr> {
        if state.record.beside.is_empty() || state.claimed.is_empty() {
            return Ok(Vec::new());
        }
        let phones = state.outbound.phones(self.services.view.as_ref(), &state.claimed)?;
        let (host, workspace) = (Arc::clone(&self.host), self.slot.workspace.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let last = host.last_used(&workspace, &phones)?;
            Ok::<_, postrider_store::StoreError>((phones, last))
        });
        let (phones, last) = reading.await??;
        let mut rooms = self.rooms(state);
        rooms.iter_mut().for_each(|room| room.is_full = budget.is_full_of(room.number));
        let all = state.claimed.iter().zip(phones).zip(last);
        let belonging = all.map(|((index, phone), last)| {
            let number = state.placed.place(*index, last, &rooms);
            Belonging { index: *index, phone, last, number }
        });
        Ok(belonging.collect())
    }

    /// Collects the changes that note the numbers of the claimed recipients.
    pub(super) fn note_used(
        &self,
        belonging: &[Belonging],
        state: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        let claimed: HashSet<_> = state.claimed.iter().copied().collect();
        let new = belonging.iter().filter(|it| claimed.contains(&it.index) && it.number != it.last);
        let used: Vec<_> = new.filter_map(|it| Some((it.phone, it.number?))).collect();
        let now = self.services.clock.now();
        state.noted.extend(self.host.note_used(&self.slot.workspace, &used, now)?);
        Ok(())
    }

    /// Requests a broadcast's messages back from a number that the others take over from. The
    /// number has been down for long, or is none of the broadcast's any more.
    pub(super) fn take_back(&self, state: &Running) {
        for number in state.placed.numbers() {
            let has_left = state.record.numbers().all(|own| own != number);
            let passes_on = || self.is_given_up(number, state) && self.is_another_up(number, state);
            if has_left || passes_on() {
                self.services.numbers.withdraw(number, self.id);
            }
        }
    }
}
