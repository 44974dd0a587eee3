//! Writes a file to the disk while its body arrives, so that no large file is held in memory.
//!
//! One part is written and hashed while the next one is received.

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
use super::media_types;

/// The number of bytes that are written at once.
const PART_BYTES: usize = 256 << 10;

/// The minimum speed of an upload, in bytes per second. A slower one is aborted.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;

/// Returns the maximum time for a body of this length, besides the time that each part may take. A
/// body without a length may be as long as the largest file.
pub(crate) fn longest_of(length: Option<u64>) -> Duration {
    let length = length.map_or(media_types::BYTES_MAX, |it| it.min(media_types::BYTES_MAX));
    Duration::from_secs(length / BYTES_PER_SECOND_MIN)
}

/// A received file, its type, and its bytes as they count until it is added.
pub(crate) type Spooled = (StagedMedia, &'static str, Option<MediaUnderWay>);

/// The parts of a body. Each must arrive within the timeout, and all of them within a time that
/// depends on their length.
struct Parts<'a> {
    body: &'a mut Body,
    timeout: Duration,
    /// Ends when the server starts to shut down.
    stops: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// Ends when all parts must have arrived.
    end: Pin<Box<Sleep>>,
}

impl<'a> Parts<'a> {
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
    let (mut writing, mut part, mut length) = (Writing::Idle(staged, Vec::new()), Vec::new(), 0);
    let mut parts = Parts::of(body, max, deadline);
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
enum Writing {
    Idle(StagedMedia, Vec<u8>),
    Busy(JoinHandle<io::Result<(StagedMedia, Vec<u8>)>>),
}

impl Writing {
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
    let found = named.and_then(media_types::of);
    found.ok_or_else(|| unsupported("`Content-Type` must be a type of file that the channel takes"))
}

fn too_large(mime_type: &str, max: u64) -> ApiError {
    let message = format!("a file of the type {mime_type} may have at most {max} bytes");
    ApiError::new(Code::PayloadTooLarge, message)
}

#[cfg(test)]
mod tests {
    use http_body_util::channel::Channel;

    use super::super::drain::Drain;
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
            let mut parts = Parts::of(&mut body, 100 << 20, deadline);
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
}
