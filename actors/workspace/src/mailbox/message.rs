//! What a workspace's actor is asked, and what each message must have done.

use std::sync::Arc;

use postrider_channel::Outbound;
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::TemplateName;
use postrider_domain::{DestinationsChange, LimitsOverride, NumberId, RequestId};
use postrider_number::record::NumberRecord;
use postrider_number::{Claims, Outcomes};
use postrider_store::{CommitError, GroupNumber};
use tokio::sync::oneshot;

use crate::core::audit::AuditDraft;
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use crate::core::settings::{ChangeError, CreditsChange, WorkspaceSettings};
use crate::mailbox::command_batch::CommandBatch;
use crate::mailbox::errand::Errand;
use crate::mailbox::slot::ReplyTo;
use crate::sweep::SweepStep;

/// What a workspace's actor is sent. Each command is answered exactly once, after everything that
/// the answer depends on is durable; a dropped reply means that the outcome is unknown.
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
    /// Must read a request. Replies when what it shows is durable.
    ReadOtp(RequestId, ReplyTo<OtpState, ReadOtpError>),
    /// Must change the settings and record that. Replies when both are durable.
    Configure(Configure, Option<Box<AuditDraft>>, ReplyTo<WorkspaceSettings, ChangeError>),
    /// Carry out a command beside the hot path.
    Perform(Box<dyn Errand>),
    /// The number has final answers for messages.
    Settled(Outcomes),
    /// The number is about to hand messages over, or has put some back.
    Claims(Claims),
    /// The writer has settled a group that this workspace had something in.
    Committed(GroupNumber, Result<(), CommitError>),
    /// Time has passed.
    Tick,
    /// Answered when time's work and all that came before is durable.
    Barrier(oneshot::Sender<()>),
    /// This actor has just been loaded, or a number has lost its queue: hand over again what is not
    /// answered for.
    Redispatch,
    /// A number that is down has returned these messages, or has never had them because its
    /// portfolio had no room: another one is to send them.
    HandedBack(Vec<Outbound>),
    /// Unsent messages were read from their records for that.
    Recovered(Vec<Outbound>),
    /// The sweep of what is kept for a time only has come a step further.
    Sweep(SweepStep),
}

impl WorkspaceMessage {
    /// Whether what came before it may be submitted with it: it sees what that changes, or reads no
    /// records, and is not followed.
    pub(crate) fn joins_submit(&mut self) -> bool {
        match self {
            Self::SendOtp(command, reply) => command.more.is_none() && reply.trace().is_none(),
            Self::VerifyOtp(.., reply) => reply.trace().is_none(),
            Self::Perform(errand) => errand.shares_submit(),
            _ => false,
        }
    }

    /// Whether what it wants done may be kept until the commands that came with it are carried out.
    pub(crate) fn can_be_kept(&mut self) -> bool {
        match self {
            Self::SendOtp(..) | Self::VerifyOtp(..) | Self::ResendOtp(..) => true,
            Self::Perform(errand) => errand.shares_submit(),
            _ => false,
        }
    }

    /// Whether somebody asks for a change, who can be refused while too much is waiting to be
    /// written. The rest must be written, or writes nothing.
    pub(crate) fn is_command(&self) -> bool {
        match self {
            Self::SendOtp(..) | Self::VerifyOtp(..) | Self::ResendOtp(..) => true,
            Self::Perform(errand) => !errand.ends(),
            Self::Configure(configure, ..) => !matches!(configure, Configure::Read),
            _ => false,
        }
    }
}

/// Asks for, or changes, what a workspace is set to.
#[derive(Debug)]
pub enum Configure {
    /// Nothing: it only notifies.
    Read,
    /// Calls it so.
    Name(String),
    /// Lays these limits over the workspace's own.
    Limits(LimitsOverride),
    /// Sets the template that carries one-time passwords.
    OtpTemplate(TemplateName),
    /// Sets where one-time passwords may go.
    Destinations(DestinationsChange),
    /// Sets over which channels codes arrive.
    OtpChannels(Vec<ChainStep>),
    /// Sets what codes are written in over SMS and mail.
    OtpTexts(OtpTexts),
    /// Changes the balance.
    Credits(CreditsChange),
    /// Connects a number.
    Connect(Box<NumberRecord>),
    /// Puts a changed number in the place of the one of its id.
    Replace(Box<NumberRecord>),
    /// Disconnects a number.
    Disconnect(NumberId),
}
