//! Pure: the port through which numbers report, and what they exchange with its receiver.

use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound};
use postrider_domain::{BroadcastId, MessageId, NumberId, WorkspaceId};

use crate::notices::NumberNotice;

/// Takes what numbers find out. Implemented above, where outcomes are made durable.
///
/// No method blocks or waits.
pub trait OutcomeSink: Send + Sync + 'static {
    /// The channel has finally answered for these messages of a workspace. The receiver must call
    /// [`Numbers::ack`](crate::Numbers::ack) with the ticket once they are durable; until then
    /// the number keeps them and reports them again to a workspace that restarts.
    fn settled(&self, workspace: &WorkspaceId, answers: Outcomes);

    /// A number asks to claim messages of a workspace, or releases some. The receiver must answer a
    /// request by [`Numbers::grant`](crate::Numbers::grant) once the claim is durable.
    fn claims(&self, workspace: &WorkspaceId, claims: Claims);

    /// Something happened to a number of a workspace, which must be recorded.
    fn notice(&self, workspace: &WorkspaceId, number: NumberId, notice: NumberNotice);

    /// A number returns messages of broadcasts, by broadcast and recipient: the channel surely did
    /// not take them.
    fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>);

    /// A number that is down returns messages of a workspace, which the channel surely did not take
    /// and which are not claimed: another number may send them.
    fn handed_back(&self, workspace: &WorkspaceId, messages: Vec<Outbound>);

    /// A number's account cannot send: its broadcasts must pause.
    fn stopped(&self, number: NumberId, failure: &Failure);

    /// A number restarted and has lost its queue: whatever is unsent of its workspace must be
    /// dispatched again; of every workspace, where it is not known which that is.
    fn queue_lost(&self, workspace: Option<&WorkspaceId>, number: NumberId);
}

/// The final outcomes of messages.
#[derive(Debug)]
pub struct Outcomes {
    /// The number that had the messages.
    pub number: NumberId,
    /// What each message belongs to, and its final outcome.
    pub settled: Vec<(Origin, FinalOutcome)>,
    /// The ticket under which the number must receive the acknowledgement; `None` if it needs none.
    pub ack_to: Option<u64>,
}

/// A number's claims to single messages of its workspace: none is sent before its claim is durable.
#[derive(Debug)]
pub struct Claims {
    /// The number.
    pub number: NumberId,
    /// Messages whose claims end: the channel surely did not accept them.
    pub released: Vec<MessageId>,
    /// The request for new claims, if there is one: its ticket, and the messages.
    pub asked: Option<(u64, Vec<MessageId>)>,
}

/// The answer to a request of [`Claims`], once it is durable.
#[derive(Debug)]
pub struct Granted {
    /// The ticket of the request.
    pub ticket: u64,
    /// Those of the requested messages that may be sent; the others are settled, or wait with the
    /// workspace, which dispatches them again.
    pub messages: Vec<MessageId>,
}
