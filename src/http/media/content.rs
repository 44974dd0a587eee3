//! Streams the content of a file, whole or a range of it.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::{MediaBytes, MediaState};

use super::{MISSING, found};
use crate::http::pipeline::{Answer, ApiError, Call, Code, Principal, Reply};

/// The policy for browsers: they may only show the content.
const POLICY: &str = "default-src 'none'; sandbox";
/// The number of bytes that are read at once.
const PART_BYTES: u64 = 64 << 10;
/// The maximum number of parts that are buffered while the client does not read.
const BUFFERED_PARTS_MAX: usize = 2;

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
pub(super) async fn content(mut call: Call<Principal>) -> Answer {
    let state = here(&mut call).await?;
    let bytes = call.caller.workspace().media_bytes(&state).await?;
    let bytes = bytes.ok_or_else(|| ApiError::not_found(MISSING))?;
    let (size, part) = (state.size, Part::asked(call.header(&header::RANGE), state.size));
    let (status, body, from, to) = match part {
        Part::Whole => (StatusCode::OK, body(bytes, 0, size), 0, size),
        Part::Of { from, to } => (StatusCode::PARTIAL_CONTENT, body(bytes, from, to), from, to),
        Part::Nowhere => {
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
async fn here(call: &mut Call<Principal>) -> Result<MediaState, ApiError> {
    let state = found(call).await?;
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
enum Part {
    Whole,
    /// The bytes from `from` up to but not including `to`.
    Of {
        from: u64,
        to: u64,
    },
    /// A range that starts beyond the end.
    Nowhere,
}

impl Part {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_part_or_all_or_nothing() {
        let of = |from, to| Part::Of { from, to };
        for (header, expected) in [
            ("bytes=0-0", of(0, 1)),
            ("bytes=2-4", of(2, 5)),
            ("bytes=2-", of(2, 10)),
            ("bytes=2-99", of(2, 10)),
            ("bytes=-3", of(7, 10)),
            ("bytes=-99", of(0, 10)),
            ("bytes=9-9", of(9, 10)),
            ("bytes=10-", Part::Nowhere),
            ("bytes=99999999999999999999-", Part::Nowhere),
            ("bytes=-0", Part::Nowhere),
            ("bytes=4-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("items=0-1", Part::Whole),
        ] {
            assert_eq!(Part::asked(Some(header), 10), expected, "{header}");
        }
        assert_eq!(Part::asked(None, 10), Part::Whole);
        for nowhere in ["bytes=-5", "bytes=0-", "bytes=0-0"] {
            assert_eq!(Part::asked(Some(nowhere), 0), Part::Nowhere, "{nowhere} of nothing");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_header() {
        assert_eq!(disposition(None), "attachment");
        let expected = "attachment; filename*=UTF-8''a%22%3B%20%C3%A9.pdf";
        assert_eq!(disposition(Some("a\"; é.pdf")), expected);
    }
}
