//! The store of file contents, and the transfers in progress.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dashmap::DashMap;
use postrider_domain::{MediaId, NumberId, WorkspaceId};
use postrider_store::blobs::BlobStore;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// The maximum number of simultaneous uploads for a number.
const UPLOADS_OF_ONE_MAX: usize = 4;
/// The maximum number of simultaneous downloads, for a workspace and in total.
///
/// The downloads of a workspace wait for each other first, so one with slow files takes few of the
/// others' places.
const FETCHES_OF_ONE_MAX: usize = 2;
const FETCHES_MAX: usize = 32;

/// The retention and limits of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaOptions {
    /// The time for which they are kept.
    pub kept_for: Duration,
    /// The maximum bytes of each workspace.
    pub bytes_max: u64,
    /// The time of the download of inbound contents.
    pub fetch: MediaFetch,
}

/// The time at which the content of an inbound file is downloaded from the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediaFetch {
    /// As soon as it arrives.
    #[default]
    Always,
    /// At the first request for it.
    OnDemand,
}

impl Default for MediaOptions {
    fn default() -> Self {
        let kept_for = Duration::from_secs(30 * 24 * 3600);
        Self { kept_for, bytes_max: 10 << 30, fetch: MediaFetch::default() }
    }
}

/// Files: their contents, retention and transfers.
#[derive(Debug)]
pub struct MediaFiles {
    /// The store of contents; `None`: no contents are kept.
    pub blobs: Option<BlobStore>,
    /// Their retention and limits.
    pub options: MediaOptions,
    /// The running uploads to the channel, by file and number.
    pub(crate) uploads: DashMap<(MediaId, NumberId), Arc<Mutex<()>>>,
    /// The permits to upload for a number.
    pub(crate) upload_places: KeyedPermits<NumberId>,
    /// The running downloads from the channel.
    pub(crate) fetches: DashMap<MediaId, Arc<Mutex<()>>>,
    /// The permits to download a content for a workspace, taken before the next one.
    pub(crate) fetch_turns: KeyedPermits<WorkspaceId>,
    /// The permits to download a content.
    pub(crate) fetch_places: Semaphore,
    /// The bytes of files that a workspace is receiving.
    pub(crate) under_way: DashMap<WorkspaceId, u64>,
    /// The bytes of the files of all workspaces at the last count.
    pub bytes: AtomicU64,
}

impl MediaFiles {
    /// Returns the state of files with this store of contents.
    #[must_use]
    pub fn new(blobs: Option<BlobStore>, options: MediaOptions) -> Self {
        Self {
            blobs,
            options,
            uploads: DashMap::new(),
            upload_places: KeyedPermits::new(UPLOADS_OF_ONE_MAX),
            fetches: DashMap::new(),
            fetch_turns: KeyedPermits::new(FETCHES_OF_ONE_MAX),
            fetch_places: Semaphore::new(FETCHES_MAX),
            under_way: DashMap::new(),
            bytes: AtomicU64::new(0),
        }
    }
}

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
