//! The newest entries of each shard's log, as this node has read or written them.
//!
//! NATS has them too. A repair uses these where it has lost them. They are in
//! `DATA/entries/SHARD/`, in files of which each begins where a checkpoint was noted, and those are
//! kept that have what follows the second last one. One thread writes them, and syncs them each
//! second. What waits for it is bounded: more is left out, and so is what a disk does not take.

mod file;
mod read;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use postrider_actors::store::postrider_log::{Entry, Kind};
use postrider_cluster::clock::{BootClock, SteadyClock as _};

use self::file::ShardFiles;
pub(super) use self::read::{KeptFiles, Place, some_from, write_all};

/// Where they are, below the data directory.
const ENTRIES: &str = "entries";
/// Most bytes that wait to be written.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How often they are synced, in milliseconds, and how often it is looked whether that is due.
const SYNCED_EVERY_MS: u64 = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where the entries of a shard are, below a data directory.
pub(super) fn directory(data: &Path, shard: u16) -> PathBuf {
    data.join(ENTRIES).join(format!("{shard:03}"))
}

/// What the thread does, in this order.
enum Order {
    Keep(u16, Entry),
    Forget(u16),
}

/// The entries that a node keeps.
pub(super) struct KeptEntries {
    /// What the thread is asked through, and the thread, until it is ended.
    running: Mutex<Option<(Sender<Order>, JoinHandle<()>)>>,
    waiting: Arc<AtomicUsize>,
    is_full: AtomicBool,
}

impl KeptEntries {
    /// Those below a data directory.
    pub(super) fn begin(data: &Path) -> io::Result<Self> {
        let (orders, taken) = channel();
        let (data, waiting) = (data.to_owned(), Arc::<AtomicUsize>::default());
        let counted = waiting.clone();
        let thread = std::thread::Builder::new().name("cluster-entries".to_owned());
        let thread = thread.spawn(move || write(&data, &taken, &counted))?;
        let running = Mutex::new(Some((orders, thread)));
        Ok(Self { running, waiting, is_full: AtomicBool::new(false) })
    }

    /// Keeps an entry that follows the last one. It does not block.
    pub(super) fn keep(&self, shard: u16, entry: Entry) {
        let bytes = entry.bytes.len();
        if self.waiting.load(Ordering::Acquire) + bytes > WAITING_BYTES_MAX {
            if !self.is_full.swap(true, Ordering::AcqRel) {
                tracing::warn!(shard, "the disk is slow: not all entries of logs are kept here");
            }
            return;
        }
        self.is_full.store(false, Ordering::Release);
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
        self.order(Order::Keep(shard, entry));
    }

    /// Removes those of a shard.
    pub(super) fn forget(&self, shard: u16) {
        self.order(Order::Forget(shard));
    }

    fn running(&self) -> MutexGuard<'_, Option<(Sender<Order>, JoinHandle<()>)>> {
        // Nobody panics while holding it.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) {
        if let Some((orders, _)) = &*self.running() {
            // It fails only when the thread has ended.
            drop(orders.send(order));
        }
    }

    /// Writes what waits, and keeps nothing more. Blocks.
    pub(super) fn end(&self) {
        let running = self.running().take();
        if let Some((orders, thread)) = running {
            drop(orders);
            // One that panicked has ended.
            drop(thread.join());
        }
    }
}

/// Writes what is kept until nobody keeps anything any more.
fn write(data: &Path, taken: &Receiver<Order>, waiting: &AtomicUsize) {
    let mut shards = BTreeMap::<u16, ShardFiles>::new();
    let (mut has_failed, mut synced) = (false, BootClock.now_ms());
    loop {
        let mut done = match taken.recv_timeout(LOOK_EVERY) {
            Ok(Order::Keep(shard, entry)) => {
                waiting.fetch_sub(entry.bytes.len(), Ordering::AcqRel);
                let new = || ShardFiles::new(directory(data, shard));
                let begins_anew = entry.header.kind == Kind::Checkpoint;
                shards.entry(shard).or_insert_with(new).keep(&entry, begins_anew)
            }
            Ok(Order::Forget(shard)) => {
                shards.remove(&shard);
                file::remove(&directory(data, shard))
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                // What is not synced survives all but a power cut.
                drop(shards.values_mut().try_for_each(ShardFiles::sync));
                break;
            }
        };
        if BootClock.now_ms() >= synced + SYNCED_EVERY_MS {
            done = done.and(shards.values_mut().try_for_each(ShardFiles::sync));
            synced = BootClock.now_ms();
        }
        match done {
            Ok(()) => has_failed = false,
            // The disk is watched elsewhere, and nothing rests on these.
            Err(error) if !std::mem::replace(&mut has_failed, true) => {
                tracing::warn!(%error, "entries of logs are not kept here");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
