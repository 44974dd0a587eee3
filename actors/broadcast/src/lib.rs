//! Broadcasts: the fan-out of one template to many recipients.
//!
//! Not an API: `postrider-actors` re-exports what embedders use, and this crate promises no
//! stability. Each broadcast that runs has an actor. It claims windows of recipients durably, hands
//! their messages to the number and records what became of them.

pub mod audience;
pub mod control;
pub mod daily_counts;
pub mod draft;
pub mod fanout;
#[cfg(test)]
mod golden;
pub mod outcomes;
pub mod parameters;
pub mod phone_index;
pub mod plan;
pub mod ports;
pub mod record;
pub mod recover;
pub mod reports;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ractor::{ActorCell, ActorRef, SpawnErr};

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::{BroadcastId, Timestamp, WorkspaceId};
use postrider_number::Numbers;
use postrider_runtime::clock::Clock;
use postrider_runtime::directory::{Directory, Slot};
use postrider_runtime::supervise::{ChildSpec, Placement, SupervisorMessage};
use postrider_store::{View, Writer};

pub use audience::{Audience, Variables};
pub use control::{Control, ControlError};
pub use fanout::FanoutMessage;
pub use ports::BroadcastHost;
pub use record::{BroadcastPolicy, BroadcastStatus};

/// How broadcasts are made and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastOptions {
    /// Most recipients of one.
    pub recipients_max: usize,
    /// A scheduled one that could not begin for longer than this fails.
    pub max_lateness: Duration,
    /// How long one that is over is kept, with its recipients and what became of them.
    pub kept_for: Duration,
    /// One of whose messages more than this many in a hundred fail is paused; 0 is never.
    pub pause_failure_percent: u32,
    /// Messages that must have an outcome before that is judged.
    pub pause_failure_min: u32,
}

impl Default for BroadcastOptions {
    fn default() -> Self {
        Self {
            recipients_max: 1_000_000,
            max_lateness: Duration::from_secs(3600),
            kept_for: Duration::from_secs(365 * 24 * 3600),
            pause_failure_percent: 50,
            pause_failure_min: 1000,
        }
    }
}

/// The broadcasts that are not over, and the way to their actors.
pub struct Broadcasts {
    pub options: BroadcastOptions,
    /// What every fan-out uses.
    services: Services,
    directory: Directory<BroadcastId, FanoutMessage, BroadcastEntry>,
    /// Set right after they exist.
    host: OnceLock<Arc<dyn BroadcastHost>>,
    /// The real time of the last beat, in milliseconds; 0 before the first.
    last_beat_ms: AtomicU64,
}

/// What every fan-out uses.
pub struct Services {
    /// Where it reads what is committed.
    pub view: Arc<dyn View>,
    /// Where it commits claims and outcomes.
    pub writer: Writer,
    /// Engine time.
    pub clock: Clock,
    /// Where messages are dispatched to.
    pub numbers: Arc<Numbers>,
    /// How long a message is worth sending after its claim.
    pub give_up: Duration,
}

/// What broadcasts need and is made after them.
pub struct Wiring {
    /// Starts and restarts the actors.
    pub supervisor: ActorRef<SupervisorMessage<BroadcastId>>,
    /// The workspaces.
    pub host: Arc<dyn BroadcastHost>,
}

/// One broadcast's entry: it lasts until the broadcast is over, while its actor comes and goes.
pub type BroadcastSlot = Slot<FanoutMessage, BroadcastEntry>;

/// What is kept of a broadcast beside where its actor is.
#[derive(Debug)]
pub struct BroadcastEntry {
    /// Whose it is.
    pub workspace: WorkspaceId,
    /// Whether an actor has something to do.
    wanted: AtomicBool,
    /// Counts the times it was woken.
    wakes: AtomicU64,
    /// When it is to begin, in milliseconds.
    due_ms: AtomicU64,
    /// How late it was noticed that its time had come, and when that was in real time: both in
    /// milliseconds.
    noticed: AtomicU64,
    noticed_late: AtomicU64,
}

impl Broadcasts {
    /// None yet.
    #[must_use]
    pub fn new(options: BroadcastOptions, services: Services) -> Self {
        Self {
            options,
            services,
            directory: Directory::default(),
            host: OnceLock::new(),
            last_beat_ms: AtomicU64::new(0),
        }
    }

    /// Connects the supervisor and the workspaces; only the first call counts.
    pub fn wire(&self, wiring: Wiring) {
        self.directory.set_supervisor(wiring.supervisor);
        drop(self.host.set(wiring.host));
    }

    fn host(&self) -> Option<&dyn BroadcastHost> {
        self.host.get().map(AsRef::as_ref)
    }

    /// Adds a broadcast that is durable; it begins at `due` and not before its actor is woken.
    pub fn add(&self, workspace: &WorkspaceId, id: BroadcastId, due: Timestamp) {
        self.directory.slot_or_insert_with(id, || BroadcastEntry {
            workspace: workspace.clone(),
            wanted: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
            due_ms: AtomicU64::new(due.as_millis()),
            noticed: AtomicU64::new(0),
            noticed_late: AtomicU64::new(0),
        });
    }

    /// The broadcast is over.
    pub fn remove(&self, id: BroadcastId) {
        self.directory.remove(&id);
    }

    /// The broadcast's entry, unless it is over.
    pub fn slot(&self, id: BroadcastId) -> Option<Arc<BroadcastSlot>> {
        self.directory.slot(&id)
    }

    /// Has the broadcast's actor look at its record, and started if it does not run.
    pub fn wake(&self, id: BroadcastId) {
        let Some(slot) = self.slot(id) else { return };
        slot.wakes.fetch_add(1, Ordering::AcqRel);
        slot.wanted.store(true, Ordering::Release);
        if !cast(&slot, FanoutMessage::Look) {
            self.directory.start(id);
        }
    }

    /// Begins what is due, and starts whatever has something to do and does not run.
    pub fn beat(&self) {
        let clock = &self.services.clock;
        let (now, real) = (clock.now(), clock.real().as_millis());
        let last = self.last_beat_ms.swap(real, Ordering::AcqRel);
        let mut idle = Vec::new();
        self.directory.for_each(|id, slot| {
            let due = slot.due_ms.load(Ordering::Acquire);
            if due <= now.as_millis() && due != 0 {
                // Since the last beat it cannot have been due for longer than that is ago, however
                // far the sandbox has moved the clock.
                let late = (now.as_millis() - due).min(real.saturating_sub(last));
                slot.noticed_late.store(late, Ordering::Release);
                slot.noticed.store(real, Ordering::Release);
                slot.due_ms.store(0, Ordering::Release);
                slot.wanted.store(true, Ordering::Release);
            }
            if slot.wanted.load(Ordering::Acquire) && !cast(slot, FanoutMessage::Tick) {
                idle.push(*id);
            }
        });
        idle.into_iter().for_each(|id| self.directory.start(id));
    }

    /// Hands outcomes to the broadcasts that they belong to: broadcast, recipient, outcome.
    pub fn settled(&self, outcomes: Vec<(BroadcastId, u32, FinalOutcome)>) {
        let mut grouped: Vec<(BroadcastId, Vec<(u32, FinalOutcome)>)> = Vec::new();
        for (broadcast, index, settled) in outcomes {
            match grouped.last_mut().filter(|(last, _)| *last == broadcast) {
                Some((_, outcomes)) => outcomes.push((index, settled)),
                None => grouped.push((broadcast, vec![(index, settled)])),
            }
        }
        for (broadcast, outcomes) in grouped {
            if let Some(slot) = self.slot(broadcast) {
                // One that has just died takes them for unknown when it is back.
                cast(&slot, FanoutMessage::Settled(outcomes));
            }
        }
    }

    /// Tells broadcasts of messages that were handed back to them unsent.
    pub fn withdrawn(&self, places: Vec<(BroadcastId, u32)>) {
        for of_one in places.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(slot) = of_one.first().and_then(|(id, _)| self.slot(*id)) else { continue };
            let places = of_one.iter().map(|(_, index)| *index).collect();
            // One that has just died takes them for unknown when it is back.
            cast(&slot, FanoutMessage::Withdrawn(places));
        }
    }

    /// Puts a message into the mailbox of every actor that runs; it is made for each.
    pub fn cast_all_live(&self, message: impl Fn() -> FanoutMessage) {
        self.directory.cast_all_live(message);
    }
}

/// Casts to the broadcast's actor. Returns false if one must be started for that.
fn cast(slot: &BroadcastSlot, message: FanoutMessage) -> bool {
    match slot.cast(message) {
        Ok(()) => true,
        // The supervisor starts it again by itself, or never.
        Err(undelivered) => {
            matches!(undelivered.placement, Placement::Down { .. } | Placement::Parked(_))
        }
    }
}

/// Passivates the actor unless it was woken after `wakes` was read. Callers must read `wakes` before
/// they look for work.
fn rest(slot: &BroadcastSlot, wakes: u64) -> bool {
    slot.rest_if(|entry| {
        // Who wakes it counts first and looks for the actor then.
        let rests = entry.wakes() == wakes;
        if rests {
            entry.wanted.store(false, Ordering::Release);
        }
        rests
    })
}

impl BroadcastEntry {
    /// How often it was woken.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Acquire)
    }

    /// How long ago its time came, by `real` time; zero for one that has none.
    pub fn lateness(&self, real: Timestamp) -> Duration {
        match self.noticed.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            noticed => {
                let late = Duration::from_millis(self.noticed_late.load(Ordering::Acquire));
                late + real.since(Timestamp::from_millis(noticed))
            }
        }
    }
}

/// The broadcasts as a supervisor's children.
pub struct BroadcastSpec(pub Arc<Broadcasts>);

impl ChildSpec for BroadcastSpec {
    type Key = BroadcastId;
    type Message = FanoutMessage;

    const NAME: &'static str = "broadcast";

    async fn spawn(
        &self,
        id: &BroadcastId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<FanoutMessage>, SpawnErr> {
        let Some(slot) = self.0.slot(*id) else {
            return Err(SpawnErr::StartupFailed(format!("broadcast {id} is over").into()));
        };
        let actor = fanout::Fanout { broadcasts: Arc::clone(&self.0), id: *id, slot };
        let (actor, _) = ractor::Actor::spawn_linked(None, actor, (), supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, id: &BroadcastId) -> bool {
        self.0.directory.contains(id)
    }

    fn is_live(&self, id: &BroadcastId) -> bool {
        self.0.directory.is_live(id)
    }

    fn publish(&self, id: &BroadcastId, placement: Placement<FanoutMessage>) {
        self.0.directory.publish(id, placement);
    }

    /// It reads where it was when it starts.
    fn restarted(&self, _id: &BroadcastId) {}
}
