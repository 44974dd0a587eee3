//! Counts the interim answers (1xx) to a request, which HTTP does not bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, Request};
use tokio::sync::Notify;

/// The maximum of interim answers to a request.
const COUNT_MAX: usize = 8;
/// The maximum of bytes of their headers.
const BYTES_MAX: usize = 64 * 1024;

/// The interim answers to one request so far. The HTTP client passes over them, so a receiver that
/// sends them without end would keep a core busy until the timeout.
#[derive(Debug, Default)]
pub(super) struct InterimAnswers {
    count: AtomicUsize,
    bytes: AtomicUsize,
    exceeded: Notify,
}

impl InterimAnswers {
    /// Has the client count those that come to `request`.
    pub(super) fn count_in<B>(request: &mut Request<B>) -> Arc<Self> {
        let answers = Arc::new(Self::default());
        let counted = Arc::clone(&answers);
        hyper::ext::on_informational(request, move |answer| counted.note(answer.headers()));
        answers
    }

    /// Resolves when more have come than a receiver has reason to send.
    pub(super) async fn are_too_many(&self) {
        self.exceeded.notified().await;
    }

    /// Returns whether too many have come.
    ///
    /// An answer that follows them at once may be read before [`Self::are_too_many`] is polled
    /// again.
    pub(super) fn were_too_many(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        count > COUNT_MAX || self.bytes.load(Ordering::Relaxed) > BYTES_MAX
    }

    fn note(&self, headers: &HeaderMap) {
        let size = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len()
        };
        let size: usize = headers.iter().map(size).sum();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size, Ordering::Relaxed);
        if self.were_too_many() {
            self.exceeded.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeded(answers: &InterimAnswers) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(answers.are_too_many()).poll(&mut context).is_ready()
    }

    #[test]
    fn their_number_and_their_size_are_bounded() {
        let many = InterimAnswers::default();
        (0..COUNT_MAX).for_each(|_| many.note(&HeaderMap::new()));
        assert!(!many.were_too_many() && !exceeded(&many));
        many.note(&HeaderMap::new());
        assert!(many.were_too_many() && exceeded(&many));
        let large = InterimAnswers::default();
        let mut headers = HeaderMap::new();
        headers.insert("link", "x".repeat(BYTES_MAX / 2).parse().unwrap());
        large.note(&headers);
        assert!(!exceeded(&large));
        large.note(&headers);
        assert!(exceeded(&large));
    }
}
