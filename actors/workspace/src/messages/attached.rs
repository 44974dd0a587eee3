//! The file of a message: the channel's id of it, and its upload before the message is claimed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_channel::Failure;
use postrider_channel::cloud_api::{UploadError, UploadedFile};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{MediaId, MessageContent, MessageKind, NumberId, RenderedContent};
use postrider_store::Table;
use tokio::sync::{Mutex, mpsc};

use crate::Workspace;
use crate::conversations::WrittenMedia;
use crate::core::command::Context;
use crate::media::{MediaState, NoteUpload, doubt_upload, media_key};
use crate::messages::error::SendMessageError;
use crate::messages::record::MessageState;
use crate::services::Services;

/// The error codes of refusals that may be about the message's file.
///
/// They are for a parameter that is invalid or not allowed, and for media that cannot be fetched or
/// sent.
const ABOUT_FILES: [u32; 4] = [100, 131_009, 131_052, 131_053];

/// Puts the channel's id of a message's file into its object, unless the channel has `refused` it.
///
/// Returns the id of the file.
///
/// # Errors
/// [`SendMessageError`]: there is no such file, or of another kind, or it must be uploaded first.
pub(super) fn attach(
    context: &Context<'_>,
    number: NumberId,
    content: &mut RenderedContent,
    refused: bool,
) -> Result<Option<WrittenMedia>, SendMessageError> {
    let MessageContent::Object(object) = content else { return Ok(None) };
    let Some(id) = object.media else { return Ok(None) };
    let key = media_key(&context.core.id, id);
    let state = context.get_json::<MediaState>(Table::Media, &key)?;
    let state = state.filter(|state| state.is_ready() && state.expires_at > context.now());
    let unknown = SendMessageError::UnknownMedia { kind: object.kind };
    let state = state.filter(|state| fits(object.kind, &state.mime_type)).ok_or(unknown)?;
    let known = context.connected.iter().find(|known| known.id == number);
    if known.is_some_and(|known| known.account.is_none()) {
        // Its sandbox has no place for files; the receiver knows our ids.
        object.insert("id", &id.to_string());
    } else if !refused {
        let uploaded = state.channel_id(number, context.now());
        object.insert("id", uploaded.ok_or(SendMessageError::NotUploaded { number, media: id })?);
    }
    let MediaState { mime_type, filename, .. } = state;
    Ok(Some(WrittenMedia { media_id: id, mime_type, filename }))
}

/// Doubts the channel's id of the file of a message that it refused, at once or by a callback.
///
/// It does so if that may be the reason: the channel may have forgotten the file. The next message
/// has the file uploaded again.
pub(super) fn doubt(
    context: &mut Context<'_>,
    refused: &MessageState,
    failure: &Failure,
) -> Result<(), Unavailable> {
    if !failure.code.is_some_and(|code| ABOUT_FILES.contains(&code)) {
        return Ok(());
    }
    let since = (refused.number, refused.created_at);
    refused.media.map_or(Ok(()), |media| doubt_upload(context, media, since))
}

/// Returns the file of a message.
pub(super) fn file_of<T>(content: &MessageContent<T>) -> Option<MediaId> {
    match content {
        MessageContent::Object(object) => object.media,
        _ => None,
    }
}

/// Returns whether a message of this kind can have a file of this type. Any file can be a document.
fn fits(kind: MessageKind, mime_type: &str) -> bool {
    match kind {
        MessageKind::Image => matches!(mime_type, "image/jpeg" | "image/png"),
        MessageKind::Sticker => mime_type == "image/webp",
        MessageKind::Audio => mime_type.starts_with("audio/"),
        MessageKind::Video => mime_type.starts_with("video/"),
        _ => true,
    }
}

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
struct UploadTurn {
    shared: Arc<Services>,
    key: (MediaId, NumberId),
}

impl Drop for UploadTurn {
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
        let turn = UploadTurn { shared: Arc::clone(&self.shared), key: (media, number) };
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
