//! Gives hyper the timer of its connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use postrider_actors::LazyTimer;
use postrider_actors::clock::deadline_in;
use tokio::time::Instant;

/// The timer of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyperTimer(pub(crate) LazyTimer);

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until { timer: self.0.clone(), deadline: deadline_in(duration) })
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until { timer: self.0.clone(), deadline: deadline.into() })
    }

    fn now(&self) -> std::time::Instant {
        deadline_in(Duration::ZERO).into_std()
    }
}

/// Resolves when its deadline has passed.
struct Until {
    timer: LazyTimer,
    deadline: Instant,
}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(context, self.deadline)
    }
}

impl Sleep for Until {}
