//! The directory of all endpoints, their start, and the subscribers of a workspace's event log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use postrider_domain::keys::MasterKeys;
use postrider_domain::{Timestamp, WebhookId, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::directory::Directory;
use postrider_runtime::supervise::{ChildSpec, LoadedActor, Placement, SupervisorMessage};
use postrider_runtime::{Hold, Traces};
use postrider_store::{EventEntry, StoreError, Table, View, Writer};
use ractor::{ActorCell, ActorRef, SpawnErr};
use tokio::sync::{oneshot, watch};

use crate::actor::EndpointActor;
use crate::directory_entry::{EndpointEntry, EndpointHealth, EndpointSlot};
use crate::exchanges::{ExchangeKey, ShownAttempt};
use crate::message::{EndpointMessage, Replay, ReplayError};
use crate::ports::{EndpointControl, EndpointServices};
use crate::records::KeptAttempt;
use crate::request_pool::{RequestFigures, RequestPermit, RequestPool, RequestSlots};
use crate::{WebhookOptions, records};

#[cfg(any(test, feature = "testing"))]
use crate::client::Post;

type Endpoints = Directory<WebhookId, EndpointMessage, EndpointEntry>;

/// All endpoints of all workspaces, and their shared services.
pub struct Webhooks {
    /// The options of webhook delivery.
    pub options: WebhookOptions,
    /// The keys that encrypt the endpoints' secrets at rest.
    pub master_keys: MasterKeys,
    services: Arc<EndpointServices>,
    directory: Arc<Endpoints>,
    /// Locked while the directory is updated to the stored endpoints.
    following: Mutex<()>,
}

impl Webhooks {
    /// Creates an empty directory, whose requests take these slots.
    ///
    /// [`wire`](Self::wire) must be called before anything is delivered.
    pub fn new(
        options: WebhookOptions,
        slots: Arc<RequestSlots>,
        store: Arc<dyn View>,
        writer: Writer,
        ambient: (Clock, Hold, Traces),
        master_keys: MasterKeys,
    ) -> Self {
        let directory = Arc::new(Endpoints::default());
        let endpoints = Arc::clone(&directory);
        let grant = move |id: WebhookId, permit: RequestPermit| {
            // Dropping the permit passes it on, but must not happen under the slot's lock: so the
            // actor is looked up first.
            if let Some(actor) = endpoints.live(&id) {
                drop(actor.cast(EndpointMessage::Permit(permit)));
            }
        };
        let pool = RequestPool::new(slots, grant);
        let keys = master_keys.clone();
        let services = EndpointServices::new(options.clone(), store, writer, ambient, keys, pool);
        Self {
            options,
            master_keys,
            services: Arc::new(services),
            directory,
            following: Mutex::default(),
        }
    }

    /// Connects the supervisor and the control that changes endpoints; only the first call counts.
    pub fn wire(
        &self,
        supervisor: ActorRef<SupervisorMessage<WebhookId>>,
        control: Arc<dyn EndpointControl>,
    ) {
        // The control comes first: no actor may run without it.
        self.services.set_control(control);
        self.directory.set_supervisor(supervisor);
    }

    /// Updates the directory to the stored endpoints of a workspace, and wakes new or changed ones.
    ///
    /// # Errors
    /// The endpoints cannot be read; then nothing changes.
    pub fn follow(
        &self,
        workspace: &WorkspaceId,
        subscribers: &LogSubscribers,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.following.lock();
        let endpoints = records::endpoints(self.services.store.as_ref(), workspace)?;
        let before = subscribers.endpoints();
        let mut now = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let id = endpoint.id;
            let new = || EndpointEntry::new(workspace.clone(), endpoint.clone());
            let slot = self.directory.slot_or_insert_with(id, new);
            slot.endpoint.store(Arc::new(endpoint));
            now.push(slot);
        }
        for deleted in before.iter().filter(|slot| now.iter().all(|kept| kept.id != slot.id)) {
            self.directory.remove(&deleted.id);
            if deleted.cast(EndpointMessage::Retire(deleted.call())).is_err() {
                self.services.forget(deleted.workspace.clone(), deleted.id);
            }
        }
        subscribers.set_endpoints(now.clone());
        for slot in &now {
            // An endpoint that rests or has failed reads the settings when it starts.
            if slot.cast(EndpointMessage::Changed(slot.call())).is_err() {
                self.wake(slot);
            }
        }
        Ok(())
    }

    /// Updates all workspaces at the start of the engine.
    ///
    /// It also deletes the remains of deleted endpoints after a crash.
    ///
    /// # Errors
    /// The stored endpoints cannot be read.
    pub fn follow_all<'a>(
        &self,
        workspaces: impl IntoIterator<Item = (&'a WorkspaceId, &'a LogSubscribers)>,
    ) -> Result<(), StoreError> {
        let store = self.services.store.as_ref();
        for (workspace, subscribers) in workspaces {
            if store.get(Table::Webhooks, &records::endpoints_key(workspace))?.is_none() {
                continue;
            }
            self.follow(workspace, subscribers)?;
            for id in records::stored_ids(store, workspace)? {
                if !self.directory.contains(&id) {
                    self.services.forget(workspace.clone(), id);
                }
            }
        }
        Ok(())
    }

    /// Ends the endpoints of a deleted workspace: on return nothing more is delivered or written.
    ///
    /// Their records are deleted with the workspace.
    pub async fn end_all_of(&self, subscribers: &LogSubscribers) {
        let ended = {
            let _one_at_a_time = self.following.lock();
            let ended = subscribers.endpoints();
            ended.iter().for_each(|slot| drop(self.directory.remove(&slot.id)));
            subscribers.set_endpoints(Vec::new());
            ended
        };
        for actor in ended.iter().filter_map(|slot| slot.live()) {
            // An actor that has stopped by itself is as good.
            drop(actor.stop_and_wait(None, None).await);
        }
        // Its streams of events find out that their key was removed.
        subscribers.log_has_grown(self);
    }

    /// Has an endpoint read its workspace's log; starts its actor if it is idle.
    pub fn wake(&self, slot: &EndpointSlot) {
        let enabled = slot.endpoint.load().settings.enabled;
        if !enabled || self.services.is_draining() || slot.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        // An actor that has failed is restarted, and reads the log then.
        if let Err(unwoken) = slot.cast(EndpointMessage::Wake)
            && matches!(unwoken.placement, Placement::Idle)
        {
            self.directory.start(slot.id);
        }
    }

    /// Has an endpoint deliver events again. Returns the number of deliveries once that is durable.
    ///
    /// # Errors
    /// [`ReplayError`]: nothing is delivered again.
    pub async fn replay(&self, id: WebhookId, what: Replay) -> Result<u64, ReplayError> {
        let slot = self.directory.slot(&id).ok_or(ReplayError::NotFound)?;
        if !slot.is_live() {
            self.directory.start_and_wait(id).await;
        }
        let (reply, answer) = oneshot::channel();
        // If no actor receives it, the reply is dropped, and that is the answer.
        drop(slot.cast(EndpointMessage::Replay(what, reply, slot.call())));
        answer.await.unwrap_or_else(|_| Err(ReplayError::restarting()))
    }

    /// Starts no further attempt, and resolves when nothing is in flight and everything is written.
    pub async fn drain(&self) {
        self.services.start_draining();
        let mut draining = Vec::new();
        for actor in self.directory.all_live() {
            let (done, drained) = oneshot::channel();
            if actor.cast(EndpointMessage::Drain(done)).is_ok() {
                draining.push(drained);
            }
        }
        for drained in draining {
            // Dropped unanswered: the actor has stopped, and its attempts with it.
            drop(drained.await);
        }
    }

    /// Counters of all deliveries since the start.
    pub fn figures(&self) -> RequestFigures {
        self.services.pool.figures()
    }

    /// Returns how long the oldest due delivery of all endpoints has been due; zero if there is
    /// none.
    ///
    /// A delivery that is delayed by the endpoint's own rate or by its failures counts too.
    pub fn oldest_due(&self) -> Duration {
        let mut since_ms = u64::MAX;
        self.directory.for_each(|_, slot| {
            since_ms = since_ms.min(slot.due_since_ms.load(Ordering::Relaxed));
        });
        self.services.clock.now().since(Timestamp::from_millis(since_ms))
    }

    /// Returns the health of an endpoint, with these of its tries.
    pub fn health(&self, id: WebhookId, tries: &[KeptAttempt]) -> EndpointHealth {
        let slot = self.directory.slot(&id);
        let published = slot.map(|slot| slot.published()).unwrap_or_default();
        EndpointHealth::of(tries, published, self.services.clock.now())
    }

    /// Returns the number of endpoints of each workspace that keep failing, so that the breaker is
    /// open.
    pub fn failing(&self) -> BTreeMap<WorkspaceId, usize> {
        let mut failing: BTreeMap<WorkspaceId, usize> = BTreeMap::new();
        self.directory.for_each(|_, slot| {
            if slot.published().breaker_open && slot.endpoint.load().settings.enabled {
                *failing.entry(slot.workspace.clone()).or_default() += 1;
            }
        });
        failing
    }

    /// Returns a try of an endpoint with the known parts of its request and its answer.
    ///
    /// `events` are all that it carried; it is empty if one is forgotten.
    pub fn shown(
        &self,
        webhook: WebhookId,
        kept: KeptAttempt,
        events: &[EventEntry],
    ) -> ShownAttempt {
        let (attempt, at) = (kept.attempt.attempt, kept.at);
        let exchange = kept.event_id.and_then(|event| {
            self.services.exchanges.find(ExchangeKey { webhook, event, attempt, at })
        });
        ShownAttempt::of(kept, events, exchange)
    }

    /// Replaces the HTTP client by `receiver`. It must be called before the first delivery.
    #[cfg(any(test, feature = "testing"))]
    pub fn post_by(&self, receiver: impl Post + 'static) {
        self.services.set_client(receiver);
    }
}

/// The maximum of open event streams of one workspace.
const STREAMS_MAX: usize = 100;

/// The subscribers to the log of one workspace, notified when it has grown. Notifying none costs
/// two loads.
#[derive(Default)]
pub struct LogSubscribers {
    /// The endpoints; `None` if the workspace has none.
    endpoints: ArcSwapOption<Vec<Arc<EndpointSlot>>>,
    /// Wakes open event streams.
    streams: watch::Sender<()>,
}

impl LogSubscribers {
    /// Returns the workspace's endpoints.
    pub fn endpoints(&self) -> Vec<Arc<EndpointSlot>> {
        self.endpoints.load_full().map_or_else(Vec::new, |endpoints| endpoints.to_vec())
    }

    /// Replaces the endpoints. Only [`Webhooks::follow`] may call it.
    pub fn set_endpoints(&self, endpoints: Vec<Arc<EndpointSlot>>) {
        self.endpoints.store((!endpoints.is_empty()).then(|| Arc::new(endpoints)));
    }

    /// Notifies every subscriber. The new entries must be durable.
    pub fn log_has_grown(&self, webhooks: &Webhooks) {
        if let Some(endpoints) = &*self.endpoints.load() {
            endpoints.iter().for_each(|endpoint| webhooks.wake(endpoint));
        }
        if self.streams.receiver_count() > 0 {
            self.streams.send_replace(());
        }
    }

    /// Subscribes an event stream; `None` if there are too many already.
    pub fn stream(&self) -> Option<watch::Receiver<()>> {
        (self.streams.receiver_count() < STREAMS_MAX).then(|| self.streams.subscribe())
    }
}

impl std::fmt::Debug for LogSubscribers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogSubscribers")
    }
}

/// The endpoints as a supervisor's children.
pub struct WebhookSpec(pub Arc<Webhooks>);

impl ChildSpec for WebhookSpec {
    type Key = WebhookId;
    type Message = EndpointMessage;
    type Kept = EndpointEntry;

    const NAME: &'static str = "webhook";

    fn directory(&self) -> &Endpoints {
        &self.0.directory
    }

    async fn spawn(
        &self,
        id: &WebhookId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<EndpointMessage>, SpawnErr> {
        let Some(slot) = self.0.directory.slot(id) else {
            return Err(SpawnErr::StartupFailed(format!("there is no webhook {id}").into()));
        };
        let actor = EndpointActor { services: Arc::clone(&self.0.services), slot };
        actor.spawn(supervisor).await
    }
}
