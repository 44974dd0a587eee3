//! The messages that a number's actor receives.

use postrider_channel::{AttemptOutcome, Failure, Outbound};
use postrider_domain::{BroadcastId, RequestId};
use postrider_runtime::clock::Stopwatch;
use tokio::sync::oneshot;

use crate::directory_entry::Reservation;
use crate::figures::NumberFigures;
use crate::ports::Granted;
use crate::queue::SendAttempt;

/// A message that is dispatched to its number.
#[derive(Debug)]
pub struct HandedOver {
    /// The message, which must be durable.
    pub message: Outbound,
    /// The capacity reserved for it. A message has one if it was claimed when it was accepted,
    /// because its number could send it at once.
    pub place: Option<Reservation>,
}

impl From<Outbound> for HandedOver {
    fn from(message: Outbound) -> Self {
        Self { message, place: None }
    }
}

/// The kinds of a number's waiting messages that other numbers can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The codes.
    pub codes: bool,
    /// The messages made of templates.
    pub templates: bool,
}

/// A message to a number's actor.
#[derive(Debug)]
pub enum NumberMessage {
    /// The actor must queue and send these messages. It must report one final outcome for each
    /// through [`OutcomeSink::settled`](crate::OutcomeSink::settled), or return a broadcast's
    /// message through [`OutcomeSink::withdrawn`](crate::OutcomeSink::withdrawn). An actor that
    /// dies does neither: the recovery of its queue dispatches them again.
    Dispatch(Vec<HandedOver>),
    /// The actor must ignore messages whose origin it has already, and queue and send the others.
    /// The workspace restarted, so the actor must also report its unacknowledged outcomes again.
    Recover(Vec<Outbound>),
    /// The workspace restarted and these messages are claimed. The actor must report
    /// [`FinalOutcome::Unknown`](postrider_channel::outcome::FinalOutcome::Unknown) for messages
    /// that it does not have: a predecessor may have sent them, or its report was lost. It must
    /// release the claims of messages that only wait, and report its unacknowledged outcomes again.
    ReportUnknown(Vec<Outbound>),
    /// The workspace has made the outcomes of this ticket durable. The actor must drop them.
    /// Nothing answers it.
    Acked(u64),
    /// The workspace has made a claim durable. The actor must send the granted messages and drop
    /// the other requested ones, which are settled. The outcomes of the sent messages answer it.
    Granted(Granted),
    /// The actor sends this to itself: a call of the channel that took time has returned. The
    /// actor must handle the outcome; the stopwatch was started with the call.
    Done(Box<SendAttempt>, Stopwatch, AttemptOutcome),
    /// The actor's timer sends this: the wait of this generation has ended. The actor must send the
    /// messages that are due; an older generation changes nothing.
    Wake(u64),
    /// The provider has reported that the account cannot send. The actor must stop sending, keep
    /// its queue, and report the failure through
    /// [`OutcomeSink::stopped`](crate::OutcomeSink::stopped).
    Fault(Failure),
    /// The channel or the rate of the number may have changed. The actor must read its connection
    /// again, and try a new one at once.
    Reconnected,
    /// The broadcast has paused or ended. The actor must return those of its messages that the
    /// channel does not have; [`OutcomeSink::withdrawn`](crate::OutcomeSink::withdrawn) answers it.
    Withdraw(BroadcastId),
    /// A caller asks for the number's figures. The actor must answer at once.
    Figures(oneshot::Sender<NumberFigures>),
    /// The number is down and others of its workspace are not. An actor whose breaker is open must
    /// return the wanted waiting messages;
    /// [`OutcomeSink::handed_back`](crate::OutcomeSink::handed_back) answers it.
    HandBack(Wanted),
    /// The request was cancelled. The actor must finish those of its messages that the channel does
    /// not have, as [`FinalOutcome::NotSentInTime`](postrider_channel::outcome::FinalOutcome).
    WithdrawCode(RequestId),
    /// The engine's beat: the number has been idle for long. If it still is, the actor must
    /// passivate itself, and pass on the messages in its mailbox.
    Rest,
    /// A passivated actor sends this to itself behind all messages in its mailbox. It must stop.
    Rested,
    /// The engine is no longer held. The actor must send the waiting messages.
    Released,
    /// The number was disconnected. The actor must fail every message that is not with the channel
    /// (broadcast messages are returned instead), wait for the others' outcomes, and stop.
    Close,
    /// The engine is stopping. The actor must start no further call, answer once no message is with
    /// the channel, and stop.
    Drain(oneshot::Sender<()>),
}
