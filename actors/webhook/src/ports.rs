//! What endpoints need from above.

use postrider_domain::{Timestamp, Unavailable, WebhookId, WorkspaceId};
use postrider_runtime::task::BoxFuture;

use crate::delivery::DisabledReason;

/// Changes endpoints. Implemented above, where changes are made durable.
pub trait EndpointControl: Send + Sync + 'static {
    /// Disables an endpoint that keeps failing, unless it was enabled anew after `enabled_at`.
    /// Resolves when that is durable.
    fn disable<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: WebhookId,
        reason: DisabledReason,
        enabled_at: Timestamp,
    ) -> BoxFuture<'a, Result<(), DisableError>>;
}

/// Why an endpoint was not disabled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisableError {
    /// It was deleted, or its workspace is not there.
    #[error("there is no such webhook")]
    NotFound,
    /// Not now; the next failure tries again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
