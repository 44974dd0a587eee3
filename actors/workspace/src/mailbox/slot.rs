//! Where a workspace is: idle, in an actor, or down; and how much it has under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use ractor::ActorRef;
use tokio::sync::oneshot;

use postrider_domain::WorkspaceId;
use postrider_runtime::supervise::Placement;

use crate::actor::WorkspaceMessage;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_webhook::LogSubscribers;

/// The bound on commands under way in the whole engine.
///
/// `in_flight` and `draining` are `SeqCst`: a drain writes one and reads the other, a command the
/// other way round, and one of the two must see what the other wrote.
#[derive(Debug)]
pub struct Admission {
    in_flight: AtomicUsize,
    in_flight_max: usize,
    per_workspace_max: usize,
    /// Set once the engine stops: nothing more is admitted.
    draining: AtomicBool,
    /// Told each time a command is over while the engine drains.
    idle: tokio::sync::Notify,
}

impl Admission {
    /// Bounds for one workspace and for the whole engine.
    pub fn new(per_workspace_max: usize, in_flight_max: usize) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            in_flight_max,
            per_workspace_max,
            draining: false.into(),
            idle: tokio::sync::Notify::new(),
        }
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Whether the engine still takes commands.
    pub fn is_open(&self) -> bool {
        !self.draining.load(Ordering::SeqCst)
    }

    /// Admits nothing more, and resolves when nothing is under way.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// The right to have one command under way; it travels with the command and ends with its reply.
#[derive(Debug)]
pub struct Permit {
    slot: Arc<Slot>,
    admission: Arc<Admission>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.slot.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.admission.in_flight.fetch_sub(1, Ordering::SeqCst);
        if !self.admission.is_open() {
            self.admission.idle.notify_waiters();
        }
    }
}

/// One workspace's entry in the directory: it lasts, while its actor comes and goes.
#[derive(Debug)]
pub struct Slot {
    /// Whose entry it is.
    pub id: WorkspaceId,
    in_flight: AtomicUsize,
    placement: RwLock<Placement<WorkspaceMessage>>,
    /// Whether the journal may hold something hot of it that no actor has in memory.
    in_journal: AtomicBool,
    /// Who follows its event log.
    pub subscribers: LogSubscribers,
}

impl Slot {
    /// The entry of a workspace whose actor does not run.
    pub fn new(id: WorkspaceId) -> Self {
        Self {
            id,
            in_flight: AtomicUsize::new(0),
            placement: RwLock::new(Placement::Idle),
            in_journal: AtomicBool::new(false),
            subscribers: LogSubscribers::default(),
        }
    }

    /// Notes that an actor runs from now on, whose death would leave something in the journal
    /// only. Returns whether an earlier one has.
    pub fn enter(&self) -> bool {
        self.in_journal.swap(true, Ordering::AcqRel)
    }

    /// Takes a permit, or says why there is none.
    pub fn admit(self: &Arc<Self>, admission: &Arc<Admission>) -> Result<Permit, Unavailable> {
        let total = admission.in_flight.fetch_add(1, Ordering::SeqCst);
        let own = self.in_flight.fetch_add(1, Ordering::AcqRel);
        let permit = Permit { slot: Arc::clone(self), admission: Arc::clone(admission) };
        if !admission.is_open() {
            return Err(Unavailable::because(UnavailableReason::Draining));
        }
        if total >= admission.in_flight_max || own >= admission.per_workspace_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded));
        }
        Ok(permit)
    }

    /// Puts a message into the actor's mailbox.
    pub fn deliver(&self, message: WorkspaceMessage) -> Result<(), Undelivered> {
        match &*self.placement.read() {
            Placement::Live(actor) => actor.cast(message).map_err(|error| match error {
                ractor::MessagingErr::SendErr(message) => Undelivered::NotLive(Box::new(message)),
                _ => Undelivered::Down(Unavailable::because(UnavailableReason::Restarting)),
            }),
            Placement::Idle => Err(Undelivered::NotLive(Box::new(message))),
            Placement::Down { retry_after } => Err(Undelivered::Down(Unavailable {
                reason: UnavailableReason::Restarting,
                retry_after: *retry_after,
            })),
            Placement::Parked(reason) => Err(Undelivered::Down(Unavailable {
                reason: UnavailableReason::Parked(reason.to_string()),
                retry_after: Duration::from_secs(60),
            })),
        }
    }

    /// Where the workspace is.
    pub fn placement(&self) -> Placement<WorkspaceMessage> {
        self.placement.read().clone()
    }

    /// The actor, if one runs.
    pub fn live(&self) -> Option<ActorRef<WorkspaceMessage>> {
        match &*self.placement.read() {
            Placement::Live(actor) => Some(actor.clone()),
            _ => None,
        }
    }

    /// Publishes where the actor is.
    pub fn set_placement(&self, placement: Placement<WorkspaceMessage>) {
        *self.placement.write() = placement;
    }

    /// Lets the actor go, unless a command is under way. Once this is true nothing is in the
    /// actor's mailbox that somebody waits for, nor can anything come.
    pub fn passivate(&self) -> bool {
        let mut placement = self.placement.write();
        // A permit is taken before a message is delivered and delivery holds the read lock, so
        // with none out there is nothing to lose.
        let idle = self.in_flight.load(Ordering::Acquire) == 0;
        if idle {
            *placement = Placement::Idle;
            self.in_journal.store(false, Ordering::Release);
        }
        idle
    }
}

/// Why a message did not reach an actor.
#[derive(Debug)]
pub enum Undelivered {
    /// No actor runs; starting one helps.
    NotLive(Box<WorkspaceMessage>),
    /// None can run now.
    Down(Unavailable),
}

/// Where an answer goes; it carries the command's permit.
#[derive(Debug)]
pub struct ReplyTo<T, E> {
    sender: oneshot::Sender<Result<T, E>>,
    permit: Permit,
}

impl<T, E> ReplyTo<T, E> {
    /// A way to reply that returns its permit when it has.
    pub const fn new(sender: oneshot::Sender<Result<T, E>>, permit: Permit) -> Self {
        Self { sender, permit }
    }

    /// Outcomes. Nobody is told if the asker has gone away: what was done stays done.
    pub fn send(self, answer: Result<T, E>) {
        // The permit first: who has the answer may count on its place being free.
        drop(self.permit);
        drop(self.sender.send(answer));
    }
}
