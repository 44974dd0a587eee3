//! The timeout of another node, which starts again with each part of the body that it takes.
//!
//! The body of an upload may be on its way for minutes. A node that hangs takes none of it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;

/// A body that notifies whenever a part of it was taken.
pub(super) struct Moving {
    body: Body,
    moved: Arc<Notify>,
}

impl Moving {
    /// Wraps a body; also returns the notification.
    pub(super) fn new(body: Body) -> (Self, Arc<Notify>) {
        let moved = Arc::<Notify>::default();
        (Self { body, moved: moved.clone() }, moved)
    }
}

impl HttpBody for Moving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.moved.notify_one();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Awaits `sent`, unless nothing moves for the time `within`, or it takes longer than `longest`.
pub(super) async fn answer<T>(
    sent: impl Future<Output = T>,
    moved: &Notify,
    within: Duration,
    longest: Duration,
) -> Option<T> {
    let (mut sent, mut end) = (pin!(sent), pin!(tokio::time::sleep(longest)));
    loop {
        tokio::select! {
            biased;
            answer = sent.as_mut() => return Some(answer),
            () = end.as_mut() => return None,
            () = moved.notified() => {}
            () = tokio::time::sleep(within) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use http_body_util::channel::Channel;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(95);
    const LONGEST: Duration = Duration::from_secs(495);

    /// Sends a body with a part every 20 seconds to a node that takes some parts and then works.
    ///
    /// Returns the outcome.
    async fn sent(parts: usize, taken: usize, works: u64) -> Option<usize> {
        let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(1);
        drop(tokio::spawn(async move {
            for _ in 0..parts {
                tokio::time::sleep(Duration::from_secs(20)).await;
                if sender.send_data(Bytes::from_static(b"part")).await.is_err() {
                    return;
                }
            }
        }));
        let (mut body, moved) = Moving::new(Body::new(body));
        let node = async {
            let mut come = 0;
            while come < taken
                && let Some(Ok(_)) = body.frame().await
            {
                come += 1;
            }
            tokio::time::sleep(Duration::from_secs(works)).await;
            come
        };
        answer(node, &moved, WITHIN, LONGEST).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_and_a_node_that_stands_still_may_not() {
        for (parts, taken, works, expected) in [
            (1, 1, 60, Some(1)),
            (20, usize::MAX, 60, Some(20)),
            (20, usize::MAX, 96, None),
            (20, 3, 10_000, None),
            (1_000, usize::MAX, 0, None),
        ] {
            let come = sent(parts, taken, works).await;
            assert_eq!(come, expected, "{parts} parts, of which {taken} are taken");
        }
    }
}
