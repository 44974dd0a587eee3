//! The fan-out: the actor of one broadcast.
//!
//! It claims a window of recipients, dispatches their messages once the claim is durable, takes
//! their outcomes, and writes those together with the next claim.

mod judged;
mod load;
mod numbers;
mod outbound;
mod preconditions;

use std::sync::Arc;

use ractor::{ActorProcessingErr, ActorRef};

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::{BroadcastId, Day};
use postrider_number::capacity::HandedOver;
use postrider_runtime::supervise::LoadedActor;
use postrider_store::{Change, Table};

use crate::BroadcastOptions;
use crate::control::{Control, ControlError};
use crate::daily_counts::{self, Counted};
use crate::entry::{BroadcastSlot, rest};
use crate::failure_policy::{Verdict, verdict};
use crate::message::FanoutMessage;
use crate::outcomes::{Failed, Mark};
use crate::placement::Placed;
use crate::plan::Plan;
use crate::ports::BroadcastHost;
use crate::record::{self, BroadcastPolicy, BroadcastStatus, Record, window_key};
use crate::services::Services;
use judged::Judged;
use outbound::OutboundMessages;

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
pub(crate) struct Running {
    record: Record,
    plan: Plan,
    /// What is counted by day.
    counted: Counted,
    outbound: OutboundMessages,
    /// The numbers that the messages in flight are with.
    placed: Placed,
    /// What is to be noted, with the claim, of the numbers of its recipients.
    noted: Vec<Change>,
    /// Claimed recipients whose claim is not known to be durable. They must not be dispatched yet.
    claimed: Vec<u32>,
    /// Outcomes since the status changed, and the failures among them.
    judged: Judged,
    /// How often the actor had been woken when it last read the record.
    wakes: u64,
    /// Whether the number was asked to return the messages of a broadcast that is paused or over.
    withdrawal_requested: bool,
    /// Whether the engine stops, so that nothing more may be claimed or dispatched.
    halted: bool,
}

impl Running {
    /// Takes the outcome of a message, which is with no number any more.
    fn settle(&mut self, index: u32, mark: Mark, failed: Option<Failed>) {
        self.placed.settle(index);
        self.plan.settle(index, mark, failed);
    }
}

impl LoadedActor for Fanout {
    type Message = FanoutMessage;
    type State = Running;

    async fn start(&self, myself: &ActorRef<FanoutMessage>) -> Result<Running, ActorProcessingErr> {
        let loaded = load::load(&self.services, &self.slot.workspace, self.id).await?;
        drop(myself.cast(FanoutMessage::Reload));
        Ok(loaded)
    }

    async fn handle(
        &self,
        myself: &ActorRef<FanoutMessage>,
        message: FanoutMessage,
        state: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        let mut write_all = false;
        match message {
            FanoutMessage::Reload => self.reload(state),
            FanoutMessage::Tick => {
                write_all = true;
                self.take_back(state);
            }
            FanoutMessage::Settled(outcomes) => self.apply_outcomes(outcomes, state).await,
            FanoutMessage::Withdrawn(indices) => {
                indices.into_iter().for_each(|index| state.settle(index, Mark::Retry, None));
            }
            FanoutMessage::ReportedFailed(indices) => {
                indices.into_iter().for_each(|index| state.judged.reported_failed(index));
                self.judge(None, state).await;
            }
            FanoutMessage::NumberStopped(number, failure) => {
                let is_last = state.record.numbers().any(|own| own == number)
                    && !self.is_another_up(number, state);
                if let (true, Some(Verdict::Pause(reason))) = (is_last, verdict(&failure)) {
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
                    state.plan.settle_in_flight(mark);
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
    fn reload(&self, state: &mut Running) {
        state.wakes = self.slot.wakes();
        let view = self.services.view.as_ref();
        // A record that cannot be read now is read at the next reload.
        if let Ok(Some(record)) = record::read(view, &self.slot.workspace, self.id) {
            state.outbound.number = record.number;
            if state.record.status != record.status {
                state.judged.begin_again();
            }
            state.record = record;
        }
    }

    /// Has the workspace change the broadcast's status. Returns whether that is durable. A change
    /// that fails is retried with the next tick.
    async fn control(&self, control: Control, state: &mut Running) -> bool {
        match self.host.control(&self.slot.workspace, self.id, control).await {
            Ok(record) => {
                state.outbound.number = record.number;
                state.record = record;
                true
            }
            // Another command changed the status, and wakes this actor.
            Err(ControlError::WrongState(_)) => false,
            Err(error) => {
                tracing::warn!(broadcast = %self.id, %error, "a broadcast waits");
                false
            }
        }
    }

    /// Continues the broadcast: begins, sends, withdraws, finishes or rests.
    async fn advance(
        &self,
        myself: &ActorRef<FanoutMessage>,
        write_all: bool,
        state: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        if matches!(state.record.status, BroadcastStatus::Queued | BroadcastStatus::Scheduled) {
            // The next tick looks again.
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
            for number in state.record.numbers() {
                self.services.numbers.withdraw(number, self.id);
            }
        }
        if state.plan.in_flight() > 0 || (sending && !state.plan.is_done()) {
            return Ok(());
        }
        // Nothing is in flight, and nothing is to be sent now.
        if state.plan.is_dirty() && !self.write(state).await {
            return Ok(());
        }
        if sending || state.record.status.is_over() {
            if self.control(Control::Finish, state).await && state.record.settled {
                (self.on_finished)();
                myself.stop(None);
            }
        } else if rest(&self.slot, state.wakes) {
            myself.stop(None);
        }
        Ok(())
    }

    /// Claims and dispatches as long as the number has capacity.
    async fn send(&self, write_all: bool, state: &mut Running) -> Result<(), ActorProcessingErr> {
        let mut write = write_all && state.plan.is_dirty();
        loop {
            let sending = state.record.status == BroadcastStatus::Sending;
            if !sending {
                for index in std::mem::take(&mut state.claimed) {
                    state.settle(index, Mark::Retry, None);
                }
            }
            let may_claim = sending && state.claimed.is_empty() && self.has_capacity(state);
            if may_claim && self.may_send(state).await {
                state.claimed = state.plan.claim(self.claim_size(state));
                self.exclude_opted_out(state).await?;
                self.place(state).await?;
            }
            let claimed = !state.claimed.is_empty();
            if !(write || claimed || state.plan.has_final()) {
                return Ok(());
            }
            if !self.write(state).await {
                return Ok(());
            }
            write = false;
            if claimed {
                self.dispatch(state)?;
            }
        }
    }

    /// Pauses the broadcast for this reason if it is being sent.
    async fn pause(&self, reason: impl Into<Box<str>>, state: &mut Running) {
        if state.record.status == BroadcastStatus::Sending {
            self.control(Control::Pause { reason: Some(reason.into()) }, state).await;
        }
    }

    /// Removes from the claim the recipients that opted out after the broadcast was created.
    /// Who has is read beside the actor.
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

    /// Writes the outcomes and claims that are not durable yet. Returns whether they are now.
    async fn write(&self, state: &mut Running) -> bool {
        let (today, name) = (Day::of(self.services.clock.now()), &*state.record.name);
        let (store, workspace) = (self.services.view.as_ref(), &self.slot.workspace);
        let stored = || daily_counts::stored(store, workspace, self.id, (today, name));
        if let Err(error) = state.counted.count(today, state.plan.uncounted(), stored) {
            tracing::warn!(broadcast = %self.id, %error, "outcomes wait to be counted");
            return false;
        }
        state.plan.counted();
        let key = |number| window_key(&self.slot.workspace, self.id, number);
        let windows = state.plan.dirty();
        let mut changes: Vec<_> = windows
            .map(|(number, window)| {
                Change::put(Table::BroadcastOutcomes, key(number), window.encode())
            })
            .collect();
        changes.extend(state.counted.changes(&self.slot.workspace, self.id));
        changes.extend(state.noted.iter().cloned());
        // Refused, it would repeat what the number has done. Only one is under way at a time.
        match self.services.writer.commit_own(changes).await {
            Ok(()) => {
                state.plan.written();
                state.counted.written();
                state.noted.clear();
                true
            }
            Err(error) => {
                tracing::warn!(broadcast = %self.id, %error, "outcomes wait to be written");
                false
            }
        }
    }

    /// Dispatches the claimed messages to the number. Their claim must be durable.
    fn dispatch(&self, state: &mut Running) -> Result<(), ActorProcessingErr> {
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

    /// Records final outcomes, and pauses or fails the broadcast where one of them requires it.
    async fn apply_outcomes(&self, outcomes: Vec<(u32, FinalOutcome)>, state: &mut Running) {
        let mut stop = None;
        for (index, outcome) in outcomes {
            let (mark, failed) = match outcome {
                FinalOutcome::Sent | FinalOutcome::SentAs(_) => (Mark::Sent, None),
                FinalOutcome::Held(_) => (Mark::Held, None),
                FinalOutcome::Unknown => (Mark::Unknown, None),
                FinalOutcome::NotSentInTime => {
                    let late = Failed { refused: false, code: None, details: Box::default() };
                    (Mark::Failed, Some(late))
                }
                FinalOutcome::Failed(failure) => {
                    let verdict = verdict(&failure);
                    let is_retried = matches!(verdict, Some(Verdict::Pause(_)));
                    stop = stop.or(verdict);
                    match is_retried {
                        true => (Mark::Retry, None),
                        false => (Mark::Failed, Some(Failed::of(&failure))),
                    }
                }
            };
            state.judged.outcome(index, mark);
            state.settle(index, mark, failed);
        }
        self.judge(stop, state).await;
    }

    /// Pauses or fails the broadcast where this verdict or the share of failures requires it.
    async fn judge(&self, stop: Option<Verdict>, state: &mut Running) {
        match stop.or_else(|| self.check_failure_rate(state)) {
            Some(Verdict::Pause(reason)) => self.pause(reason, state).await,
            Some(Verdict::Fail(reason)) if !state.record.status.is_over() => {
                self.control(Control::Fail { reason }, state).await;
            }
            _ => {}
        }
    }

    /// The verdict to pause if too many messages fail.
    fn check_failure_rate(&self, state: &Running) -> Option<Verdict> {
        let too_many = state.judged.too_many_failed(&self.options);
        too_many.filter(|_| !state.plan.is_done()).map(Verdict::Pause)
    }

    /// Writes the known outcomes before the engine stops.
    async fn flush(&self, drained: bool, state: &mut Running) {
        // Claimed messages that were not dispatched, or that the number did not send, were not
        // sent.
        for index in std::mem::take(&mut state.claimed) {
            state.settle(index, Mark::Retry, None);
        }
        if drained {
            state.plan.settle_in_flight(Mark::Retry);
        }
        if state.plan.is_dirty() {
            self.write(state).await;
        }
    }
}
