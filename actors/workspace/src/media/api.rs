//! The operations of a workspace on files, and the bytes of those that are being received.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::MediaId;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_runtime::random;
use postrider_store::blobs::{BlobHash, BlobReader, BlobStore, Pinned, Staged};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

use super::commands::{AddMedia, RemoveMedia, RemovedMedia, check_room, stored_count};
use super::{AddMediaError, MediaState, media_key, names, used_key};
use crate::Workspace;
use crate::core::command::Footprint;
use crate::services::Services;

/// The time for which a content is pinned if it is unknown whether a record names it.
const UNKNOWN_PINNED: Duration = Duration::from_secs(60);

/// The content of a file, which is read part by part.
pub struct MediaBytes(Box<dyn BlobReader>);

impl MediaBytes {
    /// Returns up to `max` bytes from `offset` on; none at the end. Blocks.
    ///
    /// # Errors
    /// The bytes cannot be read.
    pub fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        self.0.read_at(offset, max)
    }
}

/// The reason why a content was not removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReleaseError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Workspace {
    /// Adds a file. When this returns, it is durable with its content.
    ///
    /// It continues if the caller no longer waits: its content is pinned until its record is
    /// durable.
    ///
    /// # Errors
    /// [`AddMediaError`]: there would be too many bytes, or the workspace is unavailable.
    pub async fn add_media(
        &self,
        staged: Staged,
        mime_type: &str,
        filename: Option<String>,
    ) -> Result<MediaState, AddMediaError> {
        let (workspace, mime_type) = (self.clone(), mime_type.to_owned());
        let adding = async move { workspace.add_staged(staged, mime_type, filename).await };
        let failed = || Unavailable::because(UnavailableReason::Storage);
        tokio::spawn(adding).await.unwrap_or_else(|_| Err(failed().into()))
    }

    /// Checks that so many bytes could be added now.
    ///
    /// # Errors
    /// [`AddMediaError`]: there would be too many bytes, or the workspace is unavailable.
    pub(super) async fn may_add_media(&self, length: u64) -> Result<(), AddMediaError> {
        let used = self.read(|store, workspace| {
            Ok(stored_count(store.get(Table::Media, &used_key(workspace))?))
        });
        check_room(used.await?, length, self.shared.media.options.bytes_max)
    }

    async fn add_staged(
        &self,
        staged: Staged,
        mime_type: String,
        filename: Option<String>,
    ) -> Result<MediaState, AddMediaError> {
        let blobs = self.blobs()?;
        let keeping = blobs.clone();
        let pinned = blocking(move || keeping.keep(staged)).await?;
        let options = self.shared.media.options;
        let now = self.shared.clock.now();
        let Pinned { hash, length, .. } = pinned;
        let state = MediaState {
            media_id: MediaId::from_parts(now, random::unique()),
            mime_type,
            size: length,
            sha256: hash.to_string(),
            filename,
            created_at: now,
            expires_at: now.plus(options.kept_for),
            uploads: Vec::new(),
            message_id: None,
            error: None,
            source: None,
        };
        let added = self.perform(AddMedia { state, hash, bytes_max: options.bytes_max }).await;
        let why = match &added {
            Err(AddMediaError::Unavailable(why)) => Some(why),
            Ok(_) | Err(AddMediaError::Full { .. }) => None,
        };
        end_pin(&self.shared, pinned, added.is_ok(), why).await;
        added
    }

    /// Returns a file; `None`: there is none with that id, or it was deleted.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn media(&self, id: MediaId) -> Result<Option<MediaState>, Unavailable> {
        let now = self.shared.clock.now();
        let found = self.read(move |store, workspace| {
            let json = store.get(Table::Media, &media_key(workspace, id))?;
            json.map(|json| codec::decode::<MediaState>(&json)).transpose()
        });
        Ok(found.await?.filter(|state| state.expires_at > now))
    }

    /// Returns the content of a file; `None` when it is missing.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be read.
    pub async fn media_bytes(&self, state: &MediaState) -> Result<Option<MediaBytes>, Unavailable> {
        let Some(hash) = state.hash().filter(|_| state.is_ready()) else { return Ok(None) };
        let blobs = self.blobs()?;
        if blobs.stages_reads() {
            may_stage(&self.shared)?;
        }
        let opened = blocking(move || blobs.open(&hash)).await?;
        Ok(opened.map(MediaBytes))
    }

    /// Removes a file, and its content unless another file has the same.
    ///
    /// Returns whether it existed.
    ///
    /// # Errors
    /// [`Unavailable`]: the workspace cannot remove it now.
    pub async fn remove_media(&self, id: MediaId) -> Result<bool, Unavailable> {
        self.remove_all_media(vec![id]).await
    }

    pub(super) async fn remove_all_media(&self, ids: Vec<MediaId>) -> Result<bool, Unavailable> {
        let RemovedMedia { any, contents } = self.perform(RemoveMedia(ids)).await?;
        release(&self.shared, contents).await;
        Ok(any)
    }

    pub(super) fn blobs(&self) -> Result<BlobStore, Unavailable> {
        blobs(&self.shared)
    }

    /// Starts a file of which nothing has been received yet.
    #[must_use]
    pub fn receive_media(&self) -> MediaUnderWay {
        MediaUnderWay { workspace: self.clone(), bytes: 0 }
    }
}

/// Starts the content of a file, which a workspace then adds. Its writes block.
///
/// # Errors
/// [`Unavailable`]: it cannot be written.
pub async fn stage(shared: &Services) -> Result<Staged, Unavailable> {
    let blobs = blobs(shared)?;
    // This is checked before a large file is written, and not only before its record is.
    may_stage(shared)?;
    blocking(move || blobs.begin()).await
}

/// Checks that more of a content may be written now.
///
/// # Errors
/// [`Unavailable`]: the disk is almost full.
pub fn may_stage(shared: &Services) -> Result<(), Unavailable> {
    shared.disk.admit(Footprint::Grows)
}

fn blobs(shared: &Services) -> Result<BlobStore, Unavailable> {
    let blobs = shared.media.blobs.clone();
    blobs.ok_or_else(|| Unavailable::because(UnavailableReason::NoMediaStore))
}

/// Runs an action on contents, on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Unavailable> {
    let failed = || Unavailable::because(UnavailableReason::Storage);
    match tokio::task::spawn_blocking(act).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            tracing::error!(%error, "the content of a file cannot be read or written");
            Err(failed())
        }
        Err(_) => Err(failed()),
    }
}

/// Returns whether a workspace names a content.
fn is_named(shared: &Services, hash: &BlobHash) -> Result<bool, StoreError> {
    for slot in shared.workspaces.slots() {
        if names(shared.store.as_ref(), &slot.id, hash)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the pin of a content. If its record was not committed, removes the content.
///
/// `is_named` says whether the record was committed. If that is unknown, the record may still be on
/// its way to the disk. Then the pin lasts for a while, and the upkeep removes the content if no
/// record names it.
pub(super) async fn end_pin(
    shared: &Arc<Services>,
    pinned: Pinned,
    is_named: bool,
    why: Option<&Unavailable>,
) {
    if why.is_some_and(is_unknown) {
        let clock = shared.clock.clone();
        drop(tokio::spawn(async move {
            clock.sleep_until(clock.now().plus(UNKNOWN_PINNED)).await;
            drop(pinned);
        }));
        return;
    }
    let hash = pinned.hash;
    drop(pinned);
    if !is_named {
        release(shared, vec![hash]).await;
    }
}

/// Returns whether a command with this answer may still be carried out.
fn is_unknown(why: &Unavailable) -> bool {
    use UnavailableReason::{Draining, Restarting, Storage};
    matches!(why.reason, Storage | Restarting | Draining)
}

/// Removes contents that no record names. A failed removal is repeated after the next start.
pub(super) async fn release(shared: &Arc<Services>, contents: Vec<BlobHash>) {
    let Some(blobs) = shared.media.blobs.clone() else { return };
    let shared = Arc::clone(shared);
    let removing = move || {
        for hash in contents {
            let named = || Ok::<_, ReleaseError>(is_named(&shared, &hash)?);
            if let Err(error) = blobs.remove_unless(&hash, named) {
                tracing::warn!(%hash, %error, "the content of a file is not removed yet");
            }
        }
    };
    // A failure has already been reported.
    tokio::task::spawn_blocking(removing).await.ok();
}

/// The bytes that have been received of a file, until it is added or given up.
///
/// They are counted, so that many files at once fill no disk.
pub struct MediaUnderWay {
    workspace: Workspace,
    bytes: u64,
}

impl std::fmt::Debug for MediaUnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaUnderWay").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl MediaUnderWay {
    /// Checks that this file may have so many bytes.
    ///
    /// The workspace's other bytes, and those that it is receiving, count too.
    ///
    /// # Errors
    /// [`AddMediaError`]: there would be too many, or the workspace is unavailable.
    pub async fn grow_to(&mut self, bytes: u64) -> Result<(), AddMediaError> {
        let all = &self.workspace.shared.media.under_way;
        let total = {
            let mut total = all.entry(self.workspace.id().clone()).or_default();
            *total += bytes.saturating_sub(self.bytes);
            *total
        };
        self.bytes = self.bytes.max(bytes);
        self.workspace.may_add_media(total).await
    }
}

impl Drop for MediaUnderWay {
    fn drop(&mut self) {
        let all = &self.workspace.shared.media.under_way;
        let Some(mut total) = all.get_mut(self.workspace.id()) else { return };
        *total = total.saturating_sub(self.bytes);
        drop(total);
        all.remove_if(self.workspace.id(), |_, total| *total == 0);
    }
}
