//! Runs reads that scan on few threads, so that nothing else waits for them.
//!
//! Scans take as many of the blocking threads of the async runtime as there are cores less one. The
//! others are left to short work. [`ScanQueue`] decides which scan is next. A scan runs at a lower
//! priority of the system. The writer computes little and often. A thread that computes without
//! pause would keep it from a core for milliseconds each time it wakes.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::flow::{ScanBounds, ScanQueue};
use crate::task::lower_priority;

/// The maximum number of waiting scans of all owners.
const WAITING_MAX: usize = 1024;
/// The maximum number of waiting scans of one owner.
///
/// It is an eighth of all, so that seven others find room beside a flood.
const WAITING_PER_OWNER_MAX: usize = 128;

/// A waiting scan. It returns its result to its caller itself.
type Scan = Box<dyn FnOnce() + Send>;

/// Runs scans for owners `K`: as many at once as there are cores less one, at least one.
pub struct ScanPool<K: Clone + Eq + Hash> {
    shared: Arc<SharedQueue<K>>,
}

struct SharedQueue<K> {
    queue: Mutex<ScanQueue<K, Scan>>,
    finished: AtomicU64,
    refused: AtomicU64,
}

/// Counts of the scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanFigures {
    /// The number of running scans.
    pub running: usize,
    /// The number of waiting scans.
    pub waiting: usize,
    /// The number of ended scans since the start.
    pub finished: u64,
    /// The number of scans since the start that were refused because too many waited.
    pub refused: u64,
}

/// The reason why a scan returned nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The maximum number of scans is waiting.
    #[error("too many scans wait")]
    Full,
    /// The scan panicked, or the pool was dropped.
    #[error("the scan did not end")]
    Failed,
}

impl<K: Clone + Eq + Hash + Send + 'static> ScanPool<K> {
    /// Creates a pool that leaves one core to everything else.
    #[must_use]
    pub fn for_this_machine() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::new(ScanBounds {
            running_max: (cores - 1).max(1),
            waiting_max: WAITING_MAX,
            waiting_per_owner_max: WAITING_PER_OWNER_MAX,
        })
    }

    /// Creates a pool with these bounds.
    #[must_use]
    pub fn new(bounds: ScanBounds) -> Self {
        let shared = SharedQueue {
            queue: Mutex::new(ScanQueue::new(bounds)),
            finished: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs `scan` when it is the owner's turn, and resolves to its result.
    ///
    /// A scan whose caller has given up by then does not run.
    ///
    /// # Errors
    /// [`ScanError::Full`] at once if too many wait; [`ScanError::Failed`] if it did not end.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: &K,
        scan: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ScanError> {
        let (sender, answer) = oneshot::channel();
        let scan: Scan = Box::new(move || {
            if !sender.is_closed() {
                // The caller may go away while it runs.
                drop(sender.send(scan()));
            }
        });
        self.queue(owner, scan)?;
        answer.await.map_err(|_| ScanError::Failed)
    }

    /// Returns the counts of the scans.
    pub fn figures(&self) -> ScanFigures {
        let shared = &*self.shared;
        let queue = shared.queue.lock();
        ScanFigures {
            running: queue.running(),
            waiting: queue.waiting(),
            finished: shared.finished.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
        }
    }

    fn queue(&self, owner: &K, scan: Scan) -> Result<(), ScanError> {
        let mut queue = self.shared.queue.lock();
        if queue.push(owner, scan).is_err() {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return Err(ScanError::Full);
        }
        while let Some((owner, scan)) = queue.start() {
            let shared = Arc::clone(&self.shared);
            drop(tokio::task::spawn_blocking(move || {
                at_low_priority(|| shared.run_scans(owner, scan))
            }));
        }
        Ok(())
    }
}

/// Runs `work` on a separate thread, because only a privileged thread gets its priority back.
///
/// If the system has no thread left, `work` runs on this one. A scan that never ran would keep its
/// place for ever.
fn at_low_priority(work: impl FnOnce() + Send) {
    let mut work = Some(work);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("scan".to_owned());
        let started = thread.spawn_scoped(scope, || {
            lower_priority();
            if let Some(work) = work.take() {
                work();
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "a scan has no thread of its own");
        }
    });
    if let Some(work) = work.take() {
        work();
    }
}

impl<K: Clone + Eq + Hash> ScanPool<K> {
    /// Ends the waiting scans; their callers get [`ScanError::Failed`].
    fn close(&self) {
        drop(self.shared.queue.lock().clear());
    }
}

impl<K: Clone + Eq + Hash> SharedQueue<K> {
    /// Runs scans for as long as one waits for this thread's place.
    fn run_scans(&self, owner: K, scan: Scan) {
        let mut next = Some((owner, scan));
        while let Some((owner, scan)) = next {
            if catch_unwind(AssertUnwindSafe(scan)).is_err() {
                // The panic hook has written why. The caller is answered by the dropped sender.
                tracing::error!("a read panicked");
            }
            self.finished.fetch_add(1, Ordering::Relaxed);
            let mut queue = self.queue.lock();
            queue.finish(&owner);
            next = queue.start();
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for ScanPool<K> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<K: Clone + Eq + Hash> std::fmt::Debug for ScanPool<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScanPool")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool(running_max: usize, waiting_max: usize) -> Arc<ScanPool<char>> {
        let bounds = ScanBounds { running_max, waiting_max, waiting_per_owner_max: waiting_max };
        Arc::new(ScanPool::new(bounds))
    }

    async fn until(pool: &ScanPool<char>, is_so: impl Fn(ScanFigures) -> bool) {
        while !is_so(pool.figures()) {
            tokio::task::yield_now().await;
        }
    }

    /// Holds a place until the sender is used or dropped.
    async fn hold(pool: &Arc<ScanPool<char>>) -> mpsc::Sender<()> {
        let (go, may_go) = mpsc::channel();
        let held = Arc::clone(pool);
        tokio::spawn(async move { held.run(&'a', move || may_go.recv()).await });
        until(pool, |it| it.running == 1).await;
        go
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_scan_runs_at_a_lower_priority_and_nothing_else_does() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let (pool, before) = (pool(1, 1), niceness());
        for _ in 0..2 {
            assert_eq!(pool.run(&'a', niceness).await, Ok(crate::task::NICENESS));
            let short = tokio::task::spawn_blocking(niceness).await.unwrap();
            assert_eq!((short, niceness()), (before, before));
        }
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_takes_more_when_there_is_room() {
        let pool = pool(1, 1);
        let held = hold(&pool).await;
        let waits = Arc::clone(&pool);
        let waits = tokio::spawn(async move { waits.run(&'b', || 2).await });
        until(&pool, |it| it.waiting == 1).await;
        assert_eq!(pool.run(&'c', || 3).await, Err(ScanError::Full));
        drop(held);
        assert_eq!(waits.await.unwrap(), Ok(2));
        assert_eq!(pool.run(&'c', || 3).await, Ok(3));
        until(&pool, |it| (it.running, it.finished, it.refused) == (0, 3, 1)).await;
    }

    #[tokio::test]
    async fn a_scan_that_panics_harms_no_other() {
        let pool = pool(1, 9);
        let panicked = pool.run(&'a', || panic!("a damaged record")).await;
        assert_eq!(panicked, Err::<(), _>(ScanError::Failed));
        assert_eq!(pool.run(&'a', || 1).await, Ok(1));
        until(&pool, |it| it.running == 0).await;
    }

    #[tokio::test]
    async fn a_scan_whose_caller_has_given_up_does_not_run() {
        let pool = pool(1, 9);
        let held = hold(&pool).await;
        let (ran, has_run) = mpsc::channel();
        let waits = Arc::clone(&pool);
        let waits = tokio::spawn(async move { waits.run(&'b', move || ran.send(())).await });
        until(&pool, |it| it.waiting == 1).await;
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        drop(held);
        assert_eq!(pool.run(&'b', || 3).await, Ok(3));
        assert!(has_run.try_recv().is_err());
    }

    #[tokio::test]
    async fn all_places_are_used_at_once() {
        let pool = pool(3, 9);
        let (all, meet) = (Arc::clone(&pool), Arc::new(std::sync::Barrier::new(3)));
        let scans = (0..3).map(|_| {
            let (pool, meet) = (Arc::clone(&all), Arc::clone(&meet));
            tokio::spawn(async move { pool.run(&'a', move || meet.wait().is_leader()).await })
        });
        // The scans end only if they run at the same time.
        for scan in scans.collect::<Vec<_>>() {
            scan.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_pool_that_is_dropped_answers_what_waits() {
        let pool = pool(1, 9);
        let held = hold(&pool).await;
        let (sender, answer) = oneshot::channel::<()>();
        pool.queue(&'b', Box::new(move || sender.send(()).unwrap())).unwrap();
        pool.close();
        assert!(answer.await.is_err());
        drop(held);
    }
}
