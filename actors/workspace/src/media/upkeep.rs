//! Gets what is still to be got, and removes what is over or what no record names.

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
use super::commands::{Recount, noted};
use super::{MediaState, OFFERED, all_names, api, pending_prefix, prefix, used_key};
use crate::Workspace;
use crate::mailbox::slot::Slot;
use crate::media_files::MediaFetch;
use crate::services::Services;

/// How often it is looked for contents that are still to be got.
const EVERY: Duration = Duration::from_secs(60);
/// How often it is looked for files whose time is over.
const EXPIRED_EVERY: Duration = Duration::from_secs(600);
/// How often it is looked for contents that no record names, and bytes are counted anew.
const UNNAMED_EVERY: Duration = Duration::from_secs(3600);
/// Most contents of a workspace that one round has got.
const FETCHED_AT_ONCE: usize = 100;
/// Most records of a workspace that are read for files whose time is over, each time.
const EXPIRED_READ_MAX: usize = 10_000;
/// Most files that one command removes.
const REMOVED_AT_ONCE: usize = 200;
/// The pause between two parts of what a start looks through.
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

/// Gets contents that could not be got before, or that a crash came between. Each round goes on
/// behind the last file of the round before, so that those that stay pending hold up no others.
async fn fetch_pending(shared: &Arc<Services>, fetched: &mut HashMap<WorkspaceId, MediaId>) {
    for slot in shared.workspaces.slots() {
        let (id, workspace) = (slot.id.clone(), Workspace::new(Arc::clone(shared), slot));
        let after = fetched.remove(&id);
        let bounds = Bounds { found: FETCHED_AT_ONCE, read: FETCHED_AT_ONCE };
        let Found { mut ids, last, is_end, .. } =
            some(&workspace, pending_prefix, after, bounds, |_| true).await;
        let now = shared.clock.now();
        // Those that nobody has asked for are given up once the channel has forgotten them.
        let waits = |id: &MediaId| {
            shared.media.options.fetch == MediaFetch::OnDemand && now < id.timestamp().plus(OFFERED)
        };
        // What follows one that waits is younger, and waits too.
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
            stored.map(noted).unwrap_or_default()
        };
        reading.workspaces.slots().iter().map(|slot| used(slot)).sum::<u64>()
    });
    // It has panicked where it gives nothing.
    if let Ok(bytes) = counting.await {
        shared.media.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Removes the contents that no record names, and counts anew how much each workspace has: records
/// go with what a contact has written, too.
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

/// Removes the contents whose hash begins with this byte that no record names. Gives whether there
/// was no content at all.
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
                // It looks again whether anybody names them.
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

/// The contents whose hash begins with this byte that records name.
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

/// Removes files whose time is over. Each round reads a bounded part of a workspace's files, and
/// goes on behind it the next time; nobody is shown a file that waits for that.
async fn remove_expired(shared: &Arc<Services>, read: &mut HashMap<WorkspaceId, MediaId>) {
    let now = shared.clock.now();
    // As their records promise, whatever the setting is now. Pending ones are given up before.
    let is_over = move |json: &[u8]| {
        let state = codec::decode::<MediaState>(json);
        state.is_ok_and(|state| !state.is_pending() && state.expires_at <= now)
    };
    for slot in shared.workspaces.slots() {
        let (id, workspace) = (slot.id.clone(), Workspace::new(Arc::clone(shared), slot));
        let (mut after, mut left) = (read.remove(&id), EXPIRED_READ_MAX);
        while left > 0 {
            let bounds = Bounds { found: REMOVED_AT_ONCE, read: left };
            let found = some(&workspace, prefix, after, bounds, is_over).await;
            // A later round goes on; the other workspaces do not wait for it.
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

/// How much is looked through at once.
#[derive(Clone, Copy)]
struct Bounds {
    /// Most files that are found.
    found: usize,
    /// Most records that are read.
    read: usize,
}

/// What was found.
#[derive(Default)]
struct Found {
    ids: Vec<MediaId>,
    /// How many records were read.
    read: usize,
    /// The last of them.
    last: Option<MediaId>,
    /// Whether there are no more, or they cannot be read now.
    is_end: bool,
}

/// The ids of the first files below a prefix, behind `after`, whose records are wanted.
async fn some(
    workspace: &Workspace,
    prefix: fn(&WorkspaceId) -> Vec<u8>,
    after: Option<MediaId>,
    bounds: Bounds,
    is_wanted: impl Fn(&[u8]) -> bool + Send + 'static,
) -> Found {
    let read = workspace.read(move |store, workspace| {
        let (prefix, mut found) = (prefix(workspace), Found { is_end: true, ..Found::default() });
        // The least key behind that file's.
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
    read.await.unwrap_or_else(|_| Found { is_end: true, ..Found::default() })
}

impl Workspace {
    /// Counts anew how many bytes of files the workspace has.
    async fn recount_media(&self) -> Result<(), Unavailable> {
        let counting = self.read(|store, workspace| {
            let noted =
                || Ok::<_, StoreError>(noted(store.get(Table::Media, &used_key(workspace))?));
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
        self.perform(Recount { noted, counted }).await
    }
}
