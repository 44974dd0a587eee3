//! Downloads pending contents, and removes those that have expired or that no record names.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MediaId, Timestamp, WorkspaceId};
use postrider_store::blobs::BlobHash;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table};

use super::api::ReleaseError;
use super::commands::{RecountBytes, stored_count};
use super::{MediaState, OFFERED, all_names, api, pending_prefix, prefix, used_key};
use crate::Workspace;
use crate::mailbox::slot::Slot;
use crate::media_files::MediaFetch;
use crate::services::Services;

/// The time between two rounds of pending downloads.
const EVERY: Duration = Duration::from_secs(60);
/// The time between two searches for expired files.
const EXPIRED_EVERY: Duration = Duration::from_secs(600);
/// The time between two searches for unnamed contents, with a recount of bytes.
const UNNAMED_EVERY: Duration = Duration::from_secs(3600);
/// The maximum number of a workspace's contents that one round downloads.
const FETCHED_AT_ONCE: usize = 100;
/// The maximum number of a workspace's records that one search for expired files reads.
const EXPIRED_READ_MAX: usize = 10_000;
/// The maximum number of files that one command removes.
const REMOVED_AT_ONCE: usize = 200;
/// The pause between two parts of the search at the start.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until the engine has stopped.
pub async fn run(shared: Weak<Services>) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else { return };
    let (mut expired, mut unnamed) = (Timestamp::default(), Timestamp::default());
    let (mut fetched, mut read) = (HashMap::new(), HashMap::new());
    loop {
        let Some(engine) = shared.upgrade() else { return };
        fetch_pending(&engine, &mut fetched).await;
        count_bytes(&engine).await;
        if expired <= clock.now() && !clock.deletion_rests() {
            expired = clock.now().plus(EXPIRED_EVERY);
            remove_expired(&engine, &mut read).await;
        }
        drop(engine);
        if unnamed <= clock.now() {
            unnamed = clock.now().plus(UNNAMED_EVERY);
            remove_all_unnamed(&shared).await;
        }
        clock.sleep_until(clock.now().plus(EVERY)).await;
    }
}

/// Downloads contents after a failure or a crash.
///
/// Each round continues behind the last file of the previous one, so that files that stay pending
/// hold up no others.
async fn fetch_pending(shared: &Arc<Services>, fetched: &mut HashMap<WorkspaceId, MediaId>) {
    for slot in shared.workspaces.slots() {
        let (id, workspace) = (slot.id.clone(), Workspace::new(Arc::clone(shared), slot));
        let after = fetched.remove(&id);
        let bounds = SearchBounds { found: FETCHED_AT_ONCE, read: FETCHED_AT_ONCE };
        let FoundFiles { mut ids, last, is_end, .. } =
            find_files(&workspace, pending_prefix, after, bounds, |_| true).await;
        let now = shared.clock.now();
        // Files without a request are given up once the channel has deleted them.
        let waits = |id: &MediaId| {
            shared.media.options.fetch == MediaFetch::OnDemand && now < id.timestamp().plus(OFFERED)
        };
        // The files after one that waits are younger, and wait too.
        if let Some(last) = last.filter(|last| !is_end && !waits(last)) {
            fetched.insert(id, last);
        }
        ids.retain(|id| !shared.media.fetches.contains_key(id) && !waits(id));
        workspace.fetch_soon(ids);
    }
}

/// Counts the bytes of the files of all workspaces.
async fn count_bytes(shared: &Arc<Services>) {
    let reading = Arc::clone(shared);
    let counting = tokio::task::spawn_blocking(move || {
        let used = |slot: &Slot| {
            let stored = reading.store.get(Table::Media, &used_key(&slot.id));
            stored.map(stored_count).unwrap_or_default()
        };
        reading.workspaces.slots().iter().map(|slot| used(slot)).sum::<u64>()
    });
    // It has panicked if it returns nothing.
    if let Ok(bytes) = counting.await {
        shared.media.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Removes the contents that no record names, and recounts the bytes of each workspace.
///
/// Records are also deleted with the messages of a contact.
async fn remove_all_unnamed(shared: &Weak<Services>) {
    for first in 0..=u8::MAX {
        let Some(shared) = shared.upgrade() else { return };
        let is_none = remove_unnamed(&shared, first).await;
        drop(shared);
        if !is_none {
            tokio::time::sleep(PAUSE).await;
        }
    }
    let Some(shared) = shared.upgrade() else { return };
    for slot in shared.workspaces.slots() {
        // The next round tries it again.
        Workspace::new(Arc::clone(&shared), slot).recount_media().await.ok();
    }
}

/// Removes the contents whose hash starts with this byte and that no record names.
///
/// Returns whether there was no content at all.
async fn remove_unnamed(shared: &Arc<Services>, first: u8) -> bool {
    let Some(blobs) = shared.media.blobs.clone() else { return true };
    let reading = Arc::clone(shared);
    let unnamed = move || {
        let mut contents = blobs.list(first)?;
        let is_none = contents.is_empty();
        if !is_none {
            let named = named(&reading, first)?;
            contents.retain(|hash| !named.contains(hash));
        }
        Ok::<_, ReleaseError>((contents, is_none))
    };
    match tokio::task::spawn_blocking(unnamed).await {
        Ok(Ok((contents, is_none))) => {
            if !contents.is_empty() {
                // It checks again whether a record names them.
                api::release(shared, contents).await;
            }
            is_none
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the contents of files cannot be listed");
            false
        }
        Err(_) => false,
    }
}

/// Returns the contents whose hash starts with this byte and that records name.
fn named(shared: &Services, first: u8) -> Result<HashSet<BlobHash>, StoreError> {
    let mut named = HashSet::new();
    for slot in shared.workspaces.slots() {
        let (all, prefix) = (all_names(&slot.id), [&*all_names(&slot.id), &[first]].concat());
        let visit = &mut |key: &[u8], _: &[u8]| {
            let hash = key[all.len()..].first_chunk();
            named.extend(hash.map(|hash| BlobHash(*hash)));
            ControlFlow::Continue(())
        };
        shared.store.scan(Table::Media, &prefix, None, Direction::Forward, visit)?;
    }
    Ok(named)
}

/// Removes expired files.
///
/// Each round reads a bounded part of a workspace's files, and the next one continues behind it. An
/// expired file is shown to no caller meanwhile.
async fn remove_expired(shared: &Arc<Services>, read: &mut HashMap<WorkspaceId, MediaId>) {
    let now = shared.clock.now();
    // The expiry in their records holds, whatever the setting is now. Pending files are given up
    // earlier.
    let is_over = move |json: &[u8]| {
        let state = codec::decode::<MediaState>(json);
        state.is_ok_and(|state| !state.is_pending() && state.expires_at <= now)
    };
    for slot in shared.workspaces.slots() {
        let (id, workspace) = (slot.id.clone(), Workspace::new(Arc::clone(shared), slot));
        let (mut after, mut left) = (read.remove(&id), EXPIRED_READ_MAX);
        while left > 0 {
            let bounds = SearchBounds { found: REMOVED_AT_ONCE, read: left };
            let found = find_files(&workspace, prefix, after, bounds, is_over).await;
            // A later round continues; the other workspaces do not wait for it.
            let is_removed =
                found.ids.is_empty() || workspace.remove_all_media(found.ids).await.is_ok();
            if !is_removed || found.is_end {
                after = None;
                break;
            }
            (after, left) = (found.last, left.saturating_sub(found.read));
        }
        if let Some(after) = after {
            read.insert(id, after);
        }
    }
}

/// The bounds of one search.
#[derive(Clone, Copy)]
struct SearchBounds {
    /// The maximum number of files to find.
    found: usize,
    /// The maximum number of records to read.
    read: usize,
}

/// The result of one search.
#[derive(Default)]
struct FoundFiles {
    ids: Vec<MediaId>,
    /// The number of records that were read.
    read: usize,
    /// The last of them.
    last: Option<MediaId>,
    /// Set if there are no more, or they cannot be read now.
    is_end: bool,
}

/// Returns the ids of the first files below a prefix, behind `after`, whose records are wanted.
async fn find_files(
    workspace: &Workspace,
    prefix: fn(&WorkspaceId) -> Vec<u8>,
    after: Option<MediaId>,
    bounds: SearchBounds,
    is_wanted: impl Fn(&[u8]) -> bool + Send + 'static,
) -> FoundFiles {
    let read = workspace.read(move |store, workspace| {
        let (prefix, mut found) =
            (prefix(workspace), FoundFiles { is_end: true, ..FoundFiles::default() });
        // This is the least key behind that of the file.
        let from = after.map(|after| [&*prefix, after.as_bytes(), &[0]].concat());
        let visit = &mut |key: &[u8], value: &[u8]| {
            let id = key[prefix.len()..].try_into().ok().map(MediaId::from_bytes);
            found.ids.extend(id.filter(|_| is_wanted(value)));
            (found.last, found.read) = (id, found.read + 1);
            if found.ids.len() < bounds.found && found.read < bounds.read {
                return ControlFlow::Continue(());
            }
            found.is_end = false;
            ControlFlow::Break(())
        };
        store.scan(Table::Media, &prefix, from.as_deref(), Direction::Forward, visit)?;
        Ok(found)
    });
    read.await.unwrap_or_else(|_| FoundFiles { is_end: true, ..FoundFiles::default() })
}

impl Workspace {
    /// Recounts the bytes of the workspace's files.
    async fn recount_media(&self) -> Result<(), Unavailable> {
        let counting = self.read(|store, workspace| {
            let noted = || {
                Ok::<_, StoreError>(stored_count(store.get(Table::Media, &used_key(workspace))?))
            };
            let (before, mut counted, mut failed) = (noted()?, 0, None);
            let prefix = prefix(workspace);
            store.scan(Table::Media, &prefix, None, Direction::Forward, &mut |_, json| {
                match codec::decode::<MediaState>(json) {
                    Ok(state) => counted += state.size,
                    Err(error) => failed = Some(error),
                }
                ControlFlow::Continue(())
            })?;
            match failed {
                Some(error) => Err(error),
                None => Ok((before, counted, noted()?)),
            }
        });
        let (noted, counted, after) = counting.await?;
        if noted != after || noted == counted {
            return Ok(());
        }
        self.perform(RecountBytes { noted, counted }).await
    }
}
