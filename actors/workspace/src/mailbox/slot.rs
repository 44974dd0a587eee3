//! A workspace's entry in the directory, the way to its actor, and the way back with an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use postrider_channel::Outbound;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_runtime::supervise::Placement;
use postrider_runtime::trace::{Span, SpanKind, TraceContext};
use postrider_runtime::{Traces, directory, trace};
use postrider_webhook::{LogSubscribers, Webhooks};
use tokio::sync::oneshot;

use crate::core::view::ReadingAhead;
use crate::mailbox::admission::{Admission, Permit};
use crate::mailbox::command_batch::CommandBatches;
use crate::mailbox::ignored_items::IgnoredLog;
use crate::mailbox::message::WorkspaceMessage;
use crate::mailbox::watching::Watching;
use crate::sweep::{LogSweep, SweepCursors};

/// One workspace's entry in the directory: it outlives the workspace's actors.
pub type Slot = directory::Slot<WorkspaceMessage, WorkspaceEntry>;

/// The state of a workspace besides the placement of its actor.
#[derive(Debug)]
pub struct WorkspaceEntry {
    /// The workspace's id.
    pub id: WorkspaceId,
    batches: CommandBatches<WorkspaceMessage>,
    /// The number of running commands.
    in_flight: Arc<AtomicUsize>,
    /// Set if the journal may hold hot state of it that no actor has in memory.
    in_journal: AtomicBool,
    /// The subscribers of its event log.
    pub subscribers: LogSubscribers,
    /// The cursors of the deletion by age that the last passivated actor left.
    ///
    /// An actor takes them out, so that nothing is left of one that dies.
    pub(crate) sweeps: Mutex<Option<SweepCursors>>,
    /// Cloned by tasks that write beside the actor.
    tasks: Arc<()>,
    /// The progress of the event log's trimming.
    pub(crate) log_sweep: Mutex<LogSweep>,
    /// The last sequence of the event log that an actor has written; 0 before the first one.
    pub(crate) log_last: AtomicU64,
    /// The sequence at which the next block of the log is indexed; 0: it is unknown.
    pub(crate) index_due: AtomicU64,
    /// Set if accepted messages may have no durable records, so that readers have the actor write
    /// these first. It outlives an actor that dies.
    pub(crate) may_hide_messages: Arc<AtomicBool>,
    /// The readers for commands beside the actor.
    pub(crate) reading_ahead: Arc<ReadingAhead>,
    /// The useless items of callbacks.
    pub(crate) ignored: Mutex<IgnoredLog>,
    /// The watchers of its broadcasts.
    pub(crate) watching: Watching,
}

impl WorkspaceEntry {
    /// Returns the entry of a workspace without running commands.
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
            may_hide_messages: Arc::default(),
            reading_ahead: Arc::default(),
            ignored: Mutex::default(),
            watching: Watching::default(),
        }
    }

    /// Records that an actor runs, after whose death state may be left only in the journal.
    ///
    /// Returns whether an earlier one has run.
    pub fn enter(&self) -> bool {
        self.in_journal.swap(true, Ordering::AcqRel)
    }

    /// Records that the journal may hold messages without records, which its actor has not loaded.
    pub fn hide_messages(&self) {
        self.may_hide_messages.store(true, Ordering::Release);
    }

    /// Records that the log has grown to the sequence `last`, and notifies its subscribers.
    pub(crate) fn log_has_grown(&self, last: u64, webhooks: &Webhooks) {
        self.log_last.store(last, Ordering::Relaxed);
        self.subscribers.log_has_grown(webhooks);
    }

    /// Counts a task that writes beside the actor, until the returned value is dropped.
    pub(crate) fn begin_task(&self) -> Arc<()> {
        Arc::clone(&self.tasks)
    }

    /// Returns whether no command is running, and no task that writes beside the actor.
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0 && Arc::strong_count(&self.tasks) == 1
    }

    /// Takes a permit.
    ///
    /// # Errors
    /// [`Unavailable`]: the reason why there is none.
    pub fn admit(&self, admission: &Arc<Admission>) -> Result<Permit, Unavailable> {
        admission.admit(&self.in_flight)
    }
}

/// Puts a command into the actor's mailbox, in a batch.
///
/// # Errors
/// [`NotDelivered`]: no actor received it.
pub fn deliver(slot: &Slot, message: WorkspaceMessage) -> Result<(), NotDelivered> {
    let put = slot.batches.put(message, |batch| {
        slot.cast(WorkspaceMessage::Commands(batch)).map_err(|undelivered| undelivered.placement)
    });
    put.map_err(|(message, placement)| match placement {
        Placement::Idle | Placement::Live(_) => NotDelivered::NotLive(Box::new(message)),
        Placement::Down { retry_after } => {
            NotDelivered::Down(Unavailable { reason: UnavailableReason::Restarting, retry_after })
        }
        Placement::Parked(reason) => NotDelivered::Down(Unavailable {
            reason: UnavailableReason::Parked(reason.to_string()),
            retry_after: Duration::from_secs(60),
        }),
    })
}

/// Passivates the actor unless a command is running, and returns whether it did.
///
/// In that case the actor's mailbox holds nothing that a caller waits for, and nothing can arrive.
pub fn passivate(slot: &Slot) -> bool {
    slot.rest_if(|workspace| {
        // A permit is taken before a message is delivered, and delivery holds the read lock. So
        // without a permit there is nothing to lose.
        let idle = workspace.in_flight.load(Ordering::Acquire) == 0;
        if idle {
            workspace.in_journal.store(false, Ordering::Release);
        }
        idle
    })
}

/// The reason why a message did not reach an actor.
#[derive(Debug)]
pub enum NotDelivered {
    /// No actor runs; starting one helps.
    NotLive(Box<WorkspaceMessage>),
    /// No actor can run now.
    Down(Unavailable),
}

/// The recipient of an answer; it carries the command's permit.
#[derive(Debug)]
pub struct ReplyTo<T, E> {
    sender: oneshot::Sender<Result<T, E>>,
    permit: Permit,
    /// The trace of the command, if it is traced.
    trace: Option<Box<CommandTrace>>,
}

impl<T, E> ReplyTo<T, E> {
    /// Returns a reply that returns its permit when it is sent.
    pub const fn new(
        sender: oneshot::Sender<Result<T, E>>,
        permit: Permit,
        trace: Option<Box<CommandTrace>>,
    ) -> Self {
        Self { sender, permit, trace }
    }

    /// Returns the trace of the command, if it is traced.
    pub(crate) fn trace(&mut self) -> Option<&mut CommandTrace> {
        self.trace.as_deref_mut()
    }

    /// Sends the answer. Nothing is sent if the caller no longer waits: the changes stay.
    pub fn send(self, answer: Result<T, E>) {
        // The permit is dropped first: a caller with the answer may count on a free place.
        drop((self.permit, self.trace));
        drop(self.sender.send(answer));
    }
}

/// A command of a traced request. It travels with the way to its reply.
#[derive(Debug)]
pub struct CommandTrace {
    traces: Traces,
    context: TraceContext,
    /// The span from the submission of the command to the writer until its reply is released.
    commit: Option<Span>,
}

impl CommandTrace {
    /// Returns the trace of a command of the present task, if its request is traced.
    pub(crate) fn of_this_task(traces: &Traces) -> Option<Box<Self>> {
        let context = trace::current()?;
        Some(Box::new(Self { traces: traces.clone(), context, commit: None }))
    }

    /// Starts the span of the commit; `messages` leave once the command is durable.
    pub(crate) fn submitted<'a>(&mut self, messages: impl Iterator<Item = &'a Outbound>) {
        self.commit = self.traces.below(self.context, "commit", SpanKind::Internal);
        for subject in messages.filter_map(|message| message.origin.trace_subject()) {
            self.traces.note(subject, self.context);
        }
    }
}
