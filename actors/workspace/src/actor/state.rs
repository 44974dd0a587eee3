//! The state of a workspace's running actor: the core, pending commits, and waiting callers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_channel::Origin;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::{MessageId, NumberId, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_number::{NumberSlot, Numbers, Outcomes};
use postrider_store::view::event_log;
use postrider_store::{Batch, ChangeRef, CommitError, GroupNumber, Subscriber, Table, View};
use tokio::sync::oneshot;

use crate::actor::budget_queue::{self, BudgetQueue};
use crate::actor::sweeping::Sweeping;
use crate::core::command::Context;
use crate::core::effects::Effects;
use crate::core::message_status::Waiters;
use crate::core::otp::day_counts::CountRow;
use crate::core::otp::{day_counts, delivery};
use crate::core::portfolio::Portfolios;
use crate::core::records::Profile;
use crate::core::senders::pool::Pool;
use crate::core::view::{DecodedRecords, Pending, RecentChanges, RecordView};
use crate::core::{Core, records, unsent};
use crate::mailbox::output_gate::{Carry, OutputGate, PendingReply};
use crate::mailbox::slot::Slot;
use crate::messages::last_sender;
use crate::{messages, otp};

/// The maximum number of outcomes that are recorded in one commit.
const SETTLED_MAX: usize = 1000;
/// The maximum bytes of the event log in one commit of outcomes.
pub(super) const LOG_BYTES_MAX: usize = 128 * 1024;
/// The bytes of effects after which they are submitted, even if more commands arrived with them.
///
/// A batch of a few kilobytes counts as bulk for the writer.
const TOGETHER_BYTES_MAX: usize = 4 * 1024;
/// The maximum number of messages that are given up in one commit.
const OVERDUE_MAX: usize = 250;

/// The actor's mutable half; it exists once the actor is loaded.
pub struct WorkspaceState {
    pub(crate) core: Core,
    /// The workspace's own record, for changes of it.
    pub(crate) profile: Profile,
    /// Connected numbers, oldest first.
    pub(crate) numbers: Vec<NumberInfo>,
    /// The numbers of all workspaces, which receive outgoing messages.
    all_numbers: Arc<Numbers>,
    /// The recipients that count towards the budgets of portfolios.
    portfolios: Arc<Portfolios>,
    /// The committed state.
    pub(crate) store: Arc<dyn View>,
    /// The function that carries out steps of chains.
    carry: Carry,
    /// The entries of the same numbers: they know which are down.
    slots: Vec<(NumberId, Arc<NumberSlot>)>,
    /// The end of the event log, including entries that are not durable yet.
    pub(crate) log_end: event_log::End,
    /// Entries of the log that subscribers were not notified of.
    pub(crate) unannounced: UnannouncedEntries,
    pub(crate) subscriber: Subscriber,
    pub(crate) gate: OutputGate,
    /// The effects of the commands since the last submit; kept for their memory.
    pub(crate) effects: Effects,
    /// The answers of these commands.
    answers: Vec<PendingReply>,
    /// Changes of records that are not known to be durable.
    pub(crate) pending: Pending,
    /// The keys of records that became durable recently, while a task reads beside the actor.
    pub(crate) recent: RecentChanges,
    /// The number of records that the running command has read.
    reads: Cell<usize>,
    /// Records that are decoded once.
    decoded: DecodedRecords,
    /// Set for readers if accepted messages may have no durable records.
    may_hide_messages: Arc<AtomicBool>,
    /// The sweep of records with a limited retention.
    pub(crate) sweeping: Sweeping,
    /// The callers that wait for outcomes of messages.
    waiters: Waiters,
    /// The number's outcomes that arrived while storage failed: they are recorded later.
    pub(crate) unrecorded: Vec<Outcomes>,
    /// Messages that wait for the budget of their number's portfolio.
    pub(crate) waiting: BudgetQueue,
    /// Claims that the number gave up while storage failed.
    pub(crate) unreleased: Vec<MessageId>,
    /// The key of the balance's record.
    credits_key: Vec<u8>,
    /// The records of the counts that a command changes.
    counts: CountRecords,
    /// Set if due work is left for the next slice.
    pub(crate) behind: bool,
    /// The callers that wait until the due work is done.
    pub(crate) barriers: Vec<oneshot::Sender<()>>,
}

/// The commit of a change that is already part of the state failed, so the state is lost.
#[derive(Debug, thiserror::Error)]
#[error("the workspace's state is ahead of what is durable: {0}")]
pub(crate) struct StateLost(#[from] CommitError);

impl WorkspaceState {
    pub(crate) fn new(
        (core, records, log_end): (Core, records::WorkspaceRecords, event_log::End),
        ((subscriber, gate), (all_numbers, carry)): (
            (Subscriber, OutputGate),
            (Arc<Numbers>, Carry),
        ),
        (portfolios, store): (Arc<Portfolios>, Arc<dyn View>),
        slot: &Slot,
    ) -> Self {
        // After a crash the cursors are lost: the deletions of that actor may not be durable.
        let sweeps = slot.sweeps.lock().take().unwrap_or_default();
        Self {
            core,
            profile: records.profile,
            numbers: records.numbers,
            all_numbers,
            portfolios,
            store,
            carry,
            slots: Vec::new(),
            log_end,
            unannounced: UnannouncedEntries::default(),
            subscriber,
            gate,
            effects: Effects::default(),
            answers: Vec::new(),
            pending: Pending::default(),
            recent: slot.reading_ahead.restart(),
            reads: Cell::new(0),
            decoded: DecodedRecords::default(),
            may_hide_messages: Arc::clone(&slot.may_hide_messages),
            sweeping: Sweeping::new(sweeps),
            waiters: Waiters::default(),
            unrecorded: Vec::new(),
            waiting: BudgetQueue::default(),
            unreleased: Vec::new(),
            credits_key: records::credits_key(&slot.id),
            counts: CountRecords::new(&slot.id),
            behind: false,
            barriers: Vec::new(),
        }
    }

    /// Finishes a command.
    ///
    /// If its effects can be kept, they stay until the commands that arrived with it are carried
    /// out. Those must see them: kept effects are not among the pending ones yet.
    pub(crate) fn finish_command(
        &mut self,
        mut answer: PendingReply,
        can_be_kept: bool,
    ) -> Result<(), StateLost> {
        let is_followed = answer.trace().is_some();
        self.answers.push(answer);
        match !can_be_kept || is_followed || self.effects.bytes() > TOGETHER_BYTES_MAX {
            true => self.finish(None),
            false => Ok(()),
        }
    }

    /// Submits the kept effects of commands, if there are any.
    pub(crate) fn finish_kept(&mut self) -> Result<(), StateLost> {
        if self.answers.is_empty() { Ok(()) } else { self.finish(None) }
    }

    /// Submits the effects, and releases `held` and the messages once they are durable.
    pub(crate) fn finish(&mut self, held: Option<PendingReply>) -> Result<(), StateLost> {
        self.answers.extend(held);
        if self.effects.can_be_refused() {
            tracing::error!(workspace = %self.core.id, "a command emits more than a commit takes");
            self.effects.clear();
            self.answers.drain(..).for_each(PendingReply::fail);
            return Ok(());
        }
        if self.effects.is_empty() {
            let waits_for_nothing =
                self.effects.awaited.is_empty() && self.effects.outcomes.is_empty();
            debug_assert!(waits_for_nothing, "a waiter needs an effect that becomes durable");
            for (number, facts) in std::mem::take(&mut self.effects.facts) {
                self.pass(PendingReply::Facts(Arc::clone(&self.all_numbers), number, facts));
            }
            self.effects.clear();
            for answer in std::mem::take(&mut self.answers) {
                self.pass(answer);
            }
            return Ok(());
        }
        budget_queue::count_codes(self);
        let group = match self.submit() {
            Ok(group) => group,
            Err(lost) => {
                self.answers.drain(..).for_each(PendingReply::fail);
                return Err(lost);
            }
        };
        self.hold(group);
        self.sweeping.changed(&self.core.id, &self.effects.changes);
        self.decoded.submitted(&self.effects.changes);
        self.pending.submitted(group, &mut self.effects.changes);
        self.effects.clear();
        Ok(())
    }

    /// Holds the outputs that wait for `group` to be durable: messages, answers and outcomes.
    ///
    /// Also registers the callers that wait for outcomes.
    fn hold(&mut self, group: GroupNumber) {
        // A traced command was submitted alone.
        if let [held] = &mut *self.answers
            && let Some(trace) = held.trace()
        {
            trace.submitted(self.effects.outbound.iter().map(|it| &it.message));
        }
        let Effects { outbound, awaited, outcomes, withdrawn, facts, calls, .. } =
            &mut self.effects;
        for (id, waiter) in awaited.drain(..) {
            self.waiters.add(id, waiter);
        }
        let is_awaited = !outcomes.is_empty();
        let settled =
            outcomes.drain(..).map(|(waiter, status)| PendingReply::Settled(waiter.caller, status));
        let withdrawn = withdrawn.drain(..).map(|(number, request)| {
            PendingReply::WithdrawCode(Arc::clone(&self.all_numbers), number, request)
        });
        let calls =
            calls.drain(..).map(|call| PendingReply::Step(Arc::clone(&self.carry), Box::new(call)));
        // These precede the answers: a caller with an answer finds that the number applies its
        // facts.
        let facts = facts.drain(..).map(|(number, facts)| {
            PendingReply::Facts(Arc::clone(&self.all_numbers), number, facts)
        });
        let answers = facts.chain(self.answers.drain(..));
        let replies = answers.chain(settled).chain(withdrawn).chain(calls);
        let dispatch = |messages| self.all_numbers.dispatch(messages);
        self.gate.hold(group, outbound.drain(..), replies, dispatch);
        if is_awaited {
            self.subscriber.hurry();
        }
    }

    /// Sends an answer that changed nothing, once everything that it may report is durable.
    pub(crate) fn pass(&mut self, held: PendingReply) {
        if !self.gate.is_clear() {
            self.subscriber.hurry();
        }
        self.gate.pass(held);
    }

    /// Notes for readers whether messages have no records. It is called before the first command.
    pub(crate) fn note_unwritten(&self) {
        let has_unwritten = self.core.hot.messages.has_unwritten();
        self.may_hide_messages.store(has_unwritten, Ordering::Release);
    }

    /// Notes for readers that messages may have no durable records, before one is acknowledged.
    fn hide_messages(&self) {
        let hides = self.core.hot.messages.has_unwritten();
        if hides && !self.may_hide_messages.load(Ordering::Relaxed) {
            self.may_hide_messages.store(true, Ordering::Release);
        }
    }

    /// Notes for readers if the records of all accepted messages are durable.
    pub(crate) fn show_messages(&self) {
        let shows = !self.core.hot.messages.has_unwritten() && self.pending.is_empty();
        if shows && self.may_hide_messages.load(Ordering::Relaxed) {
            self.may_hide_messages.store(false, Ordering::Release);
        }
    }

    /// Puts the effects into the open group.
    fn submit(&mut self) -> Result<GroupNumber, StateLost> {
        self.hide_messages();
        let balance = self.effects.credits.map(u64::to_be_bytes);
        let balance = balance.as_ref().map(|balance| ChangeRef {
            table: Table::Workspaces,
            key: &self.credits_key,
            value: Some(balance),
        });
        self.counts.encode(&self.effects.counted);
        let mut counts = self.counts.changes();
        // The hot path has at most the balance and one count, without an allocation.
        let (one, two, many): (_, _, Vec<_>);
        let is_hot = self.effects.changes.is_empty() && counts.len() <= 1;
        let changes: &[ChangeRef<'_>] = match (balance, counts.next()) {
            (None, None) if is_hot => &[],
            (Some(change), None) | (None, Some(change)) if is_hot => {
                one = [change];
                &one
            }
            (Some(balance), Some(count)) if is_hot => {
                two = [balance, count];
                &two
            }
            (balance, count) => {
                let changes = self.effects.changes.iter();
                let changes = changes.map(|(table, key, value)| ChangeRef { table, key, value });
                many = balance.into_iter().chain(count).chain(counts).chain(changes).collect();
                &many
            }
        };
        let batch = Batch {
            events: &self.effects.events,
            log: &self.effects.log,
            log_first: self.log_end.last + 1,
            log_before: self.log_end.bytes,
            log_count: self.effects.log_count,
            changes,
            deferrable: self.effects.deferrable,
        };
        let group = self.subscriber.submit(batch)?;
        if self.effects.log_count > 0 {
            self.log_end.last += u64::from(self.effects.log_count);
            self.log_end.bytes += self.effects.log.len() as u64;
            self.unannounced.submitted(group);
        }
        Ok(group)
    }

    /// Records a number's outcomes, then releases `held`.
    ///
    /// The outcomes are split into parts, because a commit is bounded. Outcomes whose records
    /// cannot be read now are recorded later.
    pub(crate) fn settle(
        &mut self,
        store: &dyn View,
        (number, answers): (NumberId, Vec<(Origin, FinalOutcome)>),
        held: Option<PendingReply>,
    ) -> Result<(), StateLost> {
        for (count, (origin, settled)) in answers.into_iter().enumerate() {
            if count % SETTLED_MAX == SETTLED_MAX - 1 || self.effects.log.len() > LOG_BYTES_MAX {
                self.finish(None)?;
            }
            // No caller waits for it; a crash before it is durable dispatches the message again.
            self.effects.deferrable = true;
            match origin {
                Origin::Otp { request_id: id, number: message } => {
                    budget_queue::give_back_code(self, (&origin, number), &settled);
                    delivery::settle(&mut self.core, id, message, &settled, &mut self.effects);
                    otp::note_answer(&mut self.context(store), (id, number), &settled);
                }
                Origin::Message(id) => {
                    let mut context = self.context(store);
                    if messages::settle(&mut context, id, &settled).is_err() {
                        let settled = vec![(origin, settled)];
                        self.unrecorded.push(Outcomes { number, settled, ack_to: None });
                    }
                }
                // The broadcast handles it.
                Origin::Broadcast { .. } => {}
            }
        }
        self.finish(held)
    }

    /// Gives up the claims that could not be given up while storage failed.
    pub(crate) fn release_late(&mut self) -> Result<(), StateLost> {
        for released in std::mem::take(&mut self.unreleased).chunks(SETTLED_MAX) {
            budget_queue::give_back(released, self);
            unsent::release(&mut self.core, released, &mut self.effects);
            self.finish(None)?;
        }
        Ok(())
    }

    /// Ends messages that expired long ago and that no number has.
    ///
    /// Returns whether there may be more.
    pub(crate) fn give_up_overdue(&mut self, store: &dyn View) -> bool {
        let overdue = self.core.hot.messages.overdue(self.core.now(), OVERDUE_MAX);
        let more = overdue.len() == OVERDUE_MAX;
        let mut context = self.context(store);
        for id in overdue {
            if context.effects.log.len() > LOG_BYTES_MAX {
                return true;
            }
            let claimed = context.core.hot.messages.is_claimed(id);
            let settled = if claimed { FinalOutcome::Unknown } else { FinalOutcome::NotSentInTime };
            if messages::settle(&mut context, id, &settled).is_err() {
                // A later tick finds it again.
                return false;
            }
        }
        more
    }

    /// Updates the state to the connected numbers.
    pub(crate) fn connect(&mut self) {
        let pool = Pool::of(&self.core.id, &self.numbers, self.profile.alone);
        self.core.number = pool.first();
        self.core.pool = pool;
        self.core.needs_template = records::need_template(&self.numbers);
        let channels = &mut self.core.channels;
        channels.mail = channels.mail_server || records::is_sandbox(&self.numbers);
        let all = &self.all_numbers;
        self.slots = self.numbers.iter().map(|number| (number.id, all.slot(number.id))).collect();
    }

    /// Returns the connected numbers with their entries.
    pub(crate) fn slots(&self) -> &[(NumberId, Arc<NumberSlot>)] {
        &self.slots
    }

    /// Returns the context in which a command reads and changes the state.
    pub(crate) fn context<'a>(&'a mut self, store: &'a dyn View) -> Context<'a> {
        self.reads.set(0);
        Context {
            core: &mut self.core,
            records: RecordView {
                store,
                pending: &self.pending,
                recent: &self.recent,
                reads: &self.reads,
                decoded: &self.decoded,
            },
            ahead: None,
            effects: &mut self.effects,
            numbers: &self.slots,
            waiters: &mut self.waiters,
            connected: &self.numbers,
            log_next: self.log_end.last + 1,
            last_sender,
            portfolios: &self.portfolios,
        }
    }
}

/// The records of the counts of one-time passwords that are written with the command's effects.
///
/// Their buffers are reused, since each send and check of a code has one.
#[derive(Debug)]
struct CountRecords {
    prefix: Vec<u8>,
    /// The keys of the values, and more that are kept for their memory.
    keys: Vec<Vec<u8>>,
    values: Vec<[u8; day_counts::BYTES]>,
}

impl CountRecords {
    fn new(workspace: &WorkspaceId) -> Self {
        Self { prefix: day_counts::prefix(workspace), keys: Vec::new(), values: Vec::new() }
    }

    /// Encodes the rows that changed, in place of the previous ones.
    fn encode(&mut self, rows: &[CountRow]) {
        self.values.clear();
        for (at, (day, code, counts)) in rows.iter().enumerate() {
            self.values.push(counts.encode());
            if self.keys.len() == at {
                self.keys.push(Vec::new());
            }
            day_counts::key_into(&self.prefix, *day, *code, &mut self.keys[at]);
        }
    }

    /// Returns the changes that write them.
    fn changes(&self) -> impl ExactSizeIterator<Item = ChangeRef<'_>> {
        self.keys.iter().zip(&self.values).map(|(key, value)| ChangeRef {
            table: Table::Analytics,
            key,
            value: Some(value),
        })
    }
}

/// The first and the last group with entries of the log whose subscribers were not notified.
#[derive(Debug, Default)]
pub(crate) struct UnannouncedEntries(Option<(GroupNumber, GroupNumber)>);

impl UnannouncedEntries {
    /// Records that entries were put into `group`.
    pub(crate) fn submitted(&mut self, group: GroupNumber) {
        self.0 = Some((self.0.map_or(group, |(first, _)| first), group));
    }

    /// Returns whether `group` made some of them durable, which are announced now.
    pub(crate) fn committed(&mut self, group: GroupNumber) -> bool {
        let Some((_, last)) = self.0.filter(|(first, _)| *first <= group) else { return false };
        self.0 = (last > group).then_some((group + 1, last));
        true
    }
}
