//! Guards calls of a channel: if one panics, the outcome is unknown and the number continues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use postrider_channel::{AttemptOutcome, Channel, Outbound, Sending};

/// A call of a channel that has not returned yet.
pub(super) struct GuardedCall(Sending);

impl GuardedCall {
    /// Hands a message to the channel. Returns the outcome if it is ready at once, else a future of
    /// it.
    pub(super) fn start(channel: &dyn Channel, message: Outbound) -> Result<AttemptOutcome, Self> {
        let Some(sending) = guarded(|| channel.send(message)) else {
            return Ok(AttemptOutcome::Unknown);
        };
        let mut called = Self(sending);
        match Pin::new(&mut called).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err(called),
        }
    }
}

impl Future for GuardedCall {
    type Output = AttemptOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptOutcome> {
        // Ready, so a call that has panicked is not polled again.
        guarded(|| self.0.as_mut().poll(context)).unwrap_or(Poll::Ready(AttemptOutcome::Unknown))
    }
}

/// Returns the result of `call`, or `None` if it panics.
fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    if result.is_err() {
        // The panic's message may contain parts of the message, so it is not logged here; the
        // panic hook has written it to the output of the process.
        tracing::error!("a channel panicked; the outcome of the message is unknown");
    }
    result.ok()
}
