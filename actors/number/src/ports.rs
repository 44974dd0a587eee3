//! Pure: the port through which numbers report, and the messages to and from its receiver.

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::{BroadcastId, MessageId, NumberId, WorkspaceId};

use crate::notices::NumberNotice;

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
