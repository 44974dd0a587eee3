//! Claims recipients: only as many as the numbers' budgets have room for.
//!
//! A recipient without room is set aside. While all budgets are used up, the actor claims a few
//! more, who may count towards a budget already. Each tick tries again.

use std::sync::Arc;

use hashbrown::HashMap;
use ractor::ActorProcessingErr;

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{NumberId, Phone};
use postrider_store::StoreError;

use super::numbers::Belonging;
use super::{Fanout, Running};
use crate::budget::Budget;
use crate::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::outcomes::Mark;

/// The number of claims that one call makes, each past the recipients without room.
const PARTS_MAX: u32 = 8;
/// The maximum number of recipients set aside while all budgets are used up. Up to it, the actor
/// looks for recipients who count towards a budget already.
const LOOKED_AT_MAX: u32 = 500;

impl Fanout {
    /// Returns whether the broadcast may claim more recipients.
    ///
    /// Pauses the broadcast if its numbers were disconnected. Pauses or fails it if its template is
    /// not approved. Returns `false` while all numbers are down or nothing may leave the engine.
    pub(super) async fn may_send(&self, state: &mut Running) -> bool {
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

    /// Claims the next recipients within the budgets. Recipients without room are set aside, so
    /// that they delay nobody behind them.
    pub(super) async fn claim(&self, state: &mut Running) -> Result<(), ActorProcessingErr> {
        for _ in 0..PARTS_MAX {
            let budget = self.budget(state).await?;
            state.is_counted |= budget.is_counted;
            let most = self.claim_size(state);
            let back = state.aside.call_back(budget.clone(), most);
            state.plan.call_back(back);
            // Only some of the recipients that may count already are tried.
            let looked_at = LOOKED_AT_MAX.saturating_sub(state.aside.count());
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
        self.slot.set_held(state.aside.count() > 0);
        Ok(())
    }

    /// Returns the room in the budgets of the numbers.
    async fn budget(&self, state: &Running) -> Result<Budget, ActorProcessingErr> {
        let (host, workspace) = (Arc::clone(&self.host), self.slot.workspace.clone());
        let numbers: Vec<_> = state.record.numbers().collect();
        let reading = tokio::task::spawn_blocking(move || host.budget(&workspace, &numbers));
        // No message is placed with these numbers.
        Ok(reading.await??.without(|number| self.is_given_up(number, state)))
    }

    /// Removes from the claim the recipients that opted out after the broadcast was created.
    /// Another thread reads the opt-outs.
    async fn exclude_opted_out(&self, state: &mut Running) -> Result<(), ActorProcessingErr> {
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
    /// are set aside.
    async fn count(
        &self,
        belonging: &[Belonging],
        state: &mut Running,
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
        let Running { claimed, placed, plan, aside, record, .. } = state;
        claimed.retain(|index| {
            let may_go = may_go.next().unwrap_or_default();
            if !may_go {
                let own = last.get(index).copied().flatten();
                placed.settle(*index);
                plan.set_aside(*index);
                aside.add(*index, own.filter(|own| record.numbers().any(|it| it == *own)));
            }
            may_go
        });
        Ok(())
    }

    /// Returns the recipients with the numbers that their messages are placed with.
    fn placed(
        &self,
        indices: &[u32],
        state: &mut Running,
    ) -> Result<Vec<(Phone, NumberId)>, StoreError> {
        let phones = state.outbound.phones(self.services.view.as_ref(), indices)?;
        let numbers = indices.iter().map(|index| state.through(*index));
        Ok(phones.into_iter().zip(numbers).collect())
    }

    /// Returns the places in the budgets of recipients whose messages were certainly not sent. It
    /// must be called before they are settled.
    pub(super) fn give_back(&self, indices: &[u32], state: &mut Running) {
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
    pub(super) fn give_up_claim(&self, state: &mut Running) {
        let claimed = std::mem::take(&mut state.claimed);
        self.give_back(&claimed, state);
        claimed.into_iter().for_each(|index| state.settle(index, Mark::Retry, None));
    }

    /// Returns the places in the budgets of messages that were not sent, by these outcomes.
    pub(super) fn give_back_unsent(&self, outcomes: &[(u32, FinalOutcome)], state: &mut Running) {
        let is_unsent = |outcome: &FinalOutcome| {
            matches!(outcome, FinalOutcome::Failed(_) | FinalOutcome::NotSentInTime)
        };
        let unsent = outcomes.iter().filter(|(_, outcome)| is_unsent(outcome));
        let unsent: Vec<_> = unsent.map(|(index, _)| *index).collect();
        self.give_back(&unsent, state);
    }
}
