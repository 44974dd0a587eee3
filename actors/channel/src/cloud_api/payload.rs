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
    /// What comes before the file.
    pub(super) before: Bytes,
    /// The file.
    pub(super) parts: mpsc::Receiver<Bytes>,
    /// Its length in bytes.
    pub(super) length: u64,
    /// What comes after it.
    pub(super) after: Bytes,
}

/// Whose a request is: of the one who asks, or of a connection. It changes hands once.
///
/// A connection runs on a thread of its own. It may take a request in the moment in which the
/// asker's time is over, so either of them must learn that the other was first: a request that
/// leaves after it was said not to have been written is sent twice.
#[derive(Default)]
pub(super) struct Claim(AtomicU8);

impl Claim {
    const FREE: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// A connection takes the request. `false`: it was withdrawn, and must not be written.
    fn take(&self) -> bool {
        self.settle(Self::TAKEN)
    }

    /// The asker withdraws it. `false`: a connection has taken it, so it may have been written.
    pub(super) fn withdraw(&self) -> bool {
        self.settle(Self::WITHDRAWN)
    }

    /// Whether it was free, and is this now.
    fn settle(&self, now: u8) -> bool {
        self.0.compare_exchange(Self::FREE, now, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The request was withdrawn before a connection took it.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn")]
pub(super) struct Withdrawn;

/// A request's body. It records when a connection takes it: before that, the provider cannot have
/// acted on the request.
pub(super) struct Payload {
    bytes: Option<Bytes>,
    /// What comes after these, and then ends it.
    parts: Option<mpsc::Receiver<Bytes>>,
    after: Option<Bytes>,
    /// Bytes that are still to be sent.
    left: u64,
    claim: Arc<Claim>,
}

impl Payload {
    pub(super) fn of(bytes: Bytes) -> Self {
        let left = bytes.len() as u64;
        Self { bytes: Some(bytes), parts: None, after: None, left, claim: Arc::default() }
    }

    /// The body of a form, and its type.
    pub(super) fn of_form(form: Form) -> (HeaderValue, Self) {
        let Form { content_type, before, parts, length, after } = form;
        let left = length + (before.len() + after.len()) as u64;
        let (parts, after) = (Some(parts), Some(after));
        (content_type, Self { parts, after, left, ..Self::of(before) })
    }

    /// Whose the request is.
    pub(super) fn claim(&self) -> Arc<Claim> {
        Arc::clone(&self.claim)
    }

    /// Its length in bytes.
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
            // As a connection reads it, on its own thread.
            let written = payload.collect().await.map(http_body_util::Collected::to_bytes);
            assert_eq!(written.is_err(), withdrawn);
            assert!(!claim.withdraw(), "it has changed hands");
        }
    }
}
