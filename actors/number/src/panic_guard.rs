//! A call of a channel that may panic: what became of the message is then unknown, and the number
//! goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use postrider_channel::{AttemptOutcome, Channel, Outbound, Sending};

/// A call under way.
pub(super) struct Caught(Sending);

impl Caught {
    /// Hands a message over: the outcome, if the channel answers at once, or what has it later.
    pub(super) fn call(channel: &dyn Channel, message: Outbound) -> Result<AttemptOutcome, Self> {
        let Some(sending) = caught(|| channel.send(message)) else {
            return Ok(AttemptOutcome::Unknown);
        };
        let mut called = Self(sending);
        match Pin::new(&mut called).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err(called),
        }
    }
}

impl Future for Caught {
    type Output = AttemptOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptOutcome> {
        // One that has panicked is not asked again.
        caught(|| self.0.as_mut().poll(context)).unwrap_or(Poll::Ready(AttemptOutcome::Unknown))
    }
}

/// What `call` gives; nothing if it panics.
fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    if result.is_err() {
        // What it said may have a message in it; it is in the output of the process.
        tracing::error!("a channel panicked; the outcome of the message is unknown");
    }
    result.ok()
}
