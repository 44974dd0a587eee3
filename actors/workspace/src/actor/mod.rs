//! The actor turns messages into commands of the core and has their effects made durable.
//!
//! Answers and messages leave it once the effects that they depend on are durable. A supervisor
//! starts it by the [`WorkspaceSpec`].

mod budget_queue;
pub mod configure;
mod number_failover;
pub mod recovery;
pub mod snapshots;
mod state;
mod sweeping;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Outbound};
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{MessageId, RequestId, WorkspaceId};
use postrider_number::{Claims, Granted, Outcomes};
use postrider_runtime::random;
use postrider_runtime::supervise::{ChildSpec, LoadedActor, Placement};
use postrider_store::GroupNumber;
use ractor::{ActorProcessingErr, ActorRef};

use crate::actor::state::{StateLost, WorkspaceState};
use crate::core::otp::read::otp_state;
use crate::core::otp::types::{OtpSent, ResendOtpError, SendOtp, SendOtpError};
use crate::core::otp::verify::verify_otp;
use crate::core::unsent;
use crate::directory::Workspaces;
use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::output_gate::{
    Carry, NotifyActor, OutputGate, PendingReply, Release, SharedOutputs, refuse,
};
use crate::mailbox::slot::{Slot, WorkspaceEntry, passivate};
use crate::otp::step_worker;
use crate::services::Services;
use crate::{messages, otp};

/// The wait before unsent messages are read again if the store could not be read.
const REDISPATCH_WAIT: Duration = Duration::from_secs(1);

/// The actor's immutable half.
pub struct WorkspaceActor {
    /// The state that all workspaces share.
    pub shared: Arc<Services>,
    /// Its own entry in the directory.
    pub slot: Arc<Slot>,
}

impl LoadedActor for WorkspaceActor {
    type Message = WorkspaceMessage;
    type State = WorkspaceState;

    async fn start(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
    ) -> Result<WorkspaceState, ActorProcessingErr> {
        let loaded = recovery::load(&self.shared, &self.slot).await?;
        let (actor, held) = (myself.clone(), SharedOutputs::default());
        let notify: NotifyActor = Arc::new(move |group, result| {
            // An actor that has stopped has no callers left.
            drop(actor.cast(WorkspaceMessage::Committed(group, result)));
        });
        let (gate, releaser) = (OutputGate::new(Arc::clone(&held)), self.shared.releaser.clone());
        let committed = move |group, result| {
            let (held, notify) = (Arc::clone(&held), Arc::clone(&notify));
            releaser.release(Release { held, notify, group, result });
        };
        let subscriber = self.shared.writer.subscribe(self.slot.id.clone(), Box::new(committed));
        let numbers = Arc::clone(&self.shared.numbers);
        let (shared, id) = (Arc::downgrade(&self.shared), self.slot.id.clone());
        let carry: Carry =
            Arc::new(move |call| step_worker::begin(shared.clone(), id.clone(), call));
        let portfolios = Arc::clone(&self.shared.portfolios);
        let counted = (portfolios, Arc::clone(&self.shared.store));
        let ways = ((subscriber, gate), (numbers, carry));
        let mut loaded = WorkspaceState::new(loaded, ways, counted, &self.slot);
        loaded.connect();
        loaded.note_unwritten();
        // Subscribers may not have been notified of the entries that a predecessor wrote.
        self.slot.subscribers.log_has_grown(&self.shared.webhooks);
        // This comes behind the answers of a number that have already arrived.
        drop(myself.cast(WorkspaceMessage::Redispatch));
        Ok(loaded)
    }

    async fn handle(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        message: WorkspaceMessage,
        state: &mut WorkspaceState,
    ) -> Result<(), ActorProcessingErr> {
        state.core.observe(self.shared.clock.now());
        let acted = match message {
            WorkspaceMessage::Commands(batch) => self.carry_out(myself, batch.take(), state),
            message => self.admit(myself, message, state),
        };
        if let Err(lost) = acted {
            state.gate.fail();
            return Err(Box::new(lost));
        }
        Ok(())
    }
}

impl WorkspaceActor {
    /// Carries out commands that arrived together. Their effects are also submitted together.
    fn carry_out(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        commands: Vec<WorkspaceMessage>,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        for mut command in commands {
            if !command.joins_submit() {
                state.finish_kept()?;
            }
            self.admit(myself, command, state)?;
        }
        state.finish_kept()
    }

    /// Carries out a message, unless it has to be refused.
    fn admit(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        message: WorkspaceMessage,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        if !self.shared.writer.is_healthy() {
            // Nothing could be made durable, so nothing is started; durable state stays known.
            match message {
                // Its messages are durable, and nothing would ask for it a second time.
                WorkspaceMessage::Committed(..)
                | WorkspaceMessage::Redispatch
                | WorkspaceMessage::HandedBack(_)
                | WorkspaceMessage::Recovered(_) => {}
                WorkspaceMessage::Settled(answers) => {
                    state.unrecorded.push(answers);
                    return Ok(());
                }
                WorkspaceMessage::Claims(claims) => {
                    // The number repeats its request to claim.
                    state.unreleased.extend(claims.released);
                    return Ok(());
                }
                WorkspaceMessage::Sweep(_) => {
                    state.sweeping.stop();
                    return Ok(());
                }
                message => {
                    refuse(message, Unavailable::because(UnavailableReason::Storage));
                    return Ok(());
                }
            }
        }
        if message.is_command() && !self.shared.writer.has_room() {
            // This comes before any change, so that the refusal leaves none.
            refuse(message, Unavailable::because(UnavailableReason::Overloaded));
            return Ok(());
        }
        self.act(myself, message, state)
    }

    fn act(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        mut message: WorkspaceMessage,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        let can_be_kept = message.can_be_kept();
        let (core, effects) = (&mut state.core, &mut state.effects);
        let held = match message {
            WorkspaceMessage::SendOtp(command, reply) => {
                PendingReply::Send(reply, send_code(&self.shared, command, state))
            }
            WorkspaceMessage::VerifyOtp(id, code, reply) => {
                PendingReply::Verify(reply, verify_otp(core, id, &code, effects))
            }
            WorkspaceMessage::ResendOtp(id, only, reply) => {
                PendingReply::Resend(reply, resend_code(&self.shared, (id, only), state))
            }
            WorkspaceMessage::ReadOtp(id, reply) => PendingReply::Read(reply, otp_state(core, id)),
            WorkspaceMessage::Configure(configure, audit, reply) => {
                return self.configure(configure, audit, reply, state);
            }
            WorkspaceMessage::Perform(errand) => {
                PendingReply::Answer(errand.run(&mut state.context(self.shared.store.as_ref())))
            }
            WorkspaceMessage::Settled(answers) => return self.settle(answers, state),
            WorkspaceMessage::Claims(claims) => return self.claim(claims, state),
            WorkspaceMessage::Committed(group, result) => {
                result?;
                self.committed(group, state);
                let goes_on = state.sweeping.committed(group) || state.behind;
                return if goes_on { self.beat(myself, state) } else { Ok(()) };
            }
            WorkspaceMessage::Tick => return self.tick(myself, state),
            WorkspaceMessage::Barrier(done) => {
                state.barriers.push(done);
                return self.beat(myself, state);
            }
            WorkspaceMessage::Redispatch => {
                self.redispatch(myself, state);
                return Ok(());
            }
            WorkspaceMessage::Recovered(messages) => return self.recover(messages, state),
            WorkspaceMessage::HandedBack(all) => {
                return number_failover::take_over(&self.shared, all, state);
            }
            WorkspaceMessage::Sweep(step) => return self.sweep_on(myself, step, state),
            WorkspaceMessage::Commands(all) => return self.carry_out(myself, all.take(), state),
        };
        self.note_figures(state);
        state.finish_command(held, can_be_kept)
    }

    /// Does the work that is due because time has passed.
    fn tick(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        for answers in std::mem::take(&mut state.unrecorded) {
            self.settle(answers, state)?;
        }
        state.release_late()?;
        self.beat(myself, state)?;
        number_failover::ask_for_messages(&self.shared.numbers, state);
        budget_queue::claim_again(self, myself, (&number_failover::down_for_long(state), state))?;
        self.passivate(myself, state);
        Ok(())
    }

    /// Records that `group` is durable; the outputs that waited for it were sent.
    fn committed(&self, group: GroupNumber, state: &mut WorkspaceState) {
        let pending = &mut state.pending;
        state.recent.committed(&self.slot.reading_ahead, |visit| pending.committed(group, visit));
        if state.unannounced.committed(group) {
            self.slot.log_has_grown(state.log_end.last, &self.shared.webhooks);
        }
        state.gate.committed(group);
        state.show_messages();
    }

    /// Does the work that has become due, one slice for each commit.
    ///
    /// So commands get their turn, and the writer's queue does not overflow.
    fn beat(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        state.behind = messages::write_old(&mut state.context(self.shared.store.as_ref()))
            || state.core.tick(&mut state.effects);
        if !state.behind {
            state.behind = state.give_up_overdue(self.shared.store.as_ref());
        }
        state.finish(None)?;
        if !state.behind {
            self.sweep(myself, state);
            if state.sweeping.is_idle() {
                for done in std::mem::take(&mut state.barriers) {
                    state.pass(PendingReply::Barrier(done));
                }
            }
        } else if state.gate.is_clear() {
            // There is nothing to commit, so no commit brings the next slice.
            drop(myself.cast(WorkspaceMessage::Tick));
        } else {
            state.subscriber.hurry();
        }
        Ok(())
    }

    /// Dispatches the messages without a final answer again.
    fn redispatch(&self, myself: &ActorRef<WorkspaceMessage>, state: &mut WorkspaceState) {
        let mut unsent = state.core.unsent();
        // Messages at the gate are not durable yet, and are sent when they are.
        state.gate.retain_absent(&mut unsent);
        self.shared.numbers.recover(unsent);
        self.read_unsent_messages(myself, state);
    }

    /// Counts one-time passwords, and reports many unsubmitted ones to one country to the operator.
    fn note_figures(&self, state: &mut WorkspaceState) {
        self.shared.step_workers.figures.add(&mut state.effects.steps);
        let new = std::mem::take(&mut state.effects.otps);
        for (all, new) in self.shared.otps.iter().zip(new) {
            if new > 0 {
                all.fetch_add(u64::from(new), Ordering::Relaxed);
            }
        }
        if let Some(calling_code) = state.effects.suspected.take() {
            self.shared.guard.suspicions.fetch_add(1, Ordering::Relaxed);
            let workspace = &self.slot.id;
            tracing::warn!(%workspace, calling_code, "suspiciously many codes are not submitted");
        }
    }

    /// Has the unsent messages read from memory, or from their records on a thread that may block.
    ///
    /// The result arrives as [`WorkspaceMessage::Recovered`].
    fn read_unsent_messages(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        state: &mut WorkspaceState,
    ) {
        let unsent = state.core.hot.messages.iter().map(|(id, _)| id);
        // Messages at the gate are not durable yet, and are sent when they are.
        let ids = state.gate.absent(unsent);
        self.read_messages(myself, (ids, state), WorkspaceMessage::Recovered);
    }

    /// Has these messages read from memory, or from their records on a thread that may block.
    fn read_messages(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        (ids, state): (Vec<MessageId>, &mut WorkspaceState),
        read: fn(Vec<Outbound>) -> WorkspaceMessage,
    ) {
        let context = state.context(self.shared.store.as_ref());
        let (known, ids) = messages::in_memory(&context, ids);
        if ids.is_empty() {
            drop(myself.cast(read(known)));
            return;
        }
        let (store, slot) = (Arc::clone(&self.shared.store), Arc::clone(&self.slot));
        let myself = myself.clone();
        drop(tokio::task::spawn_blocking(move || {
            match messages::unsent(&*store, &slot.id, &ids) {
                // If the actor has stopped, its successor has them read again.
                Ok(mut messages) => {
                    messages.extend(known);
                    // Those that came first leave first.
                    messages.sort_by_key(|message| message.message_id);
                    drop(myself.cast(read(messages)));
                }
                Err(error) => {
                    tracing::error!(workspace = %slot.id, %error, "unsent messages cannot be read");
                    drop(myself.send_after(REDISPATCH_WAIT, || WorkspaceMessage::Redispatch));
                }
            }
        }));
    }

    /// Records outcomes, and notifies the number when that is durable.
    fn settle(&self, answers: Outcomes, state: &mut WorkspaceState) -> Result<(), StateLost> {
        let Outcomes { number, settled, ack_to } = answers;
        let numbers = &self.shared.numbers;
        let held = ack_to.map(|ticket| PendingReply::Ack(Arc::clone(numbers), number, ticket));
        state.settle(self.shared.store.as_ref(), (number, settled), held)
    }

    /// Lets a number hand over the messages that it claims, once that is durable.
    fn claim(&self, claims: Claims, state: &mut WorkspaceState) -> Result<(), StateLost> {
        // The number may have given up earlier the claims that it now asks for.
        state.release_late()?;
        let Claims { number, released, asked } = claims;
        let (ticket, asked) = asked.unzip();
        let asked = asked.unwrap_or_default();
        budget_queue::give_back(&released, state);
        unsent::release(&mut state.core, &released, &mut state.effects);
        let asked = budget_queue::claimable(&self.shared, (number, ticket), asked, state);
        let messages = unsent::claim(&mut state.core, number, asked, &mut state.effects);
        let Some(ticket) = ticket else {
            // This is submitted at once. A crash before it is durable would make messages unknown
            // that were surely not accepted.
            return state.finish(None);
        };
        let numbers = Arc::clone(&self.shared.numbers);
        state.finish(Some(PendingReply::Claimed(numbers, number, Granted { ticket, messages })))
    }

    /// Dispatches messages again that are still without an outcome.
    ///
    /// Only their number can know the outcome of claimed ones. If their number was disconnected,
    /// they fail, as it fails the messages that it has not handed over.
    fn recover(
        &self,
        mut messages: Vec<Outbound>,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        // Messages that were moved meanwhile and are not durable yet are sent when they are.
        state.gate.retain_absent(&mut messages);
        let messages = state.core.recovered(messages);
        let (messages, lost): (Vec<_>, Vec<_>) = messages
            .into_iter()
            .partition(|message| state.numbers.iter().any(|number| number.id == message.number));
        let is_claimed =
            |message: &Outbound| state.core.hot.messages.is_claimed(message.message_id);
        let mut over = BTreeMap::<_, Vec<_>>::new();
        for message in lost {
            let settled = match is_claimed(&message) {
                true => FinalOutcome::Unknown,
                false => FinalOutcome::Failed(Failure::permanent(None)),
            };
            over.entry(message.number).or_default().push((message.origin, settled));
        }
        let (claimed, waiting) = messages.into_iter().partition(is_claimed);
        self.shared.numbers.recover(waiting);
        self.shared.numbers.report_unknown(claimed);
        over.into_iter().try_for_each(|(number, settled)| {
            self.settle(Outcomes { number, settled, ack_to: None }, state)
        })
    }

    /// Stops the actor if a new one would read its whole state from the store.
    fn passivate(&self, myself: &ActorRef<WorkspaceMessage>, state: &WorkspaceState) {
        if state.behind
            || !state.core.hot.is_empty()
            || !state.gate.is_clear()
            || !state.sweeping.is_idle()
        {
            return;
        }
        // This comes before the successor can look for it.
        *self.slot.sweeps.lock() = Some(state.sweeping.cursors().clone());
        if passivate(&self.slot) {
            myself.stop(None);
        } else {
            self.slot.sweeps.lock().take();
        }
    }
}

/// Sends a code on the hot path.
fn send_code(
    shared: &Services,
    command: SendOtp,
    state: &mut WorkspaceState,
) -> Result<OtpSent, SendOtpError> {
    let id = random::request_id(state.core.now());
    otp::send(&mut state.context(shared.store.as_ref()), command, id)
}

/// Sends the code of a request again on the hot path.
fn resend_code(
    shared: &Services,
    asked: (RequestId, Option<OtpChannel>),
    state: &mut WorkspaceState,
) -> Result<OtpSent, ResendOtpError> {
    let message = MessageId::from_parts(state.core.now(), random::unique());
    otp::resend(&mut state.context(shared.store.as_ref()), asked, message)
}

/// The workspaces as a supervisor's children.
pub struct WorkspaceSpec(pub Arc<Services>);

impl ChildSpec for WorkspaceSpec {
    type Key = WorkspaceId;
    type Message = WorkspaceMessage;
    type Kept = WorkspaceEntry;

    const NAME: &'static str = "workspace";

    fn directory(&self) -> &Workspaces {
        &self.0.workspaces
    }

    fn publish(&self, id: &WorkspaceId, placement: Placement<WorkspaceMessage>) {
        match (self.0.workspaces.slot(id), placement) {
            (Some(slot), placement) => slot.publish(placement),
            // The workspace was deleted while its actor started. Nothing else would stop the actor.
            (None, Placement::Live(actor)) => actor.stop(None),
            (None, _) => {}
        }
    }

    async fn spawn(
        &self,
        id: &WorkspaceId,
        supervisor: ractor::ActorCell,
    ) -> Result<ActorRef<WorkspaceMessage>, ractor::SpawnErr> {
        let Some(slot) = self.0.workspaces.slot(id) else {
            let error = format!("there is no workspace {id}");
            return Err(ractor::SpawnErr::StartupFailed(error.into()));
        };
        WorkspaceActor { shared: Arc::clone(&self.0), slot }.spawn(supervisor).await
    }
}
