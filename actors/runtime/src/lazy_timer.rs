//! One timer for all waits of a connection: for the heads of requests and for their handling.
//!
//! Nearly every deadline of a connection passes unused, and arming a timer for each takes a lock
//! that all connections share. So a timer that is armed for an earlier deadline stays armed. When
//! it fires, it is armed again for the deadline that holds then. A request arms none.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::deadline_in;

/// The timer of a connection. Clones are the same timer.
#[derive(Debug, Clone, Default)]
pub struct LazyTimer(Arc<Mutex<Option<Pin<Box<Sleep>>>>>);

impl LazyTimer {
    /// Returns `Ready` once `deadline` has passed. Only the task of the connection may poll it.
    pub fn poll(&self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        // No code panics while the lock is held, so the timer is whole.
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = armed.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// Returns the result of `work`, or `None` if it takes longer than `wait`.
    pub async fn within<T>(&self, wait: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let mut deadline = None;
        std::future::poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            let deadline = *deadline.get_or_insert_with(|| deadline_in(wait));
            self.poll(context, deadline).map(|()| None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_holds_whatever_the_timer_was_armed_for() {
        let timer = LazyTimer::default();
        let start = deadline_in(Duration::ZERO);
        for (wait, armed_before) in [(10, None), (30, Some(5)), (30, Some(90)), (1, Some(1))] {
            let (start, wait) = (deadline_in(Duration::ZERO), Duration::from_secs(wait));
            if let Some(before) = armed_before {
                let before = start + Duration::from_secs(before);
                let polled = std::future::poll_fn(|it| Poll::Ready(timer.poll(it, before))).await;
                assert!(polled.is_pending());
            }
            assert_eq!(timer.within(wait, std::future::pending::<()>()).await, None);
            let late = start.elapsed() - wait;
            assert!(late < Duration::from_millis(2), "{armed_before:?}: {late:?} late");
        }
        assert!(start.elapsed() >= Duration::from_secs(71));
        assert_eq!(timer.within(Duration::ZERO, std::future::ready(7)).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_end_in_time_arm_it_once() {
        let timer = LazyTimer::default();
        for _ in 0..20 {
            let work = tokio::time::sleep(Duration::from_secs(1));
            assert_eq!(timer.within(Duration::from_secs(30), work).await, Some(()));
        }
        let armed = timer.0.lock().unwrap().as_ref().map(|it| it.deadline());
        let first = deadline_in(Duration::ZERO) - Duration::from_secs(20) + Duration::from_secs(30);
        let off = armed.unwrap().max(first) - armed.unwrap().min(first);
        assert!(off < Duration::from_millis(50), "{off:?}");
    }
}
