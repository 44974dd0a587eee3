//! The messages of an endpoint's actor: wake-ups, results of its own work, and replays.

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{EventId, Timestamp};
use postrider_store::StoreError;
use postrider_store::writer::CommitError;
use tokio::sync::oneshot;

use crate::attempt::EndedAttempt;
use crate::directory_entry::DirectoryCall;
use crate::log_reader::ReadPart;
use crate::request_pool::RequestPermit;

/// A message to an endpoint's actor.
///
/// After each one the actor does everything that has become possible: it continues to read the log,
/// starts attempts, writes changes and sets its timer.
#[derive(Debug)]
pub enum EndpointMessage {
    /// The workspace's log has grown. The actor must clear the entry's `woken` flag before it reads
    /// the log, so that the next growth wakes it again. No reply.
    Wake,
    /// The stored settings have changed. The actor must load them from its entry and apply them to
    /// its queue. No reply.
    Changed(DirectoryCall),
    /// A request slot is free and it is this endpoint's turn. The actor must start one attempt with
    /// the permit, or drop it, which passes the slot on. No reply.
    Permit(RequestPermit),
    /// The answer to the actor's own read of the log. On an error the actor must fail, so that its
    /// supervisor restarts it.
    LogRead(Result<ReadPart, StoreError>),
    /// An attempt has ended. The actor must record the result and schedule a retry or give the
    /// delivery up.
    Done(Box<EndedAttempt>),
    /// The answer to the actor's own write. Once it is durable, the actor must answer the replays
    /// and post the batches that waited for it; on an error it must fail.
    Flushed(Result<(), CommitError>),
    /// The wait of this generation is over. The actor must ignore the wake-up if a newer wait has
    /// replaced it.
    Timer(u64),
    /// The idle period is over. The actor must passivate itself if its count of messages still is
    /// this one and nothing is left to do.
    Idle(u64),
    /// The actor must queue these events for delivery again. It replies with the number of
    /// deliveries when that is durable, or at once with the reason why nothing was queued.
    Replay(Replay, oneshot::Sender<Result<u64, ReplayError>>, DirectoryCall),
    /// The endpoint was deleted. The actor must abort its attempts, have its records deleted and
    /// stop. No reply.
    Retire(DirectoryCall),
    /// The engine stops. The actor must start nothing more, and replies when nothing is in flight
    /// and everything is written; then it stops.
    Drain(oneshot::Sender<()>),
}

/// The events that are delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Every event from this moment on.
    Since(Timestamp),
    /// One event.
    Event(EventId),
    /// Failed deliveries: those that were given up, and those that wait for a retry.
    Failed,
}

/// The reason why nothing is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The log has no such event.
    #[error("no such event")]
    NoSuchEvent,
    /// It is not possible now; the caller may try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ReplayError {
    /// Returns the error of an endpoint's actor that did not answer: it is being restarted.
    pub(super) fn restarting() -> Self {
        Unavailable::because(UnavailableReason::Restarting).into()
    }
}
