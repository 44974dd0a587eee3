//! The directory of numbers: it connects them, finds their actors, and disconnects them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use postrider_channel::cloud_api::ProviderId;
use postrider_channel::number_facts::NumberFacts;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, Origin, Outbound, Trouble};
use postrider_domain::{BroadcastId, NumberId, RequestId, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::directory::{Directory, Undelivered};
use postrider_runtime::hold::Hold;
use postrider_runtime::supervise::{ChildSpec, Placement, SupervisorMessage};
use postrider_runtime::trace::Traces;
use ractor::{ActorCell, ActorRef, SpawnErr};
use tokio::sync::oneshot;

use crate::actor::NumberActor;
use crate::directory_entry::{NumberEntry, NumberSlot};
use crate::figures::{NumberFigures, OutcomeCounts, Queues, WorkspaceNumbers};
use crate::message::{HandedOver, NumberMessage, Wanted};
use crate::ports::{Granted, OutcomeReporter, OutcomeSink, Outcomes};
use crate::providers::{Connected, NumberConnections, Providers};
use crate::record::{NumberKind, Stored};

/// The connected numbers, the actors of those that have messages, and the way to those actors.
pub struct Numbers {
    pub(crate) directory: Directory<NumberId, NumberMessage, NumberEntry>,
    pub(crate) connections: Arc<NumberConnections>,
    pub(crate) reporter: Arc<OutcomeReporter>,
    clock: Clock,
    /// While it is held, the numbers hand nothing to a channel.
    pub hold: Hold,
    pub(crate) traces: Traces,
    /// The counts of final outcomes of all numbers since the start.
    pub outcomes: Arc<OutcomeCounts>,
}

/// The dependencies of numbers that can only be made after them.
pub struct Wiring {
    /// The supervisor of the numbers' actors.
    pub supervisor: ActorRef<SupervisorMessage<NumberId>>,
    /// The receiver of the numbers' reports.
    pub sink: Arc<dyn OutcomeSink>,
}

impl Numbers {
    /// Creates the directory without numbers. [`wire`](Self::wire) must follow before the first
    /// message.
    pub fn new(providers: Providers, clock: Clock, hold: Hold, traces: Traces) -> Self {
        Self {
            directory: Directory::default(),
            connections: Arc::new(NumberConnections::new(providers)),
            reporter: Arc::default(),
            clock,
            hold,
            traces,
            outcomes: Arc::default(),
        }
    }

    /// Connects a number. It must come before any message is dispatched to that number.
    pub fn connect(&self, stored: &Stored) {
        self.connections.connect(stored);
    }

    /// Returns a number's connection, if it is connected.
    pub fn connected(&self, number: NumberId) -> Option<Arc<Connected>> {
        self.connections.get(number)
    }

    /// Replaces a number's connection after a durable change of its secrets or rate.
    pub fn reconnect(&self, stored: &Stored) {
        self.connect(stored);
        // An actor that has died has a successor, which gets this message when it starts.
        self.directory.cast_live(&stored.1.info.id, NumberMessage::Reconnected);
    }

    /// Records the provider's facts about a number, which are durable. Its pace follows from now
    /// on.
    pub fn learn(&self, number: NumberId, facts: NumberFacts) {
        if self.connections.learn(number, facts) {
            self.directory.cast_live(&number, NumberMessage::Reconnected);
        }
    }

    /// Returns the pace of each connected number.
    pub fn paces(&self) -> BTreeMap<NumberId, u32> {
        self.connections.paces()
    }

    /// Returns the pace of the settings, if they have one.
    pub fn pace_set(&self) -> Option<u32> {
        self.connections.pace_set()
    }

    /// Returns the numbers with this id at the provider, each with its workspace.
    pub fn called(&self, id: &ProviderId) -> Vec<(WorkspaceId, NumberId)> {
        self.connections.by_provider_id(id)
    }

    /// Returns the workspaces that have a number of this kind.
    pub fn workspaces_with(&self, kind: NumberKind) -> BTreeSet<WorkspaceId> {
        self.connections.workspaces_with(kind)
    }

    /// Returns the numbers of an app, oldest first. The app's name has the form of
    /// [`CloudApiNumber::app`](postrider_channel::cloud_api::CloudApiNumber::app).
    pub fn of_app(&self, app: &str) -> Vec<(NumberId, Arc<Connected>)> {
        self.connections.of_app(app)
    }

    /// Returns all numbers that have a provider.
    pub fn of_providers(&self) -> Vec<(NumberId, Arc<Connected>)> {
        self.connections.of_providers()
    }

    /// Connects the supervisor and the receiver of reports; only the first call counts.
    pub fn wire(&self, wiring: Wiring) {
        // The sink comes first: no actor may run without it.
        self.reporter.wire(wiring.sink);
        self.directory.set_supervisor(wiring.supervisor);
    }

    /// Dispatches new messages to their numbers. They must be durable: one that is lost on the way
    /// is dispatched again when its workspace or the engine restarts.
    pub fn dispatch(&self, messages: Vec<HandedOver>) {
        self.deliver_by_number(messages, |it| it.message.number, NumberMessage::Dispatch);
    }

    /// Sends the waiting messages, once the engine is no longer held.
    pub fn release(&self) {
        self.live().into_iter().for_each(|actor| drop(actor.cast(NumberMessage::Released)));
    }

    /// Dispatches messages that may have been dispatched before. A number ignores those that it
    /// still has.
    pub fn recover(&self, messages: Vec<Outbound>) {
        self.deliver_by_number(messages, |message| message.number, NumberMessage::Recover);
    }

    /// Asks numbers about claimed messages. The outcome of a message that a number no longer has is
    /// unknown.
    pub fn report_unknown(&self, messages: Vec<Outbound>) {
        self.deliver_by_number(messages, |message| message.number, NumberMessage::ReportUnknown);
    }

    /// Allows a number to send messages whose claim is now durable.
    pub fn grant(&self, number: NumberId, granted: Granted) {
        // The queue of an actor that has died is recovered, and claimed again.
        self.directory.cast_live(&number, NumberMessage::Granted(granted));
    }

    /// Acknowledges the outcomes of this ticket, which are now durable, to the number.
    pub fn ack(&self, number: NumberId, ticket: u64) {
        // An actor that has died reports no outcome again.
        self.directory.cast_live(&number, NumberMessage::Acked(ticket));
    }

    /// Stops a number: the provider has reported that its account cannot send.
    pub fn fault(&self, number: NumberId, failure: Failure) {
        self.deliver(number, NumberMessage::Fault(failure));
    }

    /// Requests a broadcast's messages back that the channel does not have.
    pub fn withdraw(&self, number: NumberId, broadcast: BroadcastId) {
        self.deliver(number, NumberMessage::Withdraw(broadcast));
    }

    /// Requests from a number that is down the waiting messages that others can send.
    pub fn hand_back(&self, number: NumberId, wanted: Wanted) {
        // The queue of an actor that has died is recovered, and requested again.
        self.directory.cast_live(&number, NumberMessage::HandBack(wanted));
    }

    /// Withdraws a number's waiting messages of a request for a code. Their outcome is that they
    /// were not sent in time.
    pub fn withdraw_code(&self, number: NumberId, request: RequestId) {
        self.deliver(number, NumberMessage::WithdrawCode(request));
    }

    fn deliver_by_number<T>(
        &self,
        messages: Vec<T>,
        number_of: fn(&T) -> NumberId,
        message: fn(Vec<T>) -> NumberMessage,
    ) {
        let Some(first) = messages.first().map(number_of) else { return };
        // Usually all messages go to one number.
        if messages.iter().all(|it| number_of(it) == first) {
            return self.deliver(first, message(messages));
        }
        let mut by_number: BTreeMap<NumberId, Vec<T>> = BTreeMap::new();
        for message in messages {
            by_number.entry(number_of(&message)).or_default().push(message);
        }
        for (number, messages) in by_number {
            self.deliver(number, message(messages));
        }
    }

    /// Puts a message into the mailbox of a number's actor, or keeps it for the next actor.
    fn deliver(&self, number: NumberId, message: NumberMessage) {
        /// The step that must follow once the slot's lock is released.
        enum Then {
            Start,
            Refuse(NumberMessage),
            Nothing,
        }
        let keep = |undelivered: Undelivered<NumberMessage>, entry: &NumberEntry| {
            let Undelivered { message, placement } = undelivered;
            match placement {
                Placement::Idle if !self.connections.contains(number) => Then::Refuse(message),
                // After the restart of an actor that has died everything is dispatched again.
                Placement::Idle | Placement::Live(_) => {
                    entry.waiting.lock().push(message);
                    Then::Start
                }
                Placement::Down { .. } | Placement::Parked(_) => {
                    // After the restart all messages are dispatched again, except claimed ones:
                    // their outcome would be reported as unknown. Messages that have not reached an
                    // actor are stored, because the channel certainly does not have them.
                    let NumberMessage::Dispatch(mut messages) = message else {
                        return Then::Nothing;
                    };
                    messages.retain(|message| message.place.is_some());
                    if !messages.is_empty() {
                        entry.waiting.lock().push(NumberMessage::Dispatch(messages));
                    }
                    Then::Nothing
                }
            }
        };
        match self.slot(number).cast_or(message, keep) {
            Some(Then::Start) => self.directory.start(number),
            Some(Then::Refuse(message)) => {
                self.directory.remove(&number);
                self.refuse(message);
            }
            Some(Then::Nothing) | None => {}
        }
    }

    /// Disconnects a number. Its messages that the channel does not have fail, and the actor stops.
    pub fn close(&self, number: NumberId) {
        let connected = self.connections.get(number);
        self.connections.disconnect(number);
        let Some(slot) = self.directory.remove(&number) else { return };
        let workspace = connected.as_ref().map(|connected| &connected.workspace);
        slot.cast_or(NumberMessage::Close, |undelivered, entry| {
            self.closed((workspace, number), &undelivered, entry);
        });
    }

    /// Disconnects the numbers of a deleted workspace.
    pub fn close_all_of(&self, workspace: &WorkspaceId) {
        for number in self.connections.of_workspace(workspace) {
            self.close(number);
        }
        self.connections.forget_sandbox(workspace);
    }

    /// Refuses waiting messages, since no actor received the `Close`: none has started, or one has
    /// died. `entry` holds the messages that have not reached any actor.
    fn closed(
        &self,
        (workspace, number): (Option<&WorkspaceId>, NumberId),
        undelivered: &Undelivered<NumberMessage>,
        entry: &NumberEntry,
    ) {
        if matches!(undelivered.placement, Placement::Live(_)) {
            return;
        }
        let waiting = std::mem::take(&mut *entry.waiting.lock());
        waiting.into_iter().for_each(|message| self.refuse(message));
        let has_died = !matches!(undelivered.placement, Placement::Idle);
        // The queue was lost with the actor.
        if has_died && let Some(sink) = self.reporter.sink() {
            sink.queue_lost(workspace, number);
        }
    }

    /// Fails messages of a number that was disconnected while they became durable. Returns messages
    /// of broadcasts to them.
    pub(super) fn refuse(&self, message: NumberMessage) {
        let failed = FinalOutcome::Failed(Failure::permanent(None));
        let (messages, settled) = match message {
            NumberMessage::Dispatch(messages) => {
                (messages.into_iter().map(|handed| handed.message).collect(), failed)
            }
            NumberMessage::Recover(messages) => (messages, failed),
            NumberMessage::ReportUnknown(messages) => (messages, FinalOutcome::Unknown),
            _ => return,
        };
        let Some(sink) = self.reporter.sink() else { return };
        let mut withdrawn = Vec::new();
        for Outbound { workspace, origin, number, .. } in messages {
            if let Origin::Broadcast { broadcast, index } = origin {
                withdrawn.push((broadcast, index));
                continue;
            }
            let settled = vec![(origin, settled.clone())];
            self.outcomes.count(&settled);
            sink.settled(&workspace, Outcomes { number, settled, ack_to: None });
        }
        self.reporter.withdrawn(withdrawn);
    }

    /// Asks idle numbers to passivate themselves. The engine calls this with each beat.
    pub fn rest_idle(&self) {
        let now = self.clock.now();
        let mut idle = Vec::new();
        self.directory.for_each(|number, slot| {
            if slot.is_idle_for_long(now) {
                idle.push(*number);
            }
        });
        for number in idle {
            self.directory.cast_live(&number, NumberMessage::Rest);
        }
    }

    /// Returns the actors that run.
    pub fn live(&self) -> Vec<ActorRef<NumberMessage>> {
        self.directory.all_live()
    }

    /// Returns the number's slot, and adds an idle one if there is none.
    pub fn slot(&self, number: NumberId) -> Arc<NumberSlot> {
        self.directory.slot_or_insert_with(number, NumberEntry::default)
    }

    /// Returns the reason for which a number cannot send now, without phones and tokens. It is
    /// `None` if the number can send, or nothing was sent since the start.
    pub fn trouble(&self, number: NumberId) -> Option<String> {
        let slot = self.directory.slot(&number)?;
        let trouble = slot.trouble.lock();
        trouble.as_ref().map(Trouble::explanation)
    }

    /// Records the time of the provider's last callback about a number.
    pub fn note_callback(&self, number: NumberId) {
        let now = self.clock.now().as_millis();
        self.slot(number).last_callback_ms.fetch_max(now, Ordering::Relaxed);
    }

    /// Returns a number's figures. A number without an actor sends, and no message waits.
    pub async fn figures(&self, number: NumberId) -> NumberFigures {
        let (reply, answer) = oneshot::channel();
        let asked = self.directory.cast_live(&number, NumberMessage::Figures(reply));
        let answered = if asked { answer.await.ok() } else { None };
        let connected = self.connected(number);
        let mut figures = answered.unwrap_or_else(|| NumberFigures {
            rate_set: connected.as_ref().map_or(0, |it| it.messages_per_second),
            ..NumberFigures::default()
        });
        figures.facts = connected.map(|it| it.facts.clone()).unwrap_or_default();
        figures.reason = self.trouble(number);
        if let Some(slot) = self.directory.slot(&number) {
            figures.last_error = slot.last_error.lock().clone();
            let at = slot.last_callback_ms.load(Ordering::Relaxed);
            figures.last_callback_at = (at > 0).then(|| Timestamp::from_millis(at));
            figures.fields_seen = slot.fields_seen.read().collect();
        }
        figures
    }

    /// Returns the state of each workspace's numbers, for workspaces that have any.
    pub fn by_workspace(&self) -> BTreeMap<WorkspaceId, WorkspaceNumbers> {
        let now = self.clock.now();
        let mut found: BTreeMap<WorkspaceId, WorkspaceNumbers> = BTreeMap::new();
        self.connections.for_each(|number, workspace| {
            let Some(slot) = self.directory.slot(&number) else { return };
            let own = found.entry(workspace.clone()).or_default();
            own.stopped += usize::from(slot.down_until_ms.load(Ordering::Relaxed) > 0);
            own.accepted_last_hour += slot.accepted.sum(now);
        });
        found
    }

    /// Returns the current lengths of the numbers' queues, and the count of numbers that are down.
    pub fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        self.directory.for_each(|_, slot| {
            let queue = slot.queue.load(Ordering::Relaxed);
            queues.messages += queue;
            queues.longest = queues.longest.max(queue);
            queues.down += usize::from(slot.down_until_ms.load(Ordering::Relaxed) > 0);
        });
        queues
    }
}

/// The supervisor's specification of numbers' actors: it starts and restarts them.
pub struct NumberSpec(pub Arc<Numbers>);

impl ChildSpec for NumberSpec {
    type Key = NumberId;
    type Message = NumberMessage;
    type Kept = NumberEntry;

    const NAME: &'static str = "number";

    fn directory(&self) -> &Directory<NumberId, NumberMessage, NumberEntry> {
        &self.0.directory
    }

    async fn spawn(
        &self,
        number: &NumberId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<NumberMessage>, SpawnErr> {
        let Some(connected) = self.0.connected(*number) else {
            let error = format!("{number} is not connected");
            return Err(SpawnErr::StartupFailed(error.into()));
        };
        let (numbers, id) = (Arc::downgrade(&self.0), *number);
        let to_successor = Box::new(move |message| {
            // The numbers no longer exist once the engine has stopped.
            if let Some(numbers) = numbers.upgrade() {
                numbers.deliver(id, message);
            }
        });
        let actor = NumberActor {
            number: *number,
            slot: self.0.slot(*number),
            workspace: connected.workspace.clone(),
            clock: self.0.clock.clone(),
            hold: self.0.hold.clone(),
            traces: self.0.traces.clone(),
            connections: Arc::clone(&self.0.connections),
            reporter: Arc::clone(&self.0.reporter),
            outcomes: Arc::clone(&self.0.outcomes),
            to_successor,
        };
        let (actor, _) = ractor::Actor::spawn_linked(None, actor, connected, supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, number: &NumberId) -> bool {
        self.0.connections.contains(*number)
    }

    fn publish(&self, number: &NumberId, placement: Placement<NumberMessage>) {
        // A number that was disconnected meanwhile gets no new entry.
        let Some(slot) = self.0.directory.slot(number) else {
            if let Placement::Live(actor) = placement {
                // The `Close` message found no actor.
                drop(actor.cast(NumberMessage::Close));
            }
            return;
        };
        slot.publish_with(placement, |placement, entry| {
            if let Placement::Live(actor) = placement {
                for message in entry.waiting.lock().drain(..) {
                    // If the actor has died already, its restart dispatches everything again.
                    drop(actor.cast(message));
                }
                // The connection may have changed while the actor was starting.
                drop(actor.cast(NumberMessage::Reconnected));
            }
            entry.capacity.set(0);
            entry.in_flight.store(0, Ordering::Relaxed);
            entry.idle_since_ms.store(0, Ordering::Release);
        });
    }

    fn restarted(&self, number: &NumberId) {
        if let Some(sink) = self.0.reporter.sink() {
            let connected = self.0.connected(*number);
            sink.queue_lost(connected.as_ref().map(|connected| &connected.workspace), *number);
        }
    }
}
