//! Downloads the contents of files that the channel received.

use std::sync::Arc;

use bytes::Bytes;
use postrider_channel::cloud_api::{CloudApiNumber, DownloadError, ProviderId};
use postrider_domain::MediaId;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_store::Table;
use postrider_store::blobs::{Pinned, Staged};
use postrider_store::view::codec;
use tokio::sync::mpsc;

use super::api::{blocking, end_pin, release, stage};
use super::commands::{ContentArrived, GiveUpContent};
use super::{MediaSource, MediaState, OFFERED, media_key};
use crate::Workspace;
use crate::media_files::MediaFetch;

/// The maximum bytes of an inbound file: the channel's own limit.
const BYTES_MAX: u64 = 100 << 20;
/// The maximum number of parts that wait for the disk.
const PARTS_MAX: usize = 4;

/// The reason why there is no content.
enum NoContent {
    /// There never will be one.
    Ever(&'static str),
    /// It will be tried again.
    Now(Box<str>),
}

impl Workspace {
    /// Downloads the contents of new inbound files, unless they wait for a request.
    pub(crate) fn fetch_new(&self, ids: Vec<MediaId>) {
        if self.shared.media.options.fetch == MediaFetch::Always {
            self.fetch_soon(ids);
        }
    }

    /// Downloads the contents of inbound files in the background.
    pub(super) fn fetch_soon(&self, ids: Vec<MediaId>) {
        for id in ids {
            let workspace = self.clone();
            drop(tokio::spawn(async move {
                // The upkeep retries a failed download.
                workspace.fetch(id).await.ok();
            }));
        }
    }

    /// Downloads the content of an inbound file, unless it is already stored.
    ///
    /// It continues if the caller no longer waits.
    ///
    /// # Errors
    /// [`Unavailable`]: the content cannot be downloaded now.
    pub async fn fetch_media(&self, id: MediaId) -> Result<(), Unavailable> {
        let workspace = self.clone();
        let fetching = tokio::spawn(async move { workspace.fetch(id).await });
        fetching.await.unwrap_or_else(|_| Err(Unavailable::because(UnavailableReason::Storage)))
    }

    /// Downloads a content. Of several calls for the same file, one does so and the others wait.
    async fn fetch(&self, id: MediaId) -> Result<(), Unavailable> {
        let fetches = &self.shared.media.fetches;
        let turn = Arc::clone(&*fetches.entry(id).or_default());
        let held = turn.lock().await;
        let fetched = self.fetch_now(id).await;
        drop(held);
        // One reference is in the map and one is here: no other task waits.
        fetches.remove_if(&id, |_, turn| Arc::strong_count(turn) <= 2);
        fetched
    }

    async fn fetch_now(&self, id: MediaId) -> Result<(), Unavailable> {
        self.shared.may_send()?;
        let _turn = self.shared.media.fetch_turns.take(self.id().clone()).await;
        // The places are closed only when the engine has stopped.
        let _place = self.shared.media.fetch_places.acquire().await.ok();
        // The wait may have been long: everything else is read from here on.
        self.shared.may_send()?;
        let found = self.read(move |store, workspace| {
            let json = store.get(Table::Media, &media_key(workspace, id))?;
            json.map(|json| codec::decode::<MediaState>(&json)).transpose()
        });
        let Some(state) = found.await?.filter(MediaState::is_pending) else { return Ok(()) };
        let Some(source) = &state.source else { return Ok(()) };
        let (now, rests) = (self.shared.clock.now(), self.shared.clock.deletion_rests());
        if !rests && state.created_at.plus(OFFERED) <= now {
            return self.perform(GiveUpContent { media: id, reason: "expired" }).await;
        }
        if self.shared.media.blobs.is_none() {
            // There is no place for it here. Its record is still given up in time.
            return Ok(());
        }
        let connected = self.shared.numbers.connected(source.number);
        // The number may be connected again.
        let Some(connected) = connected else { return Ok(()) };
        let Some(provider) = connected.cloud_api.clone() else {
            return self.copy_own(id, source).await;
        };
        match self.content(&provider, (source, &state.mime_type)).await {
            Ok(content) => self.store_content(id, content).await,
            Err(NoContent::Ever(reason)) => self.perform(GiveUpContent { media: id, reason }).await,
            Err(NoContent::Now(cause)) => {
                tracing::info!(workspace = %self.id(), media = %id, %cause, "a file is not here yet");
                Ok(())
            }
        }
    }

    /// Copies the content of a file of the workspace's own.
    ///
    /// The recipient behind a number without a store for files has sent it back.
    async fn copy_own(&self, id: MediaId, source: &MediaSource) -> Result<(), Unavailable> {
        let own = match source.id.parse::<MediaId>() {
            Ok(own) => self.media(own).await?,
            Err(_) => None,
        };
        let hash = own.filter(MediaState::is_ready).and_then(|state| state.hash());
        let blobs = self.blobs()?;
        let pinned = blocking(move || hash.map_or(Ok(None), |hash| blobs.pin(&hash))).await?;
        match pinned {
            Some(content) => self.store_content(id, content).await,
            None => self.perform(GiveUpContent { media: id, reason: "refused" }).await,
        }
    }

    /// Downloads a content and makes it durable.
    async fn content(
        &self,
        provider: &CloudApiNumber,
        (source, mime_type): (&MediaSource, &str),
    ) -> Result<Pinned, NoContent> {
        let not_now = |why: Unavailable| NoContent::Now(why.to_string().into());
        let id = source.id.parse::<ProviderId>().map_err(|_| NoContent::Ever("refused"))?;
        let staged = stage(&self.shared).await.map_err(not_now)?;
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        let writing = write_parts(staged, parts);
        let (downloaded, staged) = tokio::join!(provider.download(&id, BYTES_MAX, sender), writing);
        let said = downloaded.map_err(|error| match error {
            DownloadError::Refused(_) => NoContent::Ever("refused"),
            DownloadError::TooLarge => NoContent::Ever("too_large"),
            DownloadError::UntrustedHost => NoContent::Ever("untrusted_host"),
            DownloadError::NotNow(cause) => NoContent::Now(cause),
        })?;
        let (staged, blobs) = (staged.map_err(not_now)?, self.blobs().map_err(not_now)?);
        let pinned = blocking(move || blobs.keep(staged)).await.map_err(not_now)?;
        let is_said = said.is_of(mime_type, pinned.length, &pinned.hash.0);
        let named = source.sha256.as_ref();
        if !is_said || named.is_some_and(|hash| *hash != pinned.hash.to_string()) {
            let hash = pinned.hash;
            drop(pinned);
            release(&self.shared, vec![hash]).await;
            return Err(NoContent::Ever("altered"));
        }
        Ok(pinned)
    }

    async fn store_content(&self, media: MediaId, content: Pinned) -> Result<(), Unavailable> {
        let options = self.shared.media.options;
        let Pinned { hash, length: size, .. } = content;
        let (kept_for, bytes_max) = (options.kept_for, options.bytes_max);
        let arrived = self.perform(ContentArrived { media, hash, size, kept_for, bytes_max }).await;
        let is_named = matches!(arrived, Ok(true));
        end_pin(&self.shared, content, is_named, arrived.as_ref().err()).await;
        arrived.map(drop)
    }
}

/// Writes the received parts on threads that may block, none of which waits for the channel.
async fn write_parts(
    mut staged: Staged,
    mut parts: mpsc::Receiver<Bytes>,
) -> Result<Staged, Unavailable> {
    let mut come = Vec::with_capacity(PARTS_MAX);
    while parts.recv_many(&mut come, PARTS_MAX).await > 0 {
        (staged, come) = blocking(move || {
            come.drain(..).try_for_each(|part: Bytes| staged.write(&part))?;
            Ok((staged, come))
        })
        .await?;
    }
    Ok(staged)
}
