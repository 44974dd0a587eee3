//! Uploading the file of a message to the channel, before the message is claimed.

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

/// Bytes that are read at once.
const PART_BYTES: usize = 256 << 10;
/// Parts that wait for the channel.
const PARTS_MAX: usize = 2;
/// When it is worth to try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What became of an upload.
pub(crate) enum Uploaded {
    /// The channel has the file, as far as there is one.
    Done,
    /// The channel refuses it.
    Refused(Failure),
}

impl Workspace {
    /// Has the channel take a file behind a number, unless it has it. Of several calls for the same
    /// one uploads it, and the others wait.
    ///
    /// # Errors
    /// [`Unavailable`]: the channel cannot be reached, or the file not be read.
    pub(crate) async fn upload(
        &self,
        number: NumberId,
        media: MediaId,
    ) -> Result<Uploaded, Unavailable> {
        self.shared.may_send()?;
        let under_way = &self.shared.media.uploads;
        let turn: Arc<Mutex<()>> = under_way.entry((media, number)).or_default().clone();
        let held = turn.lock().await;
        let uploaded = self.upload_now(number, media).await;
        drop(held);
        // The map has one, and this has one: nobody else waits.
        under_way.remove_if(&(media, number), |_, turn| Arc::strong_count(turn) <= 2);
        uploaded
    }

    async fn upload_now(&self, number: NumberId, media: MediaId) -> Result<Uploaded, Unavailable> {
        let Some(state) = self.media(media).await? else { return Ok(Uploaded::Done) };
        if state.channel_id(number, self.shared.clock.now()).is_some() {
            return Ok(Uploaded::Done);
        }
        let down =
            || Unavailable { reason: UnavailableReason::ChannelDown, retry_after: RETRY_AFTER };
        let connected = self.shared.numbers.connected(number);
        let provider = connected.and_then(|it| it.cloud_api.clone()).ok_or_else(down)?;
        let Some(parts) = self.parts_of(&state).await? else { return Ok(Uploaded::Done) };
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

    /// The content of a file in parts, which a thread that may block reads as they are wanted.
    async fn parts_of(
        &self,
        state: &MediaState,
    ) -> Result<Option<mpsc::Receiver<Bytes>>, Unavailable> {
        let Some(mut bytes) = self.media_bytes(state).await? else { return Ok(None) };
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        drop(tokio::task::spawn_blocking(move || {
            let mut from = 0;
            // One that ends early makes the request fail, which has the whole length.
            while let Ok(part) = bytes.read_at(from, PART_BYTES)
                && !part.is_empty()
            {
                from += part.len() as u64;
                if sender.blocking_send(Bytes::from(part)).is_err() {
                    return;
                }
            }
        }));
        Ok(Some(parts))
    }
}
