//! Commands on the records of files: those of callers, and those of inbound files.

use std::time::Duration;

use postrider_channel::callback::InboundMedia;
use postrider_domain::event::media::MediaData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, MediaId, MessageId, NumberId, Timestamp};
use postrider_store::Table;
use postrider_store::blobs::BlobHash;

use super::{
    ChannelUpload, MediaSource, MediaState, OFFERED, RENEWED_KEPT, media_key, name_key,
    pending_key, used_key,
};
use crate::core::command::{Command, Context, Footprint};

/// The reason for the missing content of an inbound file: the workspace has too many bytes.
const FULL: &str = "media_full";

/// The reason why a file was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddMediaError {
    /// The workspace has reached its maximum of bytes.
    #[error("the workspace keeps {used} bytes of media; with this it would be over {max}")]
    Full {
        /// The bytes that it has.
        used: u64,
        /// The maximum.
        max: u64,
    },
    /// The workspace cannot accept the file now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Checks that a file of this length still fits beside the used bytes.
///
/// # Errors
/// [`AddMediaError::Full`].
pub(super) fn check_room(used: u64, length: u64, max: u64) -> Result<(), AddMediaError> {
    if used.saturating_add(length) > max {
        return Err(AddMediaError::Full { used, max });
    }
    Ok(())
}

/// Adds a file whose content is durable.
pub(super) struct AddMedia {
    pub(super) state: MediaState,
    pub(super) hash: BlobHash,
    pub(super) bytes_max: u64,
}

impl Command for AddMedia {
    type Answer = MediaState;
    type Error = AddMediaError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<MediaState, AddMediaError> {
        let Self { state, hash, bytes_max: max } = self;
        let used = used(context)?;
        check_room(used, state.size, max)?;
        let workspace = context.core.id.clone();
        context.put_json(Table::Media, media_key(&workspace, state.media_id), &state);
        context.put(Table::Media, name_key(&workspace, &hash, state.media_id), Vec::new());
        put_used(context, used + state.size);
        Ok(state)
    }
}

/// Removes files.
pub(super) struct RemoveMedia(pub(super) Vec<MediaId>);

/// The result of a removal.
#[derive(Debug, Default)]
pub(super) struct RemovedMedia {
    /// Set if any file existed, with or without content.
    pub(super) any: bool,
    /// The contents of the removed files.
    pub(super) contents: Vec<BlobHash>,
}

impl Command for RemoveMedia {
    type Answer = RemovedMedia;
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<RemovedMedia, Unavailable> {
        let workspace = context.core.id.clone();
        let (mut removed, mut freed) = (RemovedMedia::default(), 0);
        for id in self.0 {
            let key = media_key(&workspace, id);
            let Some(state) = context.get_json::<MediaState>(Table::Media, &key)? else { continue };
            removed.any = true;
            freed += state.size;
            context.delete(Table::Media, key);
            context.delete(Table::Media, pending_key(&workspace, id));
            if let Some(hash) = state.hash() {
                context.delete(Table::Media, name_key(&workspace, &hash, id));
                removed.contents.push(hash);
            }
        }
        if freed > 0 {
            let left = used(context)?.saturating_sub(freed);
            put_used(context, left);
        }
        Ok(removed)
    }
}

/// Marks the channel's id of a file as doubtful: it was refused with a number's message.
///
/// `accepted` is the time at which that message was accepted. The message did not name a later
/// upload.
pub(crate) fn doubt_upload(
    context: &mut Context<'_>,
    media: MediaId,
    (number, accepted): (NumberId, Timestamp),
) -> Result<(), Unavailable> {
    let key = media_key(&context.core.id, media);
    let Some(mut state) = context.get_json::<MediaState>(Table::Media, &key)? else {
        return Ok(());
    };
    let now = context.now();
    let doubted = state.uploads.iter_mut().find(|upload| {
        let is_new = upload.renewed && upload.at.plus(RENEWED_KEPT) > now;
        upload.number == number && upload.at <= accepted && !upload.doubted && !is_new
    });
    if let Some(upload) = doubted {
        upload.doubted = true;
        context.put_json(Table::Media, key, &state);
    }
    Ok(())
}

/// Stores the channel's id of a file for a number.
pub(crate) struct NoteUpload {
    pub(crate) media: MediaId,
    pub(crate) number: NumberId,
    pub(crate) id: Box<str>,
}

impl Command for NoteUpload {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self { media, number, id } = self;
        let key = media_key(&context.core.id, media);
        if let Some(mut state) = context.get_json::<MediaState>(Table::Media, &key)? {
            let is_doubted = |it: &ChannelUpload| it.number == number && it.doubted;
            let renewed = state.uploads.iter().any(is_doubted);
            state.uploads.retain(|upload| upload.number != number);
            let at = context.now();
            state.uploads.push(ChannelUpload { number, id, at, doubted: false, renewed });
            context.put_json(Table::Media, key, &state);
        }
        Ok(())
    }
}

/// Corrects the workspace's count of bytes, if it has not changed since the recount.
pub(super) struct RecountBytes {
    /// The count before the recount.
    pub(super) noted: u64,
    pub(super) counted: u64,
}

impl Command for RecountBytes {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        if used(context)? == self.noted {
            put_used(context, self.counted);
        }
        Ok(())
    }
}

pub(super) fn used(context: &Context<'_>) -> Result<u64, Unavailable> {
    Ok(stored_count(context.get(Table::Media, &used_key(&context.core.id))?))
}

pub(super) fn stored_count(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

pub(super) fn put_used(context: &mut Context<'_>, used: u64) {
    let key = used_key(&context.core.id);
    match used {
        0 => context.delete(Table::Media, key),
        used => context.put(Table::Media, key, used.to_be_bytes().to_vec()),
    }
}

/// Records a file of a message, whose content is to be downloaded.
pub(crate) fn expect_file(
    context: &mut Context<'_>,
    number: NumberId,
    message: MessageId,
    offered: &InboundMedia,
) -> MediaId {
    let now = context.now();
    let media_id = MediaId::from_parts(now, u128::from_be_bytes(*message.as_bytes()));
    let source = MediaSource {
        number,
        id: offered.id.clone(),
        sha256: offered.sha256.map(|hash| BlobHash(hash).to_string()),
    };
    let state = MediaState {
        media_id,
        mime_type: offered.mime_type.to_string(),
        size: 0,
        sha256: String::new(),
        filename: offered.filename.as_deref().map(str::to_owned),
        created_at: now,
        expires_at: now.plus(OFFERED),
        uploads: Vec::new(),
        message_id: Some(message),
        error: None,
        source: Some(source),
    };
    let workspace = context.core.id.clone();
    context.put_json(Table::Media, media_key(&workspace, media_id), &state);
    context.put(Table::Media, pending_key(&workspace, media_id), Vec::new());
    media_id
}

/// Stores the content of an inbound file, which is durable. Answers whether it is kept.
pub(super) struct ContentArrived {
    pub(super) media: MediaId,
    pub(super) hash: BlobHash,
    pub(super) size: u64,
    pub(super) kept_for: Duration,
    pub(super) bytes_max: u64,
}

impl Command for ContentArrived {
    type Answer = bool;
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<bool, Unavailable> {
        let Self { media, hash, size, kept_for, bytes_max } = self;
        let Some(mut state) = pending(context, media)? else { return Ok(false) };
        let used = used(context)?;
        if used.saturating_add(size) > bytes_max {
            settle(context, MediaState { error: Some(FULL.into()), ..state });
            return Ok(false);
        }
        (state.size, state.sha256) = (size, hash.to_string());
        state.expires_at = state.created_at.plus(kept_for);
        let key = name_key(&context.core.id, &hash, media);
        context.put(Table::Media, key, Vec::new());
        put_used(context, used + size);
        settle(context, state);
        Ok(true)
    }
}

/// Gives up the content of an inbound file.
pub(super) struct GiveUpContent {
    pub(super) media: MediaId,
    /// The reason.
    pub(super) reason: &'static str,
}

impl Command for GiveUpContent {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        if let Some(state) = pending(context, self.media)? {
            settle(context, MediaState { error: Some(self.reason.into()), ..state });
        }
        Ok(())
    }
}

/// Returns a file whose content is still to be downloaded.
fn pending(context: &Context<'_>, id: MediaId) -> Result<Option<MediaState>, Unavailable> {
    let state = context.get_json::<MediaState>(Table::Media, &media_key(&context.core.id, id))?;
    Ok(state.filter(MediaState::is_pending))
}

/// Writes a file that is no longer pending, and emits its event.
fn settle(context: &mut Context<'_>, state: MediaState) {
    let state = MediaState { source: None, ..state };
    let workspace = context.core.id.clone();
    context.delete(Table::Media, pending_key(&workspace, state.media_id));
    context.put_json(Table::Media, media_key(&workspace, state.media_id), &state);
    let is_there = state.error.is_none();
    let event = if is_there { EventData::MediaReady } else { EventData::MediaFailed };
    let data = MediaData {
        media_id: state.media_id,
        message_id: state.message_id,
        mime_type: state.mime_type,
        filename: state.filename,
        size: is_there.then_some(state.size),
        sha256: is_there.then_some(state.sha256),
        error: state.error,
    };
    context.effects.emit(context.now(), event(data));
}
