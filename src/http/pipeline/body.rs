//! Reads request bodies within limits of size and time, and until the server shuts down.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame};
use tokio::sync::watch;

use super::body_budget::BodyLease;
use super::error::{ApiError, Code};

/// The maximum number of bytes of a refused body that are read and discarded.
///
/// This lets the refusal reach a client that is still sending. Beyond it the connection is closed.
const DISCARD_BYTES_MAX: usize = 8 << 20;

/// The maximum time for which a refused body is read after its answer.
const LINGER: Duration = Duration::from_secs(2);

/// The two events that end the reading of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadDeadline<'a> {
    /// The time after which reading ends.
    pub(crate) timeout: Duration,
    /// The signal of the server's shutdown, which ends reading.
    pub(crate) drain: &'a Drain,
}

/// Reads a JSON body of at most `max` bytes. A missing body is returned as an empty one.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: &mut Body,
    max: usize,
    lease: &mut BodyLease,
    deadline: ReadDeadline<'_>,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    check_type(headers)?;
    read_raw(body, max, lease, deadline).await
}

/// Reads a body of at most `max` bytes, whatever its type. `lease` grows as the bytes arrive.
pub(crate) async fn read_raw(
    body: &mut Body,
    max: usize,
    lease: &mut BodyLease,
    deadline: ReadDeadline<'_>,
) -> Result<Bytes, ApiError> {
    // A body with a too large announced length is refused before a byte is read.
    if body.size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    // Most bodies arrive in one piece together with the head, and need neither a timer nor a lease.
    let first = poll_fn(|it| Poll::Ready(Pin::new(&mut *body).poll_frame(it))).await;
    let first = match first {
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Ready(Some(frame)) => Some(frame.map_err(|_| cut_short())?),
        Poll::Pending => None,
    };
    let first = match first.map(Frame::into_data) {
        Some(Ok(data)) if data.len() > max => return Err(too_large(max)),
        Some(Ok(data)) if body.is_end_stream() => return Ok(data),
        Some(Ok(data)) => Some(data),
        // Trailers, or nothing yet.
        Some(Err(_)) | None => None,
    };
    Box::pin(async move {
        let rest = collect(first, body, max, lease);
        tokio::select! {
            biased;
            read = tokio::time::timeout(deadline.timeout, rest) => read.unwrap_or_else(|_| {
                Err(ApiError::new(Code::RequestTimeout, "the body did not arrive in time"))
            }),
            () = deadline.drain.begun() => Err(ApiError::new(
                Code::ServiceUnavailable,
                "the server stops; nothing was done",
            )
            .because("draining")),
        }
    })
    .await
}

/// Reads and discards a body that no handler needs, so that the client has sent everything when the
/// refusal arrives. A client that sent `Expect: 100-continue` is not asked for its body.
pub(crate) async fn discard(headers: &HeaderMap, body: &mut Body, deadline: ReadDeadline<'_>) {
    let announced = body.size_hint().lower();
    let skip = body.is_end_stream()
        || headers.contains_key(header::EXPECT)
        || announced > DISCARD_BYTES_MAX as u64;
    if !skip {
        Box::pin(read_away(body, deadline)).await;
    }
}

/// Keeps reading for a moment while the refusal is sent. If the connection were closed at once, it
/// would be reset, and the client could lose the refusal.
pub(crate) fn linger(headers: &HeaderMap, body: &mut Body, drain: &Drain) {
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    let (mut body, drain) = (std::mem::take(body), drain.clone());
    tokio::spawn(async move {
        read_away(&mut body, ReadDeadline { timeout: LINGER, drain: &drain }).await;
    });
}

/// Reads bytes and keeps none, until the deadline at the latest.
async fn read_away(body: &mut Body, deadline: ReadDeadline<'_>) {
    let read = async {
        let mut left = DISCARD_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else { return };
            left = rest;
        }
    };
    // The refusal is sent even after a timeout.
    tokio::select! {
        biased;
        _ = tokio::time::timeout(deadline.timeout, read) => {}
        () = deadline.drain.begun() => {}
    }
}

/// Collects a body of which `first` was received. `lease` grows by what comes.
async fn collect(
    mut first: Option<Bytes>,
    body: &mut Body,
    max: usize,
    lease: &mut BodyLease,
) -> Result<Bytes, ApiError> {
    // A body in one frame, as nearly all are, is not copied. For several frames the announced
    // length is reserved at once, because a growing buffer holds much of the body twice.
    let received = first.as_ref().map_or(0, Bytes::len);
    let left = usize::try_from(body.size_hint().lower()).unwrap_or(max);
    let announced = received.saturating_add(left).min(max);
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    let mut length = 0;
    loop {
        let data = match first.take() {
            Some(data) => data,
            None => match body.frame().await {
                None => break,
                Some(frame) => match frame.map_err(|_| cut_short())?.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            },
        };
        length += data.len();
        if length > max {
            return Err(too_large(max));
        }
        // A body in a single frame is already in the connection's buffer, and the limit of
        // connections bounds those buffers. So it is accepted even if the budget for larger bodies
        // is used up.
        let is_small = length == data.len() && body.is_end_stream();
        if !is_small && !lease.grow(data.len()) {
            return Err(ApiError::overloaded("too much is being received; nothing was done"));
        }
        if length == data.len() {
            whole = data;
        } else {
            joined.reserve(announced.saturating_sub(joined.len()));
            joined.extend_from_slice(&std::mem::take(&mut whole));
            joined.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

fn cut_short() -> ApiError {
    ApiError::invalid("the body ended before it was complete")
}

fn too_large(max: usize) -> ApiError {
    ApiError::new(Code::PayloadTooLarge, format!("the body may have at most {max} bytes"))
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let coded = headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    let json = headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    });
    match (json, coded) {
        (true, false) => Ok(()),
        (false, _) => Err(unsupported("`Content-Type` must be application/json")),
        (true, true) => Err(unsupported("`Content-Encoding` is not supported")),
    }
}

fn unsupported(message: &'static str) -> ApiError {
    ApiError::new(Code::UnsupportedMediaType, message)
}

/// Signals to requests that the server shuts down.
///
/// A request whose body is still incomplete is then refused instead of waited for. Clones share the
/// signal.
#[derive(Debug, Clone, Default)]
pub struct Drain(watch::Sender<bool>);

impl Drain {
    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the shutdown has started.
    pub(crate) async fn begun(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}

#[cfg(test)]
mod tests {
    use super::super::body_budget::{BodyBudget, Holder};
    use super::*;

    fn headers(content_type: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(value) = content_type {
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
        }
        headers
    }

    async fn read_text(
        body: impl Into<TestBody>,
        content_type: Option<&str>,
    ) -> Result<Bytes, Code> {
        let mut body = body.into().0;
        let drain = Drain::default();
        let deadline = ReadDeadline { timeout: Duration::from_secs(30), drain: &drain };
        let mut lease = BodyBudget::new(128).lease(Holder::Administrator);
        read(&headers(content_type), &mut body, 8, &mut lease, deadline)
            .await
            .map_err(|error| error.code())
    }

    struct TestBody(axum::body::Body);

    impl From<&'static str> for TestBody {
        fn from(text: &'static str) -> Self {
            Self(axum::body::Body::from(text))
        }
    }

    /// A body in several frames, whose length is not announced.
    impl<const N: usize> From<[&'static str; N]> for TestBody {
        fn from(pieces: [&'static str; N]) -> Self {
            Self(axum::body::Body::new(Pieces(pieces.iter().rev().map(|p| p.as_bytes()).collect())))
        }
    }

    struct Pieces(Vec<&'static [u8]>);

    impl hyper::body::Body for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            let piece = self.0.pop().map(|piece| Ok(hyper::body::Frame::data(piece.into())));
            std::task::Poll::Ready(piece)
        }
    }

    #[tokio::test]
    async fn the_size_and_the_type_are_checked() {
        let json = Some("application/json");
        assert_eq!(read_text("12345678", json).await.unwrap(), "12345678");
        assert_eq!(read_text(["12", "34", "5678"], json).await.unwrap(), "12345678");
        assert_eq!(read_text(["1234567"], json).await.unwrap(), "1234567");
        assert_eq!(read_text("", None).await.unwrap(), "");
        assert_eq!(read_text("123456789", json).await, Err(Code::PayloadTooLarge));
        assert_eq!(read_text(["1234", "56789"], json).await, Err(Code::PayloadTooLarge));
        for good in ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
        {
            assert!(read_text("{}", Some(good)).await.is_ok(), "{good}");
        }
        for bad in [None, Some("text/plain"), Some("application/jsonp"), Some("json"), Some("")] {
            assert_eq!(read_text("{}", bad).await, Err(Code::UnsupportedMediaType), "{bad:?}");
        }
    }
}
