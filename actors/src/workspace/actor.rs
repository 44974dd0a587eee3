//! The actor around the core: it turns messages into commands, has their effects made durable, and
//! lets answers and messages out when they are.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::channel::{Origin, TemplateName};
use crate::domain::{LimitsOverride, MessageId, NumberId, RequestId};
use crate::engine::Shared;
use crate::number::NumberSlot;
use crate::random;
use crate::store::writer::{ChangeRef, CommitError, Group};
use crate::store::{Batch, Subscriber, Table};

use super::command::{Context, Errand};
use super::core::{Core, CreditsChange, Settled};
use super::effects::Effects;
use super::gate::{Gate, Held, refuse};
use super::idempotency::Sweep;
use super::messages::{
    ChangeError, OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError,
    Unavailable, UnavailableReason, Verification, VerifyOtpError,
};
use super::records::{self, NumberInfo, Profile};
use super::slot::{ReplyTo, Slot};
use super::view::{Pending, Records};
use super::{WorkspaceSettings, load};

/// What a workspace's actor is told. Each command is answered exactly once, after everything that
/// the answer depends on is durable; a dropped reply means that the outcome is unknown.
#[derive(Debug)]
pub(crate) enum WorkspaceMessage {
    SendOtp(SendOtp, ReplyTo<OtpSent, SendOtpError>),
    VerifyOtp(RequestId, Box<str>, ReplyTo<Verification, VerifyOtpError>),
    ResendOtp(RequestId, ReplyTo<OtpSent, ResendOtpError>),
    ReadOtp(RequestId, ReplyTo<OtpState, ReadOtpError>),
    Configure(Configure, ReplyTo<WorkspaceSettings, ChangeError>),
    /// Carry out a command beside the hot path.
    Perform(Box<dyn Errand>),
    /// The number has final answers for messages.
    Settled(Vec<(Origin, Settled)>),
    /// The writer has settled a group that this workspace had something in.
    Committed(Group, Result<(), CommitError>),
    /// Time has passed.
    Tick,
    /// Answered when time's work and all that came before is durable.
    Barrier(oneshot::Sender<()>),
    /// This actor has just been loaded, or a number has lost its queue: hand over again what is not
    /// answered for.
    Redispatch,
}

/// Asks for, or changes, what a workspace is set to.
#[derive(Debug)]
pub(crate) enum Configure {
    /// Nothing: only tells.
    Read,
    /// Lays these limits over the workspace's own.
    Limits(LimitsOverride),
    /// Sets the template that carries one-time passwords.
    OtpTemplate(TemplateName),
    /// Changes the balance.
    Credits(CreditsChange),
    /// Connects a number.
    Connect(NumberInfo),
    /// Disconnects a number.
    Disconnect(NumberId),
}

/// The actor's immutable half.
pub(crate) struct WorkspaceActor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Arc<Slot>,
}

/// The actor's mutable half; nothing until it is loaded.
pub(crate) struct Loaded {
    pub(super) core: Core,
    /// The workspace's own record, for changes of it.
    pub(super) profile: Profile,
    /// Connected numbers, oldest first; messages leave through the first.
    pub(super) numbers: Vec<NumberInfo>,
    /// The entry of the number that messages leave through: it knows whether the number is down.
    pub(super) number: Option<Arc<NumberSlot>>,
    /// The sequence of the next entry of the event log.
    log_next: u64,
    subscriber: Subscriber,
    pub(super) gate: Gate,
    /// Emptied after each command; kept for its memory.
    pub(super) effects: Effects,
    /// Changes of records that are not known to be durable.
    pending: Pending,
    sweep: Sweep,
    /// The number's answers that came while storage failed.
    unnoted: Vec<(Origin, Settled)>,
    /// The key of the balance's record.
    credits_key: Vec<u8>,
    /// Time has brought more than was seen to.
    behind: bool,
    /// Who waits for time's work to be done.
    barriers: Vec<oneshot::Sender<()>>,
}

/// The commit of something that is already part of the state failed, so the state must go.
#[derive(Debug, thiserror::Error)]
#[error("the workspace's state is ahead of what is durable: {0}")]
pub(super) struct StateLost(#[from] CommitError);

impl Actor for WorkspaceActor {
    type Msg = WorkspaceMessage;
    type State = Option<Box<Loaded>>;
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
        let loaded = load::load(&self.shared, &self.slot).await?;
        let actor = myself.clone();
        let notify = move |group, result| {
            // An actor that is gone has nobody left to answer.
            drop(actor.cast(WorkspaceMessage::Committed(group, result)));
        };
        let subscriber = self.shared.writer.subscribe(self.slot.id.clone(), Box::new(notify));
        let loaded = state.insert(Box::new(Loaded::new(loaded, subscriber, &self.slot.id)));
        loaded.number = loaded.core.number.map(|number| self.shared.numbers.slot(number));
        // Behind the answers of a number that have come already.
        drop(myself.cast(WorkspaceMessage::Redispatch));
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let Some(state) = state.as_mut() else {
            refuse(message, Unavailable::because(UnavailableReason::Restarting));
            return Ok(());
        };
        state.core.observe(self.shared.clock.now());
        if !self.shared.writer.is_healthy() {
            // Nothing could be made durable, so nothing is begun; what is durable stays known.
            match message {
                // What it hands over is durable, and nobody would ask for it a second time.
                WorkspaceMessage::Committed(..) | WorkspaceMessage::Redispatch => {}
                WorkspaceMessage::Settled(answers) => {
                    state.unnoted.extend(answers);
                    return Ok(());
                }
                message => {
                    refuse(message, Unavailable::because(UnavailableReason::Storage));
                    return Ok(());
                }
            }
        }
        if let Err(lost) = self.act(&myself, message, state) {
            state.gate.fail();
            return Err(Box::new(lost));
        }
        Ok(())
    }
}

impl Loaded {
    fn new(
        (core, records, log_next): (Core, records::WorkspaceRecords, u64),
        subscriber: Subscriber,
        id: &crate::domain::WorkspaceId,
    ) -> Self {
        Self {
            core,
            profile: records.profile,
            numbers: records.numbers,
            number: None,
            log_next,
            subscriber,
            gate: Gate::default(),
            effects: Effects::default(),
            pending: Pending::default(),
            sweep: Sweep::default(),
            unnoted: Vec::new(),
            credits_key: records::credits_key(id),
            behind: false,
            barriers: Vec::new(),
        }
    }

    /// Has the effects made durable, then lets `held` and the messages out.
    pub(super) fn finish(&mut self, held: Option<Held>) -> Result<(), StateLost> {
        if self.effects.is_empty() {
            self.effects.clear();
            if let Some(held) = held {
                self.pass(held);
            }
            return Ok(());
        }
        let group = match (self.submit(), held) {
            (Ok(group), Some(held)) => {
                self.gate.hold(group, held);
                group
            }
            (Ok(group), None) => {
                self.gate.expect(group);
                group
            }
            (Err(lost), held) => {
                held.into_iter().for_each(Held::fail);
                return Err(lost);
            }
        };
        self.gate.hold_outbound(group, self.effects.outbound.drain(..));
        self.pending.submitted(group, &mut self.effects.changes);
        self.effects.clear();
        Ok(())
    }

    /// Gives an answer that changed nothing, once all that it may tell of is durable.
    pub(super) fn pass(&mut self, held: Held) {
        if !self.gate.is_clear() {
            self.subscriber.hurry();
        }
        self.gate.pass(held);
    }

    /// Puts the effects into the open group.
    fn submit(&mut self) -> Result<Group, StateLost> {
        let balance = self.effects.credits.map(u64::to_be_bytes);
        let balance = balance.as_ref().map(|balance| ChangeRef {
            table: Table::Workspaces,
            key: &self.credits_key,
            value: Some(balance),
        });
        // At most one change on the hot path: no allocation for it.
        let (one, many): (_, Vec<_>);
        let changes: &[ChangeRef<'_>] = match balance {
            None if self.effects.changes.is_empty() => &[],
            Some(balance) if self.effects.changes.is_empty() => {
                one = [balance];
                &one
            }
            balance => {
                let changes = self.effects.changes.iter();
                let changes = changes.map(|(table, key, value)| ChangeRef { table, key, value });
                many = balance.into_iter().chain(changes).collect();
                &many
            }
        };
        let batch = Batch {
            events: &self.effects.events,
            log: &self.effects.log,
            log_first: self.log_next,
            log_count: self.effects.log_count,
            changes,
            patient: self.effects.patient,
        };
        let group = self.subscriber.submit(batch)?;
        self.log_next += u64::from(self.effects.log_count);
        Ok(group)
    }

    /// Notes the number's answers. They come a thousand at a time at the most, and those that
    /// storage kept from being noted are noted in such parts too, because a commit is bounded.
    fn settle(&mut self, answers: Vec<(Origin, Settled)>) -> Result<(), StateLost> {
        for some in answers.chunks(1000) {
            // Nobody waits for it; a crash before it is durable hands the message over again.
            self.effects.patient = true;
            for (origin, settled) in some {
                match origin {
                    Origin::Otp(id) => self.core.settle(*id, settled, &mut self.effects),
                    // None is made yet.
                    Origin::Message(_) => {}
                    // The broadcast takes it.
                    Origin::Broadcast { .. } => {}
                }
            }
            self.finish(None)?;
        }
        Ok(())
    }
}

impl WorkspaceActor {
    fn act(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        message: WorkspaceMessage,
        state: &mut Loaded,
    ) -> Result<(), StateLost> {
        let (core, effects) = (&mut state.core, &mut state.effects);
        let held = match message {
            WorkspaceMessage::SendOtp(command, reply) => {
                let id = random::request_id(core.hot.now());
                let down = state.number.as_ref().and_then(|number| number.down_for(core.hot.now()));
                Held::Send(reply, core.send_otp(command, id, down, effects))
            }
            WorkspaceMessage::VerifyOtp(id, code, reply) => {
                Held::Verify(reply, core.verify_otp(id, &code, effects))
            }
            WorkspaceMessage::ResendOtp(id, reply) => {
                let message = MessageId::from_parts(core.hot.now(), random::unique());
                let down = state.number.as_ref().and_then(|number| number.down_for(core.hot.now()));
                Held::Resend(reply, core.resend_otp(id, message, down, effects))
            }
            WorkspaceMessage::ReadOtp(id, reply) => Held::Read(reply, core.otp(id)),
            WorkspaceMessage::Configure(configure, reply) => {
                return self.configure(configure, reply, state);
            }
            WorkspaceMessage::Perform(errand) => {
                let records =
                    Records { store: self.shared.store.as_ref(), pending: &state.pending };
                let number = state.number.as_deref();
                Held::Answer(errand.run(&mut Context { core, records, effects, number }))
            }
            WorkspaceMessage::Settled(answers) => return state.settle(answers),
            WorkspaceMessage::Committed(group, result) => {
                result?;
                state.pending.committed(group);
                self.shared.numbers.dispatch(state.gate.open(group));
                return if state.behind { self.beat(myself, state) } else { Ok(()) };
            }
            WorkspaceMessage::Tick => {
                let unnoted = std::mem::take(&mut state.unnoted);
                state.settle(unnoted)?;
                self.beat(myself, state)?;
                self.passivate(myself, state);
                return Ok(());
            }
            WorkspaceMessage::Barrier(done) => {
                state.barriers.push(done);
                return self.beat(myself, state);
            }
            WorkspaceMessage::Redispatch => {
                let mut unsent = core.unsent();
                // Those at the gate are not durable yet, and go out when they are.
                state.gate.retain_absent(&mut unsent);
                self.shared.numbers.recover(unsent);
                return Ok(());
            }
        };
        state.finish(Some(held))
    }

    /// Sees to what time has brought, a slice for each commit, so that commands get their turn and
    /// the writer's queue does not overflow.
    fn beat(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        state: &mut Loaded,
    ) -> Result<(), StateLost> {
        state.behind = state.core.tick(&mut state.effects);
        if !state.behind {
            let (store, now) = (self.shared.store.as_ref(), state.core.now());
            match state.sweep.run(store, &self.slot.id, now, &mut state.effects) {
                Ok(more) => state.behind = more,
                Err(error) => {
                    tracing::error!(workspace = %self.slot.id, %error, "answers cannot be forgotten");
                }
            }
        }
        state.finish(None)?;
        if !state.behind {
            for done in std::mem::take(&mut state.barriers) {
                state.pass(Held::Barrier(done));
            }
        } else if state.gate.is_clear() {
            // Nothing to commit, so no commit brings the next slice.
            drop(myself.cast(WorkspaceMessage::Tick));
        } else {
            state.subscriber.hurry();
        }
        Ok(())
    }

    /// Stops the actor when it holds nothing that a new one would not read from the store.
    fn passivate(&self, myself: &ActorRef<WorkspaceMessage>, state: &Loaded) {
        if !state.behind
            && state.core.hot.is_empty()
            && state.gate.is_clear()
            && self.slot.passivate()
        {
            myself.stop(None);
        }
    }
}
