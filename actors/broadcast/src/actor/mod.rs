//! The fan-out: the actor of one broadcast.
//!
//! It claims a window of recipients and dispatches their messages once the claim is durable. It
//! records their outcomes, and writes them together with the next claim.

mod claiming;
mod outbound;
mod settling;
mod storage;

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider_domain::{BroadcastId, NumberId};
use postrider_number::HandedOver;
use postrider_runtime::supervise::LoadedActor;
use postrider_store::Change;
use ractor::{ActorProcessingErr, ActorRef};

use crate::control::{Control, ControlError, Verdict, verdict};
use crate::daily_counts::FanoutCounts;
use crate::directory_entry::{BroadcastSlot, passivate};
use crate::message::FanoutMessage;
use crate::outcomes::{Failed, Mark};
use crate::placement::{DeferredRecipients, Placements};
use crate::plan::FanoutPlan;
use crate::ports::{BroadcastHost, Services};
use crate::record::{BroadcastPolicy, BroadcastStatus, Record};
use crate::{BroadcastOptions, record};

use outbound::OutboundMessages;
use settling::FailureRate;

/// The actor of one broadcast: what does not change while it runs.
pub(crate) struct Fanout {
    pub(crate) services: Arc<Services>,
    pub(crate) options: BroadcastOptions,
    pub(crate) id: BroadcastId,
    pub(crate) slot: Arc<BroadcastSlot>,
    pub(crate) host: Arc<dyn BroadcastHost>,
    /// Called once the broadcast is over and its record is settled, before the actor stops.
    pub(crate) on_finished: Box<dyn Fn() + Send + Sync>,
}

/// The actor's mutable state.
pub(crate) struct FanoutState {
    record: Record,
    plan: FanoutPlan,
    /// The outcomes counted by day.
    counted: FanoutCounts,
    outbound: OutboundMessages,
    /// The numbers of the messages in flight.
    placed: Placements,
    /// The changes that note the numbers of claimed recipients. They are committed with the claim.
    noted: Vec<Change>,
    /// The provider's ids of messages whose outcomes are not written yet.
    names: Vec<(u32, Box<str>)>,
    /// Claimed recipients whose claim is not known to be durable. They must not be dispatched yet.
    claimed: Vec<u32>,
    /// Outcomes since the status changed, and the failures among them.
    failure_rate: FailureRate,
    /// The count of the actor's wakes at its last read of the record.
    wakes: u64,
    /// Set if the numbers were asked to return the messages of a paused or ended broadcast.
    withdrawal_requested: bool,
    /// Set if its recipients are counted towards a budget.
    is_counted: bool,
    /// The recipients without room in a budget.
    deferred: DeferredRecipients,
    /// The broadcast's numbers whose accounts do not have its template approved.
    unable: Vec<NumberId>,
    /// Set while the engine stops, so that nothing more may be claimed or dispatched.
    halted: bool,
}

impl FanoutState {
    /// Returns whether the account of a number has the template approved, as far as is known.
    fn is_able(&self, number: NumberId) -> bool {
        !self.unable.contains(&number)
    }

    /// Returns the number that a message is with.
    fn number_of(&self, index: u32) -> NumberId {
        self.placed.number(index).unwrap_or(self.record.number)
    }

    /// Replaces the record by its current version.
    fn follow(&mut self, record: Record) {
        if !self.record.numbers().eq(record.numbers()) {
            // They are with the record's earlier number, whatever its new one is.
            let mut unplaced = self.plan.claimed();
            unplaced.retain(|index| !self.claimed.contains(index));
            unplaced.retain(|index| self.placed.number(*index).is_none());
            unplaced.into_iter().for_each(|index| self.placed.put(index, self.record.number));
        }
        self.outbound.follow(&record);
        self.record = record;
    }

    /// Records the outcome of a message, which is with no number any more.
    fn settle(&mut self, index: u32, mark: Mark, failed: Option<Failed>) {
        self.placed.settle(index);
        self.plan.settle(index, mark, failed);
    }
}

impl LoadedActor for Fanout {
    type Message = FanoutMessage;
    type State = FanoutState;

    async fn start(
        &self,
        myself: &ActorRef<FanoutMessage>,
    ) -> Result<FanoutState, ActorProcessingErr> {
        let loaded = storage::load(&self.services, &self.slot.workspace, self.id).await?;
        drop(myself.cast(FanoutMessage::Reload));
        Ok(loaded)
    }

    async fn handle(
        &self,
        myself: &ActorRef<FanoutMessage>,
        message: FanoutMessage,
        state: &mut FanoutState,
    ) -> Result<(), ActorProcessingErr> {
        let mut write_all = false;
        match message {
            FanoutMessage::Reload => self.reload(state),
            FanoutMessage::Tick => {
                write_all = true;
                self.take_back(state);
            }
            FanoutMessage::Settled(outcomes) => {
                settling::apply_outcomes(self, outcomes, state).await
            }
            FanoutMessage::Withdrawn(indices) => {
                self.give_back(&indices, state);
                indices.into_iter().for_each(|index| state.settle(index, Mark::Retry, None));
            }
            FanoutMessage::ReportedFailed(indices) => {
                indices.into_iter().for_each(|index| state.failure_rate.reported_failed(index));
                settling::pause_if_too_many_failed(self, state).await;
            }
            FanoutMessage::NumberStopped(number, failure) => {
                let is_last = state.record.numbers().any(|own| own == number)
                    && !self.is_another_up(number, state);
                if let (true, Some(Verdict::Pause(reason))) = (is_last, verdict(&failure, false)) {
                    self.pause(reason, state).await;
                }
            }
            FanoutMessage::QueueLost(number) => {
                let mark = match state.record.policy {
                    BroadcastPolicy::AtMostOnce => Mark::Unknown,
                    BroadcastPolicy::AtLeastOnce => Mark::Retry,
                };
                let lost = state.placed.of(number);
                lost.into_iter().for_each(|index| state.settle(index, mark, None));
                if state.record.beside.is_empty() && number == state.record.number {
                    let mut unplaced = state.plan.claimed();
                    unplaced.retain(|index| state.placed.number(*index).is_none());
                    unplaced.into_iter().for_each(|index| state.settle(index, mark, None));
                }
            }
            FanoutMessage::Halt(done) => {
                state.halted = true;
                // The reply is lost if the caller no longer waits.
                done.send(()).ok();
            }
            FanoutMessage::Flush { drained, done } => {
                self.flush(drained, state).await;
                done.send(()).ok();
                return Ok(());
            }
        }
        if !state.halted {
            self.advance(myself, write_all, state).await?;
        }
        Ok(())
    }
}

impl Fanout {
    /// Reads the record again.
    fn reload(&self, state: &mut FanoutState) {
        state.wakes = self.slot.wakes();
        let view = self.services.view.as_ref();
        // A record that cannot be read now is read at the next reload.
        if let Ok(Some(record)) = record::read(view, &self.slot.workspace, self.id) {
            if state.record.status != record.status {
                state.failure_rate.begin_again();
            }
            state.follow(record);
        }
    }

    /// Requests a change of the broadcast's status from the workspace. Returns whether the change
    /// is durable. A failed change is retried with the next tick.
    async fn control(&self, control: Control, state: &mut FanoutState) -> bool {
        self.try_control(control, state).await.is_ok()
    }

    /// Requests the same, and returns the reason for a failure.
    async fn try_control(
        &self,
        control: Control,
        state: &mut FanoutState,
    ) -> Result<(), ControlError> {
        match self.host.control(&self.slot.workspace, self.id, control).await {
            Ok(record) => {
                state.follow(record);
                Ok(())
            }
            Err(error) => {
                // Another command changed the status, and wakes this actor.
                if !matches!(error, ControlError::WrongState(_)) {
                    tracing::warn!(broadcast = %self.id, %error, "a broadcast waits");
                }
                Err(error)
            }
        }
    }

    /// Continues the broadcast: starts, sends, withdraws, finishes or rests.
    async fn advance(
        &self,
        myself: &ActorRef<FanoutMessage>,
        write_all: bool,
        state: &mut FanoutState,
    ) -> Result<(), ActorProcessingErr> {
        if matches!(state.record.status, BroadcastStatus::Queued | BroadcastStatus::Scheduled) {
            // The next tick checks again.
            if !self.services.numbers.hold.lets_out() {
                return Ok(());
            }
            let begin = Control::Begin { late: self.slot.lateness(self.services.clock.real()) };
            if !self.control(begin, state).await {
                return Ok(());
            }
        }
        self.send(write_all, state).await?;
        let sending = state.record.status == BroadcastStatus::Sending;
        if sending || state.plan.in_flight() == 0 {
            state.withdrawal_requested = false;
        } else if write_all || !state.withdrawal_requested {
            // Messages may return from the channel to the number, so each tick asks again.
            state.withdrawal_requested = true;
            let holders: BTreeSet<_> =
                state.record.numbers().chain(state.placed.numbers()).collect();
            for number in holders {
                self.services.numbers.withdraw(number, self.id);
            }
        }
        if state.plan.in_flight() > 0 || (sending && !state.plan.is_done()) {
            return Ok(());
        }
        // Nothing is in flight, and nothing is to be sent now.
        if state.plan.is_dirty() && !storage::write(self, state).await {
            return Ok(());
        }
        if sending || state.record.status.is_over() {
            if self.control(Control::Finish, state).await && state.record.settled {
                (self.on_finished)();
                myself.stop(None);
            }
        } else if passivate(&self.slot, state.wakes) {
            myself.stop(None);
        }
        Ok(())
    }

    /// Claims and dispatches as long as the number has capacity.
    async fn send(
        &self,
        write_all: bool,
        state: &mut FanoutState,
    ) -> Result<(), ActorProcessingErr> {
        let mut write = write_all && state.plan.is_dirty();
        loop {
            let sending = state.record.status == BroadcastStatus::Sending;
            if !sending {
                self.give_up_claim(state);
            }
            let may_claim = sending && state.claimed.is_empty() && self.has_capacity(state);
            if may_claim && self.may_send(state).await {
                self.claim(state).await?;
            }
            let claimed = !state.claimed.is_empty();
            if !(write || claimed || state.plan.has_final()) {
                return Ok(());
            }
            if !storage::write(self, state).await {
                return Ok(());
            }
            write = false;
            if claimed {
                self.dispatch(state)?;
            }
        }
    }

    /// Pauses the broadcast for this reason if it is being sent.
    async fn pause(&self, reason: impl Into<Box<str>>, state: &mut FanoutState) {
        settling::stop(self, Verdict::Pause(reason.into()), None, state).await;
    }

    /// Dispatches the claimed messages to the number. Their claim must be durable.
    fn dispatch(&self, state: &mut FanoutState) -> Result<(), ActorProcessingErr> {
        let give_up_at = self.services.clock.now().plus(self.services.give_up);
        let claimed = std::mem::take(&mut state.claimed);
        let store = self.services.view.as_ref();
        let mut messages = state.outbound.to(store, &claimed, give_up_at)?;
        for (message, index) in messages.iter_mut().zip(&claimed) {
            message.number = state.placed.number(*index).unwrap_or(message.number);
        }
        self.services.numbers.dispatch(messages.into_iter().map(HandedOver::from).collect());
        Ok(())
    }

    /// Writes the known outcomes before the engine stops.
    async fn flush(&self, drained: bool, state: &mut FanoutState) {
        // Claimed messages that were not dispatched, or that the number did not send, were not
        // sent.
        self.give_up_claim(state);
        if drained {
            self.give_back(&state.plan.claimed(), state);
            state.plan.settle_in_flight(Mark::Retry);
        }
        if state.plan.is_dirty() {
            storage::write(self, state).await;
        }
    }
}
