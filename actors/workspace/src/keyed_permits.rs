//! Permits for a bounded number of simultaneous actions of each key.

use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded number of permits for each key.
///
/// A task that waits for one only waits for others of the same key.
#[derive(Debug)]
pub(crate) struct KeyedPermits<K: Eq + Hash + Clone> {
    each: usize,
    taken: DashMap<K, Arc<Semaphore>>,
}

/// A permit, until it is dropped.
pub(crate) struct KeyedPermit<'a, K: Eq + Hash + Clone> {
    places: &'a KeyedPermits<K>,
    key: K,
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Eq + Hash + Clone> KeyedPermits<K> {
    /// Returns so many permits for each key.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, taken: DashMap::new() }
    }

    /// Waits for a permit, behind those of its key that already wait.
    pub(crate) async fn take(&self, key: K) -> KeyedPermit<'_, K> {
        let new = || Arc::new(Semaphore::new(self.each));
        let places = Arc::clone(&*self.taken.entry(key.clone()).or_insert_with(new));
        // This comes before the wait: a task that gives up waiting cleans up too.
        let mut place = KeyedPermit { places: self, key, permit: None };
        // The semaphores are never closed.
        place.permit = places.acquire_owned().await.ok();
        place
    }
}

impl<K: Eq + Hash + Clone> Drop for KeyedPermit<'_, K> {
    fn drop(&mut self) {
        self.permit = None;
        // Each task with a permit of the key, or waiting for one, also holds its semaphore.
        self.places.taken.remove_if(&self.key, |_, places| Arc::strong_count(places) <= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_key_that_is_full_holds_up_no_other_and_nothing_is_left() {
        let places = KeyedPermits::new(2);
        let (mut one, mut two) = (pin!(places.take("a")), pin!(places.take("a")));
        let (one, two) = (poll(one.as_mut()), poll(two.as_mut()));
        assert!(one.is_ready() && two.is_ready());
        let mut third = Box::pin(places.take("a"));
        assert!(poll(third.as_mut()).is_pending());
        let mut other = pin!(places.take("b"));
        assert!(poll(other.as_mut()).is_ready(), "another key waits too");
        drop(one);
        let third = poll(third.as_mut());
        assert!(third.is_ready(), "a place that is free is not given out");
        // A task that gives up waiting takes no place with it.
        let mut fourth = Box::pin(places.take("a"));
        assert!(poll(fourth.as_mut()).is_pending());
        drop((two, third));
        drop(fourth);
        assert!(places.taken.is_empty(), "{:?}", places.taken);
    }
}
