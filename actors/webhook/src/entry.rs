//! An endpoint's directory entry: it lasts while its actor starts and stops.

use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;

use postrider_domain::{WebhookId, WorkspaceId};
use postrider_runtime::directory::Slot;

use crate::endpoint::Endpoint;
use crate::message::EndpointMessage;

/// One endpoint's slot in the directory: where its actor is, and its [`EndpointEntry`].
pub type EndpointSlot = Slot<EndpointMessage, EndpointEntry>;

/// What the directory keeps of an endpoint besides where its actor is.
#[derive(Debug)]
pub struct EndpointEntry {
    pub(crate) id: WebhookId,
    pub(crate) workspace: WorkspaceId,
    /// The endpoint as it was stored last.
    pub(crate) endpoint: ArcSwap<Endpoint>,
    /// The log has grown, and the actor has not looked since.
    pub(crate) woken: AtomicBool,
    /// Since when the oldest due delivery has been due, in milliseconds since the epoch;
    /// `u64::MAX` when none is.
    pub(crate) due_since_ms: AtomicU64,
}

impl EndpointEntry {
    pub(crate) fn new(workspace: WorkspaceId, endpoint: Endpoint) -> Self {
        Self {
            id: endpoint.id,
            workspace,
            endpoint: ArcSwap::from_pointee(endpoint),
            woken: AtomicBool::new(false),
            due_since_ms: AtomicU64::new(u64::MAX),
        }
    }
}
