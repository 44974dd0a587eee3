//! Removes deleted workspaces: their rows are deleted in slices, beside the actors.
//!
//! [`Table::Meta`] holds a mark under `removed/ ‖ workspace`, a version byte. It exists from the
//! commit that ends a workspace until its last row is deleted. A start continues the removals with
//! marks. The commit that deletes the mark also ends the workspace in the journal, so its id can be
//! used again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use postrider_domain::{Event, WorkspaceId};
use postrider_store::{
    Batch, Change, ChangeRef, CommitError, Direction, StoreError, Table, Usage, View,
};
use tokio::sync::oneshot;

use crate::mailbox::slot::Slot;
use crate::services::Services;
use crate::sweep::{SLICE_MAX, after};

/// The prefix of the keys of the marks.
const MARKS: &[u8] = b"removed/";
const VERSION: u8 = 1;
/// The wait for running commands, and after a failure.
const WAIT: Duration = Duration::from_millis(200);

fn mark_key(id: &WorkspaceId) -> Vec<u8> {
    [MARKS, id.as_str().as_bytes()].concat()
}

/// Marks a workspace as deleted.
#[must_use]
pub fn mark(id: &WorkspaceId) -> Change {
    Change::put(Table::Meta, mark_key(id), [VERSION])
}

/// Returns whether rows of a deleted workspace with this id may be left.
///
/// # Errors
/// Those of [`View::get`].
pub fn is_marked(store: &dyn View, id: &WorkspaceId) -> Result<bool, StoreError> {
    Ok(store.get(Table::Meta, &mark_key(id))?.is_some())
}

/// Returns the deleted workspaces of which rows may be left.
///
/// # Errors
/// Those of [`View::scan`].
pub fn all_marked(store: &dyn View) -> Result<Vec<WorkspaceId>, StoreError> {
    let mut ids = Vec::new();
    store.scan(Table::Meta, MARKS, None, Direction::Forward, &mut |key, _| {
        let id = std::str::from_utf8(&key[MARKS.len()..]);
        // The id was checked before it was written.
        ids.extend(id.ok().and_then(|id| id.parse().ok()));
        ControlFlow::Continue(())
    })?;
    Ok(ids)
}

/// Removes the rows of a marked workspace, in the background.
///
/// `slot` is its former entry, whose last commands may be running.
pub fn begin(shared: &Arc<Services>, id: WorkspaceId, slot: Option<Arc<Slot>>) {
    // Its state from the start is useless.
    drop(shared.recovered.take(&id));
    shared.portfolios.forget(&id);
    let shared = Arc::clone(shared);
    drop(tokio::spawn(async move {
        loop {
            match step(&shared, &id, slot.as_deref()).await {
                Ok(true) => break tracing::info!(workspace = %id, "a deleted workspace is removed"),
                Ok(false) => {}
                // The engine stops. The next start continues.
                Err(CommitError::Closed) => break,
                Err(error) => {
                    tracing::warn!(workspace = %id, %error, "a workspace is not removed yet");
                }
            }
            tokio::time::sleep(WAIT).await;
        }
    }));
}

/// Deletes the existing rows. Returns whether the workspace is removed.
///
/// In that case there were no rows, and none can have been written since.
async fn step(
    shared: &Arc<Services>,
    id: &WorkspaceId,
    slot: Option<&Slot>,
) -> Result<bool, CommitError> {
    let is_quiet = slot.is_none_or(|slot| slot.is_quiet());
    shared.writer.barrier().await?;
    let mut found = false;
    for table in Table::ALL.iter().copied().filter(|table| table.is_of_workspaces()) {
        found |= delete_rows(shared, id, table).await?;
    }
    if found || !is_quiet {
        return Ok(false);
    }
    finish(shared, id).await?;
    Ok(true)
}

/// Deletes the workspace's rows of a table. Returns whether there were any.
async fn delete_rows(
    shared: &Arc<Services>,
    id: &WorkspaceId,
    table: Table,
) -> Result<bool, CommitError> {
    let prefix = [id.as_str().as_bytes(), &[0]].concat();
    let mut from = prefix.clone();
    let mut found = false;
    loop {
        // Other deletions have their turns, too.
        let Some(_turn) = shared.sweep_turns.take().await else { return Err(CommitError::Closed) };
        let (store, begin, within) = (Arc::clone(&shared.store), from.clone(), prefix.clone());
        let read = move || slice(store.as_ref(), table, &within, &begin);
        let interrupted = |_| StoreError::Failed("reading stopped half-way".into());
        let keys = tokio::task::spawn_blocking(read).await.map_err(interrupted)??;
        let Some(last) = keys.last() else { return Ok(found) };
        (from, found) = (after(last), true);
        let deletions = keys.into_iter().map(|key| Change::delete(table, key)).collect();
        shared.writer.commit(deletions).await?;
    }
}

/// Returns some keys of a table that start with `prefix`, from `begin` on.
fn slice(
    store: &dyn View,
    table: Table,
    prefix: &[u8],
    begin: &[u8],
) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut keys = Vec::new();
    store.scan(table, prefix, Some(begin), Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
        match keys.len() < SLICE_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(keys)
}

/// Ends the workspace in the journal and deletes its mark, in one commit.
async fn finish(shared: &Services, id: &WorkspaceId) -> Result<(), CommitError> {
    let (sender, settled) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let notify = move |_, result| {
        if let Some(sender) = sender.lock().take() {
            // The receiver is dropped only with the engine.
            drop(sender.send(result));
        }
    };
    let subscriber = shared.writer.subscribe(id.clone(), Box::new(notify));
    let mut events = Vec::new();
    Event::WorkspaceDeleted.encode_into(&mut events);
    let (mark, usage) = (mark_key(id), Usage::key(id));
    let deletion = |key| ChangeRef { table: Table::Meta, key, value: None };
    let changes = [deletion(mark.as_slice()), deletion(usage.as_slice())];
    subscriber.submit(Batch { events: &events, changes: &changes, ..Batch::default() })?;
    settled.await.unwrap_or(Err(CommitError::Closed))
}
