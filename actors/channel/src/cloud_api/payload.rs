//! The body of a request, which records when a connection takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// A form whose last field is a file.
pub(super) struct Form {
    /// Its type, which names the boundary between the fields.
    pub(super) content_type: HeaderValue,
    /// The bytes before the file.
    pub(super) before: Bytes,
    /// The file.
    pub(super) parts: mpsc::Receiver<Bytes>,
    /// Its length in bytes.
    pub(super) length: u64,
    /// The bytes after the file.
    pub(super) after: Bytes,
}

/// The owner of a request: the caller, or a connection. It changes once.
///
/// A connection runs on a separate thread. It may take a request at the moment in which the
/// caller's time is over. So each of them must learn that the other was first: a request that
/// leaves after it was reported as not written is sent twice.
#[derive(Default)]
pub(super) struct Claim(AtomicU8);

impl Claim {
    const FREE: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// Takes the request for a connection. `false`: it was withdrawn, and must not be written.
    fn take(&self) -> bool {
        self.settle(Self::TAKEN)
    }

    /// Withdraws the request. `false`: a connection has taken it, so it may have been written.
    pub(super) fn withdraw(&self) -> bool {
        self.settle(Self::WITHDRAWN)
    }

    /// Sets the owner, and returns whether the request was free.
    fn settle(&self, now: u8) -> bool {
        self.0.compare_exchange(Self::FREE, now, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The error of a request that was withdrawn before a connection took it.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
pub(super) struct Withdrawn;

/// A request's body.
///
/// It records when a connection takes it: before that, the provider cannot have acted on the
/// request.
pub(super) struct Payload {
    bytes: Option<Bytes>,
    /// The parts that follow `bytes`. The next field is sent last.
    parts: Option<mpsc::Receiver<Bytes>>,
    after: Option<Bytes>,
    /// The number of bytes that are still to be sent.
    left: u64,
    claim: Arc<Claim>,
}

impl Payload {
    pub(super) fn of(bytes: Bytes) -> Self {
        let left = bytes.len() as u64;
        Self { bytes: Some(bytes), parts: None, after: None, left, claim: Arc::default() }
    }

    /// Returns the body of a form, and its type.
    pub(super) fn of_form(form: Form) -> (HeaderValue, Self) {
        let Form { content_type, before, parts, length, after } = form;
        let left = length + (before.len() + after.len()) as u64;
        let (parts, after) = (Some(parts), Some(after));
        (content_type, Self { parts, after, left, ..Self::of(before) })
    }

    /// Returns the claim on the request.
    pub(super) fn claim(&self) -> Arc<Claim> {
        Arc::clone(&self.claim)
    }

    /// Returns its length in bytes.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match self.bytes.take() {
            Some(_) if !self.claim.take() => return Poll::Ready(Some(Err(Withdrawn))),
            Some(first) => Some(first),
            None => match &mut self.parts {
                Some(parts) => ready!(parts.poll_recv(context)),
                None => None,
            },
        };
        let next = next.or_else(|| {
            self.parts = None;
            self.after.take()
        });
        self.left = self.left.saturating_sub(next.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_request_that_was_withdrawn_is_not_written_afterwards() {
        for withdrawn in [false, true] {
            let claim = Arc::new(Claim::default());
            assert!(!withdrawn || claim.withdraw());
            let mut payload = Payload::of(Bytes::from_static(b"{}"));
            payload.claim = Arc::clone(&claim);
            // The body is read as by a connection, which is on its own thread.
            let written = payload.collect().await.map(http_body_util::Collected::to_bytes);
            assert_eq!(written.is_err(), withdrawn);
            assert!(!claim.withdraw(), "it has changed hands");
        }
    }
}
