//! Indexing of the workspaces' event logs by the subjects of events, a block at a time.
//!
//! It runs beside the actors: a block is written once the log has passed it, so no command waits
//! for it. Events behind the index are found by reading the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use postrider_store::StoreError;
use postrider_store::view::event_index;
use tokio::task::JoinHandle;

use crate::mailbox::slot::Slot;
use crate::services::Services;

/// Indexes the logs that have passed a block.
#[derive(Debug, Default)]
pub struct LogIndex(Option<JoinHandle<()>>);

impl LogIndex {
    /// Starts to index due blocks at a beat, unless a task is already running.
    pub fn beat(&mut self, shared: &Arc<Services>) {
        let runs = self.0.as_ref().is_some_and(|task| !task.is_finished());
        if runs || !shared.writer.is_healthy() {
            return;
        }
        let mut due = shared.workspaces.slots();
        due.retain(|slot| is_due(slot));
        if !due.is_empty() {
            self.0 = Some(tokio::spawn(index(Arc::clone(shared), due)));
        }
    }
}

/// Returns whether a log may have passed its next block. After a start each is looked at once.
fn is_due(slot: &Slot) -> bool {
    slot.log_last.load(Ordering::Relaxed) >= slot.index_due.load(Ordering::Relaxed)
}

/// Indexes the next blocks of these logs, in turns.
async fn index(shared: Arc<Services>, mut due: Vec<Arc<Slot>>) {
    while !due.is_empty() {
        let mut left = Vec::new();
        for slot in due {
            // Where nothing can be read or written now, a later beat goes on.
            if index_block(&shared, &slot).await == Some(true) {
                left.push(slot);
            }
        }
        due = left;
    }
}

/// Indexes the next block of a log if the log has passed it. Returns whether it had.
///
/// `None` if nothing can be read or written now.
async fn index_block(shared: &Services, slot: &Arc<Slot>) -> Option<bool> {
    // The deletion of a workspace waits for it, and a later workspace has another entry.
    let _task = slot.begin_task();
    let known = shared.workspaces.slot(&slot.id);
    if !known.is_some_and(|known| Arc::ptr_eq(&known, slot)) {
        return Some(false);
    }
    let (store, id) = (Arc::clone(&shared.store), slot.id.clone());
    let read = move || event_index::next_block(store.as_ref(), &id);
    let (end, changes) = match shared.scans.run(&slot.id, read).await.ok()? {
        Ok(next) => next,
        Err(StoreError::Damaged(why)) => {
            // It is not tried again before a restart.
            tracing::error!(workspace = %slot.id, why, "an event log cannot be indexed");
            slot.index_due.store(u64::MAX, Ordering::Relaxed);
            return Some(false);
        }
        Err(_) => return None,
    };
    let Some(changes) = changes else {
        slot.index_due.store(end, Ordering::Relaxed);
        return Some(false);
    };
    shared.writer.commit(changes).await.ok()?;
    Some(true)
}
