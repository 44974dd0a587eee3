//! Streams copies of all data: an archive, and the log after a position.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::copies::{CopyError, DataSource};
use postrider_actors::store::blobs::{BlobHash, BlobStore};
use postrider_actors::store::{LogId, Position};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::http::audited_reads::ReadingKind;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Drain, EverythingReader, Reply, Routes, route,
};

/// The number of bytes that are sent at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// The maximum number of chunks that are buffered while the client does not read.
const BUFFERED_CHUNKS_MAX: usize = 2;
const NO_SUCH_FILE: &str = "there is no such file";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(archive).guarded(EverythingReader))
        .routes(route!(log).guarded(EverythingReader))
        .routes(route!(files).guarded(EverythingReader))
        .routes(route!(file).guarded(EverythingReader))
}

#[utoipa::path(
    get,
    path = "/admin/v1/archive",
    operation_id = "readArchive",
    tag = "Administration",
    summary = "Read all data",
    description = "An archive of everything at one position, which `postrider import` makes a data \
                   directory of. Commits go on meanwhile. One answer is made at a time. An answer \
                   that breaks off is no archive. 404 on a node of a cluster, of which \
                   `postrider cluster backup` makes copies.",
    params(("checkpoint" = Option<bool>, Query, description = "Whether the newest checkpoint will \
        do, where there is one: it is older, and needs no reading of all records; what was \
        committed since is in the log")),
    responses((status = 200, description = "The archive", body = String,
        content_type = "application/octet-stream"))
)]
async fn archive(call: Call<()>) -> Answer {
    let takes_checkpoint = match call.query()?.text("checkpoint")? {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::field("checkpoint", "must be `true` or `false`")),
    };
    let source = source(&call)?;
    let now = Some(call.edge.engine.clock().now());
    let turn = take_turn(&call.edge.archives)?;
    record_reading(&call, ReadingKind::Archive).await?;
    stream(call, turn, move |out| match takes_checkpoint {
        true => source.write_base(now, out),
        false => source.write_archive(now, out).map(drop),
    })
    .await
}

#[utoipa::path(
    get,
    path = "/admin/v1/archive/log",
    operation_id = "readLog",
    tag = "Administration",
    summary = "Read what was committed after a position",
    description = "A piece of the log, with which `postrider backup` goes on after an archive. It \
                   is refused with 409 and a `reason` where it would not follow: `other_log`, \
                   `trimmed` (an archive must be read anew), or `ahead` (the log ends before). \
                   404 on a node of a cluster.",
    params(
        ("after" = Option<i64>, Query, minimum = 0, description = "The position; left out: the \
         beginning of the log"),
        ("log" = Option<String>, Query, description = "The identity of the log that the position \
         is of, in hexadecimal digits"),
    ),
    responses((status = 200, description = "The piece", body = String,
        content_type = "application/octet-stream"))
)]
async fn log(call: Call<()>) -> Answer {
    let query = call.query()?;
    let after = query.integer("after", 0, 0, i64::MAX as usize)?;
    let of = query.text("log")?.map(|text| {
        log_id(text).ok_or_else(|| ApiError::field("log", "must be 32 hexadecimal digits"))
    });
    let of = of.transpose()?;
    let source = source(&call)?;
    if of.is_some_and(|of| source.log_id() != of) {
        let message = "the server has another log";
        return Err(ApiError::new(Code::Conflict, message).because("other_log"));
    }
    let (after, turn) = (Position(after as u64), take_turn(&call.edge.archives)?);
    record_reading(
        &call,
        if after == Position(0) { ReadingKind::WholeLog } else { ReadingKind::Log },
    )
    .await?;
    stream(call, turn, move |out| source.write_log(after, out).map(drop)).await
}

#[utoipa::path(
    get,
    path = "/admin/v1/archive/files",
    operation_id = "listArchiveFiles",
    tag = "Administration",
    summary = "List the contents of all media files",
    description = "The SHA-256 of each, one a line, in any order. `postrider backup` copies them \
                   beside the archive. 404 where no files are kept, as in a cluster.",
    responses((status = 200, description = "The list", body = String,
        content_type = "application/octet-stream"))
)]
async fn files(call: Call<()>) -> Answer {
    let (contents, turn) = (contents(&call)?, take_turn(&call.edge.archive_files)?);
    record_reading(&call, ReadingKind::Files).await?;
    stream(call, turn, move |out| {
        for first in 0..=u8::MAX {
            for hash in contents.list(first)? {
                writeln!(out, "{hash}")?;
            }
        }
        Ok(())
    })
    .await
}

#[utoipa::path(
    get,
    path = "/admin/v1/archive/files/{sha256}",
    operation_id = "readArchiveFile",
    tag = "Administration",
    summary = "Read the content of a media file",
    description = "By its SHA-256. 404 where it is not there any more, and 503 with the reason \
                   `unreadable_file` where it cannot be read; an answer breaks off \
                   where that shows later.",
    params(("sha256" = String, Path, description = "The SHA-256, in hexadecimal digits")),
    responses((status = 200, description = "The content", body = String,
        content_type = "application/octet-stream"))
)]
async fn file(mut call: Call<()>) -> Answer {
    let hash: String = call.path("sha256", NO_SUCH_FILE).await?;
    let none = || ApiError::not_found(NO_SUCH_FILE).because("no_such_file");
    let hash = BlobHash::parse(&hash).ok_or_else(none)?;
    let (contents, turn) = (contents(&call)?, take_turn(&call.edge.archive_files)?);
    record_reading(&call, ReadingKind::Files).await?;
    // The first chunk is read together with opening the file. If the disk is unreadable, the error
    // is thus reported now, before the answer starts.
    let opened = tokio::task::spawn_blocking(move || {
        let Some(mut reader) = contents.open(&hash)? else { return Ok(None) };
        let first = reader.read_at(0, CHUNK_BYTES)?;
        Ok(Some((reader, first)))
    });
    let (mut reader, mut part) = match opened.await {
        Ok(Ok(found)) => found.ok_or_else(none)?,
        Ok(Err(error)) => return Err(unreadable(&hash, &error)),
        Err(_) => return Err(ApiError::internal()),
    };
    stream(call, turn, move |out| {
        let mut from = 0;
        while !part.is_empty() {
            from += part.len() as u64;
            out.write_all(&part)?;
            part = reader.read_at(from, CHUNK_BYTES)?;
        }
        Ok(())
    })
    .await
}

async fn record_reading(call: &Call<()>, reading: ReadingKind) -> Result<(), ApiError> {
    let (engine, by) = (&call.edge.engine, call.audit_context());
    Ok(call.edge.readings.record(engine, &by, reading, None).await?)
}

fn unreadable(hash: &BlobHash, error: &io::Error) -> ApiError {
    tracing::warn!(%hash, %error, "the content of a file cannot be read");
    let message = "the content cannot be read";
    ApiError::new(Code::ServiceUnavailable, message).because("unreadable_file")
}

fn contents(call: &Call<()>) -> Result<BlobStore, ApiError> {
    call.edge.must_be_alone()?;
    let contents = call.edge.engine.contents();
    let none = || ApiError::not_found("no files are kept here").because("no_files");
    contents.ok_or_else(none)
}

fn log_id(text: &str) -> Option<LogId> {
    let is_sound = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_sound.then(|| u128::from_str_radix(text, 16).ok())??;
    Some(LogId(number.to_be_bytes()))
}

fn source(call: &Call<()>) -> Result<DataSource, ApiError> {
    call.edge.must_be_alone()?;
    let source = call.edge.engine.data().cloned();
    source.ok_or_else(|| ApiError::not_found("the engine has no data directory"))
}

/// Aborts a body, so that the client does not take a part for the whole.
#[derive(Debug, thiserror::Error)]
#[error("the data could not be read to the end")]
struct TruncatedCopy;

fn take_turn(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let turn = Arc::clone(turns).try_acquire_owned();
    turn.map_err(|_| ApiError::overloaded("another copy of the data is being read"))
}

/// Streams the bytes that `write` produces. A failure before the first byte becomes a refusal.
async fn stream(
    call: Call<()>,
    turn: OwnedSemaphorePermit,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CopyError> + Send + 'static,
) -> Answer {
    let (sender, body) = Channel::<Bytes, TruncatedCopy>::new(BUFFERED_CHUNKS_MAX);
    let (begun, has_begun) = oneshot::channel();
    let (drain, runtime) = (call.edge.options.drain.clone(), Handle::current());
    let mut out = Out { sender, drain, runtime, begun: Some(begun), buffer: Vec::new() };
    let writing = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let written = write(&mut out).and_then(|()| Ok(out.flush()?));
        if let Err(error) = &written
            && out.begun.is_none()
        {
            tracing::warn!(%error, "a copy of the data ends early");
            out.sender.abort(TruncatedCopy);
        }
        written
    });
    if has_begun.await.is_err() {
        return match writing.await {
            Ok(Err(error)) => Err(refused(error)),
            Ok(Ok(())) | Err(_) => Err(ApiError::internal()),
        };
    }
    let mut reply = Reply::stream(StatusCode::OK, "application/octet-stream", Body::new(body));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

fn refused(error: CopyError) -> ApiError {
    let message = error.to_string();
    match error {
        CopyError::Trimmed(_) => ApiError::new(Code::Conflict, message).because("trimmed"),
        CopyError::Lost(_) => ApiError::new(Code::Conflict, message).because("ahead"),
        _ => {
            tracing::warn!(%message, "a copy of the data was not made");
            ApiError::new(Code::ServiceUnavailable, "the data cannot be read")
        }
    }
}

/// A writer that sends its bytes to a body, and waits while the client does not read.
struct Out {
    sender: Sender<Bytes, TruncatedCopy>,
    drain: Drain,
    runtime: Handle,
    /// Notified of the first byte.
    begun: Option<oneshot::Sender<()>>,
    buffer: Vec<u8>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(begun) = self.begun.take() {
            // The client may have disconnected already; the send below detects that.
            begun.send(()).ok();
        }
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        if chunk.is_empty() {
            return Ok(());
        }
        let (sender, drain) = (&mut self.sender, &self.drain);
        self.runtime.block_on(async {
            tokio::select! {
                sent = sender.send_data(chunk) => {
                    sent.map_err(|_| io::Error::other("the client has disconnected"))
                }
                () = drain.begun() => Err(io::Error::other("the server shuts down")),
            }
        })
    }
}
