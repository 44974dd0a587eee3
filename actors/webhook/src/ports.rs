//! The surroundings of an endpoint's actor: the port to the layer above, and shared services.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use postrider_domain::keys::MasterKeys;
use postrider_domain::{Timestamp, Unavailable, WebhookId, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_runtime::task::BoxFuture;
use postrider_runtime::{Hold, Traces};
use postrider_store::{View, Writer};

use crate::client::{DeliveryClient, Post};
use crate::exchanges::Exchanges;
use crate::request_pool::RequestPool;
use crate::retry_schedule::DisabledReason;
use crate::{WebhookOptions, records};

/// Changes endpoints. The workspace implements it, because it makes changes durable.
pub trait EndpointControl: Send + Sync + 'static {
    /// Disables an endpoint for `reason`, unless it was enabled again after `enabled_at`.
    ///
    /// It must emit an event, and resolve only when the change is durable.
    ///
    /// # Errors
    /// [`DisableError`]: nothing was changed. The endpoint continues.
    fn disable<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: WebhookId,
        reason: DisabledReason,
        enabled_at: Timestamp,
    ) -> BoxFuture<'a, Result<(), DisableError>>;
}

/// The reason why an endpoint was not disabled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisableError {
    /// The endpoint or its workspace was deleted.
    #[error("there is no such webhook")]
    NotFound,
    /// It cannot be disabled now; the next failure asks again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The shared services of all endpoints' actors. Endpoints differ only in their entries.
pub(crate) struct EndpointServices {
    pub(crate) options: WebhookOptions,
    pub(crate) store: Arc<dyn View>,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) hold: Hold,
    pub(crate) traces: Traces,
    pub(crate) master_keys: MasterKeys,
    pub(crate) pool: Arc<RequestPool>,
    /// The signatures and answers of the last tries.
    pub(crate) exchanges: Exchanges,
    /// The client; the inner `None` if it could not be created.
    client: OnceLock<Option<Box<dyn Post>>>,
    /// Set if no new attempt may start.
    draining: AtomicBool,
    /// The control that changes endpoints; set once, when the engine is wired.
    control: OnceLock<Arc<dyn EndpointControl>>,
}

impl EndpointServices {
    pub(crate) fn new(
        options: WebhookOptions,
        store: Arc<dyn View>,
        writer: Writer,
        (clock, hold, traces): (Clock, Hold, Traces),
        master_keys: MasterKeys,
        pool: Arc<RequestPool>,
    ) -> Self {
        Self {
            options,
            store,
            writer,
            clock,
            hold,
            traces,
            master_keys,
            pool,
            exchanges: Exchanges::default(),
            client: OnceLock::new(),
            draining: AtomicBool::new(false),
            control: OnceLock::new(),
        }
    }

    /// Sets the control that changes endpoints; only the first call counts.
    pub(crate) fn set_control(&self, control: Arc<dyn EndpointControl>) {
        drop(self.control.set(control));
    }

    pub(crate) fn control(&self) -> Option<&Arc<dyn EndpointControl>> {
        self.control.get()
    }

    /// Stops new attempts for the rest of the process.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Returns the HTTP client, created on first use; `None` if it cannot be created.
    pub(crate) fn client(&self) -> Option<&dyn Post> {
        let make = || {
            let made = DeliveryClient::new(self.options.addresses.clone(), self.options.timeout);
            let made = made.inspect_err(|error| {
                tracing::error!(%error, "no webhook can be delivered");
            });
            made.ok().map(|client| Box::new(client) as Box<dyn Post>)
        };
        self.client.get_or_init(make).as_deref()
    }

    /// Replaces the client by `receiver`. It must be called before the first delivery.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn set_client(&self, receiver: impl Post + 'static) {
        assert!(self.client.set(Some(Box::new(receiver))).is_ok(), "something was posted");
    }

    /// Deletes the stored state of a deleted endpoint's deliveries, in parts.
    ///
    /// The rest after a failure is deleted at the next start.
    pub(crate) fn forget(self: &Arc<Self>, workspace: WorkspaceId, id: WebhookId) {
        let services = Arc::clone(self);
        drop(tokio::spawn(async move {
            loop {
                let (store, of) = (Arc::clone(&services.store), workspace.clone());
                let scan = move || records::deletions(store.as_ref(), &of, id);
                let Ok(Ok(changes)) = tokio::task::spawn_blocking(scan).await else { return };
                if changes.is_empty() || services.writer.commit_own(changes).await.is_err() {
                    return;
                }
            }
        }));
    }
}
