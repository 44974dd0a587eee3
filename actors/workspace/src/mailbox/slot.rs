//! A workspace's entry in the directory, and the way to its actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_runtime::directory;
use postrider_runtime::supervise::Placement;
use postrider_webhook::{LogSubscribers, Webhooks};

use crate::core::read_ahead::ReadingAhead;
use crate::mailbox::admission::{Admission, Permit};
use crate::mailbox::command_batch::CommandBatches;
use crate::mailbox::ignored_items::IgnoredLog;
use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::trace::CommandTrace;
use crate::mailbox::watching::Watching;
use crate::sweep::{LogSweep, SweepCursors};

/// One workspace's entry in the directory: it lasts, while its actor comes and goes.
pub type Slot = directory::Slot<WorkspaceMessage, WorkspaceEntry>;

/// What is kept of a workspace beside where its actor is.
#[derive(Debug)]
pub struct WorkspaceEntry {
    /// Whose entry it is.
    pub id: WorkspaceId,
    batches: CommandBatches<WorkspaceMessage>,
    /// Commands under way.
    in_flight: Arc<AtomicUsize>,
    /// Whether the journal may hold something hot of it that no actor has in memory.
    in_journal: AtomicBool,
    /// Who follows its event log.
    pub subscribers: LogSubscribers,
    /// How far records are deleted by age, as the last actor left it that passivated itself. An
    /// actor takes it out, so that nothing is left of one that dies.
    pub(crate) sweeps: Mutex<Option<SweepCursors>>,
    /// Cloned by tasks that write beside the actor.
    tasks: Arc<()>,
    /// How far the event log is trimmed.
    pub(crate) log_sweep: Mutex<LogSweep>,
    /// The last sequence of the event log that an actor has written; 0 before the first one.
    pub(crate) log_last: AtomicU64,
    /// The next block of the log is indexed once that is as large; 0: it is to be looked for.
    pub(crate) index_due: AtomicU64,
    /// Who reads for a command beside the actor.
    pub(crate) reading_ahead: Arc<ReadingAhead>,
    /// Whether all its one-time passwords that have ended are known to be in their index.
    pub(crate) otps_indexed: AtomicBool,
    /// What callbacks brought that is of no use.
    pub(crate) ignored: Mutex<IgnoredLog>,
    /// Who watches its broadcasts.
    pub(crate) watching: Watching,
}

impl WorkspaceEntry {
    /// The entry of a workspace with nothing under way.
    #[must_use]
    pub fn new(id: WorkspaceId) -> Self {
        Self {
            id,
            batches: CommandBatches::default(),
            in_flight: Arc::default(),
            in_journal: AtomicBool::new(false),
            subscribers: LogSubscribers::default(),
            sweeps: Mutex::default(),
            tasks: Arc::default(),
            log_sweep: Mutex::default(),
            log_last: AtomicU64::new(0),
            index_due: AtomicU64::new(0),
            reading_ahead: Arc::default(),
            otps_indexed: AtomicBool::new(false),
            ignored: Mutex::default(),
            watching: Watching::default(),
        }
    }

    /// Notes that an actor runs from now on, whose death would leave something in the journal
    /// only. Returns whether an earlier one has.
    pub fn enter(&self) -> bool {
        self.in_journal.swap(true, Ordering::AcqRel)
    }

    /// Notes that the log has grown to the sequence `last`, and notifies its subscribers.
    pub(crate) fn log_has_grown(&self, last: u64, webhooks: &Webhooks) {
        self.log_last.store(last, Ordering::Relaxed);
        self.subscribers.log_has_grown(webhooks);
    }

    /// Notes a task that writes beside the actor, until what is returned is dropped.
    pub(crate) fn begin_task(&self) -> Arc<()> {
        Arc::clone(&self.tasks)
    }

    /// Whether no command is under way, and no task that writes beside the actor.
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0 && Arc::strong_count(&self.tasks) == 1
    }

    /// Takes a permit.
    ///
    /// # Errors
    /// [`Unavailable`]: why there is none.
    pub fn admit(&self, admission: &Arc<Admission>) -> Result<Permit, Unavailable> {
        admission.admit(&self.in_flight)
    }
}

/// Puts a command into the actor's mailbox, in a batch.
///
/// # Errors
/// [`Undelivered`]: no actor has it.
pub fn deliver(slot: &Slot, message: WorkspaceMessage) -> Result<(), Undelivered> {
    let put = slot.batches.put(message, |batch| {
        slot.cast(WorkspaceMessage::Commands(batch)).map_err(|undelivered| undelivered.placement)
    });
    put.map_err(|(message, placement)| match placement {
        Placement::Idle | Placement::Live(_) => Undelivered::NotLive(Box::new(message)),
        Placement::Down { retry_after } => {
            Undelivered::Down(Unavailable { reason: UnavailableReason::Restarting, retry_after })
        }
        Placement::Parked(reason) => Undelivered::Down(Unavailable {
            reason: UnavailableReason::Parked(reason.to_string()),
            retry_after: Duration::from_secs(60),
        }),
    })
}

/// Passivates the actor unless a command is under way, and returns whether it did. Then nothing is
/// in the actor's mailbox that a caller waits for, nor can anything come.
pub fn passivate(slot: &Slot) -> bool {
    slot.rest_if(|workspace| {
        // A permit is taken before a message is delivered and delivery holds the read lock, so
        // with none out there is nothing to lose.
        let idle = workspace.in_flight.load(Ordering::Acquire) == 0;
        if idle {
            workspace.in_journal.store(false, Ordering::Release);
        }
        idle
    })
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
    /// What is followed of the command, if it is.
    trace: Option<Box<CommandTrace>>,
}

impl<T, E> ReplyTo<T, E> {
    /// A way to reply that returns its permit when it has.
    pub const fn new(
        sender: oneshot::Sender<Result<T, E>>,
        permit: Permit,
        trace: Option<Box<CommandTrace>>,
    ) -> Self {
        Self { sender, permit, trace }
    }

    /// What is followed of the command, if it is.
    pub(crate) fn trace(&mut self) -> Option<&mut CommandTrace> {
        self.trace.as_deref_mut()
    }

    /// Sends the answer. Nothing is sent if the caller does not wait any more: what was done stays
    /// done.
    pub fn send(self, answer: Result<T, E>) {
        // The permit first: who has the answer may count on its place being free.
        drop((self.permit, self.trace));
        drop(self.sender.send(answer));
    }
}
