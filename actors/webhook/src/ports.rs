//! The port of endpoints to the layer above, which changes their settings durably.

use postrider_domain::{Timestamp, Unavailable, WebhookId, WorkspaceId};
use postrider_runtime::task::BoxFuture;

use crate::delivery::DisabledReason;

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
