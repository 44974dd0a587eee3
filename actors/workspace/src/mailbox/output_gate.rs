//! The gate: answers and messages wait here until the state that they depend on is durable.
//!
//! One task of the engine opens the gates of all workspaces. When a group is durable, it sends the
//! answers that waited for it. They do not wait behind the commands in their actor's mailbox. The
//! actor is notified of the group afterwards.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hashbrown::HashSet;
use parking_lot::Mutex;
use postrider_channel::Outbound;
use postrider_channel::number_facts::NumberFacts;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{MessageId, NumberId, RequestId};
use postrider_number::{Granted, HandedOver, Numbers};
use postrider_store::{CommitError, GroupNumber};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::core::message_status::{OutcomeWaiter, SettledOutcome};
use crate::core::otp::failover_plan::StepCall;
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtpError, Verification, VerifyOtpError,
};
use crate::core::settings::{ChangeError, WorkspaceSettings};
use crate::mailbox::message::{Answering, WorkspaceMessage};
use crate::mailbox::slot::{CommandTrace, ReplyTo};

/// Starts to carry out a step.
pub(crate) type Carry = Arc<dyn Fn(StepCall) + Send + Sync>;

/// An answer that has not been sent yet, and its recipient.
pub(crate) enum PendingReply {
    Send(ReplyTo<OtpSent, SendOtpError>, Result<OtpSent, SendOtpError>),
    Verify(ReplyTo<Verification, VerifyOtpError>, Result<Verification, VerifyOtpError>),
    Resend(ReplyTo<OtpSent, ResendOtpError>, Result<OtpSent, ResendOtpError>),
    Read(ReplyTo<OtpState, ReadOtpError>, Result<OtpState, ReadOtpError>),
    Change(ReplyTo<WorkspaceSettings, ChangeError>, Result<Box<WorkspaceSettings>, ChangeError>),
    /// The answer of a command beside the hot path.
    Answer(Box<dyn Answering>),
    /// The outcome of a message, for a caller that waited for it.
    Settled(Box<dyn OutcomeWaiter>, SettledOutcome),
    /// A number must stop sending.
    Disconnect(Arc<Numbers>, NumberId),
    /// A number must not hand over the code of this request any more.
    WithdrawCode(Arc<Numbers>, NumberId, RequestId),
    /// A number must apply these facts.
    Facts(Arc<Numbers>, NumberId, NumberFacts),
    /// A step worker must carry out a step.
    Step(Carry, Box<StepCall>),
    /// The outcomes that a number reported under this ticket must be acknowledged.
    Ack(Arc<Numbers>, NumberId, u64),
    /// A number may hand these messages over.
    Claimed(Arc<Numbers>, NumberId, Granted),
    /// A caller waits for everything before this to be durable.
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
            Self::Settled(waiter, settled) => waiter.resolve(settled),
            Self::Disconnect(numbers, number) => numbers.close(number),
            Self::WithdrawCode(numbers, number, request) => {
                numbers.withdraw_code(number, request);
            }
            Self::Facts(numbers, number, facts) => numbers.learn(number, facts),
            Self::Step(carry, call) => carry(*call),
            Self::Ack(numbers, number, ticket) => numbers.ack(number, ticket),
            Self::Claimed(numbers, number, granted) => numbers.grant(number, granted),
            // Nothing is sent if the caller no longer waits.
            Self::Barrier(done) => {
                done.send(()).ok();
            }
        }
    }

    /// Returns the trace of the command that it answers, if it is traced.
    pub(crate) fn trace(&mut self) -> Option<&mut CommandTrace> {
        match self {
            Self::Send(reply, _) => reply.trace(),
            Self::Verify(reply, _) => reply.trace(),
            Self::Resend(reply, _) => reply.trace(),
            Self::Read(reply, _) => reply.trace(),
            Self::Change(reply, _) => reply.trace(),
            Self::Answer(answer) => answer.trace(),
            Self::Settled(..)
            | Self::Disconnect(..)
            | Self::WithdrawCode(..)
            | Self::Facts(..)
            | Self::Step(..)
            | Self::Ack(..)
            | Self::Claimed(..)
            | Self::Barrier(_) => None,
        }
    }

    /// Answers that the outcome is unknown.
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
            // Dropping it shows that nothing became durable; the number continues, and asks again.
            Self::Barrier(_)
            | Self::Disconnect(..)
            | Self::WithdrawCode(..)
            | Self::Facts(..)
            | Self::Step(..)
            | Self::Ack(..)
            | Self::Claimed(..)
            | Self::Settled(..) => {}
        }
    }
}

/// The waiting answers and messages in the order of arrival; groups never decrease along it.
#[derive(Default)]
pub(crate) struct HeldOutputs {
    replies: VecDeque<(GroupNumber, PendingReply)>,
    outbound: VecDeque<(GroupNumber, HandedOver)>,
    /// All groups up to this one are durable.
    durable: GroupNumber,
}

/// The waiting answers and messages, for the actor and for the task that opens the gate.
pub(crate) type SharedOutputs = Arc<Mutex<HeldOutputs>>;

impl HeldOutputs {
    /// Releases the outputs that `group` made durable.
    ///
    /// Messages precede answers: a caller that learns that a message was accepted and then stops
    /// the engine finds it with its number.
    pub(crate) fn open(&mut self, group: GroupNumber, dispatch: impl FnOnce(Vec<HandedOver>)) {
        self.durable = self.durable.max(group);
        let due = self.outbound.partition_point(|(of, _)| *of <= group);
        if due > 0 {
            dispatch(self.outbound.drain(..due).map(|(_, message)| message).collect());
        }
        while let Some((_, held)) = self.replies.pop_front_if(|(of, _)| *of <= group) {
            held.release();
        }
    }

    /// Holds an answer until `group`, and everything before it, is durable.
    fn hold(&mut self, group: GroupNumber, held: PendingReply) {
        if group <= self.durable {
            held.release();
        } else {
            self.replies.push_back((group, held));
        }
    }
}

/// The actor's side of the gate. When the actor ends, the waiting outputs are dropped with it.
#[derive(Default)]
pub(crate) struct OutputGate {
    held: SharedOutputs,
    /// The last group that changes were put into.
    submitted: GroupNumber,
    /// The last group that the actor knows to be durable. The gate may be further.
    committed: GroupNumber,
}

impl Drop for OutputGate {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        held.outbound.clear();
        held.replies.clear();
    }
}

impl OutputGate {
    /// Returns the gate of an actor whose commits open `held`.
    pub(crate) fn new(held: SharedOutputs) -> Self {
        Self { held, ..Self::default() }
    }

    /// Returns whether the actor was notified of everything that it submitted.
    pub(crate) const fn is_clear(&self) -> bool {
        self.submitted <= self.committed
    }

    /// Returns the last group with changes, if the actor was not notified of it.
    pub(crate) fn last(&self) -> Option<GroupNumber> {
        (!self.is_clear()).then_some(self.submitted)
    }

    /// Records that `group` is durable.
    pub(crate) fn committed(&mut self, group: GroupNumber) {
        self.committed = self.committed.max(group);
    }

    /// Holds messages and an answer until `group`, and everything before it, is durable.
    ///
    /// If it already is, `dispatch` receives the messages, and the answer follows them.
    pub(crate) fn hold(
        &mut self,
        group: GroupNumber,
        outbound: impl Iterator<Item = HandedOver>,
        replies: impl IntoIterator<Item = PendingReply>,
        dispatch: impl FnOnce(Vec<HandedOver>),
    ) {
        self.submitted = self.submitted.max(group);
        let mut held = self.held.lock();
        if group <= held.durable {
            let messages: Vec<_> = outbound.collect();
            if !messages.is_empty() {
                dispatch(messages);
            }
        } else {
            held.outbound.extend(outbound.map(|message| (group, message)));
        }
        for reply in replies {
            held.hold(group, reply);
        }
    }

    /// Sends an answer that changed nothing.
    ///
    /// It may report changes of commands that are not durable yet, so it waits for all of those.
    pub(crate) fn pass(&self, reply: PendingReply) {
        self.held.lock().hold(self.submitted, reply);
    }

    /// Removes the `messages` of requests that have one waiting here.
    pub(crate) fn retain_absent(&self, messages: &mut Vec<Outbound>) {
        let held = self.held.lock();
        if held.outbound.is_empty() || messages.is_empty() {
            return;
        }
        let here: HashSet<_> = held.outbound.iter().map(|(_, here)| here.message.origin).collect();
        messages.retain(|message| !here.contains(&message.origin));
    }

    /// Returns those of `ids` that do not wait here.
    pub(crate) fn absent(&self, ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
        let held = self.held.lock();
        let here: HashSet<_> =
            held.outbound.iter().map(|(_, here)| here.message.message_id).collect();
        ids.filter(|id| !here.contains(id)).collect()
    }

    /// Answers all waiting replies as unknown after a commit failed.
    pub(crate) fn fail(&self) {
        let mut held = self.held.lock();
        held.outbound.clear();
        for (_, reply) in held.replies.drain(..) {
            reply.fail();
        }
    }
}

/// Refuses a message before it has reached the state.
pub(crate) fn refuse(message: WorkspaceMessage, why: Unavailable) {
    match message {
        WorkspaceMessage::Commands(batch) => {
            batch.take().into_iter().for_each(|command| refuse(command, why.clone()));
        }
        WorkspaceMessage::SendOtp(_, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::VerifyOtp(_, _, reply) => reply.send(Err(why.into())),
        WorkspaceMessage::ResendOtp(_, _, reply) => {
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
        | WorkspaceMessage::HandedBack(_)
        | WorkspaceMessage::Recovered(_)
        | WorkspaceMessage::Sweep(_) => {}
    }
}

/// The maximum number of releases that are taken at once.
const TAKEN_MAX: usize = 64;

/// Notifies an actor of a group's result.
pub(crate) type NotifyActor = Arc<dyn Fn(GroupNumber, Result<(), CommitError>) + Send + Sync>;

/// The result of a group with changes of a workspace.
pub(crate) struct Release {
    pub(crate) held: SharedOutputs,
    pub(crate) notify: NotifyActor,
    pub(crate) group: GroupNumber,
    pub(crate) result: Result<(), CommitError>,
}

/// A handle of the task, which ends when the last handle is dropped.
///
/// Its queue is bounded by the writer's queue: one release for each workspace in a group.
#[derive(Debug, Clone)]
pub struct Releaser(UnboundedSender<Release>);

impl Releaser {
    /// Starts the task. The caller must be on the runtime.
    #[must_use]
    pub fn start(numbers: Arc<Numbers>) -> Self {
        let (sender, releases) = unbounded_channel();
        drop(tokio::spawn(open_gates(releases, numbers)));
        Self(sender)
    }

    /// Opens a gate, or notifies its actor of a failure. Does not block.
    pub(crate) fn release(&self, release: Release) {
        // The task ends after the last sender, or with the runtime, when no caller is left.
        drop(self.0.send(release));
    }
}

async fn open_gates(mut releases: UnboundedReceiver<Release>, numbers: Arc<Numbers>) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    while releases.recv_many(&mut taken, TAKEN_MAX).await > 0 {
        for Release { held, notify, group, result } in taken.drain(..) {
            if result.is_ok() {
                let open = || held.lock().open(group, |messages| numbers.dispatch(messages));
                // A panic in one workspace must not stop the answers of the others.
                if catch_unwind(AssertUnwindSafe(open)).is_err() {
                    tracing::error!("an answer panicked while it was given");
                }
            }
            // This follows the opening, so that a failure only fails the rest.
            notify(group, result);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::sync::oneshot::{Receiver, channel};

    use super::*;
    use postrider_channel::Content;
    use postrider_channel::Origin;
    use postrider_domain::RenderedContent;
    use postrider_domain::Timestamp;

    fn reply() -> (PendingReply, Receiver<()>) {
        let (sender, receiver) = channel();
        (PendingReply::Barrier(sender), receiver)
    }

    fn message() -> HandedOver {
        let (now, id) =
            (Timestamp::from_millis(0), MessageId::from_parts(Timestamp::from_millis(0), 1));
        let content = Content::Message(Arc::new(RenderedContent::Text("hello".parse().unwrap())));
        HandedOver::from(Outbound {
            message_id: id,
            origin: Origin::Message(id),
            number: NumberId::from_parts(now, 1),
            workspace: "acme".parse().unwrap(),
            to: "+15550100000".parse().unwrap(),
            give_up_at: now,
            content,
            answers: None,
            pinned: false,
        })
    }

    fn never(_: Vec<HandedOver>) {
        panic!("nothing is durable yet");
    }

    #[test]
    fn what_waits_goes_out_with_its_group_and_messages_go_first() {
        let held = SharedOutputs::default();
        let mut gate = OutputGate::new(Arc::clone(&held));
        let ((one, mut first), (two, mut second), (read, mut third)) = (reply(), reply(), reply());
        gate.hold(1, [message()].into_iter(), [one], never);
        gate.hold(2, std::iter::empty(), [two], never);
        gate.pass(read);
        assert_eq!((gate.is_clear(), gate.last()), (false, Some(2)));
        let seen = RefCell::new(0);
        held.lock().open(1, |messages| {
            assert_eq!(first.try_recv(), Err(TryRecvError::Empty), "the answer goes behind them");
            *seen.borrow_mut() += messages.len();
        });
        assert_eq!((seen.into_inner(), first.try_recv()), (1, Ok(())));
        assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(third.try_recv(), Err(TryRecvError::Empty), "a read may report the second");
        held.lock().open(2, never);
        assert_eq!((second.try_recv(), third.try_recv()), (Ok(()), Ok(())));
        assert!(!gate.is_clear(), "the actor was not notified yet");
        gate.committed(2);
        assert!(gate.is_clear());
    }

    #[test]
    fn what_comes_behind_its_commit_goes_out_at_once() {
        let held = SharedOutputs::default();
        let mut gate = OutputGate::new(Arc::clone(&held));
        held.lock().open(3, never);
        let ((one, mut first), (read, mut second)) = (reply(), reply());
        let mut sent = 0;
        gate.hold(3, [message()].into_iter(), [one], |messages| sent = messages.len());
        gate.pass(read);
        assert_eq!((sent, first.try_recv(), second.try_recv()), (1, Ok(()), Ok(())));
        assert!(!gate.is_clear(), "the actor hears of the group yet");
    }

    #[test]
    fn what_an_actor_leaves_behind_does_not_go_out() {
        let held = SharedOutputs::default();
        let mut gate = OutputGate::new(Arc::clone(&held));
        let (one, mut first) = reply();
        gate.hold(1, [message()].into_iter(), [one], never);
        drop(gate);
        held.lock().open(1, never);
        assert_eq!(first.try_recv(), Err(TryRecvError::Closed));
    }
}
