//! The messages of a workspace's actor, and commands in a box on their way to it and back.

use std::sync::Arc;

use postrider_channel::Outbound;
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::TemplateName;
use postrider_domain::{DestinationsChange, LimitsOverride, NumberId, RequestId, Unavailable};
use postrider_number::record::NumberRecord;
use postrider_number::{Claims, Outcomes};
use postrider_store::{CommitError, GroupNumber};
use tokio::sync::oneshot;

use crate::core::command::{AuditDraft, Command, Context, Footprint};
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use crate::core::quota;
use crate::core::settings::{ChangeError, CreditsChange, WorkspaceSettings};
use crate::mailbox::command_batch::CommandBatch;
use crate::mailbox::slot::{CommandTrace, ReplyTo};
use crate::sweep::SweepStep;

/// A message to a workspace's actor.
///
/// Each command is answered exactly once, after everything that the answer depends on is durable. A
/// dropped reply means that the outcome is unknown.
#[derive(Debug)]
pub enum WorkspaceMessage {
    /// Commands, each as if it were a message of its own.
    Commands(Arc<CommandBatch<WorkspaceMessage>>),
    /// Must send a one-time password. Replies when that is durable.
    SendOtp(SendOtp, ReplyTo<OtpSent, SendOtpError>),
    /// Must compare a code. Replies when the attempt is durable.
    VerifyOtp(RequestId, Box<str>, ReplyTo<Verification, VerifyOtpError>),
    /// Must send a request's code again. Replies when that is durable.
    ResendOtp(RequestId, Option<OtpChannel>, ReplyTo<OtpSent, ResendOtpError>),
    /// Must read a request. Replies when the state that it shows is durable.
    ReadOtp(RequestId, ReplyTo<OtpState, ReadOtpError>),
    /// Must change the settings and record that. Replies when both are durable.
    Configure(Configure, Option<Box<AuditDraft>>, ReplyTo<WorkspaceSettings, ChangeError>),
    /// Must carry out a command beside the hot path.
    Perform(Box<dyn Errand>),
    /// The number has final answers for messages.
    Settled(Outcomes),
    /// The number is about to hand messages over, or has put some back.
    Claims(Claims),
    /// The writer has settled a group with changes of this workspace.
    Committed(GroupNumber, Result<(), CommitError>),
    /// Time has passed.
    Tick,
    /// Answered when the due work and everything before it is durable.
    Barrier(oneshot::Sender<()>),
    /// Must dispatch the messages without an outcome again.
    ///
    /// The actor has just been loaded, or a number has lost its queue.
    Redispatch,
    /// Another number must send these messages.
    ///
    /// A number that is down has returned them, or never had them because its portfolio had no
    /// room.
    HandedBack(Vec<Outbound>),
    /// The unsent messages that were read for a redispatch.
    Recovered(Vec<Outbound>),
    /// The sweep of records with a limited retention has moved one step further.
    Sweep(SweepStep),
}

impl WorkspaceMessage {
    /// Returns whether the effects of earlier messages may be submitted with this one.
    ///
    /// It must see their changes, or read no records, and it must not be traced.
    pub(crate) fn joins_submit(&mut self) -> bool {
        match self {
            Self::SendOtp(command, reply) => command.more.is_none() && reply.trace().is_none(),
            Self::VerifyOtp(.., reply) => reply.trace().is_none(),
            Self::Perform(errand) => errand.shares_submit(),
            _ => false,
        }
    }

    /// Returns whether its effects may be kept until the commands that arrived with it are carried
    /// out.
    pub(crate) fn can_be_kept(&mut self) -> bool {
        match self {
            Self::SendOtp(..) | Self::VerifyOtp(..) | Self::ResendOtp(..) => true,
            Self::Perform(errand) => errand.shares_submit(),
            _ => false,
        }
    }

    /// Returns whether it is a change that can be refused while too much waits to be written.
    ///
    /// The other messages must be written, or write nothing.
    pub(crate) fn is_command(&self) -> bool {
        match self {
            Self::SendOtp(..) | Self::VerifyOtp(..) | Self::ResendOtp(..) => true,
            Self::Perform(errand) => !errand.ends(),
            Self::Configure(configure, ..) => !matches!(configure, Configure::Read),
            _ => false,
        }
    }
}

/// Reads or changes the settings of a workspace.
#[derive(Debug)]
pub enum Configure {
    /// Changes nothing and returns the settings.
    Read,
    /// Sets the name.
    Name(String),
    /// Sets the limits that override the workspace's own.
    Limits(LimitsOverride),
    /// Sets the template that carries one-time passwords.
    OtpTemplate(TemplateName),
    /// Sets the allowed destinations of one-time passwords.
    Destinations(DestinationsChange),
    /// Sets the channels over which codes arrive.
    OtpChannels(Vec<ChainStep>),
    /// Sets the texts of codes over SMS and mail.
    OtpTexts(OtpTexts),
    /// Changes the balance.
    Credits(CreditsChange),
    /// Connects a number.
    Connect(Box<NumberRecord>),
    /// Replaces the number with the same id.
    Replace(Box<NumberRecord>),
    /// Disconnects a number.
    Disconnect(NumberId),
}

/// A command on its way to the actor, with the way back.
pub trait Errand: Send {
    /// Carries the command out.
    fn run(self: Box<Self>, context: &mut Context<'_>) -> Box<dyn Answering>;
    /// Returns whether the command is accepted even while too much waits to be written.
    fn ends(&self) -> bool;
    /// Returns whether its effects may be submitted with those of commands that arrive with it.
    ///
    /// A traced or audited command is submitted alone.
    fn shares_submit(&mut self) -> bool;
    /// Refuses the command.
    fn refuse(self: Box<Self>, why: Unavailable);
}

/// An answer at the gate.
pub trait Answering: Send {
    /// Sends the answer.
    fn release(self: Box<Self>);
    /// Answers that the outcome is unknown.
    fn fail(self: Box<Self>, why: Unavailable);
    /// Returns the trace of the command, if it is traced.
    fn trace(&mut self) -> Option<&mut CommandTrace>;
}

/// A command and the recipient of its answer.
pub(crate) struct BoxedCommand<C: Command> {
    pub(crate) command: C,
    /// The audit entry to record if the command succeeds.
    pub(crate) audit: Option<Box<AuditDraft>>,
    pub(crate) reply: ReplyTo<C::Answer, C::Error>,
}

struct HeldAnswer<T, E> {
    reply: ReplyTo<T, E>,
    answer: Result<T, E>,
}

impl std::fmt::Debug for dyn Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errand")
    }
}

impl<C: Command> Errand for BoxedCommand<C> {
    fn run(self: Box<Self>, context: &mut Context<'_>) -> Box<dyn Answering> {
        let Self { command, audit, reply } = *self;
        let room = if C::IS_HELD_TO_QUOTA { quota::check_bytes(context) } else { Ok(()) };
        let answer = room.map_err(C::Error::from).and_then(|()| command.carry_out(context));
        if let Some(audit) = audit.filter(|_| answer.is_ok()) {
            let now = context.now();
            audit.add_to(context.effects, now);
        }
        Box::new(HeldAnswer { reply, answer })
    }

    fn ends(&self) -> bool {
        C::FOOTPRINT == Footprint::Ends
    }

    fn shares_submit(&mut self) -> bool {
        C::SHARES_SUBMIT && self.audit.is_none() && self.reply.trace().is_none()
    }

    fn refuse(self: Box<Self>, why: Unavailable) {
        self.reply.send(Err(why.into()));
    }
}

impl<T: Send, E: From<Unavailable> + Send> Answering for HeldAnswer<T, E> {
    fn release(self: Box<Self>) {
        self.reply.send(self.answer);
    }

    fn fail(self: Box<Self>, why: Unavailable) {
        self.reply.send(Err(why.into()));
    }

    fn trace(&mut self) -> Option<&mut CommandTrace> {
        self.reply.trace()
    }
}
