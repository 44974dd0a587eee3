//! Holds back what refuses a connection that asks again too early.
//!
//! A refusal for overload costs the server a whole request. Clients that ask
//! again at once keep every thread busy with refusals, and what is admitted waits behind them each
//! time it has to run. So the first refusal leaves at once, and a further one within the time of
//! its `Retry-After` leaves after a pause. The request itself never waits: whether it is admitted
//! is decided when it comes.

use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_actors::LazyTimer;
use postrider_actors::clock::deadline_in;
use tokio::time::Instant;

/// How long a further refusal is held back.
const PAUSE: Duration = Duration::from_millis(50);
/// The least that any refusal says in `Retry-After`.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// When a connection was refused last for overload.
#[derive(Debug, Default)]
pub(crate) struct RefusalPause(Mutex<Option<Instant>>);

impl RefusalPause {
    /// Waits until a refusal may leave.
    pub(crate) async fn wait(&self, timer: &LazyTimer) {
        let since_last = self.refused().map(|last| last.elapsed());
        if is_early(since_last) {
            timer.within(PAUSE, pending::<()>()).await;
        }
        *self.refused() = Some(deadline_in(Duration::ZERO));
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is held, so it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a refusal that comes so long after the connection's last one is held back.
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
