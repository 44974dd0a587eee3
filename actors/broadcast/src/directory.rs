//! The broadcasts that are not over, their actors, and how the supervisor starts one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::{BroadcastId, Timestamp, WorkspaceId};
use postrider_runtime::directory::Directory;
use postrider_runtime::supervise::{ChildSpec, LoadedActor, Placement, SupervisorMessage};
use ractor::{ActorCell, ActorRef, SpawnErr};

use crate::BroadcastOptions;
use crate::actor::Fanout;
use crate::directory_entry::{BroadcastEntry, BroadcastSlot};
use crate::message::FanoutMessage;
use crate::ports::{BroadcastHost, Services};

/// The broadcasts that are not over, and the way to their actors.
pub struct Broadcasts {
    /// The limits and policies of broadcasts.
    pub options: BroadcastOptions,
    services: Arc<Services>,
    directory: Directory<BroadcastId, FanoutMessage, BroadcastEntry>,
    /// Set by [`wire`](Self::wire), before any actor starts.
    host: OnceLock<Arc<dyn BroadcastHost>>,
    /// The real time of the last beat, in milliseconds; 0 before the first.
    last_beat_ms: AtomicU64,
}

/// The dependencies of broadcasts that are made after them.
pub struct Wiring {
    /// Starts and restarts the actors.
    pub supervisor: ActorRef<SupervisorMessage<BroadcastId>>,
    /// The workspaces.
    pub host: Arc<dyn BroadcastHost>,
}

impl Broadcasts {
    /// Creates a directory without broadcasts. No actor can start before [`wire`](Self::wire).
    #[must_use]
    pub fn new(options: BroadcastOptions, services: Services) -> Self {
        Self {
            options,
            services: Arc::new(services),
            directory: Directory::default(),
            host: OnceLock::new(),
            last_beat_ms: AtomicU64::new(0),
        }
    }

    /// Connects the supervisor and the workspaces. Only the first call has an effect.
    pub fn wire(&self, wiring: Wiring) {
        // The host comes first: the supervisor spawns no actor without it.
        drop(self.host.set(wiring.host));
        self.directory.set_supervisor(wiring.supervisor);
    }

    /// Returns the services that every fan-out uses.
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Adds a durable broadcast. It starts at `due`, or when [`wake`](Self::wake) is called.
    pub fn add(&self, workspace: &WorkspaceId, id: BroadcastId, due: Timestamp) {
        self.directory.slot_or_insert_with(id, || BroadcastEntry::new(workspace.clone(), due));
    }

    /// Changes the due time of a broadcast that has not started.
    pub fn reschedule(&self, id: BroadcastId, due: Timestamp) {
        if let Some(slot) = self.slot(id) {
            slot.set_due(due);
        }
    }

    /// Returns the broadcasts of a workspace that are not over.
    #[must_use]
    pub fn all_of(&self, workspace: &WorkspaceId) -> Vec<BroadcastId> {
        let mut found = Vec::new();
        self.directory.for_each(|id, slot| {
            if slot.workspace == *workspace {
                found.push(*id);
            }
        });
        found
    }

    /// Removes a broadcast that is over.
    pub fn remove(&self, id: BroadcastId) {
        self.directory.remove(&id);
    }

    /// Ends all broadcasts of a deleted workspace. When this returns, they send and write nothing
    /// more.
    pub async fn end_all_of(&self, workspace: &WorkspaceId) {
        let mut ended = Vec::new();
        self.directory.for_each(|id, slot| {
            if slot.workspace == *workspace {
                ended.push(*id);
            }
        });
        for actor in ended.iter().filter_map(|id| self.directory.remove(id)?.live()) {
            // An actor that has stopped by itself needs nothing.
            drop(actor.stop_and_wait(None, None).await);
        }
    }

    /// Returns the broadcast's entry, unless it is over.
    pub fn slot(&self, id: BroadcastId) -> Option<Arc<BroadcastSlot>> {
        self.directory.slot(&id)
    }

    /// Requests that the broadcast's actor read its record again. Starts the actor if it does not
    /// run.
    pub fn wake(&self, id: BroadcastId) {
        let Some(slot) = self.slot(id) else { return };
        slot.wake();
        if !cast(&slot, FanoutMessage::Reload) {
            self.directory.start(id);
        }
    }

    /// Starts the broadcasts that are due, and every actor that has work and does not run. The
    /// engine calls this every second.
    pub fn beat(&self) {
        let clock = &self.services.clock;
        let (now, real) = (clock.now(), clock.real().as_millis());
        let last = self.last_beat_ms.swap(real, Ordering::AcqRel);
        let mut idle = Vec::new();
        self.directory.for_each(|id, slot| {
            slot.detect_due(now, real, last);
            if slot.is_wanted() && !cast(slot, FanoutMessage::Tick) {
                idle.push(*id);
            }
        });
        idle.into_iter().for_each(|id| self.directory.start(id));
    }

    /// Routes final outcomes to their broadcasts. Each item is a broadcast, a recipient's index and
    /// the outcome.
    pub fn settled(&self, outcomes: Vec<(BroadcastId, u32, FinalOutcome)>) {
        let mut grouped: Vec<(BroadcastId, Vec<(u32, FinalOutcome)>)> = Vec::new();
        for (broadcast, index, outcome) in outcomes {
            match grouped.last_mut().filter(|(last, _)| *last == broadcast) {
                Some((_, outcomes)) => outcomes.push((index, outcome)),
                None => grouped.push((broadcast, vec![(index, outcome)])),
            }
        }
        for (broadcast, outcomes) in grouped {
            if let Some(slot) = self.slot(broadcast) {
                // An actor that has just died treats them as unknown when it restarts.
                cast(&slot, FanoutMessage::Settled(outcomes));
            }
        }
    }

    /// Notifies broadcasts of messages that are reported as failed. Each item is a broadcast and a
    /// recipient's index.
    pub fn reported_failed(&self, messages: Vec<(BroadcastId, u32)>) {
        self.cast_by_broadcast(messages, FanoutMessage::ReportedFailed);
    }

    /// Notifies broadcasts of messages that the number returned unsent. Each item is a broadcast
    /// and a recipient's index.
    pub fn withdrawn(&self, messages: Vec<(BroadcastId, u32)>) {
        self.cast_by_broadcast(messages, FanoutMessage::Withdrawn);
    }

    fn cast_by_broadcast(
        &self,
        messages: Vec<(BroadcastId, u32)>,
        message: fn(Vec<u32>) -> FanoutMessage,
    ) {
        for of_one in messages.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(slot) = of_one.first().and_then(|(id, _)| self.slot(*id)) else { continue };
            let indices = of_one.iter().map(|(_, index)| *index).collect();
            // An actor that has just died reads what counts from the records when it restarts.
            cast(&slot, message(indices));
        }
    }

    /// Casts to every actor that runs. `message` is called once for each.
    pub fn cast_all_live(&self, message: impl Fn() -> FanoutMessage) {
        self.directory.cast_all_live(message);
    }
}

/// Casts to the broadcast's actor. Returns false if the caller must start the actor for that.
fn cast(slot: &BroadcastSlot, message: FanoutMessage) -> bool {
    match slot.cast(message) {
        Ok(()) => true,
        // The supervisor restarts an actor that is down by itself, and a parked one never.
        Err(undelivered) => {
            matches!(undelivered.placement, Placement::Down { .. } | Placement::Parked(_))
        }
    }
}

/// The broadcasts as a supervisor's children.
pub struct BroadcastSpec(pub Arc<Broadcasts>);

impl ChildSpec for BroadcastSpec {
    type Key = BroadcastId;
    type Message = FanoutMessage;
    type Kept = BroadcastEntry;

    const NAME: &'static str = "broadcast";

    fn directory(&self) -> &Directory<BroadcastId, FanoutMessage, BroadcastEntry> {
        &self.0.directory
    }

    async fn spawn(
        &self,
        id: &BroadcastId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<FanoutMessage>, SpawnErr> {
        let (broadcasts, id) = (Arc::clone(&self.0), *id);
        let Some(slot) = broadcasts.slot(id) else {
            return Err(SpawnErr::StartupFailed(format!("broadcast {id} is over").into()));
        };
        let Some(host) = broadcasts.host.get().cloned() else {
            return Err(SpawnErr::StartupFailed("broadcasts are not wired".into()));
        };
        let actor = Fanout {
            services: Arc::clone(&broadcasts.services),
            options: broadcasts.options,
            id,
            slot,
            host,
            on_finished: Box::new(move || broadcasts.remove(id)),
        };
        actor.spawn(supervisor).await
    }
}
