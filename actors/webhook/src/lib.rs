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
mod directory;
pub mod endpoint;
mod entry;
pub mod exchanges;
mod fair_share;
mod gateway;
#[cfg(test)]
mod golden;
pub mod health;
mod interim;
mod log_reader;
mod lookups;
mod message;
mod migrate;
mod ordering;
pub mod ports;
mod queue;
pub mod records;
pub mod replay;
mod request;
mod request_pool;
mod schedule;
mod services;
pub mod shown;
pub mod signature;
pub mod ssrf;
pub mod subscribers;
mod trace;

use std::time::Duration;

pub use directory::{WebhookSpec, Webhooks};
pub use entry::{EndpointEntry, EndpointSlot};
pub use gateway::GatewayClient;
pub use message::EndpointMessage;
pub use ports::{DisableError, EndpointControl};
pub use request_pool::{Figures, RequestSlots};
pub use subscribers::LogSubscribers;

use ssrf::AddressRules;

/// How webhooks are delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Where deliveries may go.
    pub addresses: AddressRules,
    /// Requests in flight at once, of all endpoints. One endpoint may have a quarter of them, and
    /// one workspace half.
    pub requests_max: usize,
    /// Longest time of a request, including the body of its answer.
    pub timeout: Duration,
    /// Which attempts are kept.
    pub deliveries: DeliveriesKept,
}

/// Which attempts of an endpoint are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveriesKept {
    /// The most that are kept; the oldest go first.
    pub kept_max: usize,
    /// For how long each is kept.
    pub kept_for: Duration,
}

impl Default for DeliveriesKept {
    /// A thousand, for seven days.
    fn default() -> Self {
        Self { kept_max: 1_000, kept_for: Duration::from_secs(7 * 24 * 3600) }
    }
}

impl Default for WebhookOptions {
    /// Public addresses with `https` only, 256 requests at once, 20 seconds, and a thousand
    /// attempts of seven days.
    fn default() -> Self {
        Self {
            addresses: AddressRules::default(),
            requests_max: 256,
            timeout: Duration::from_secs(20),
            deliveries: DeliveriesKept::default(),
        }
    }
}
