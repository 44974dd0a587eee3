//! Webhooks: each endpoint follows its workspace's event log and delivers what is new.
//!
//! Not an API: `postrider-actors` re-exports what embedders use, and this crate promises no
//! stability. An endpoint has an actor while it has something due; all endpoints share a bounded
//! pool of requests.

mod actor;
mod attempt;
mod body;
pub mod client;
pub mod delivery;
pub mod endpoint;
mod fair_share;
#[cfg(test)]
mod golden;
mod load;
mod log_reader;
mod migrate;
mod ordering;
mod persist;
pub mod ports;
mod queue;
pub mod records;
pub mod replay;
mod request_pool;
mod schedule;
pub mod signature;
pub mod ssrf;
pub mod subscribers;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ractor::{ActorCell, ActorRef, SpawnErr};
use tokio::sync::oneshot;

use postrider_domain::keys::MasterKeys;
use postrider_domain::{Timestamp, WebhookId, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::directory::{Directory, Slot};
use postrider_runtime::supervise::{ChildSpec, Placement, SupervisorMessage};
use postrider_store::{StoreError, View, Writer};

pub use actor::EndpointMessage;
use client::{Client, Post};
use endpoint::Endpoint;
pub use ports::{DisableError, EndpointControl};
use replay::{Replay, ReplayError};
pub use request_pool::Figures;
use request_pool::Pool;
pub use subscribers::LogSubscribers;

use ssrf::AddressRules;

/// How webhooks are delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Where deliveries may go.
    pub addresses: AddressRules,
    /// Requests under way at once, of all endpoints; one may have a quarter of them and a
    /// workspace half.
    pub requests_max: usize,
    /// Longest that a request may take, its answer's body included.
    pub timeout: Duration,
    /// Which tries are remembered.
    pub deliveries: DeliveriesKept,
}

/// Which tries of an endpoint are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveriesKept {
    /// How many, at the most.
    pub kept_max: usize,
    /// For how long.
    pub kept_for: Duration,
}

impl Default for DeliveriesKept {
    /// A thousand, for seven days.
    fn default() -> Self {
        Self { kept_max: 1_000, kept_for: Duration::from_secs(7 * 24 * 3600) }
    }
}

impl Default for WebhookOptions {
    /// Public addresses with `https` only, 256 requests at once, 20 seconds, and a thousand tries of
    /// seven days.
    fn default() -> Self {
        Self {
            addresses: AddressRules::default(),
            requests_max: 256,
            timeout: Duration::from_secs(20),
            deliveries: DeliveriesKept::default(),
        }
    }
}

/// All endpoints, and what they share.
pub struct Webhooks {
    pub options: WebhookOptions,
    store: Arc<dyn View>,
    writer: Writer,
    clock: Clock,
    pub master_keys: MasterKeys,
    directory: Arc<Endpoints>,
    pool: Arc<Pool>,
    client: OnceLock<Option<Box<dyn Post>>>,
    /// Held while the directory follows what is stored.
    following: Mutex<()>,
    /// Nothing more is begun.
    draining: AtomicBool,
    /// What changes endpoints, set right after it exists.
    control: OnceLock<Arc<dyn EndpointControl>>,
}

/// One endpoint's entry: it lasts, while its actor comes and goes.
pub type EndpointSlot = Slot<EndpointMessage, EndpointEntry>;

type Endpoints = Directory<WebhookId, EndpointMessage, EndpointEntry>;

/// What is kept of an endpoint beside where its actor is.
#[derive(Debug)]
pub struct EndpointEntry {
    id: WebhookId,
    workspace: WorkspaceId,
    endpoint: ArcSwap<Endpoint>,
    /// The log has grown, and the actor has not looked since.
    woken: AtomicBool,
    /// Since when the oldest of what is due has been so, in milliseconds; the most there is: never.
    due_since_ms: AtomicU64,
}

impl EndpointEntry {
    fn new(workspace: WorkspaceId, endpoint: Endpoint) -> Self {
        Self {
            id: endpoint.id,
            workspace,
            endpoint: ArcSwap::from_pointee(endpoint),
            woken: AtomicBool::new(false),
            due_since_ms: AtomicU64::new(u64::MAX),
        }
    }
}

impl Webhooks {
    pub fn new(
        options: WebhookOptions,
        store: Arc<dyn View>,
        writer: Writer,
        clock: Clock,
        master_keys: MasterKeys,
    ) -> Self {
        let directory = Arc::new(Endpoints::default());
        Self {
            pool: Arc::new(Pool::new(options.requests_max, Arc::clone(&directory))),
            options,
            store,
            writer,
            clock,
            master_keys,
            directory,
            client: OnceLock::new(),
            following: Mutex::default(),
            draining: AtomicBool::new(false),
            control: OnceLock::new(),
        }
    }

    /// Connects the supervisor and what changes endpoints; only the first call counts.
    pub fn wire(
        &self,
        supervisor: ActorRef<SupervisorMessage<WebhookId>>,
        control: Arc<dyn EndpointControl>,
    ) {
        self.directory.set_supervisor(supervisor);
        drop(self.control.set(control));
    }

    /// Makes the directory follow what is stored of a workspace's endpoints, and has those that are
    /// new or changed look at what is due.
    pub fn follow(
        self: &Arc<Self>,
        workspace: &WorkspaceId,
        subscribers: &LogSubscribers,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.following.lock();
        let endpoints = records::endpoints(self.store.as_ref(), workspace)?;
        let before = subscribers.endpoints();
        let mut now = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let id = endpoint.id;
            let new = || EndpointEntry::new(workspace.clone(), endpoint.clone());
            let slot = self.directory.slot_or_insert_with(id, new);
            slot.endpoint.store(Arc::new(endpoint));
            now.push(slot);
        }
        for gone in before.iter().filter(|slot| now.iter().all(|still| still.id != slot.id)) {
            self.directory.remove(&gone.id);
            match gone.live() {
                Some(actor) => drop(actor.cast(EndpointMessage::Retire)),
                None => self.forget(gone.workspace.clone(), gone.id),
            }
        }
        subscribers.set_endpoints(now.clone());
        for slot in &now {
            match slot.live() {
                // One that has gone reads the settings when it is back.
                Some(actor) => drop(actor.cast(EndpointMessage::Changed)),
                None => self.wake(slot),
            }
        }
        Ok(())
    }

    /// Follows all workspaces, at the start, and forgets what a crash left of deleted endpoints.
    pub fn follow_all<'a>(
        self: &Arc<Self>,
        workspaces: impl IntoIterator<Item = (&'a WorkspaceId, &'a LogSubscribers)>,
    ) -> Result<(), StoreError> {
        for (workspace, subscribers) in workspaces {
            if self
                .store
                .get(postrider_store::Table::Webhooks, &records::endpoints_key(workspace))?
                .is_none()
            {
                continue;
            }
            self.follow(workspace, subscribers)?;
            for id in records::stored_ids(self.store.as_ref(), workspace)? {
                if !self.directory.contains(&id) {
                    self.forget(workspace.clone(), id);
                }
            }
        }
        Ok(())
    }

    /// Has an endpoint look at its workspace's log.
    pub fn wake(&self, slot: &EndpointSlot) {
        let enabled = slot.endpoint.load().settings.enabled;
        if !enabled || self.is_draining() || slot.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        // One that has died is restarted, and looks then.
        if let Err(unwoken) = slot.cast(EndpointMessage::Wake)
            && matches!(unwoken.placement, Placement::Idle)
        {
            self.directory.start(slot.id);
        }
    }

    /// Asks an endpoint to deliver something again; says how much that is.
    pub async fn replay(&self, id: WebhookId, what: Replay) -> Result<u64, ReplayError> {
        let slot = self.slot(id).ok_or(ReplayError::NotFound)?;
        if !slot.is_live() {
            self.directory.start_and_wait(id).await;
        }
        let (reply, answer) = oneshot::channel();
        // Where no actor takes it, the reply is dropped, and that is the answer.
        drop(slot.cast(EndpointMessage::Replay(what, reply)));
        answer.await.unwrap_or_else(|_| Err(ReplayError::restarting()))
    }

    /// Begins nothing more, and resolves when nothing is under way and everything is written.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        let mut draining = Vec::new();
        for actor in self.directory.all_live() {
            let (done, drained) = oneshot::channel();
            if actor.cast(EndpointMessage::Drain(done)).is_ok() {
                draining.push(drained);
            }
        }
        for drained in draining {
            // Dropped unanswered: it is gone, and so is what it waited for.
            drop(drained.await);
        }
    }

    /// What is counted of all deliveries.
    pub fn figures(&self) -> Figures {
        self.pool.figures()
    }

    /// For how long the oldest delivery of all that are due has been so. What is held back by the
    /// endpoint's own rate or its failures counts too.
    pub fn oldest_due(&self) -> Duration {
        let mut since_ms = u64::MAX;
        self.directory.for_each(|_, slot| {
            since_ms = since_ms.min(slot.due_since_ms.load(Ordering::Relaxed));
        });
        self.clock.now().since(Timestamp::from_millis(since_ms))
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn slot(&self, id: WebhookId) -> Option<Arc<EndpointSlot>> {
        self.directory.slot(&id)
    }

    /// The client, made when it is first needed; `None` when there can be none.
    fn client(&self) -> Option<&dyn Post> {
        let make = || {
            let made = Client::new(self.options.addresses.clone(), self.options.timeout);
            let made = made.inspect_err(|error| {
                tracing::error!(%error, "no webhook can be delivered");
            });
            made.ok().map(|client| Box::new(client) as Box<dyn Post>)
        };
        self.client.get_or_init(make).as_deref()
    }

    /// Has deliveries posted by another than the client; before the first one.
    #[cfg(any(test, feature = "testing"))]
    pub fn post_by(&self, receiver: impl Post + 'static) {
        assert!(self.client.set(Some(Box::new(receiver))).is_ok(), "something was posted");
    }

    /// Deletes what is kept of a deleted endpoint's deliveries, in parts. What is left after a
    /// failure is deleted by the next start.
    fn forget(self: &Arc<Self>, workspace: WorkspaceId, id: WebhookId) {
        let hub = Arc::clone(self);
        drop(tokio::spawn(async move {
            loop {
                let (store, of) = (Arc::clone(&hub.store), workspace.clone());
                let scan = move || records::deletions(store.as_ref(), &of, id);
                let Ok(Ok(changes)) = tokio::task::spawn_blocking(scan).await else { return };
                if changes.is_empty() || hub.writer.commit(changes).await.is_err() {
                    return;
                }
            }
        }));
    }
}

/// The endpoints as a supervisor's children.
pub struct WebhookSpec(pub Arc<Webhooks>);

impl ChildSpec for WebhookSpec {
    type Key = WebhookId;
    type Message = EndpointMessage;

    const NAME: &'static str = "webhook";

    async fn spawn(
        &self,
        id: &WebhookId,
        supervisor: ActorCell,
    ) -> Result<ActorRef<EndpointMessage>, SpawnErr> {
        let Some(slot) = self.0.slot(*id) else {
            return Err(SpawnErr::StartupFailed(format!("there is no webhook {id}").into()));
        };
        let actor = actor::EndpointActor { hub: Arc::clone(&self.0), slot };
        let (actor, _) = ractor::Actor::spawn_linked(None, actor, (), supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, id: &WebhookId) -> bool {
        self.0.directory.contains(id)
    }

    fn is_live(&self, id: &WebhookId) -> bool {
        self.0.directory.is_live(id)
    }

    fn publish(&self, id: &WebhookId, placement: Placement<EndpointMessage>) {
        self.0.directory.publish(id, placement);
    }

    /// An endpoint reads what is due whenever it starts.
    fn restarted(&self, _id: &WebhookId) {}
}
