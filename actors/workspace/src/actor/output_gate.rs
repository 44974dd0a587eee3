//! The gate: answers and messages wait here until what they depend on is durable.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use postrider_channel::Outbound;
use postrider_domain::{MessageId, NumberId};
use postrider_number::capacity::HandedOver;
use postrider_number::{Granted, Numbers};
use postrider_store::GroupNumber;

use crate::core::message_status::MessageStatus;
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtpError, Verification, VerifyOtpError,
};
use crate::core::settings::ChangeError;
use crate::core::settings::WorkspaceSettings;
use crate::core::waiters::OutcomeWaiter;
use crate::mailbox::errand::Answering;
use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::slot::ReplyTo;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// An answer that is not given yet, and where it goes.
pub(crate) enum PendingReply {
    Send(ReplyTo<OtpSent, SendOtpError>, Result<OtpSent, SendOtpError>),
    Verify(ReplyTo<Verification, VerifyOtpError>, Result<Verification, VerifyOtpError>),
    Resend(ReplyTo<OtpSent, ResendOtpError>, Result<OtpSent, ResendOtpError>),
    Read(ReplyTo<OtpState, ReadOtpError>, Result<OtpState, ReadOtpError>),
    Change(ReplyTo<WorkspaceSettings, ChangeError>, Result<Box<WorkspaceSettings>, ChangeError>),
    /// That of a command beside the hot path.
    Answer(Box<dyn Answering>),
    /// Somebody waited for what became of a message.
    Settled(Box<dyn OutcomeWaiter>, MessageStatus),
    /// A number is to send no more.
    Disconnect(Arc<Numbers>, NumberId),
    /// The outcomes that a number reported under this ticket must be acknowledged.
    Ack(Arc<Numbers>, NumberId, u64),
    /// A number may hand these over.
    Claimed(Arc<Numbers>, NumberId, Granted),
    /// Somebody waits for everything before this to be durable.
    Barrier(tokio::sync::oneshot::Sender<()>),
}

impl PendingReply {
    fn release(self) {
        match self {
            Self::Send(reply, answer) => reply.send(answer),
            Self::Verify(reply, answer) => reply.send(answer),
            Self::Resend(reply, answer) => reply.send(answer),
            Self::Read(reply, answer) => reply.send(answer),
            Self::Change(reply, answer) => reply.send(answer.map(|settings| *settings)),
            Self::Answer(answer) => answer.release(),
            Self::Settled(waiter, status) => waiter.resolve(status),
            Self::Disconnect(numbers, number) => numbers.close(number),
            Self::Ack(numbers, number, ticket) => numbers.ack(number, ticket),
            Self::Claimed(numbers, number, granted) => numbers.grant(number, granted),
            // Nothing is sent if the caller has gone away.
            Self::Barrier(done) => {
                done.send(()).ok();
            }
        }
    }

    /// Says that the outcome is unknown.
    pub(crate) fn fail(self) {
        let why = Unavailable::because(UnavailableReason::Storage);
        match self {
            Self::Send(reply, _) => reply.send(Err(why.into())),
            Self::Verify(reply, _) => reply.send(Err(why.into())),
            Self::Resend(reply, _) => {
                reply.send(Err(ResendOtpError::Refused(SendOtpError::Unavailable(why))));
            }
            Self::Read(reply, _) => reply.send(Err(why.into())),
            Self::Change(reply, _) => reply.send(Err(why.into())),
            Self::Answer(answer) => answer.fail(why),
            // Dropping it tells that it did not come to be; the number goes on, and asks again.
            Self::Barrier(_)
            | Self::Disconnect(..)
            | Self::Ack(..)
            | Self::Claimed(..)
            | Self::Settled(..) => {}
        }
    }
}

/// What waits, in the order in which it came; groups never go down along it.
#[derive(Default)]
pub(crate) struct Gate {
    held: VecDeque<(GroupNumber, PendingReply)>,
    outbound: VecDeque<(GroupNumber, HandedOver)>,
    /// The last group that something was put into.
    submitted: GroupNumber,
    /// All groups up to this one are durable.
    durable: GroupNumber,
}

impl Gate {
    /// Whether nothing waits.
    pub(crate) fn is_clear(&self) -> bool {
        self.submitted <= self.durable
    }

    /// The last group that something was put into, if it is not known to be durable.
    pub(crate) fn last(&self) -> Option<GroupNumber> {
        (!self.is_clear()).then_some(self.submitted)
    }

    /// Holds an answer until `group`, and everything before it, is durable.
    pub(crate) fn hold(&mut self, group: GroupNumber, held: PendingReply) {
        self.submitted = self.submitted.max(group);
        self.held.push_back((group, held));
    }

    /// Holds messages until `group` is durable.
    pub(crate) fn hold_outbound(
        &mut self,
        group: GroupNumber,
        messages: impl Iterator<Item = HandedOver>,
    ) {
        self.submitted = self.submitted.max(group);
        self.outbound.extend(messages.map(|message| (group, message)));
    }

    /// Notes that something without an answer was put into `group`.
    pub(crate) fn expect(&mut self, group: GroupNumber) {
        self.submitted = self.submitted.max(group);
    }

    /// Gives an answer that changed nothing. What it tells may be the work of a command that is
    /// not durable yet, so it waits for all of those.
    pub(crate) fn pass(&mut self, held: PendingReply) {
        if self.is_clear() {
            held.release();
        } else {
            self.held.push_back((self.submitted, held));
        }
    }

    /// Takes out the messages that `group` made durable. They go before its answers: who hears that
    /// a message was accepted and stops the engine then finds it with its number.
    pub(crate) fn due(&mut self, group: GroupNumber) -> Vec<HandedOver> {
        let due = self.outbound.partition_point(|(of, _)| *of <= group);
        self.outbound.drain(..due).map(|(_, message)| message).collect()
    }

    /// Opens for what `group` made durable: answers go out.
    pub(crate) fn open(&mut self, group: GroupNumber) {
        self.durable = self.durable.max(group);
        while let Some((_, held)) = self.held.pop_front_if(|(of, _)| *of <= group) {
            held.release();
        }
    }

    /// Leaves of `messages` those of requests that have none waiting here.
    pub(crate) fn retain_absent(&self, messages: &mut Vec<Outbound>) {
        if self.outbound.is_empty() || messages.is_empty() {
            return;
        }
        let here: HashSet<_> = self.outbound.iter().map(|(_, here)| here.message.origin).collect();
        messages.retain(|message| !here.contains(&message.origin));
    }

    /// Those of `ids` that do not wait here.
    pub(crate) fn absent(&self, ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
        let here: HashSet<_> =
            self.outbound.iter().map(|(_, here)| here.message.message_id).collect();
        ids.filter(|id| !here.contains(id)).collect()
    }

    /// A commit failed: whatever waits is answered that its outcome is unknown.
    pub(crate) fn fail(&mut self) {
        self.outbound.clear();
        for (_, held) in self.held.drain(..) {
            held.fail();
        }
    }
}

/// A message that was refused before it reached the state.
pub(crate) fn refuse(message: WorkspaceMessage, why: Unavailable) {
    match message {
        WorkspaceMessage::SendOtp(_, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::VerifyOtp(_, _, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::ResendOtp(_, reply) => {
            reply.send(Err(ResendOtpError::Refused(SendOtpError::Unavailable(why))));
        }
        WorkspaceMessage::ReadOtp(_, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::Configure(_, _, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::Perform(errand) => errand.refuse(why),
        WorkspaceMessage::Settled(_)
        | WorkspaceMessage::Claims(_)
        | WorkspaceMessage::Committed(..)
        | WorkspaceMessage::Tick
        | WorkspaceMessage::Barrier(_)
        | WorkspaceMessage::Redispatch
        | WorkspaceMessage::Recovered(_)
        | WorkspaceMessage::Sweep(_) => {}
    }
}
