//! The hold of an engine is a record, so that it outlives restarts.
//!
//! It starts when a start finds the file that a restore leaves in the data directory.
//! [`Admin::release`](crate::Admin::release) ends it.

use std::path::PathBuf;

use postrider_domain::{AuditContext, AuditEntry, Timestamp};
use postrider_runtime::hold::Hold;
use postrider_store::{Change, StoreError, Table, View, Writer, directory};

use super::{Durability, EngineOptions, StartError};
use crate::audit::record_of;

/// The key of the start of the hold, in [`Table::Meta`]: a version byte, then milliseconds.
pub(crate) const HOLD_KEY: &[u8] = b"held";
const VERSION: u8 = 1;

/// Returns whether the record exists.
fn is_recorded(store: &dyn View) -> Result<bool, StoreError> {
    match store.get(Table::Meta, HOLD_KEY)? {
        None => Ok(false),
        Some(value) if value.first().is_some_and(|version| *version > VERSION) => {
            Err(StoreError::Newer("the record that the server is held".into()))
        }
        Some(_) => Ok(true),
    }
}

/// Reads whether the engine is held, before anything can leave it. A file that requests the hold
/// becomes the record durably, and is only then deleted.
pub(super) async fn at_start(
    options: &EngineOptions,
    store: &dyn View,
    writer: &Writer,
) -> Result<Hold, StartError> {
    let hold = Hold::under(options.tenure.clone());
    let mut is_held = is_recorded(store)?;
    if let Some(dir) = requested_in(options).await? {
        if !is_held {
            let now = options.clock.now();
            let moment = [&[VERSION][..], &now.as_millis().to_be_bytes()].concat();
            let entry = AuditEntry::new("server.hold");
            let record = record_of(now, &AuditContext::system(), entry);
            let changes = vec![Change::put(Table::Meta, HOLD_KEY, moment), record];
            let failed = |error| StartError::Directory(format!("being held was not kept: {error}"));
            writer.commit(changes).await.map_err(failed)?;
            is_held = true;
        }
        blocking(move || directory::forget_asked_to_hold(&dir)).await?;
    }
    if is_held {
        tracing::warn!("the server is held: nothing leaves it until `postrider release`");
        hold.begin();
    }
    Ok(hold)
}

/// Returns the directory, if a file in it requests the hold.
async fn requested_in(options: &EngineOptions) -> Result<Option<PathBuf>, StartError> {
    let Durability::Disk(dir) = &options.durability else { return Ok(None) };
    let dir = dir.clone();
    blocking(move || Ok(directory::asks_to_hold(&dir)?.then_some(dir))).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, directory::DirectoryError> + Send + 'static,
) -> Result<T, StartError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| StartError::Directory(error.to_string()))??)
}

/// Returns the changes that end the hold.
pub(crate) fn release_changes(
    now: Timestamp,
    caller: &AuditContext,
    was_held: bool,
) -> Vec<Change> {
    let entry = AuditEntry::new("server.release").change("held", was_held);
    vec![Change::delete(Table::Meta, HOLD_KEY), record_of(now, caller, entry)]
}
