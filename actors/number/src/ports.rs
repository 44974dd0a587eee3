//! Pure: the port through which numbers report, and what passes through it.

use std::sync::{Arc, OnceLock};

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::{
    BroadcastId, MessageId, NumberId, PartyId, PartyNames, Phone, Timestamp, WorkspaceId,
};

/// Receives the numbers' reports. The implementer, above this crate, makes outcomes durable.
///
/// No method blocks or waits.
pub trait OutcomeSink: Send + Sync + 'static {
    /// The channel has given the final outcomes of these messages of a workspace. The receiver must
    /// call [`Numbers::ack`](crate::Numbers::ack) with the ticket once they are durable. Until then
    /// the number reports them again to a workspace that restarts.
    fn settled(&self, workspace: &WorkspaceId, answers: Outcomes);

    /// A number asks to claim messages of a workspace, or releases some. The receiver must answer a
    /// request by [`Numbers::grant`](crate::Numbers::grant) once the claim is durable.
    fn claims(&self, workspace: &WorkspaceId, claims: Claims);

    /// An event of a number of a workspace, which must be recorded.
    fn notice(&self, workspace: &WorkspaceId, number: NumberId, notice: NumberNotice);

    /// A number returns messages of broadcasts, by broadcast and recipient. The channel certainly
    /// did not accept them.
    fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>);

    /// A number that is down returns messages of a workspace for another number to send. The
    /// channel certainly did not accept them, and they are not claimed.
    fn handed_back(&self, workspace: &WorkspaceId, messages: Vec<Outbound>);

    /// A number's account cannot send: its broadcasts must pause.
    fn stopped(&self, number: NumberId, failure: &Failure);

    /// A number restarted and has lost its queue. The unsent messages of its workspace must be
    /// dispatched again, or those of every workspace if its own is unknown.
    fn queue_lost(&self, workspace: Option<&WorkspaceId>, number: NumberId);
}

/// Holds the receiver of numbers' reports. It is created before the receiver exists; until then
/// numbers report nothing, and none runs.
#[derive(Default)]
pub(crate) struct OutcomeReporter {
    sink: OnceLock<Arc<dyn OutcomeSink>>,
}

impl OutcomeReporter {
    /// Connects the receiver; only the first call counts.
    pub(crate) fn wire(&self, sink: Arc<dyn OutcomeSink>) {
        drop(self.sink.set(sink));
    }

    /// Returns the receiver, if it is wired.
    pub(crate) fn sink(&self) -> Option<&dyn OutcomeSink> {
        self.sink.get().map(AsRef::as_ref)
    }

    /// Returns messages of broadcasts, by broadcast and recipient, to the receiver. The channel
    /// certainly did not accept them.
    pub(crate) fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>) {
        if let (Some(sink), false) = (self.sink(), messages.is_empty()) {
            sink.withdrawn(messages);
        }
    }
}

/// The final outcomes of messages.
#[derive(Debug)]
pub struct Outcomes {
    /// The number that had the messages.
    pub number: NumberId,
    /// The origin of each message, and its final outcome.
    pub settled: Vec<(Origin, FinalOutcome)>,
    /// The ticket under which the number must receive the acknowledgement; `None` if it needs none.
    pub ack_to: Option<u64>,
}

/// A number's claims to single messages of its workspace: none is sent before its claim is durable.
#[derive(Debug)]
pub struct Claims {
    /// The number that claims.
    pub number: NumberId,
    /// Messages whose claims end: the channel certainly did not accept them.
    pub released: Vec<MessageId>,
    /// The request for new claims, if there is one: its ticket, and the messages.
    pub asked: Option<(u64, Vec<MessageId>)>,
}

/// The answer to a request of [`Claims`], once it is durable.
#[derive(Debug)]
pub struct Granted {
    /// The ticket of the request.
    pub ticket: u64,
    /// The requested messages that may be sent. The others are settled, or wait with the workspace,
    /// which dispatches them again.
    pub messages: Vec<MessageId>,
}

/// An event of a number. The workspace must record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberNotice {
    /// Its account cannot send: its queue waits.
    Stopped(Failure),
    /// It sends again, after [`Stopped`](Self::Stopped).
    Recovered,
    /// Several recipients in a row were refused with this unknown code.
    Unrecognized(Failure),
    /// The channel's outcomes have revealed this about recipients.
    Recipients(Vec<Recipient>),
}

impl NumberNotice {
    /// Returns the notice's name, for the log: it has neither phones nor the provider's words.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stopped(_) => "stopped",
            Self::Recovered => "recovered",
            Self::Unrecognized(_) => "unrecognized code",
            Self::Recipients(_) => "recipients",
        }
    }
}

/// A fact about the recipient of a message, from its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// The provider knows the recipient by another phone number or by its own id.
    KnownAs {
        /// The recipient of the message.
        to: PartyId,
        /// The other names by which the provider knows the recipient.
        known_as: PartyNames,
        /// The time at which the message was accepted from the caller.
        at: Timestamp,
    },
    /// The recipient has opted out of marketing.
    StoppedMarketing(Phone),
}
