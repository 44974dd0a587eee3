//! Delays refusals on a connection that retries too early.
//!
//! A refusal for overload costs the server a whole request. Clients that retry immediately keep
//! every thread busy with refusals. Admitted requests then wait behind them each time they have to
//! run. So the first refusal is sent immediately, and a further one within the time of its
//! `Retry-After` after a pause. The request itself never waits: its admission is decided when it
//! comes.

use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_actors::LazyTimer;
use postrider_actors::clock::deadline_in;
use tokio::time::Instant;

/// The delay of a further refusal.
const PAUSE: Duration = Duration::from_millis(50);
/// The minimum `Retry-After` of any refusal.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// The time of the last refusal for overload on a connection.
#[derive(Debug, Default)]
pub(crate) struct RefusalPause(Mutex<Option<Instant>>);

impl RefusalPause {
    /// Waits until a refusal may be sent.
    pub(crate) async fn wait(&self, timer: &LazyTimer) {
        let since_last = self.refused().map(|last| last.elapsed());
        if is_early(since_last) {
            timer.within(PAUSE, pending::<()>()).await;
        }
        *self.refused() = Some(deadline_in(Duration::ZERO));
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        // No holder of the lock panics, so the value is intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a refusal is delayed, given the time since the connection's last one.
fn is_early(since_last: Option<Duration>) -> bool {
    since_last.is_some_and(|since| since < RETRY_AFTER_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_again_too_early_is_held_back() {
        let since = |millis| Some(Duration::from_millis(millis));
        for (since_last, is_held_back) in
            [(None, false), (since(0), true), (since(999), true), (since(1000), false)]
        {
            assert_eq!(is_early(since_last), is_held_back, "{since_last:?}");
        }
    }
}
