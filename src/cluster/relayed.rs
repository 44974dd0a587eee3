//! The body of another node's answer, on its way to a client: it ends when that node is lost.
//!
//! A node that hangs or has lost its power closes nothing. Its silence must not hold a client for
//! ever that waits for events, or for the rest of a file.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

/// The interval between checks whether the node is still the owner, while nothing comes.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of consecutive silent checks. An event stream sends something every 15 s.
const SILENT_LOOKS_MAX: u32 = 12;

/// The reason why a body ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RelayError {
    /// Nothing came for long.
    #[error("the node that answers has been silent for a minute")]
    Silent,
    /// Another node owns the shard, and nothing came since.
    #[error("the node that answers is the owner no more")]
    Replaced,
}

/// A body whose rest is awaited only as long as its node may be alive.
pub(super) struct Relayed<S> {
    body: Body,
    /// Returns whether the answering node may still be the owner.
    is_owner: S,
    look: Option<Pin<Box<Sleep>>>,
    silent_looks: u32,
}

impl<S: Fn() -> bool> Relayed<S> {
    pub(super) const fn new(body: Body, is_owner: S) -> Self {
        Self { body, is_owner, look: None, silent_looks: 0 }
    }

    /// Resolves when the body is given up.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<RelayError> {
        loop {
            let look = self.look.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_EVERY)));
            ready!(look.as_mut().poll(context));
            self.look = None;
            self.silent_looks += 1;
            if self.silent_looks >= SILENT_LOOKS_MAX {
                return Poll::Ready(RelayError::Silent);
            }
            if !(self.is_owner)() {
                return Poll::Ready(RelayError::Replaced);
            }
        }
    }
}

impl<S: Fn() -> bool + Unpin> HttpBody for Relayed<S> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            // The client may take its time between two parts, which is no silence of the node.
            (self.look, self.silent_looks) = (None, 0);
            return Poll::Ready(frame);
        }
        self.poll_silence(context).map(|error| Some(Err(axum::Error::new(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt as _;
    use http_body_util::channel::{Channel, Sender};

    use super::*;

    type Relay = Relayed<Box<dyn Fn() -> bool>>;

    /// Makes a body, its sender, and the flag whether its node is the owner.
    fn relayed() -> (Relay, Sender<Bytes, std::io::Error>, Arc<AtomicBool>) {
        let (sender, body) = Channel::new(1);
        let owner = Arc::new(AtomicBool::new(true));
        let is_owner = owner.clone();
        let is_owner: Box<dyn Fn() -> bool> = Box::new(move || is_owner.load(Ordering::Acquire));
        (Relayed::new(Body::new(body), is_owner), sender, owner)
    }

    async fn next(body: &mut Relay) -> Option<Result<Bytes, String>> {
        let frame = body.frame().await?;
        Some(frame.map(|it| it.into_data().unwrap()).map_err(|error| error.to_string()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_goes_on_as_long_as_it_pings_and_ends_when_it_is_silent() {
        let (mut body, mut sender, _) = relayed();
        let pinging = tokio::spawn(async move {
            for _ in 0..40 {
                tokio::time::sleep(Duration::from_secs(15)).await;
                sender.send_data(Bytes::from_static(b"ping")).await.unwrap();
            }
            sender
        });
        for _ in 0..40 {
            assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"ping"))));
        }
        let _sender = pinging.await.unwrap();
        assert_eq!(next(&mut body).await, Some(Err(RelayError::Silent.to_string())));
    }

    #[tokio::test(start_paused = true)]
    async fn the_silence_of_who_is_the_owner_no_more_is_its_end() {
        let (mut body, mut sender, owner) = relayed();
        owner.store(false, Ordering::Release);
        // Data that the node still sends is passed on.
        sender.send_data(Bytes::from_static(b"rest")).await.unwrap();
        assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"rest"))));
        assert_eq!(next(&mut body).await, Some(Err(RelayError::Replaced.to_string())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_take_its_time_and_gets_all() {
        let (mut body, mut sender, _) = relayed();
        for part in [&b"one"[..], b"two"] {
            sender.send_data(Bytes::from_static(part)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(part))));
        }
        drop(sender);
        assert_eq!(next(&mut body).await, None);
    }
}
