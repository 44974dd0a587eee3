//! The resources that several engines of one process share: common bounds, and a client.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use postrider_number::providers::SharedCloudApi;
use postrider_webhook::{RequestSlots, WebhookOptions};
use postrider_workspace::mailbox::admission::Admission;

/// The maximum numbers of concurrent commands; beyond them commands are refused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// The commands of one workspace.
    pub in_flight_per_workspace: usize,
    /// The commands of all workspaces together, also of other engines that share the bound.
    pub in_flight_total: usize,
}

/// The shared resources of one process's engines. Each must have the same options for it.
#[derive(Clone)]
pub struct Common {
    /// The number of commands in progress, at most `in_flight_total`.
    pub(super) in_flight: Arc<AtomicUsize>,
    /// The slots of requests to webhooks.
    pub(super) webhook_requests: Arc<RequestSlots>,
    /// The client of the Cloud API.
    pub(super) cloud_api: SharedCloudApi,
}

impl Common {
    /// Creates the resources for engines with these options, before the first of them starts.
    #[must_use]
    pub fn new(webhooks: &WebhookOptions) -> Self {
        Self {
            in_flight: Arc::default(),
            webhook_requests: Arc::new(RequestSlots::new(webhooks.requests_max)),
            cloud_api: SharedCloudApi::default(),
        }
    }

    /// Returns the bound on the commands of one engine.
    pub(super) fn admission(&self, options: AdmissionOptions) -> Arc<Admission> {
        let AdmissionOptions { in_flight_per_workspace, in_flight_total } = options;
        let in_all = Arc::clone(&self.in_flight);
        Arc::new(Admission::new(in_flight_per_workspace, in_flight_total, in_all))
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
