//! The newest entries of each shard's log, as this node has read or written them.
//!
//! NATS has them too. A repair uses these copies for entries that NATS has lost. They are in files
//! in `DATA/entries/SHARD/`, each of which starts where a checkpoint was noted. Files are retained
//! if they have entries behind the second last checkpoint. One thread writes them, and syncs them
//! each second. The queue of that thread is bounded: entries beyond the bound are left out, and so
//! are those that a failing disk does not take.

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

/// The directory of the entries, below the data directory.
const ENTRIES: &str = "entries";
/// The maximum number of bytes that wait to be written.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// The interval of syncs in milliseconds, and the interval of checks whether a sync is due.
const SYNCED_EVERY_MS: u64 = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Returns the directory of a shard's entries, below a data directory.
pub(super) fn directory(data: &Path, shard: u16) -> PathBuf {
    data.join(ENTRIES).join(format!("{shard:03}"))
}

/// An order to the thread, which carries them out in turn.
enum Order {
    Keep(u16, Entry),
    Forget(u16),
}

/// The entries that a node retains.
pub(super) struct KeptEntries {
    /// The channel to the thread, and the thread, until it is ended.
    running: Mutex<Option<(Sender<Order>, JoinHandle<()>)>>,
    waiting: Arc<AtomicUsize>,
    is_full: AtomicBool,
}

impl KeptEntries {
    /// Starts the thread that writes below a data directory.
    pub(super) fn begin(data: &Path) -> io::Result<Self> {
        let (orders, taken) = channel();
        let (data, waiting) = (data.to_owned(), Arc::<AtomicUsize>::default());
        let counted = waiting.clone();
        let thread = std::thread::Builder::new().name("cluster-entries".to_owned());
        let thread = thread.spawn(move || write(&data, &taken, &counted))?;
        let running = Mutex::new(Some((orders, thread)));
        Ok(Self { running, waiting, is_full: AtomicBool::new(false) })
    }

    /// Retains an entry that follows the last one. Does not block.
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

    /// Removes the entries of a shard.
    pub(super) fn forget(&self, shard: u16) {
        self.order(Order::Forget(shard));
    }

    fn running(&self) -> MutexGuard<'_, Option<(Sender<Order>, JoinHandle<()>)>> {
        // No holder of the lock panics.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) {
        if let Some((orders, _)) = &*self.running() {
            // It fails only when the thread has ended.
            drop(orders.send(order));
        }
    }

    /// Writes the entries that wait, and retains no more. Blocks.
    pub(super) fn end(&self) {
        let running = self.running().take();
        if let Some((orders, thread)) = running {
            drop(orders);
            // A thread that panicked has ended too.
            drop(thread.join());
        }
    }
}

/// Writes the entries until the other end of the channel is closed.
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
                // Unsynced data survives everything but a power cut.
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
            // The disk is watched elsewhere, and nothing depends on these entries.
            Err(error) if !std::mem::replace(&mut has_failed, true) => {
                tracing::warn!(%error, "entries of logs are not kept here");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
