//! Backoff of a connection whose request was refused.
//!
//! A client that asks again at once after 503 costs the server as much as one that is served, and
//! what was admitted waits behind it. So the refusal leaves at once, and the connection's next
//! request is looked at only after [`BACKOFF`]. A client that heeds `Retry-After` never notices.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use postrider_actors::clock::Stopwatch;

/// Between a refusal with 503 and the connection's next request. `Retry-After` is at least a
/// second, and a proxy that shares the connection between its clients is hardly held up.
pub(crate) const BACKOFF: Duration = Duration::from_millis(50);

/// When a connection was refused last, if its last request was.
#[derive(Debug, Default)]
pub(crate) struct RefusalBackoff(Mutex<Option<Stopwatch>>);

impl RefusalBackoff {
    /// Waits until the connection's next request may be looked at.
    pub(crate) async fn wait(&self) {
        let refused = self.refused().take();
        if let Some(refused) = refused {
            tokio::time::sleep(BACKOFF.saturating_sub(refused.elapsed())).await;
        }
    }

    /// Notes what a request was answered.
    pub(crate) fn note(&self, answered: StatusCode) {
        if answered == StatusCode::SERVICE_UNAVAILABLE {
            *self.refused() = Some(Stopwatch::start());
        }
    }

    fn refused(&self) -> MutexGuard<'_, Option<Stopwatch>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
