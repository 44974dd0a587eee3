//! The file of a message, and the channel's id of the file.

use postrider_channel::Failure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MediaId, MessageContent, MessageKind, NumberId, RenderedContent};
use postrider_store::Table;

use crate::conversations::WrittenMedia;
use crate::core::command::Context;
use crate::media::{MediaState, doubt_upload, media_key};
use crate::messages::record::MessageState;
use crate::messages::send::SendMessageError;

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
