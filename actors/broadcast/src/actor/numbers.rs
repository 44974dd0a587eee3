//! The numbers that a fan-out hands its messages to.

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
    /// The one that was last used with it.
    pub(super) last: Option<NumberId>,
    /// The one that its message is placed with.
    number: Option<NumberId>,
}

impl Fanout {
    fn is_up(&self, number: NumberId) -> bool {
        let numbers = &self.services.numbers;
        let down = || numbers.slot(number).down_for(self.services.clock.now());
        numbers.connected(number).is_some() && down().is_none()
    }

    /// Whether another of the broadcast's numbers can send.
    pub(super) fn is_another_up(&self, number: NumberId, state: &Running) -> bool {
        let mut others = state.record.numbers().filter(|other| *other != number);
        others.any(|other| state.is_able(other) && self.is_up(other))
    }

    /// Whether any of the broadcast's numbers can send.
    pub(super) fn is_any_up(&self, state: &Running) -> bool {
        state.record.numbers().any(|number| state.is_able(number) && self.is_up(number))
    }

    /// Whether a number was removed, cannot send the template, or has been down for so long that
    /// others take over.
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

    /// Those of the numbers that can send, or all if none can.
    fn rooms_in_use(&self, state: &Running) -> Vec<Room> {
        let all = self.rooms(state);
        let up: Vec<_> = all.iter().copied().filter(|room| room.is_up).collect();
        if up.is_empty() { all } else { up }
    }

    /// Whether a number will soon need more messages. Messages that are with the channel do not
    /// count against the limit, because their answers may take long, nor does a window of those who
    /// wait for a number that is down.
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

    /// How many recipients one claim takes: what the numbers may send in a second. A larger claim
    /// would leave more outcomes unknown after a crash.
    pub(super) fn claim_size(&self, state: &Running) -> u32 {
        let rooms = self.rooms_in_use(state);
        rooms.iter().map(|room| room.pace).fold(0, u32::saturating_add).min(WINDOW)
    }

    /// Gives each claimed recipient a number. Returns who belongs to which number, in their order;
    /// nothing where there is no choice.
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

    /// Collects what is to be noted of the numbers of those who are claimed.
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

    /// Has a number that has been down for long, or is none of the broadcast's any more, return
    /// what it has of the broadcast, so that others take it over.
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
