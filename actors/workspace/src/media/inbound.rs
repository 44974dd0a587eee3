//! Commands on inbound files: recorded with their message, and then downloaded from the channel.

use std::time::Duration;

use postrider_channel::callback::InboundMedia;
use postrider_domain::event::media::MediaData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, MediaId, MessageId, NumberId};
use postrider_store::Table;
use postrider_store::blobs::BlobHash;

use super::commands::{put_used, used};
use super::{MediaSource, MediaState, OFFERED, media_key, name_key, pending_key};
use crate::core::command::{Command, Context, Footprint};

/// The reason for the missing content of an inbound file: the workspace has too many bytes.
const FULL: &str = "media_full";

/// Records a file of a message, whose content is to be downloaded.
pub(crate) fn expect(
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
pub(super) struct Arrived {
    pub(super) media: MediaId,
    pub(super) hash: BlobHash,
    pub(super) size: u64,
    pub(super) kept_for: Duration,
    pub(super) bytes_max: u64,
}

impl Command for Arrived {
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
pub(super) struct GiveUp {
    pub(super) media: MediaId,
    /// The reason.
    pub(super) reason: &'static str,
}

impl Command for GiveUp {
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
