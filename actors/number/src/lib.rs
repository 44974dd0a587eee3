//! Messaging numbers: each has an actor that dispatches messages to its channel.
//!
//! Not an API: `postrider-actors` re-exports what embedders use, and this crate promises no
//! stability. A number tries again what was surely not taken, and leaves the channel alone for a
//! while when it keeps failing. It knows nothing of durability: [`ports::OutcomeSink`] does.

pub mod actor;
pub mod capacity;
mod claim_queue;
mod claims;
mod close;
#[cfg(test)]
mod golden;
pub mod metrics;
pub mod notices;
mod panic_guard;
pub mod ports;
pub mod providers;
mod queue;
mod recipient_backoff;
pub mod record;
mod sending;
mod throttle;
mod unacked;
mod withdraw;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use ractor::{ActorCell, ActorRef, SpawnErr};
use std::sync::OnceLock;

use postrider_channel::cloud_api::ProviderId;
use postrider_channel::{Failure, Outbound};
use postrider_domain::{BroadcastId, NumberId, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::directory::{Directory, Slot, Undelivered};
use postrider_runtime::supervise::{ChildSpec, Placement};

pub use actor::NumberMessage;
use capacity::{HandedOver, Reservation, SendCapacity};
use metrics::OutcomeCounts;
pub use ports::{Claims, Granted, OutcomeSink, Outcomes};
use providers::{Connected, Providers};
use record::{NumberKind, Stored};

/// The connected numbers, the actors of those that have something to send, and the way to them.
pub struct Numbers {
    directory: Directory<NumberId, NumberMessage, NumberEntry>,
    connected: DashMap<NumberId, Arc<Connected>>,
    providers: Providers,
    clock: Clock,
    /// What became of messages.
    pub outcomes: OutcomeCounts,
    /// The supervisor and the receiver of answers, set right after they exist.
    wiring: OnceLock<Wiring>,
}

/// What the numbers need and is made after them.
pub struct Wiring {
    pub supervisor: ActorRef<postrider_runtime::supervise::SupervisorMessage<NumberId>>,
    pub sink: Arc<dyn OutcomeSink>,
}

/// One number's entry: it lasts, while its actor comes and goes.
pub type NumberSlot = Slot<NumberMessage, NumberEntry>;

/// What is kept of a number beside where its actor is.
#[derive(Debug, Default)]
pub struct NumberEntry {
    /// Engine time until which the breaker is open, in milliseconds; 0 when it is closed.
    down_until_ms: AtomicU64,
    /// Messages that are not answered for.
    queue: AtomicUsize,
    /// Those of them that are with the channel.
    under_way: AtomicUsize,
    /// For single messages that could go to the channel at once.
    capacity: Arc<SendCapacity>,
    /// What came while no actor ran; it is given to the next one.
    waiting: parking_lot::Mutex<Vec<NumberMessage>>,
}

impl Numbers {
    pub fn new(providers: Providers, clock: Clock) -> Self {
        Self {
            directory: Directory::default(),
            connected: DashMap::new(),
            providers,
            clock,
            outcomes: OutcomeCounts::default(),
            wiring: OnceLock::new(),
        }
    }

    /// Takes a number in, before anything is sent through it.
    pub fn connect(&self, stored: &Stored) {
        self.connected.insert(stored.1.info.id, Arc::new(self.providers.connect(stored)));
    }

    /// What a number sends through, if it is connected.
    pub fn connected(&self, number: NumberId) -> Option<Arc<Connected>> {
        self.connected.get(&number).map(|connected| Arc::clone(&connected))
    }

    /// The secrets or the pace of a number have changed, durably: its actor takes them up.
    pub fn reconnect(&self, stored: &Stored) {
        self.connect(stored);
        // One that has died has a successor, which is told when it runs.
        self.directory.cast_live(&stored.1.info.id, NumberMessage::Reconnected);
    }

    /// Numbers that the provider calls so, and whose they are.
    pub fn called(&self, id: &ProviderId) -> Vec<(WorkspaceId, NumberId)> {
        let all = self.connected.iter();
        let called = all.filter(|it| it.phone_number_id.as_ref() == Some(id));
        called.map(|it| (it.workspace.clone(), *it.key())).collect()
    }

    /// The workspaces that have a number of this kind.
    pub fn workspaces_with(&self, kind: NumberKind) -> BTreeSet<WorkspaceId> {
        let all = self.connected.iter().filter(|it| it.kind == kind);
        all.map(|it| it.workspace.clone()).collect()
    }

    /// The numbers of an app, as [`CloudApiNumber::app`] names it, oldest first.
    pub fn of_app(&self, app: &str) -> Vec<(NumberId, Arc<Connected>)> {
        let of_app = |it: &Connected| it.cloud_api.as_ref().is_some_and(|it| it.app() == app);
        let all = self.connected.iter().map(|it| (*it.key(), Arc::clone(it.value())));
        let mut found: Vec<_> = all.filter(|(_, connected)| of_app(connected)).collect();
        found.sort_by_key(|(number, _)| *number);
        found
    }

    /// Connects the supervisor and the receiver of answers; only the first call counts.
    pub fn wire(&self, wiring: Wiring) {
        self.directory.set_supervisor(wiring.supervisor.clone());
        drop(self.wiring.set(wiring));
    }

    /// Hands new messages to their numbers. They are durable, so one that gets lost on the way
    /// goes out again when its workspace or the engine starts anew.
    pub fn dispatch(&self, messages: Vec<HandedOver>) {
        self.hand_over(messages, |handed| handed.message.number, NumberMessage::Dispatch);
    }

    /// Hands messages over that a predecessor may have handed over already: those that the number
    /// still has are left out.
    pub fn recover(&self, messages: Vec<Outbound>) {
        self.hand_over(messages, |message| message.number, NumberMessage::Recover);
    }

    /// Tells of messages that were claimed: what a number does not have any more is unknown.
    pub fn report_unknown(&self, messages: Vec<Outbound>) {
        self.hand_over(messages, |message| message.number, NumberMessage::ReportUnknown);
    }

    /// Lets a number hand over what it has claimed.
    pub fn grant(&self, number: NumberId, granted: Granted) {
        // One that has died has left what it had to its successor.
        self.directory.cast_live(&number, NumberMessage::Granted(granted));
    }

    /// Tells a number that its answers are noted.
    pub fn ack(&self, number: NumberId, ticket: u64) {
        // The same.
        self.directory.cast_live(&number, NumberMessage::Acked(ticket));
    }

    /// A provider has reported that a number's account cannot send.
    pub fn fault(&self, number: NumberId, failure: Failure) {
        self.hand_over_to(number, NumberMessage::Fault(failure));
    }

    /// Has a number hand a broadcast's messages back that the channel does not have.
    pub fn withdraw(&self, number: NumberId, broadcast: BroadcastId) {
        self.hand_over_to(number, NumberMessage::Withdraw(broadcast));
    }

    fn withdrawn(&self, places: Vec<(BroadcastId, u32)>) {
        if let (Some(wiring), false) = (self.wiring.get(), places.is_empty()) {
            wiring.sink.withdrawn(places);
        }
    }

    fn hand_over<T>(
        &self,
        messages: Vec<T>,
        number_of: fn(&T) -> NumberId,
        message: fn(Vec<T>) -> NumberMessage,
    ) {
        let mut of: BTreeMap<NumberId, Vec<T>> = BTreeMap::new();
        for message in messages {
            of.entry(number_of(&message)).or_default().push(message);
        }
        for (number, messages) in of {
            self.hand_over_to(number, message(messages));
        }
    }

    fn hand_over_to(&self, number: NumberId, message: NumberMessage) {
        /// What is to be done when the lock is given back.
        enum Then {
            Start,
            Refuse(NumberMessage),
            Nothing,
        }
        let keep = |undelivered: Undelivered<NumberMessage>, entry: &NumberEntry| {
            let Undelivered { message, placement } = undelivered;
            match placement {
                Placement::Idle if !self.connected.contains_key(&number) => Then::Refuse(message),
                // One that has died has everything handed over again by its restart.
                Placement::Idle | Placement::Live(_) => {
                    entry.waiting.lock().push(message);
                    Then::Start
                }
                Placement::Down { .. } | Placement::Parked(_) => {
                    // Its restart has everything handed over again but what is claimed: of that,
                    // what has not come to it is as if its channel might have it.
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

    /// The actors that run.
    pub fn live(&self) -> Vec<ActorRef<NumberMessage>> {
        self.directory.all_live()
    }

    /// The number's entry.
    pub fn slot(&self, number: NumberId) -> Arc<NumberSlot> {
        self.directory.slot_or_insert_with(number, NumberEntry::default)
    }
}

impl NumberEntry {
    /// How long the number is still left alone because it kept failing.
    pub fn down_for(&self, now: Timestamp) -> Option<Duration> {
        let until = Timestamp::from_millis(self.down_until_ms.load(Ordering::Acquire));
        let left = until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// How many messages are with the channel, or about to be.
    pub fn under_way(&self) -> u32 {
        u32::try_from(self.under_way.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Takes a place for a single message that the number could hand over at once.
    pub fn take_place(&self) -> Option<Reservation> {
        self.capacity.take()
    }
}

/// The numbers as a supervisor's children.
pub struct NumberSpec(pub Arc<Numbers>);

impl ChildSpec for NumberSpec {
    type Key = NumberId;
    type Message = NumberMessage;

    const NAME: &'static str = "number";

    async fn spawn(
        &self,
        number: &NumberId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<NumberMessage>, SpawnErr> {
        let Some(connected) = self.0.connected(*number) else {
            let error = format!("{number} is not connected");
            return Err(SpawnErr::StartupFailed(error.into()));
        };
        let actor = actor::NumberActor {
            number: *number,
            slot: self.0.slot(*number),
            workspace: connected.workspace.clone(),
            clock: self.0.clock.clone(),
            numbers: Arc::clone(&self.0),
        };
        let (actor, _) = ractor::Actor::spawn_linked(None, actor, connected, supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, number: &NumberId) -> bool {
        self.0.connected.contains_key(number)
    }

    fn is_live(&self, number: &NumberId) -> bool {
        self.0.directory.is_live(number)
    }

    fn publish(&self, number: &NumberId, placement: Placement<NumberMessage>) {
        self.0.slot(*number).publish_with(placement, |placement, entry| {
            if let Placement::Live(actor) = placement {
                for message in entry.waiting.lock().drain(..) {
                    // If it is gone already, its restart has everything handed over again.
                    drop(actor.cast(message));
                }
                // That may have changed while it was on its way.
                drop(actor.cast(NumberMessage::Reconnected));
            }
            entry.capacity.set(0);
            entry.under_way.store(0, Ordering::Relaxed);
        });
    }

    fn restarted(&self, number: &NumberId) {
        if let Some(wiring) = self.0.wiring.get() {
            wiring.sink.queue_lost(*number);
        }
    }
}
