//! The messages that a fan-out receives, and how it must handle each.

use tokio::sync::oneshot;

use postrider_channel::Failure;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::NumberId;

/// A message to the actor of one broadcast. Recipients are given by their index in the audience.
///
/// After every message except [`Flush`](Self::Flush), and unless it is halted, the actor must also
/// continue the broadcast. It starts the broadcast when it is due, and claims and dispatches within
/// the number's capacity. It finishes or rests when nothing is left to do.
#[derive(Debug)]
pub enum FanoutMessage {
    /// The record may have changed. The actor must read it again. Nothing answers this.
    Reload,
    /// One second has passed. The actor must write the outcomes that are not durable yet, and retry
    /// failed operations. Nothing answers this.
    Tick,
    /// Final outcomes from the channel. The actor must record each one. It must pause or fail the
    /// broadcast if the failure policy requires it. The next commit makes them durable.
    Settled(Vec<(u32, FinalOutcome)>),
    /// The number returned these messages, and the channel certainly did not accept them. The actor
    /// must queue them for another attempt.
    Withdrawn(Vec<u32>),
    /// These messages are reported as failed, for the first time. The actor must count them. It
    /// must pause the broadcast if the failure policy requires it.
    ReportedFailed(Vec<u32>),
    /// The account of this number cannot send, or recipients mark its messages as spam. The actor
    /// must pause the broadcast if it uses the number.
    NumberStopped(NumberId, Failure),
    /// This number has lost its queue. If the broadcast uses it, the actor must give every message
    /// in flight the outcome that the broadcast's policy prescribes.
    QueueLost(NumberId),
    /// The engine stops. The actor must claim and dispatch nothing from now on. It replies as soon
    /// as it has stopped doing so.
    Halt(oneshot::Sender<()>),
    /// The numbers have stopped. The actor must write every outcome that is known. It replies when
    /// the commit has ended, whether or not it succeeded.
    Flush {
        /// Set if the channel has nothing in flight. Then messages without an outcome were
        /// certainly not accepted.
        drained: bool,
        /// Receives the reply.
        done: oneshot::Sender<()>,
    },
}
