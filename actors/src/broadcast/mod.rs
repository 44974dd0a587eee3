//! Broadcasts: one template to many recipients. Each that runs has an actor, which claims windows
//! of recipients, durably, hands their messages to the number, and notes what became of them.

pub(crate) mod audience;
pub(crate) mod days;
pub(crate) mod fanout;
pub(crate) mod outcomes;
pub(crate) mod phones;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod reports;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::RwLock;
use ractor::{ActorCell, ActorRef, SpawnErr};

use crate::engine::Shared;
use postrider_channel::Origin;
use postrider_channel::outcome::Settled;
use postrider_domain::{BroadcastId, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::supervise::{Family, NurseryMessage, Residence};

pub use audience::{Audience, Variables};
pub(crate) use fanout::FanoutMessage;
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
pub(crate) struct Broadcasts {
    pub(crate) options: BroadcastOptions,
    directory: DashMap<BroadcastId, Arc<BroadcastSlot>>,
    supervisor: OnceLock<ActorRef<NurseryMessage<BroadcastId>>>,
    /// The real time of the last beat, in milliseconds; 0 before the first.
    last_beat_ms: AtomicU64,
}

/// One broadcast's entry: it lasts until the broadcast is over, while its actor comes and goes.
pub(crate) struct BroadcastSlot {
    pub(crate) workspace: WorkspaceId,
    residence: RwLock<Residence<FanoutMessage>>,
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
    pub(crate) fn new(options: BroadcastOptions) -> Self {
        Self {
            options,
            directory: DashMap::new(),
            supervisor: OnceLock::new(),
            last_beat_ms: AtomicU64::new(0),
        }
    }

    /// Connects the supervisor; only the first call counts.
    pub(crate) fn wire(&self, supervisor: ActorRef<NurseryMessage<BroadcastId>>) {
        drop(self.supervisor.set(supervisor));
    }

    /// Adds a broadcast that is durable; it begins at `due` and not before its actor is woken.
    pub(crate) fn add(&self, workspace: &WorkspaceId, id: BroadcastId, due: Timestamp) {
        self.directory.entry(id).or_insert_with(|| {
            Arc::new(BroadcastSlot {
                workspace: workspace.clone(),
                residence: RwLock::new(Residence::Idle),
                wanted: AtomicBool::new(false),
                wakes: AtomicU64::new(0),
                due_ms: AtomicU64::new(due.as_millis()),
                noticed: AtomicU64::new(0),
                noticed_late: AtomicU64::new(0),
            })
        });
    }

    /// The broadcast is over.
    pub(crate) fn remove(&self, id: BroadcastId) {
        self.directory.remove(&id);
    }

    pub(crate) fn slot(&self, id: BroadcastId) -> Option<Arc<BroadcastSlot>> {
        self.directory.get(&id).map(|slot| Arc::clone(&slot))
    }

    /// Has the broadcast's actor look at its record, and started if it does not run.
    pub(crate) fn wake(&self, id: BroadcastId) {
        let Some(slot) = self.slot(id) else { return };
        slot.wakes.fetch_add(1, Ordering::AcqRel);
        slot.wanted.store(true, Ordering::Release);
        if !slot.tell(FanoutMessage::Look) {
            self.start(id);
        }
    }

    fn start(&self, id: BroadcastId) {
        if let Some(supervisor) = self.supervisor.get() {
            // The supervisor is gone when the engine is.
            drop(supervisor.cast(NurseryMessage::Start(id, None)));
        }
    }

    /// Begins what is due, and starts whatever has something to do and does not run.
    pub(crate) fn beat(&self, clock: &Clock) {
        let (now, real) = (clock.now(), clock.real().as_millis());
        let last = self.last_beat_ms.swap(real, Ordering::AcqRel);
        let mut idle = Vec::new();
        for entry in &self.directory {
            let slot = entry.value();
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
            if slot.wanted.load(Ordering::Acquire) && !slot.tell(FanoutMessage::Tick) {
                idle.push(*entry.key());
            }
        }
        idle.into_iter().for_each(|id| self.start(id));
    }

    /// Hands outcomes to the broadcasts that they belong to; gives back the rest.
    pub(crate) fn settled(&self, answers: Vec<(Origin, Settled)>) -> Vec<(Origin, Settled)> {
        if !answers.iter().any(|(origin, _)| matches!(origin, Origin::Broadcast { .. })) {
            return answers;
        }
        let mut others = Vec::new();
        let mut own: Vec<(BroadcastId, Vec<(u32, Settled)>)> = Vec::new();
        for (origin, settled) in answers {
            let Origin::Broadcast { broadcast, index } = origin else {
                others.push((origin, settled));
                continue;
            };
            match own.last_mut().filter(|(last, _)| *last == broadcast) {
                Some((_, outcomes)) => outcomes.push((index, settled)),
                None => own.push((broadcast, vec![(index, settled)])),
            }
        }
        for (broadcast, outcomes) in own {
            if let Some(slot) = self.slot(broadcast) {
                // One that has just died takes them for unknown when it is back.
                slot.tell(FanoutMessage::Settled(outcomes));
            }
        }
        others
    }

    /// Tells broadcasts of messages that were handed back to them unsent.
    pub(crate) fn withdrawn(&self, places: Vec<(BroadcastId, u32)>) {
        for of_one in places.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(slot) = of_one.first().and_then(|(id, _)| self.slot(*id)) else { continue };
            let places = of_one.iter().map(|(_, index)| *index).collect();
            // One that has just died takes them for unknown when it is back.
            slot.tell(FanoutMessage::Withdrawn(places));
        }
    }

    /// Tells every actor that runs; the message is made for each.
    pub(crate) fn tell_live(&self, message: impl Fn() -> FanoutMessage) {
        for entry in &self.directory {
            entry.value().tell(message());
        }
    }
}

impl BroadcastSlot {
    /// Tells the actor. Returns whether one runs.
    fn tell(&self, message: FanoutMessage) -> bool {
        match &*self.residence.read() {
            Residence::Live(actor) => actor.cast(message).is_ok(),
            // The supervisor starts it again by itself, or never.
            Residence::Down { .. } | Residence::Parked(_) => true,
            Residence::Idle => false,
        }
    }

    /// How often it was woken.
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Acquire)
    }

    /// Lets the actor go, unless it was woken since it had been so many times.
    pub(crate) fn rest(&self, wakes: u64) -> bool {
        let mut residence = self.residence.write();
        // Who wakes it counts first and looks for the actor then.
        let rests = self.wakes() == wakes;
        if rests {
            self.wanted.store(false, Ordering::Release);
            *residence = Residence::Idle;
        }
        rests
    }

    /// How long ago its time came, by `real` time; zero for one that has none.
    pub(crate) fn lateness(&self, real: Timestamp) -> Duration {
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
pub(crate) struct BroadcastFamily(pub(crate) Arc<Shared>);

impl Family for BroadcastFamily {
    type Key = BroadcastId;
    type Message = FanoutMessage;

    const NAME: &'static str = "broadcast";

    async fn spawn(
        &self,
        id: &BroadcastId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<FanoutMessage>, SpawnErr> {
        let Some(slot) = self.0.broadcasts.slot(*id) else {
            return Err(SpawnErr::StartupFailed(format!("broadcast {id} is over").into()));
        };
        let actor = fanout::Fanout { shared: Arc::clone(&self.0), id: *id, slot };
        let (actor, _) = ractor::Actor::spawn_linked(None, actor, (), supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, id: &BroadcastId) -> bool {
        self.0.broadcasts.directory.contains_key(id)
    }

    fn is_resident(&self, id: &BroadcastId) -> bool {
        let slot = self.0.broadcasts.slot(*id);
        slot.is_some_and(|slot| matches!(&*slot.residence.read(), Residence::Live(_)))
    }

    fn publish(&self, id: &BroadcastId, residence: Residence<FanoutMessage>) {
        if let Some(slot) = self.0.broadcasts.slot(*id) {
            *slot.residence.write() = residence;
        }
    }

    /// It reads where it was when it starts.
    fn restarted(&self, _id: &BroadcastId) {}
}
