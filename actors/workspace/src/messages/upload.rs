//! The upload of a message's file to the channel, before the message is claimed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc};

use postrider_channel::Failure;
use postrider_channel::cloud_api::{UploadError, UploadedFile};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{MediaId, NumberId};

use crate::Workspace;
use crate::media::{MediaState, NoteUpload};
use crate::services::Services;

/// The bytes of one read.
const PART_BYTES: usize = 256 << 10;
/// The maximum of parts that wait for the channel.
const PARTS_MAX: usize = 2;
/// The time after which another try is worthwhile.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The outcome of an upload.
pub(crate) enum Uploaded {
    /// The channel has the file, if there is one.
    Done,
    /// The channel refuses the file.
    Refused(Failure),
    /// The content of the file is missing, as after a restore without contents.
    Missing,
}

/// A caller that wants a file uploaded for a number. The last one removes the entry when dropped.
struct Turn {
    shared: Arc<Services>,
    key: (MediaId, NumberId),
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A caller that waits for it, or has it, has the lock too.
        let uploads = &self.shared.media.uploads;
        uploads.remove_if(&self.key, |_, lock| Arc::strong_count(lock) <= 1);
    }
}

impl Workspace {
    /// Has the channel take a file for a number, unless it has the file.
    ///
    /// Of several calls for the same file one uploads it, and the others wait. The upload continues
    /// without waiting callers, so that a large file is completed over a slow line.
    ///
    /// # Errors
    /// [`Unavailable`]: the channel cannot be reached, or the file not be read.
    pub(crate) async fn upload(
        &self,
        number: NumberId,
        media: MediaId,
    ) -> Result<Uploaded, Unavailable> {
        self.shared.may_send()?;
        let turn = Turn { shared: Arc::clone(&self.shared), key: (media, number) };
        let lock: Arc<Mutex<()>> =
            Arc::clone(&*self.shared.media.uploads.entry(turn.key).or_default());
        let held = lock.lock_owned().await;
        let workspace = self.clone();
        let uploading = tokio::spawn(async move {
            // The lock goes before the turn, also when the upload panics.
            let (_turn, _held) = (turn, held);
            workspace.upload_now(number, media).await
        });
        uploading.await.unwrap_or_else(|_| Err(Unavailable::because(UnavailableReason::Storage)))
    }

    async fn upload_now(&self, number: NumberId, media: MediaId) -> Result<Uploaded, Unavailable> {
        let Some(state) = self.media(media).await? else { return Ok(Uploaded::Done) };
        if state.channel_id(number, self.shared.clock.now()).is_some() {
            return Ok(Uploaded::Done);
        }
        let down =
            || Unavailable { reason: UnavailableReason::ChannelDown, retry_after: RETRY_AFTER };
        let _place = self.shared.media.upload_places.take(number).await;
        // It may have waited for long.
        self.shared.may_send()?;
        let connected = self.shared.numbers.connected(number);
        let provider = connected.and_then(|it| it.cloud_api.clone()).ok_or_else(down)?;
        let Some(parts) = self.parts_of(&state).await? else { return Ok(Uploaded::Missing) };
        let file = UploadedFile {
            mime_type: state.mime_type,
            boundary: state.sha256,
            length: state.size,
            parts,
        };
        match provider.upload(file).await {
            Ok(id) => {
                self.perform(NoteUpload { media, number, id }).await?;
                Ok(Uploaded::Done)
            }
            Err(UploadError::Refused(failure)) => Ok(Uploaded::Refused(failure)),
            Err(UploadError::NotTaken(reason)) => {
                tracing::info!(%number, %media, %reason, "a file could not be uploaded");
                Err(down())
            }
        }
    }

    /// Returns the content of a file in parts, of which none waits for the channel.
    ///
    /// A thread that may block reads each when it is wanted.
    async fn parts_of(
        &self,
        state: &MediaState,
    ) -> Result<Option<mpsc::Receiver<Bytes>>, Unavailable> {
        let Some(mut bytes) = self.media_bytes(state).await? else { return Ok(None) };
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        drop(tokio::spawn(async move {
            let mut from = 0;
            // A stream that ends early makes the request fail, which has the whole length.
            while let Ok(place) = sender.reserve().await {
                let reading = tokio::task::spawn_blocking(move || {
                    let part = bytes.read_at(from, PART_BYTES);
                    (bytes, part)
                });
                let Ok((reader, Ok(part))) = reading.await else { return };
                if part.is_empty() {
                    return;
                }
                bytes = reader;
                from += part.len() as u64;
                place.send(Bytes::from(part));
            }
        }));
        Ok(Some(parts))
    }
}
