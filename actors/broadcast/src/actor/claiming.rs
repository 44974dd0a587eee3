//! Claims recipients for the broadcast's numbers, only as many as their budgets have room for.
//!
//! A recipient without room is deferred. While all budgets are used up, the actor claims a few
//! more, who may count towards a budget already. Each tick tries again.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{NumberId, Phone};
use postrider_store::StoreError;
use ractor::ActorProcessingErr;

use super::{Fanout, FanoutState};
use crate::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::outcomes::Mark;
use crate::pace;
use crate::placement::{Budget, NumberRoom};
use crate::record::WINDOW;

/// The number of claims that one call makes, each past the recipients without room.
const PARTS_MAX: u32 = 8;
/// The maximum number of recipients deferred while all budgets are used up. Up to it, the actor
/// looks for recipients who count towards a budget already.
const LOOKED_AT_MAX: u32 = 500;

/// A claimed recipient, and the numbers that it belongs to.
struct ClaimedRecipient {
    index: u32,
    phone: Phone,
    /// The number that was last used with it.
    last: Option<NumberId>,
    /// The number that its message is placed with.
    number: Option<NumberId>,
}

impl Fanout {
    /// Returns whether the broadcast may claim more recipients.
    ///
    /// Pauses the broadcast if its numbers were disconnected. Pauses or fails it if its template is
    /// not approved. Returns `false` while all numbers are down or nothing may leave the engine.
    pub(super) async fn may_send(&self, state: &mut FanoutState) -> bool {
        if !self.services.numbers.hold.lets_out() {
            return false;
        }
        let host = self.host.as_ref();
        let workspace = &self.slot.workspace;
        let connected = state.record.numbers().map(|number| host.is_connected(workspace, number));
        let connected: Result<Vec<bool>, _> = connected.collect();
        match connected {
            Ok(connected) if connected.contains(&true) => {}
            Ok(_) => {
                self.pause("the messaging number was disconnected", state).await;
                return false;
            }
            Err(_) => return false,
        }
        let numbers: Vec<_> = state.record.numbers().collect();
        let template = &state.record.template;
        let Ok(statuses) = host.template_statuses(workspace, template, &numbers) else {
            return false;
        };
        let approved = Some(TemplateStatus::Approved);
        let unable = numbers.into_iter().zip(&statuses).filter(|(_, status)| **status != approved);
        state.unable = unable.map(|(number, _)| number).collect();
        match statuses {
            some if some.contains(&approved) => self.is_any_up(state),
            some if some.contains(&Some(TemplateStatus::Paused)) => {
                self.pause(TEMPLATE_PAUSED, state).await;
                false
            }
            _ => {
                self.control(Control::Fail { reason: TEMPLATE_GONE.into(), refusal: None }, state)
                    .await;
                false
            }
        }
    }

    /// Claims the next recipients within the budgets. Recipients without room are deferred, so
    /// that they delay nobody behind them.
    pub(super) async fn claim(&self, state: &mut FanoutState) -> Result<(), ActorProcessingErr> {
        for _ in 0..PARTS_MAX {
            let budget = self.budget(state).await?;
            state.is_counted |= budget.is_counted;
            let most = self.claim_size(state);
            let ready = state.deferred.take_ready(budget.clone(), most);
            state.plan.requeue(ready);
            // Only some of the recipients that may count already are tried.
            let looked_at = LOOKED_AT_MAX.saturating_sub(state.deferred.count());
            let size = if budget.is_full() { most.min(looked_at) } else { most };
            if size == 0 {
                break;
            }
            state.claimed = state.plan.claim(size);
            if state.claimed.is_empty() {
                break;
            }
            self.exclude_opted_out(state).await?;
            let belonging = self.place(&budget, state).await?;
            self.count(&belonging, state).await?;
            self.note_used(&belonging, state)?;
            if !state.claimed.is_empty() || budget.is_unlimited() {
                break;
            }
        }
        self.slot.set_held(state.deferred.count() > 0);
        Ok(())
    }

    /// Returns the room in the budgets of the numbers.
    async fn budget(&self, state: &FanoutState) -> Result<Budget, ActorProcessingErr> {
        let (host, workspace) = (Arc::clone(&self.host), self.slot.workspace.clone());
        let numbers: Vec<_> = state.record.numbers().collect();
        let reading = tokio::task::spawn_blocking(move || host.budget(&workspace, &numbers));
        // No message is placed with these numbers.
        Ok(reading.await??.without(|number| self.is_given_up(number, state)))
    }

    /// Removes from the claim the recipients that opted out after the broadcast was created.
    /// Another thread reads the opt-outs.
    async fn exclude_opted_out(&self, state: &mut FanoutState) -> Result<(), ActorProcessingErr> {
        if !self.host.any_opted_out(&self.slot.workspace)? {
            return Ok(());
        }
        let phones = state.outbound.phones(self.services.view.as_ref(), &state.claimed)?;
        let (host, workspace) = (Arc::clone(&self.host), self.slot.workspace.clone());
        let reading = tokio::task::spawn_blocking(move || host.opted_out(&workspace, &phones));
        let opted_out = reading.await??;
        let mut out = opted_out.into_iter();
        let (plan, claimed) = (&mut state.plan, &mut state.claimed);
        claimed.retain(|index| {
            let is_out = out.next().unwrap_or_default();
            if is_out {
                plan.settle(*index, Mark::OptedOut, None);
            }
            !is_out
        });
        Ok(())
    }

    /// Counts the claimed recipients towards the budgets of their numbers. Recipients without room
    /// are deferred.
    async fn count(
        &self,
        belonging: &[ClaimedRecipient],
        state: &mut FanoutState,
    ) -> Result<(), ActorProcessingErr> {
        if !state.is_counted || state.claimed.is_empty() {
            return Ok(());
        }
        let placed = self.placed(&state.claimed.clone(), state)?;
        let (host, id) = (Arc::clone(&self.host), self.id);
        let workspace = self.slot.workspace.clone();
        let counting = tokio::task::spawn_blocking(move || host.count((&workspace, id), &placed));
        let counted = counting.await??;
        state.noted.extend(counted.changes);
        let last: HashMap<_, _> = belonging.iter().map(|it| (it.index, it.last)).collect();
        let mut may_go = counted.may_go.into_iter();
        let FanoutState { claimed, placed, plan, deferred, record, .. } = state;
        claimed.retain(|index| {
            let may_go = may_go.next().unwrap_or_default();
            if !may_go {
                let own = last.get(index).copied().flatten();
                placed.settle(*index);
                plan.defer(*index);
                deferred.add(*index, own.filter(|own| record.numbers().any(|it| it == *own)));
            }
            may_go
        });
        Ok(())
    }

    /// Returns the recipients with the numbers that their messages are placed with.
    fn placed(
        &self,
        indices: &[u32],
        state: &mut FanoutState,
    ) -> Result<Vec<(Phone, NumberId)>, StoreError> {
        let phones = state.outbound.phones(self.services.view.as_ref(), indices)?;
        let numbers = indices.iter().map(|index| state.number_of(*index));
        Ok(phones.into_iter().zip(numbers).collect())
    }

    /// Returns the places in the budgets of recipients whose messages were certainly not sent. It
    /// must be called before they are settled.
    pub(super) fn give_back(&self, indices: &[u32], state: &mut FanoutState) {
        if !state.is_counted || indices.is_empty() {
            return;
        }
        let placed = self.placed(indices, state);
        let of = (&self.slot.workspace, self.id);
        match placed.and_then(|placed| self.host.give_back(of, &placed)) {
            Ok(changes) => state.noted.extend(changes),
            // They keep their places for the day.
            Err(error) => tracing::warn!(broadcast = %self.id, %error, "a budget stays as it is"),
        }
    }

    /// Releases a claim whose messages were not dispatched.
    pub(super) fn give_up_claim(&self, state: &mut FanoutState) {
        let claimed = std::mem::take(&mut state.claimed);
        self.give_back(&claimed, state);
        claimed.into_iter().for_each(|index| state.settle(index, Mark::Retry, None));
    }

    /// Returns the places in the budgets of messages that were not sent, by these outcomes.
    pub(super) fn give_back_unsent(
        &self,
        outcomes: &[(u32, FinalOutcome)],
        state: &mut FanoutState,
    ) {
        let is_unsent = |outcome: &FinalOutcome| {
            matches!(outcome, FinalOutcome::Failed(_) | FinalOutcome::NotSentInTime)
        };
        let unsent = outcomes.iter().filter(|(_, outcome)| is_unsent(outcome));
        let unsent: Vec<_> = unsent.map(|(index, _)| *index).collect();
        self.give_back(&unsent, state);
    }

    fn is_up(&self, number: NumberId) -> bool {
        let numbers = &self.services.numbers;
        let down = || numbers.slot(number).down_for(self.services.clock.now());
        numbers.connected(number).is_some() && down().is_none()
    }

    /// Returns whether another of the broadcast's numbers can send.
    pub(super) fn is_another_up(&self, number: NumberId, state: &FanoutState) -> bool {
        let mut others = state.record.numbers().filter(|other| *other != number);
        others.any(|other| state.is_able(other) && self.is_up(other))
    }

    /// Returns whether any of the broadcast's numbers can send.
    fn is_any_up(&self, state: &FanoutState) -> bool {
        state.record.numbers().any(|number| state.is_able(number) && self.is_up(number))
    }

    /// Returns whether other numbers take over from a number. It was removed, cannot send the
    /// template, or has been down for too long.
    fn is_given_up(&self, number: NumberId, state: &FanoutState) -> bool {
        if !state.is_able(number) {
            return true;
        }
        let (services, now) = (&self.services, self.services.clock.now());
        let down = || services.numbers.slot(number).down_since(now);
        services.numbers.connected(number).is_none()
            || down().is_some_and(|since| since >= services.reassign_after)
    }

    fn rooms(&self, state: &FanoutState) -> Vec<NumberRoom> {
        let room = |number| {
            let connected = self.services.numbers.connected(number);
            NumberRoom {
                number,
                pace: pace::of_number(connected.map(|it| it.messages_per_second)),
                is_up: state.is_able(number) && self.is_up(number),
                is_given_up: self.is_given_up(number, state),
                is_full: false,
            }
        };
        state.record.numbers().map(room).collect()
    }

    /// Returns the rooms of the numbers that can send, or of all numbers if none can.
    fn rooms_in_use(&self, state: &FanoutState) -> Vec<NumberRoom> {
        let all = self.rooms(state);
        let up: Vec<_> = all.iter().copied().filter(|room| room.is_up).collect();
        if up.is_empty() { all } else { up }
    }

    /// Returns whether a number will soon need more messages. Messages that are with the channel do
    /// not count against the limit, because their answers may take long. Up to a window of messages
    /// that wait for a number that is down do not count either.
    pub(super) fn has_capacity(&self, state: &FanoutState) -> bool {
        let rooms = self.rooms_in_use(state);
        let slot = |room: &NumberRoom| self.services.numbers.slot(room.number);
        let under_way = rooms.iter().map(|room| slot(room).under_way());
        let under_way = under_way.fold(0, u32::saturating_add);
        let limit = u32::try_from(rooms.len()).unwrap_or(u32::MAX).saturating_mul(WINDOW);
        let down = state.record.numbers().filter(|it| !state.is_able(*it) || !self.is_up(*it));
        let in_flight = state.plan.in_flight().saturating_sub(state.placed.stuck(down));
        in_flight <= self.claim_size(state).saturating_add(under_way).min(limit)
    }

    /// Returns the number of recipients of one claim.
    fn claim_size(&self, state: &FanoutState) -> u32 {
        let rooms = self.rooms_in_use(state);
        pace::claim_size(rooms.iter().map(|room| room.pace))
    }

    /// Assigns a number to each claimed recipient. Returns the recipients with their numbers, in
    /// order, or nothing if the broadcast has one number.
    async fn place(
        &self,
        budget: &Budget,
        state: &mut FanoutState,
    ) -> Result<Vec<ClaimedRecipient>, ActorProcessingErr> {
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
            ClaimedRecipient { index: *index, phone, last, number }
        });
        Ok(belonging.collect())
    }

    /// Collects the changes that note the numbers of the claimed recipients.
    fn note_used(
        &self,
        belonging: &[ClaimedRecipient],
        state: &mut FanoutState,
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
    pub(super) fn take_back(&self, state: &FanoutState) {
        for number in state.placed.numbers() {
            let has_left = state.record.numbers().all(|own| own != number);
            let passes_on = || self.is_given_up(number, state) && self.is_another_up(number, state);
            if has_left || passes_on() {
                self.services.numbers.withdraw(number, self.id);
            }
        }
    }
}
