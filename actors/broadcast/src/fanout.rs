//! The fan-out: a broadcast's actor. It claims a window of recipients, hands their messages over
//! when that is durable, takes the outcomes and writes them with the next claim.

mod failure_policy;
mod load;
mod messages;
mod preconditions;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use postrider_channel::Failure;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::{BroadcastId, Day, NumberId};
use postrider_number::capacity::HandedOver;
use postrider_store::{Change, StoreError, Table};

use super::control::{Control, ControlError};
use super::daily_counts::{self, Counted};
use super::outcomes::{Failed, Mark};
use super::plan::Plan;
use super::record::{self, BroadcastPolicy, BroadcastStatus, Record, window_key};
use super::{BroadcastSlot, Broadcasts, Services};
use failure_policy::{Verdict, verdict};
use messages::Messages;

/// What a fan-out is told.
#[derive(Debug)]
pub enum FanoutMessage {
    /// The record has changed, or there is something to do.
    Look,
    /// A second has passed.
    Tick,
    /// The channel's answers, by recipient.
    Settled(Vec<(u32, FinalOutcome)>),
    /// The number has handed these back: they surely were not taken.
    Withdrawn(Vec<u32>),
    /// The number's account cannot send.
    NumberStopped(NumberId, Failure),
    /// The number has lost its queue.
    QueueLost(NumberId),
    /// The engine stops: claim nothing more. Answered when nothing more is handed over.
    Halt(oneshot::Sender<()>),
    /// The numbers have stopped, with nothing left with the channel if `drained`: write down what
    /// is known.
    Flush { drained: bool, done: oneshot::Sender<()> },
}

pub struct Fanout {
    pub broadcasts: Arc<Broadcasts>,
    pub id: BroadcastId,
    pub slot: Arc<BroadcastSlot>,
}

/// The actor's mutable half; nothing until it is loaded.
pub struct Running {
    record: Record,
    plan: Plan,
    /// What is counted by day.
    counted: Counted,
    messages: Messages,
    /// Claimed, and not known to be durable: not handed over yet.
    claimed: Vec<u32>,
    /// Outcomes since it runs, and failures among them.
    judged: (u32, u32),
    /// How often it had been woken when it last looked at the record.
    wakes: u64,
    /// It is held or over, and the number was asked for what it has of it.
    asked_back: bool,
    halted: bool,
}

impl Actor for Fanout {
    type Msg = FanoutMessage;
    type State = Option<Box<Running>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        // What can fail happens after the supervisor is linked.
        Ok(None)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let loaded = load::load(self.services(), &self.slot.workspace, self.id).await?;
        *state = Some(Box::new(loaded));
        drop(myself.cast(FanoutMessage::Look));
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let Some(state) = state.as_mut() else { return Ok(()) };
        let mut write_all = false;
        match message {
            FanoutMessage::Look => self.look(state)?,
            FanoutMessage::Tick => write_all = true,
            FanoutMessage::Settled(outcomes) => self.take(outcomes, state).await,
            FanoutMessage::Withdrawn(places) => {
                places.into_iter().for_each(|index| state.plan.settle(index, Mark::Retry, None));
            }
            FanoutMessage::NumberStopped(number, failure) => {
                if let (true, Some(Verdict::Pause(reason))) =
                    (number == state.record.number, verdict(&failure))
                {
                    self.pause(reason, state).await;
                }
            }
            FanoutMessage::QueueLost(number) => {
                if number == state.record.number {
                    state.plan.settle_in_flight(match state.record.policy {
                        BroadcastPolicy::AtMostOnce => Mark::Unknown,
                        BroadcastPolicy::AtLeastOnce => Mark::Retry,
                    });
                }
            }
            FanoutMessage::Halt(done) => {
                state.halted = true;
                // Nobody is told if the asker has gone away.
                done.send(()).ok();
            }
            FanoutMessage::Flush { drained, done } => {
                self.flush(drained, state).await;
                done.send(()).ok();
                return Ok(());
            }
        }
        if !state.halted {
            self.go_on(&myself, write_all, state).await?;
        }
        Ok(())
    }
}

impl Fanout {
    fn services(&self) -> &Services {
        &self.broadcasts.services
    }

    /// Reads the record again.
    fn look(&self, state: &mut Running) -> Result<(), StoreError> {
        state.wakes = self.slot.wakes();
        let view = self.services().view.as_ref();
        // One that cannot be read now is read at the next look.
        if let Ok(Some(record)) = record::read(view, &self.slot.workspace, self.id) {
            state.messages.number = record.number;
            if state.record.status != record.status {
                state.judged = (0, 0);
            }
            state.record = record;
        }
        Ok(())
    }

    /// Has the workspace note where the broadcast stands. What cannot be done now is tried again
    /// with the next beat.
    async fn control(&self, control: Control, state: &mut Running) -> bool {
        let Some(host) = self.broadcasts.host() else { return false };
        match host.control(&self.slot.workspace, self.id, control).await {
            Ok(record) => {
                state.messages.number = record.number;
                state.record = record;
                true
            }
            // Somebody else has changed it, and wakes this.
            Err(ControlError::WrongState(_)) => false,
            Err(error) => {
                tracing::warn!(broadcast = %self.id, %error, "a broadcast waits");
                false
            }
        }
    }

    /// Does what there is to do now.
    async fn go_on(
        &self,
        myself: &ActorRef<FanoutMessage>,
        write_all: bool,
        state: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        if matches!(state.record.status, BroadcastStatus::Queued | BroadcastStatus::Scheduled) {
            let begin = Control::Begin { late: self.slot.lateness(self.services().clock.real()) };
            if !self.control(begin, state).await {
                return Ok(());
            }
        }
        self.send(write_all, state).await?;
        let sending = state.record.status == BroadcastStatus::Sending;
        if sending || state.plan.in_flight() == 0 {
            state.asked_back = false;
        } else if write_all || !state.asked_back {
            // What the channel has now may come back to the number, so it is asked again.
            state.asked_back = true;
            self.services().numbers.withdraw(state.record.number, self.id);
        }
        if state.plan.in_flight() > 0 || (sending && !state.plan.is_done()) {
            return Ok(());
        }
        // Nothing is with the channel, and nothing is to be sent now.
        if state.plan.is_dirty() && !self.write(state).await {
            return Ok(());
        }
        if sending || state.record.status.is_over() {
            let tally = *state.plan.tally();
            if self.control(Control::Finish { tally }, state).await && state.record.settled {
                self.broadcasts.remove(self.id);
                myself.stop(None);
            }
        } else if super::rest(&self.slot, state.wakes) {
            myself.stop(None);
        }
        Ok(())
    }

    /// Claims and hands over, as long as there is room.
    async fn send(&self, write_all: bool, state: &mut Running) -> Result<(), ActorProcessingErr> {
        let mut write = write_all && state.plan.is_dirty();
        loop {
            let sending = state.record.status == BroadcastStatus::Sending;
            if !sending {
                for index in std::mem::take(&mut state.claimed) {
                    state.plan.settle(index, Mark::Retry, None);
                }
            }
            let room = sending && state.claimed.is_empty() && self.has_room(state);
            if room && self.may_send(state).await {
                state.claimed = state.plan.claim(self.at_once(state));
                self.leave_out_suppressed(state)?;
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
                self.hand_over(state)?;
            }
        }
    }

    async fn pause(&self, reason: impl Into<Box<str>>, state: &mut Running) {
        if state.record.status == BroadcastStatus::Sending {
            self.control(Control::Pause { reason: Some(reason.into()) }, state).await;
        }
    }

    /// Those who have opted out since the broadcast was made are not sent to.
    fn leave_out_suppressed(&self, state: &mut Running) -> Result<(), ActorProcessingErr> {
        let Some(host) = self.broadcasts.host() else { return Ok(()) };
        let view = self.services().view.as_ref();
        let left_out = state.messages.suppressed(view, host, &state.claimed)?;
        for index in left_out {
            state.plan.settle(index, Mark::OptedOut, None);
            state.claimed.retain(|claimed| *claimed != index);
        }
        Ok(())
    }

    /// Writes the outcomes and claims that are not written yet. Returns whether they are durable.
    async fn write(&self, state: &mut Running) -> bool {
        let (today, name) = (Day::of(self.services().clock.now()), &*state.record.name);
        let (store, workspace) = (self.services().view.as_ref(), &self.slot.workspace);
        let stored = || daily_counts::stored(store, workspace, self.id, (today, name));
        if let Err(error) = state.counted.count(today, state.plan.news(), stored) {
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
        match self.services().writer.commit(changes).await {
            Ok(()) => {
                state.plan.written();
                state.counted.written();
                true
            }
            Err(error) => {
                tracing::warn!(broadcast = %self.id, %error, "outcomes wait to be written");
                false
            }
        }
    }

    /// Hands what is claimed to the number.
    fn hand_over(&self, state: &mut Running) -> Result<(), ActorProcessingErr> {
        let give_up_at = self.services().clock.now().plus(self.services().give_up);
        let claimed = std::mem::take(&mut state.claimed);
        let store = self.services().view.as_ref();
        let messages = state.messages.of(store, &claimed, give_up_at)?;
        self.services().numbers.dispatch(messages.into_iter().map(HandedOver::from).collect());
        Ok(())
    }

    /// Takes the channel's answers.
    async fn take(&self, outcomes: Vec<(u32, FinalOutcome)>, state: &mut Running) {
        let mut stop = None;
        for (index, settled) in outcomes {
            let (mark, failed) = match settled {
                FinalOutcome::Sent => (Mark::Sent, None),
                FinalOutcome::Unknown => (Mark::Unknown, None),
                FinalOutcome::NotSentInTime => {
                    let late = Failed { refused: false, code: None, details: Box::default() };
                    (Mark::Failed, Some(late))
                }
                FinalOutcome::Failed(failure) => {
                    let verdict = verdict(&failure);
                    let again = matches!(verdict, Some(Verdict::Pause(_)));
                    stop = stop.or(verdict);
                    match again {
                        true => (Mark::Retry, None),
                        false => (Mark::Failed, Some(Failed::of(&failure))),
                    }
                }
            };
            state.judged.0 += 1;
            state.judged.1 += u32::from(mark == Mark::Failed);
            state.plan.settle(index, mark, failed);
        }
        match stop.or_else(|| self.judge(state)) {
            Some(Verdict::Pause(reason)) => self.pause(reason, state).await,
            Some(Verdict::Fail(reason)) if !state.record.status.is_over() => {
                self.control(Control::Fail { reason }, state).await;
            }
            _ => {}
        }
    }

    /// Whether too many messages fail.
    fn judge(&self, state: &Running) -> Option<Verdict> {
        let options = &self.broadcasts.options;
        let (judged, failed) = state.judged;
        let percent = u64::from(options.pause_failure_percent);
        let too_many = percent > 0
            && judged >= options.pause_failure_min
            && u64::from(failed) * 100 > u64::from(judged) * percent
            && !state.plan.is_done();
        too_many.then(|| Verdict::Pause(format!("{failed} of {judged} messages failed").into()))
    }

    /// Writes down what is known before the end.
    async fn flush(&self, drained: bool, state: &mut Running) {
        // What was claimed and not handed over, and what the number did not get to, was not sent.
        for index in std::mem::take(&mut state.claimed) {
            state.plan.settle(index, Mark::Retry, None);
        }
        if drained {
            state.plan.settle_in_flight(Mark::Retry);
        }
        if state.plan.is_dirty() {
            self.write(state).await;
        }
    }
}
