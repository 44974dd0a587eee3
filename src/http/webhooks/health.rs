//! The health of a webhook endpoint.

use postrider_actors::EndpointHealth;
use serde::Serialize;
use utoipa::ToSchema;

/// How an endpoint does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookHealth)]
pub(crate) struct HealthRow {
    /// Which part of the tries of the last 24 hours arrived, of those that are kept; null when
    /// there were none.
    #[schema(minimum = 0, maximum = 1, example = 0.98)]
    success_24h: Option<f64>,
    /// Within how many milliseconds 95 of 100 of them ended; null when there were none.
    #[schema(example = 240)]
    p95_ms: Option<u64>,
    /// Deliveries that wait, as far as the log was read for the endpoint, or are under way.
    #[schema(example = 3)]
    waiting: usize,
    /// For how long the oldest of them has been due.
    #[schema(example = 12)]
    oldest_seconds: u64,
    /// Whether it keeps failing, and is tried only now and then.
    breaker_open: bool,
}

impl From<EndpointHealth> for HealthRow {
    fn from(health: EndpointHealth) -> Self {
        let ms = |took: std::time::Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self {
            success_24h: health.success,
            p95_ms: health.p95.map(ms),
            waiting: health.waiting,
            oldest_seconds: health.oldest.as_secs(),
            breaker_open: health.breaker_open,
        }
    }
}
