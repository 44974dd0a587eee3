//! Writes a file to the disk while its body arrives, so that no large file is held in memory.
//!
//! One part is written and hashed while the next one is received. The file must be of a type that
//! the channel accepts, and within the maximum size of that type.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{Engine, MediaUnderWay, StagedMedia, Unavailable, UnavailableReason};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::body::ReadDeadline;
use super::body_budget::BodyLease;
use super::error::{ApiError, Code};

/// The number of bytes that are written at once.
const PART_BYTES: usize = 256 << 10;

/// The minimum speed of an upload, in bytes per second. A slower one is aborted.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The maximum size of any file, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 100 * MIB;

/// Returns the maximum time for a body of this length, besides the time that each part may take. A
/// body without a length may be as long as the largest file.
pub(crate) fn longest_of(length: Option<u64>) -> Duration {
    let length = length.map_or(FILE_BYTES_MAX, |it| it.min(FILE_BYTES_MAX));
    Duration::from_secs(length / BYTES_PER_SECOND_MIN)
}

/// A received file, its type, and its bytes as they count until it is added.
pub(crate) type Spooled = (StagedMedia, &'static str, Option<MediaUnderWay>);

/// The parts of a body. Each must arrive within the timeout, and all of them within a time that
/// depends on their length.
struct BodyParts<'a> {
    body: &'a mut Body,
    timeout: Duration,
    /// Ends when the server starts to shut down.
    stops: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// Ends when all parts must have arrived.
    end: Pin<Box<Sleep>>,
}

impl<'a> BodyParts<'a> {
    /// Returns the parts of a body of at most `max` bytes.
    fn of(body: &'a mut Body, max: u64, deadline: ReadDeadline<'a>) -> Self {
        let length = body.size_hint().upper().unwrap_or(max).min(max);
        let ReadDeadline { timeout, drain } = deadline;
        let end = tokio::time::sleep(timeout + longest_of(Some(length)));
        Self { body, timeout, stops: Box::pin(drain.begun()), end: Box::pin(end) }
    }

    /// Returns the next part; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let late = || ApiError::new(Code::RequestTimeout, "the body did not arrive in time");
        loop {
            let frame = tokio::select! {
                biased;
                () = self.stops.as_mut() => {
                    let message = "the server stops; nothing was done";
                    let stops = ApiError::new(Code::ServiceUnavailable, message);
                    return Err(stops.because("draining"));
                }
                () = self.end.as_mut() => return Err(late()),
                frame = tokio::time::timeout(self.timeout, self.body.frame()) => frame,
            };
            let Some(frame) = frame.map_err(|_| late())? else { return Ok(None) };
            let frame =
                frame.map_err(|_| ApiError::invalid("the body ended before it was complete"))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// Receives a file of a workspace.
///
/// If the workspace has no room for it, the file is refused. As far as its size is known, that
/// happens before a byte is read.
pub(super) async fn read(
    engine: &Engine,
    workspace: Option<&WorkspaceId>,
    headers: &HeaderMap,
    body: &mut Body,
    lease: &mut BodyLease,
    deadline: ReadDeadline<'_>,
) -> Result<Spooled, ApiError> {
    let (mime_type, max) = type_of(headers)?;
    let announced = body.size_hint().lower();
    if announced > max {
        return Err(too_large(mime_type, max));
    }
    let workspace = workspace.and_then(|id| engine.workspace(id));
    let mut under_way = workspace.map(|workspace| workspace.receive_media());
    count(&mut under_way, announced).await?;
    if !lease.grow(2 * PART_BYTES) {
        return Err(ApiError::overloaded("too much is being received; nothing was done"));
    }
    let staged = engine.stage_media().await;
    let staged = staged.map_err(|why| ApiError::from(why).closing_with_body())?;
    let (mut writing, mut part, mut length) =
        (FileWriting::Idle(staged, Vec::new()), Vec::new(), 0);
    let mut parts = BodyParts::of(body, max, deadline);
    while let Some(data) = parts.next().await? {
        length += data.len() as u64;
        if length > max {
            return Err(too_large(mime_type, max));
        }
        if !part.is_empty() && part.len() + data.len() > PART_BYTES {
            // Others write as well, so the disk may have become full in the meantime.
            engine.may_stage_media()?;
            count(&mut under_way, length).await?;
            (writing, part) = writing.then(part).await?;
        }
        if part.capacity() == 0 {
            part.reserve_exact(PART_BYTES);
        }
        part.extend_from_slice(&data);
    }
    if length == 0 {
        return Err(ApiError::invalid("the body is empty; it must be a file"));
    }
    count(&mut under_way, length).await?;
    let (writing, _) = writing.then(part).await?;
    let (staged, _) = writing.done().await?;
    Ok((staged, mime_type, under_way))
}

/// Counts the received bytes of a file, and refuses it if the workspace has no room. The rest of a
/// large body is thus not read in vain.
async fn count(under_way: &mut Option<MediaUnderWay>, bytes: u64) -> Result<(), ApiError> {
    let Some(under_way) = under_way else { return Ok(()) };
    let room = under_way.grow_to(bytes).await;
    room.map_err(|full| ApiError::from(full).closing_with_body())
}

/// A file that is written part by part on a blocking thread, with the empty buffer of the part
/// before.
enum FileWriting {
    Idle(StagedMedia, Vec<u8>),
    Busy(JoinHandle<io::Result<(StagedMedia, Vec<u8>)>>),
}

impl FileWriting {
    /// Waits for the previous part, starts to write this one, and returns a buffer for the next
    /// one.
    async fn then(self, mut part: Vec<u8>) -> Result<(Self, Vec<u8>), ApiError> {
        let (mut staged, empty) = self.done().await?;
        let writing = tokio::task::spawn_blocking(move || {
            staged.write(&part)?;
            part.clear();
            Ok((staged, part))
        });
        Ok((Self::Busy(writing), empty))
    }

    /// Waits until nothing is being written.
    async fn done(self) -> Result<(StagedMedia, Vec<u8>), ApiError> {
        let writing = match self {
            Self::Idle(staged, empty) => return Ok((staged, empty)),
            Self::Busy(writing) => writing,
        };
        match writing.await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => {
                tracing::error!(%error, "a file that is uploaded cannot be written");
                Err(Unavailable::because(UnavailableReason::Storage).into())
            }
            Err(_) => Err(ApiError::internal()),
        }
    }
}

fn type_of(headers: &HeaderMap) -> Result<(&'static str, u64), ApiError> {
    let unsupported = |message: &'static str| ApiError::new(Code::UnsupportedMediaType, message);
    let coding = headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("`Content-Encoding` is not supported"));
    }
    let named = headers.get(header::CONTENT_TYPE).and_then(|named| named.to_str().ok());
    let found = named.and_then(media_type);
    found.ok_or_else(|| unsupported("`Content-Type` must be a type of file that the channel takes"))
}

fn too_large(mime_type: &str, max: u64) -> ApiError {
    let message = format!("a file of the type {mime_type} may have at most {max} bytes");
    ApiError::new(Code::PayloadTooLarge, message)
}

/// The types, each with the maximum size of a file in bytes.
const MEDIA_TYPES: &[(&str, u64)] = &[
    ("image/jpeg", 5 * MIB),
    ("image/png", 5 * MIB),
    ("image/webp", 500 * KIB),
    ("audio/aac", 16 * MIB),
    ("audio/amr", 16 * MIB),
    ("audio/mpeg", 16 * MIB),
    ("audio/mp4", 16 * MIB),
    ("audio/ogg", 16 * MIB),
    ("video/mp4", 16 * MIB),
    ("video/3gpp", 16 * MIB),
    ("application/pdf", 100 * MIB),
    ("text/plain", 100 * MIB),
    ("application/msword", 100 * MIB),
    ("application/vnd.ms-excel", 100 * MIB),
    ("application/vnd.ms-powerpoint", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", 100 * MIB),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", 100 * MIB),
];

/// Returns the type that a `Content-Type` names, and its maximum file size in bytes. Parameters are
/// ignored. `None` if the channel accepts no such file.
pub(crate) fn media_type(content_type: &str) -> Option<(&'static str, u64)> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    MEDIA_TYPES.iter().copied().find(|(name, _)| name.eq_ignore_ascii_case(essence))
}

#[cfg(test)]
mod tests {
    use http_body_util::channel::Channel;

    use super::super::body::Drain;
    use super::*;

    /// Returns a body of `parts` parts, one every 20 seconds.
    fn dripping(parts: usize, part: &'static [u8]) -> Body {
        let (mut sender, body) = Channel::<Bytes, io::Error>::new(1);
        drop(tokio::spawn(async move {
            for _ in 0..parts {
                tokio::time::sleep(Duration::from_secs(20)).await;
                if sender.send_data(Bytes::from_static(part)).await.is_err() {
                    return;
                }
            }
        }));
        Body::new(body)
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_drips_is_given_up_and_one_that_is_slow_is_not() {
        static PART: [u8; 6 << 20] = [7; 6 << 20];
        let drain = Drain::default();
        let deadline = ReadDeadline { timeout: Duration::from_secs(30), drain: &drain };
        // A file of 100 MiB may take 430 seconds.
        for (count, part, expected) in [
            (16, &PART[..], Ok(16)),
            (21, &PART[..1], Ok(21)),
            (22, &PART[..1], Err(Code::RequestTimeout)),
        ] {
            let mut body = dripping(count, part);
            let mut parts = BodyParts::of(&mut body, 100 << 20, deadline);
            let mut come = 0;
            let read = loop {
                match parts.next().await {
                    Ok(Some(_)) => come += 1,
                    Ok(None) => break Ok(come),
                    Err(error) => break Err(error.code()),
                }
            };
            assert_eq!(read, expected, "{count} parts of {} bytes", part.len());
        }
    }

    #[test]
    fn no_file_is_larger_than_any() {
        assert_eq!(MEDIA_TYPES.iter().map(|(_, max)| *max).max(), Some(FILE_BYTES_MAX));
    }

    #[test]
    fn parameters_and_case_say_nothing() {
        for good in ["audio/ogg", "Audio/OGG; codecs=opus", " audio/ogg ;x"] {
            assert_eq!(media_type(good), Some(("audio/ogg", 16 * MIB)), "{good}");
        }
        for bad in ["", "image/svg+xml", "text/html", "image/*", "image"] {
            assert_eq!(media_type(bad), None, "{bad}");
        }
    }
}
