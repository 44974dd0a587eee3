//! Webhooks: each endpoint follows its workspace's event log and delivers new events.
//!
//! This crate is not an API: `postrider-actors` re-exports the types for embedders, and this crate
//! promises no stability. An endpoint has an actor while it has something due. All endpoints share
//! a bounded pool of requests.

mod actor;
mod attempt;
pub mod client;
pub mod delivery;
mod directory;
mod directory_entry;
pub mod endpoint;
pub mod exchanges;
#[cfg(test)]
mod golden;
mod log_reader;
mod message;
pub mod ports;
mod queue;
pub mod records;
mod request_pool;
pub mod retry_schedule;

use std::time::Duration;

pub use client::{GatewayClient, signature, ssrf};
pub use directory::{LogSubscribers, WebhookSpec, Webhooks};
pub use directory_entry::{EndpointEntry, EndpointHealth, EndpointSlot};
pub use exchanges::{ExchangeHalf, ShownAttempt};
pub use message::{EndpointMessage, Replay, ReplayError};
pub use ports::{DisableError, EndpointControl};
pub use request_pool::{RequestFigures, RequestSlots};

use client::ssrf::AddressRules;

/// The options of webhook delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The addresses to which deliveries may go.
    pub addresses: AddressRules,
    /// The maximum of requests in flight, of all endpoints. One endpoint may have a quarter of
    /// them, and one workspace half.
    pub requests_max: usize,
    /// The maximum time of a request, including the body of its answer.
    pub timeout: Duration,
    /// The retention of attempts.
    pub deliveries: DeliveriesKept,
}

/// The retention of an endpoint's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveriesKept {
    /// The maximum of stored attempts; the oldest are deleted first.
    pub kept_max: usize,
    /// The retention time of each.
    pub kept_for: Duration,
}

impl Default for DeliveriesKept {
    /// A thousand, for seven days.
    fn default() -> Self {
        Self { kept_max: 1_000, kept_for: Duration::from_secs(7 * 24 * 3600) }
    }
}

impl Default for WebhookOptions {
    /// Public addresses with `https` only, 256 requests at once, 20 seconds, and the default
    /// retention.
    fn default() -> Self {
        Self {
            addresses: AddressRules::default(),
            requests_max: 256,
            timeout: Duration::from_secs(20),
            deliveries: DeliveriesKept::default(),
        }
    }
}
