//! Serves the files of messages: upload, state, content, whole or a range of it, and deletion.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::domain::MediaId;
use postrider_actors::{AddMediaError, MediaBytes, MediaState, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use super::message_body::check_filename;
use super::pipeline::{
    Answer, ApiError, BodyKind, Call, Code, Key, Principal, Reply, Routes, route,
};

const MISSING: &str = "no such media";
/// The policy for browsers: they may only show the content.
const POLICY: &str = "default-src 'none'; sandbox";
/// The number of bytes that are read at once.
const PART_BYTES: u64 = 64 << 10;
/// The maximum number of parts that are buffered while the client does not read.
const BUFFERED_PARTS_MAX: usize = 2;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(upload).takes(BodyKind::Media).guarded(Key::REPLY))
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
    Ok(Reply::ok(&MediaAnswer::from(media_state(&mut call).await?)))
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

async fn media_state(call: &mut Call<Principal>) -> Result<MediaState, ApiError> {
    let id: MediaId = call.path("media_id", MISSING).await?;
    let found = call.caller.workspace().media(id).await?;
    found.ok_or_else(|| ApiError::not_found(MISSING))
}

/// Aborts a body, so that the client does not take a truncated answer for a complete one.
#[derive(Debug, thiserror::Error)]
#[error("the content could not be read to the end")]
struct ContentCut;

#[utoipa::path(
    get,
    path = "/v1/media/{media_id}/content",
    operation_id = "readMediaContent",
    tag = "Media",
    summary = "Download a file",
    description = "With `Range` (one range of bytes) the answer is 206 with that part, or 416. The \
                   content of a file that came in is got from the channel if it is not there yet; \
                   where it cannot be, the answer is 409, and 404 once it is `failed`.",
    params(
        ("media_id" = String, Path, description = "What the upload answered"),
        ("Range" = Option<String>, Header, description = "`bytes=0-499`, for a part"),
    ),
    responses(
        (status = 200, description = "The file", body = String,
            content_type = "application/octet-stream"),
        (status = 206, description = "A part of it", body = String,
            content_type = "application/octet-stream"),
        (status = 416, description = "It has no such part"),
    )
)]
async fn content(mut call: Call<Principal>) -> Answer {
    let state = available_media(&mut call).await?;
    let bytes = call.caller.workspace().media_bytes(&state).await?;
    let bytes = bytes.ok_or_else(|| ApiError::not_found(MISSING))?;
    let (size, part) = (state.size, ContentRange::asked(call.header(&header::RANGE), state.size));
    let (status, body, from, to) = match part {
        ContentRange::Whole => (StatusCode::OK, body(bytes, 0, size), 0, size),
        ContentRange::Of { from, to } => {
            (StatusCode::PARTIAL_CONTENT, body(bytes, from, to), from, to)
        }
        ContentRange::Nowhere => {
            let mut reply = Reply::empty(StatusCode::RANGE_NOT_SATISFIABLE);
            reply.header(header::CONTENT_RANGE, value(&format!("bytes */{size}"))?);
            return Ok(reply);
        }
    };
    let mut reply = Reply::stream(status, "application/octet-stream", body);
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{size}", to.saturating_sub(1));
        reply.header(header::CONTENT_RANGE, value(&range)?);
    }
    reply.header(header::CONTENT_LENGTH, HeaderValue::from(to - from));
    reply.header(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    reply.header(header::CONTENT_TYPE, value(&state.mime_type)?);
    // The files come from strangers. A browser that shows one must not run anything in it.
    reply.header(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    let disposition = disposition(state.filename.as_deref());
    reply.header(header::CONTENT_DISPOSITION, value(&disposition)?);
    Ok(reply)
}

/// Returns the file. If its content is missing, it is fetched first.
async fn available_media(call: &mut Call<Principal>) -> Result<MediaState, ApiError> {
    let state = media_state(call).await?;
    if !state.is_pending() {
        return Ok(state);
    }
    let workspace = call.caller.workspace();
    workspace.fetch_media(state.media_id).await?;
    let state = workspace.media(state.media_id).await?;
    match state.ok_or_else(|| ApiError::not_found(MISSING))? {
        state if state.is_pending() => {
            Err(ApiError::new(Code::Conflict, "the channel has not given out the content yet"))
        }
        state => Ok(state),
    }
}

fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::try_from(text).map_err(|_| ApiError::internal())
}

/// Returns a `Content-Disposition` that makes a browser save the file, not show it.
fn disposition(filename: Option<&str>) -> String {
    let Some(filename) = filename else { return "attachment".to_owned() };
    let encoded = filename.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    });
    format!("attachment; filename*=UTF-8''{encoded}")
}

/// The part of the content that a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum ContentRange {
    Whole,
    /// The bytes from `from` up to but not including `to`.
    Of {
        from: u64,
        to: u64,
    },
    /// A range that starts beyond the end.
    Nowhere,
}

impl ContentRange {
    /// Parses a `Range` header. If it is malformed or has several ranges, the whole content is
    /// meant.
    fn asked(header: Option<&str>, size: u64) -> Self {
        let range = header.and_then(|range| range.trim().strip_prefix("bytes="));
        let Some((from, to)) = range.and_then(|range| range.split_once('-')) else {
            return Self::Whole;
        };
        let number = |text: &str| -> Option<Option<u64>> {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            // A number that is too large is beyond the end.
            let parsed = || text.parse().unwrap_or(u64::MAX);
            is_number.then(|| (!text.is_empty()).then(parsed))
        };
        match (number(from.trim()), number(to.trim())) {
            (Some(Some(from)), Some(to)) if to.is_none_or(|to| to >= from) => {
                let to = to.map_or(size, |to| to.saturating_add(1).min(size));
                if from < size { Self::Of { from, to } } else { Self::Nowhere }
            }
            (Some(None), Some(Some(last))) if last == 0 || size == 0 => Self::Nowhere,
            (Some(None), Some(Some(last))) => {
                Self::Of { from: size.saturating_sub(last), to: size }
            }
            _ => Self::Whole,
        }
    }
}

/// Returns a body of the bytes from `from` up to but not including `to`.
fn body(bytes: MediaBytes, from: u64, to: u64) -> Body {
    let (sender, body) = Channel::<Bytes, ContentCut>::new(BUFFERED_PARTS_MAX);
    drop(tokio::spawn(send(bytes, from, to, sender)));
    Body::new(body)
}

async fn send(
    mut bytes: MediaBytes,
    mut from: u64,
    to: u64,
    mut sender: Sender<Bytes, ContentCut>,
) {
    while from < to {
        let wanted = usize::try_from((to - from).min(PART_BYTES)).unwrap_or_default();
        let reading = tokio::task::spawn_blocking(move || {
            let read = bytes.read_at(from, wanted);
            (bytes, read)
        });
        let part = match reading.await {
            Ok((reader, Ok(part))) if !part.is_empty() => {
                bytes = reader;
                part
            }
            _ => {
                tracing::error!("the content of a file is shorter than it was, or cannot be read");
                sender.abort(ContentCut);
                return;
            }
        };
        from += part.len() as u64;
        if sender.send_data(Bytes::from(part)).await.is_err() {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_part_or_all_or_nothing() {
        let of = |from, to| ContentRange::Of { from, to };
        for (header, expected) in [
            ("bytes=0-0", of(0, 1)),
            ("bytes=2-4", of(2, 5)),
            ("bytes=2-", of(2, 10)),
            ("bytes=2-99", of(2, 10)),
            ("bytes=-3", of(7, 10)),
            ("bytes=-99", of(0, 10)),
            ("bytes=9-9", of(9, 10)),
            ("bytes=10-", ContentRange::Nowhere),
            ("bytes=99999999999999999999-", ContentRange::Nowhere),
            ("bytes=-0", ContentRange::Nowhere),
            ("bytes=4-2", ContentRange::Whole),
            ("bytes=-", ContentRange::Whole),
            ("bytes=a-b", ContentRange::Whole),
            ("bytes=0-1,3-4", ContentRange::Whole),
            ("items=0-1", ContentRange::Whole),
        ] {
            assert_eq!(ContentRange::asked(Some(header), 10), expected, "{header}");
        }
        assert_eq!(ContentRange::asked(None, 10), ContentRange::Whole);
        for nowhere in ["bytes=-5", "bytes=0-", "bytes=0-0"] {
            assert_eq!(
                ContentRange::asked(Some(nowhere), 0),
                ContentRange::Nowhere,
                "{nowhere} of nothing"
            );
        }
    }

    #[test]
    fn a_name_cannot_leave_its_header() {
        assert_eq!(disposition(None), "attachment");
        let expected = "attachment; filename*=UTF-8''a%22%3B%20%C3%A9.pdf";
        assert_eq!(disposition(Some("a\"; é.pdf")), expected);
    }
}
