//! The actor around the core: it turns messages into commands, has their effects made durable, and
//! lets answers and messages out when they are.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::domain::{LimitsOverride, MessageId, NumberId, RequestId};
use crate::engine::Shared;
use crate::number::Handover;
use crate::random;
use crate::store::writer::{ChangeRef, CommitError, Group};
use crate::store::{Batch, Subscriber, Table};

use super::core::{Core, CreditsChange, Settled};
use super::effects::Effects;
use super::gate::{Gate, Held, refuse};
use super::messages::{
    ChangeError, OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError,
    Unavailable, UnavailableReason, Verification, VerifyOtpError,
};
use super::records::{self, NumberInfo, Profile};
use super::slot::{ReplyTo, Slot};
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
    /// The number has final answers for messages.
    Settled(Vec<(RequestId, Settled)>),
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
    core: Core,
    /// The workspace's own record, for changes of it.
    profile: Profile,
    /// Connected numbers, oldest first; messages leave through the first.
    numbers: Vec<NumberInfo>,
    /// The sequence of the next entry of the event log.
    log_next: u64,
    subscriber: Subscriber,
    gate: Gate,
    /// Emptied after each command; kept for its memory.
    effects: Effects,
    /// The key of the balance's record.
    credits_key: Vec<u8>,
}

/// The commit of something that is already part of the state failed, so the state must go.
#[derive(Debug, thiserror::Error)]
#[error("the workspace's state is ahead of what is durable: {0}")]
struct StateLost(#[from] CommitError);

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
        *state = Some(Box::new(Loaded::new(loaded, subscriber, &self.slot.id)));
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
            log_next,
            subscriber,
            gate: Gate::default(),
            effects: Effects::default(),
            credits_key: records::credits_key(id),
        }
    }

    /// Has the effects made durable, then lets `held` and the messages out.
    fn finish(&mut self, held: Option<Held>) -> Result<(), StateLost> {
        if self.effects.is_empty() {
            if let Some(held) = held {
                self.gate.pass(held);
            }
            return Ok(());
        }
        let group = self.submit(&[])?;
        match held {
            Some(held) => self.gate.hold(group, held),
            None => self.gate.expect(group),
        }
        self.gate.hold_outbound(group, self.effects.outbound.drain(..));
        self.effects.clear();
        Ok(())
    }

    /// Puts the effects and `more` into the open group.
    fn submit(&mut self, more: &[ChangeRef<'_>]) -> Result<Group, StateLost> {
        let balance = self.effects.credits.map(u64::to_be_bytes);
        let balance = balance.as_ref().map(|balance| ChangeRef {
            table: Table::Workspaces,
            key: &self.credits_key,
            value: Some(balance),
        });
        // At most one change on the hot path: no allocation for it.
        let (one, many);
        let changes: &[ChangeRef<'_>] = match (&balance, more) {
            (None, more) => more,
            (Some(balance), []) => {
                one = [*balance];
                &one
            }
            (Some(balance), more) => {
                many = [&[*balance], more].concat();
                &many
            }
        };
        let batch = Batch {
            events: &self.effects.events,
            log: &self.effects.log,
            log_first: self.log_next,
            log_count: self.effects.log_count,
            changes,
        };
        let group = self.subscriber.submit(batch)?;
        self.log_next += u64::from(self.effects.log_count);
        Ok(group)
    }

    fn settings(&self) -> WorkspaceSettings {
        WorkspaceSettings {
            credits: self.core.credits,
            limits: self.core.rules.limits,
            numbers: self.numbers.clone(),
            otps: self.core.hot.otps.len(),
        }
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
                let down = self.channel_down(core);
                Held::Send(reply, core.send_otp(command, id, down, effects))
            }
            WorkspaceMessage::VerifyOtp(id, code, reply) => {
                Held::Verify(reply, core.verify_otp(id, &code, effects))
            }
            WorkspaceMessage::ResendOtp(id, reply) => {
                let message = MessageId::from_parts(core.hot.now(), random::unique());
                let down = self.channel_down(core);
                Held::Resend(reply, core.resend_otp(id, message, down, effects))
            }
            WorkspaceMessage::ReadOtp(id, reply) => Held::Read(reply, core.otp(id)),
            WorkspaceMessage::Configure(configure, reply) => {
                return self.configure(configure, reply, state);
            }
            WorkspaceMessage::Settled(settled) => {
                for (id, settled) in settled {
                    core.settle(id, settled, effects);
                }
                return state.finish(None);
            }
            WorkspaceMessage::Committed(group, result) => {
                result?;
                self.shared.numbers.dispatch(Handover::First, state.gate.open(group));
                return Ok(());
            }
            WorkspaceMessage::Tick => {
                self.tick(state)?;
                self.passivate(myself, state);
                return Ok(());
            }
            WorkspaceMessage::Barrier(done) => {
                self.tick(state)?;
                state.gate.pass(Held::Barrier(done));
                return Ok(());
            }
            WorkspaceMessage::Redispatch => {
                let mut unsent = core.unsent();
                // Those at the gate are not durable yet, and go out when they are.
                state.gate.retain_absent(&mut unsent);
                self.shared.numbers.dispatch(Handover::Again, unsent);
                return Ok(());
            }
        };
        state.finish(Some(held))
    }

    /// How long the number is left alone, because it has been failing.
    fn channel_down(&self, core: &Core) -> Option<Duration> {
        self.shared.numbers.down_for(core.number?)
    }

    fn tick(&self, state: &mut Loaded) -> Result<(), StateLost> {
        loop {
            let more = state.core.tick(&mut state.effects);
            state.finish(None)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Stops the actor when it holds nothing that a new one would not read from the store.
    fn passivate(&self, myself: &ActorRef<WorkspaceMessage>, state: &Loaded) {
        if state.core.hot.is_empty() && state.gate.is_clear() && self.slot.passivate() {
            myself.stop(None);
        }
    }

    /// Changes what the workspace is set to, in its records and in the rules.
    fn configure(
        &self,
        configure: Configure,
        reply: ReplyTo<WorkspaceSettings, ChangeError>,
        state: &mut Loaded,
    ) -> Result<(), StateLost> {
        let id = &self.slot.id;
        let change = match configure {
            Configure::Read => None,
            Configure::Limits(limits) => {
                state.profile.limits = state.profile.limits.with(limits);
                state.core.rules.limits = self.shared.limits.with(state.profile.limits);
                Some((records::profile_key(id), Some(records::encode(&state.profile))))
            }
            Configure::Credits(change) => {
                let changed = state.core.change_credits(change, &mut state.effects);
                if let Err(error) = changed {
                    reply.send(Err(error));
                    return Ok(());
                }
                None
            }
            Configure::Connect(number) => {
                let record = records::encode(&number);
                let key = records::number_key(id, number.id);
                state.numbers.push(number);
                Some((key, Some(record)))
            }
            Configure::Disconnect(number) => {
                let Some(place) = state.numbers.iter().position(|known| known.id == number) else {
                    reply.send(Err(ChangeError::NoSuchNumber));
                    return Ok(());
                };
                state.numbers.remove(place);
                Some((records::number_key(id, number), None))
            }
        };
        state.core.number = state.numbers.first().map(|number| number.id);
        let held = Held::Change(reply, Ok(state.settings()));
        let Some((key, value)) = change else { return state.finish(Some(held)) };
        let change = ChangeRef { table: Table::Workspaces, key: &key, value: value.as_deref() };
        let group = state.submit(&[change])?;
        state.gate.hold(group, held);
        state.effects.clear();
        Ok(())
    }
}
