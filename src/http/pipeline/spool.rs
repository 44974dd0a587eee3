//! Writes a file to the disk while its body arrives, so that no large one is in memory.

use std::io;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use postrider_actors::{Engine, StagedMedia, Unavailable, UnavailableReason};

use super::body::ReadDeadline;
use super::body_budget::BodyLease;
use super::error::{ApiError, Code};
use super::media_types;

/// Bytes that are written at once.
const PART_BYTES: usize = 256 << 10;

/// A file that has arrived, and its type.
pub(crate) type Spooled = (StagedMedia, &'static str);

/// Takes a file. Each part must come within the deadline.
pub(super) async fn read(
    engine: &Engine,
    headers: &HeaderMap,
    body: &mut Body,
    lease: &mut BodyLease,
    deadline: ReadDeadline<'_>,
) -> Result<Spooled, ApiError> {
    let (mime_type, max) = type_of(headers)?;
    // A body that announces too great a length is refused before a byte is read.
    if body.size_hint().lower() > max {
        return Err(too_large(mime_type, max));
    }
    if !lease.grow(PART_BYTES) {
        return Err(ApiError::overloaded("too much is being received; nothing was done"));
    }
    let mut staged = engine.stage_media().await?;
    let mut part = Vec::with_capacity(PART_BYTES);
    loop {
        let frame = tokio::select! {
            biased;
            frame = tokio::time::timeout(deadline.timeout, body.frame()) => frame,
            () = deadline.drain.begun() => {
                let message = "the server stops; nothing was done";
                return Err(ApiError::new(Code::ServiceUnavailable, message).because("draining"));
            }
        };
        let frame = frame
            .map_err(|_| ApiError::new(Code::RequestTimeout, "the body did not arrive in time"))?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| ApiError::invalid("the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        part.extend_from_slice(&data);
        if staged.length() + part.len() as u64 > max {
            return Err(too_large(mime_type, max));
        }
        if part.len() >= PART_BYTES {
            (staged, part) = written(staged, part).await?;
        }
    }
    if staged.length() == 0 && part.is_empty() {
        return Err(ApiError::invalid("the body is empty; it must be a file"));
    }
    let (staged, _) = written(staged, part).await?;
    Ok((staged, mime_type))
}

/// Writes a part, on a thread that may block; gives back its room.
async fn written(
    mut staged: StagedMedia,
    mut part: Vec<u8>,
) -> Result<(StagedMedia, Vec<u8>), ApiError> {
    let writing = tokio::task::spawn_blocking(move || {
        staged.write(&part)?;
        part.clear();
        Ok::<_, io::Error>((staged, part))
    });
    match writing.await {
        Ok(Ok(written)) => Ok(written),
        Ok(Err(error)) => {
            tracing::error!(%error, "a file that is uploaded cannot be written");
            Err(Unavailable::because(UnavailableReason::Storage).into())
        }
        Err(_) => Err(ApiError::internal()),
    }
}

fn type_of(headers: &HeaderMap) -> Result<(&'static str, u64), ApiError> {
    let unsupported = |message: &'static str| ApiError::new(Code::UnsupportedMediaType, message);
    let coding = headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("`Content-Encoding` is not supported"));
    }
    let named = headers.get(header::CONTENT_TYPE).and_then(|named| named.to_str().ok());
    let found = named.and_then(media_types::of);
    found.ok_or_else(|| unsupported("`Content-Type` must be a type of file that the channel takes"))
}

fn too_large(mime_type: &str, max: u64) -> ApiError {
    let message = format!("a file of the type {mime_type} may have at most {max} bytes");
    ApiError::new(Code::PayloadTooLarge, message)
}
