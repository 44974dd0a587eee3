//! What a fan-out receives, and what it must do with each message.

use tokio::sync::oneshot;

use postrider_channel::Failure;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::NumberId;

/// A message to the actor of one broadcast. Recipients are given by their index in the audience.
///
/// After every message but [`Flush`](Self::Flush), and unless it is halted, the actor must also
/// continue the broadcast: begin it when it is due, claim and dispatch what the number has capacity
/// for, and finish or rest when nothing is left to do.
#[derive(Debug)]
pub enum FanoutMessage {
    /// The record may have changed. The actor must read it again. Nothing answers this.
    Reload,
    /// One second has passed. The actor must write the outcomes that are not durable yet, and
    /// retry what failed. Nothing answers this.
    Tick,
    /// Final outcomes from the channel. The actor must record each one, and must pause or fail the
    /// broadcast where the failure policy says so. The next commit makes them durable.
    Settled(Vec<(u32, FinalOutcome)>),
    /// The number returned these messages, and the channel certainly did not accept them. The actor
    /// must queue them for another attempt.
    Withdrawn(Vec<u32>),
    /// These messages are reported as failed, for the first time. The actor must count them, and
    /// must pause the broadcast where the failure policy says so.
    ReportedFailed(Vec<u32>),
    /// The account of this number cannot send, or recipients mark its messages as spam. The actor
    /// must pause the broadcast if it uses the number.
    NumberStopped(NumberId, Failure),
    /// This number has lost its queue. If the broadcast uses it, the actor must give every message
    /// in flight the outcome that the broadcast's policy prescribes.
    QueueLost(NumberId),
    /// The engine stops. The actor must claim and dispatch nothing from now on. It replies as soon
    /// as that holds.
    Halt(oneshot::Sender<()>),
    /// The numbers have stopped. The actor must write every outcome that is known. It replies when
    /// the commit has ended, whether or not it succeeded.
    Flush {
        /// Whether the channel has nothing left in flight, so that messages without an outcome were
        /// certainly not accepted.
        drained: bool,
        /// Receives the reply.
        done: oneshot::Sender<()>,
    },
}
