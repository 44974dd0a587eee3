//! The connections of one listener, and the ways to drain and to cut them.
//!
//! A connection is polled for each request. A poll reads one atomic number. The lock is taken when
//! a connection starts, when it ends and when all are woken.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const CUT: u8 = 2;

/// The connections of a listener. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// `SeqCst`: a connection registers and then reads the phase. A change writes the phase and
    /// then wakes all registered connections. One of the two must see what the other wrote.
    phase: AtomicU8,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    by_number: HashMap<u64, Waker>,
    last: u64,
}

impl Connections {
    /// Asks all to finish their current request and then to close.
    pub(crate) fn drain(&self) {
        self.enter(DRAINING);
    }

    /// Ends all of them immediately.
    pub(crate) fn cut(&self) {
        self.enter(CUT);
    }

    fn enter(&self, phase: u8) {
        self.0.phase.fetch_max(phase, Ordering::SeqCst);
        self.0.wakers().by_number.values().for_each(Waker::wake_by_ref);
    }

    /// Runs a connection until it ends by itself, is [`cut`](Self::cut), or `displaced` resolves.
    pub(crate) async fn run<T>(
        &self,
        displaced: impl Future,
        connection: impl AsyncFnOnce(&Member) -> T,
    ) -> Option<T> {
        let member = Member { shared: Arc::clone(&self.0), registered: Mutex::default() };
        let mut connection = std::pin::pin!(connection(&member));
        let mut displaced = std::pin::pin!(displaced);
        std::future::poll_fn(|context| {
            member.register(context);
            if member.phase() == CUT || displaced.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            connection.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl Shared {
    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        // No holder of the lock panics, so the value is intact.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Member {
    shared: Arc<Shared>,
    /// Its number and its waker.
    registered: Mutex<Option<(u64, Waker)>>,
}

impl Member {
    /// Returns whether the connection has to finish.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase() != SERVING
    }

    fn phase(&self) -> u8 {
        self.shared.phase.load(Ordering::SeqCst)
    }

    /// Registers the waker, so that a change of phase wakes the connection.
    fn register(&self, context: &Context<'_>) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if registered.as_ref().is_some_and(|(_, waker)| waker.will_wake(context.waker())) {
            return;
        }
        let mut wakers = self.shared.wakers();
        let number = registered.as_ref().map_or(wakers.last + 1, |(number, _)| *number);
        wakers.last = wakers.last.max(number);
        wakers.by_number.insert(number, context.waker().clone());
        *registered = Some((number, context.waker().clone()));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let registered = self.registered.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = registered {
            self.shared.wakers().by_number.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use tokio::sync::oneshot;

    /// A connection that ends with `true` when it is asked to finish.
    async fn until_drained(member: &Member) -> bool {
        poll_fn(|_| if member.is_draining() { Poll::Ready(true) } else { Poll::Pending }).await
    }

    async fn registered(connections: &Connections, count: usize) {
        while connections.0.wakers().by_number.len() != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn all_are_woken_to_finish_and_then_cut() {
        let connections = Connections::default();
        let spawn = |finishes: bool| {
            let connections = connections.clone();
            tokio::spawn(async move {
                let run = connections.run(pending::<()>(), async |member| {
                    if finishes { until_drained(member).await } else { pending().await }
                });
                run.await
            })
        };
        let (polite, deaf) = (spawn(true), spawn(false));
        registered(&connections, 2).await;
        connections.drain();
        assert_eq!(polite.await.unwrap(), Some(true));
        registered(&connections, 1).await;
        connections.cut();
        assert_eq!(deaf.await.unwrap(), None);
        registered(&connections, 0).await;
        // A connection that starts afterwards ends immediately.
        assert_eq!(spawn(false).await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_that_is_displaced_ends() {
        let (displace, displaced) = oneshot::channel::<()>();
        let connections = Connections::default();
        let other = connections.clone();
        let run =
            tokio::spawn(
                async move { other.run(displaced, async |_| pending::<()>().await).await },
            );
        registered(&connections, 1).await;
        drop(displace);
        assert_eq!(run.await.unwrap(), None);
    }
}
