//! Serves the files of messages: upload, state, content and deletion.

mod content;

use axum::http::StatusCode;
use postrider_actors::domain::MediaId;
use postrider_actors::{AddMediaError, MediaState, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use self::content::{__path_content, content};
use super::message_body::check_filename;
use super::pipeline::{Answer, ApiError, Call, Code, Key, Principal, Reply, Routes, Takes, route};

const MISSING: &str = "no such media";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(upload).takes(Takes::Media).guarded(Key::REPLY))
        .routes(route!(read).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(content).guarded(Key::of(Permission::InboxRead)))
        .routes(route!(delete).guarded(Key::of(Permission::MessagesSend)))
}

/// A file that came with a message, or that messages can be sent with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Media)]
pub(crate) struct MediaAnswer {
    /// Names it in every call.
    #[schema(example = "med_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    media_id: String,
    /// Its type.
    #[schema(example = "image/png")]
    mime_type: String,
    /// Its length in bytes; null while its content is not there.
    #[schema(example = 48_213)]
    size: Option<u64>,
    /// The SHA-256 of its content, in hexadecimal; null while that is not there.
    #[schema(example = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")]
    sha256: Option<String>,
    /// Its name; null if it has none.
    #[schema(example = "plan.png")]
    filename: Option<String>,
    /// `ready`; of one that came in also `pending`, while its content is being got from the
    /// channel, or `failed`.
    #[schema(example = "ready")]
    state: &'static str,
    /// Why it is `failed`: `refused` by the channel, `too_large`, `altered` on its way,
    /// `untrusted_host`, `media_full` or `expired`.
    error: Option<Box<str>>,
    /// The message that it came with; null of one that was uploaded.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: Option<String>,
    /// When it was uploaded, or came in.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it is deleted.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl From<MediaState> for MediaAnswer {
    fn from(state: MediaState) -> Self {
        let is_ready = state.is_ready();
        Self {
            media_id: state.media_id.to_string(),
            size: is_ready.then_some(state.size),
            state: match (is_ready, state.is_pending()) {
                (true, _) => "ready",
                (false, true) => "pending",
                (false, false) => "failed",
            },
            mime_type: state.mime_type,
            sha256: is_ready.then_some(state.sha256),
            filename: state.filename,
            error: state.error,
            message_id: state.message_id.map(|id| id.to_string()),
            created_at: state.created_at.to_string(),
            expires_at: state.expires_at.to_string(),
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/media",
    operation_id = "uploadMedia",
    tag = "Media",
    summary = "Upload a file",
    description = "Scope `messaging:send`. The body is the file, of the type that `Content-Type` names: images (JPEG and PNG up \
                   to 5 MiB, WebP for stickers up to 500 KiB), audio (AAC, AMR, MP3, MP4, Ogg) and \
                   video (MP4, 3GPP) up to 16 MiB, and documents (PDF, text, Word, Excel, \
                   PowerPoint) up to 100 MiB. Other types are 415, larger files 413. It is kept for \
                   `[media] kept_days`; the same content is stored once. Files of a workspace have \
                   at most `[media] kept_bytes_max` bytes.",
    params(("filename" = Option<String>, Query, min_length = 1, max_length = 240, description = "Its \
        name")),
    request_body(content = String, content_type = "application/octet-stream",
        description = "The file"),
    responses((status = 201, description = "Durable", body = MediaAnswer))
)]
async fn upload(mut call: Call<Principal>) -> Answer {
    let filename = call.query()?.text("filename")?.map(str::to_owned);
    if let Some(filename) = &filename {
        check_filename("filename", filename)?;
    }
    let (staged, mime_type, _under_way) = call.take_media()?;
    let state = call.caller.workspace().add_media(staged, mime_type, filename).await?;
    Ok(Reply::json(StatusCode::CREATED, &MediaAnswer::from(state)))
}

#[utoipa::path(
    get,
    path = "/v1/media/{media_id}",
    operation_id = "readMedia",
    tag = "Media",
    summary = "Read what is known of a file",
    params(("media_id" = String, Path, description = "What the upload answered")),
    responses((status = 200, description = "The file", body = MediaAnswer))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    Ok(Reply::ok(&MediaAnswer::from(found(&mut call).await?)))
}

#[utoipa::path(
    delete,
    path = "/v1/media/{media_id}",
    operation_id = "deleteMedia",
    tag = "Media",
    summary = "Delete a file",
    description = "Its content goes with the last file that has the same. What was sent with it stays \
                   sent.",
    params(("media_id" = String, Path, description = "What the upload answered")),
    responses((status = 204, description = "It is removed"))
)]
async fn delete(mut call: Call<Principal>) -> Answer {
    let id: MediaId = call.path("media_id", MISSING).await?;
    match call.caller.workspace().remove_media(id).await? {
        true => Ok(Reply::no_content()),
        false => Err(ApiError::not_found(MISSING)),
    }
}

async fn found(call: &mut Call<Principal>) -> Result<MediaState, ApiError> {
    let id: MediaId = call.path("media_id", MISSING).await?;
    let found = call.caller.workspace().media(id).await?;
    found.ok_or_else(|| ApiError::not_found(MISSING))
}

impl From<AddMediaError> for ApiError {
    fn from(error: AddMediaError) -> Self {
        match error {
            AddMediaError::Full { .. } => {
                Self::new(Code::Unprocessable, error.to_string()).because("media_full")
            }
            AddMediaError::Unavailable(error) => error.into(),
        }
    }
}
