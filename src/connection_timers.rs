//! The waits of one connection: hyper's timer, the pause of refusals, the timeout of writes.

use std::future::{Future, pending};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{self, Read, ReadBufCursor, Timer, Write};
use postrider_actors::LazyTimer;
use postrider_actors::clock::deadline_in;
use tokio::time::{Instant, Sleep};

/// The delay of a further refusal.
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);
/// The minimum `Retry-After` of any refusal.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// The timer of one connection, in the form that hyper takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyperTimer(pub(crate) LazyTimer);

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Until { timer: self.0.clone(), deadline: deadline_in(duration) })
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
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

impl rt::Sleep for Until {}

/// The time of the last refusal for overload on a connection that may retry too early.
///
/// A refusal for overload costs the server a whole request. Clients that retry immediately keep
/// every thread busy with refusals. Admitted requests then wait behind them each time they have to
/// run. So the first refusal is sent immediately, and a further one within the time of its
/// `Retry-After` after a pause. The request itself never waits: its admission is decided when it
/// comes.
#[derive(Debug, Default)]
pub(crate) struct RefusalPause(Mutex<Option<Instant>>);

impl RefusalPause {
    /// Waits until a refusal may be sent.
    pub(crate) async fn wait(&self, timer: &LazyTimer) {
        let since_last = self.refused().map(|last| last.elapsed());
        if is_early(since_last) {
            timer.within(REFUSAL_PAUSE, pending::<()>()).await;
        }
        *self.refused() = Some(deadline_in(Duration::ZERO));
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        // No holder of the lock panics, so the value is intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a refusal is delayed, given the time since the connection's last one.
fn is_early(since_last: Option<Duration>) -> bool {
    since_last.is_some_and(|since| since < RETRY_AFTER_MIN)
}

/// An I/O stream whose writes fail with [`io::ErrorKind::TimedOut`] after `wait` without progress.
///
/// So a client that never reads is disconnected.
pub(crate) struct WriteTimeout<T> {
    io: T,
    wait: Duration,
    /// Set while a write is pending. A write that completes at once needs no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T: Write + Unpin> WriteTimeout<T> {
    pub(crate) fn new(io: T, wait: Duration) -> Self {
        Self { io, wait, timer: None }
    }

    /// Applies the timeout to the result of a write.
    ///
    /// Progress clears the timer, and a pending write starts it.
    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let wait = self.wait;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        timer.as_mut().poll(context).map(|()| {
            let message = "the client does not read its answers";
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

impl<T: Read + Unpin> Read for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for WriteTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_who_asks_again_too_early_is_held_back() {
        let since = |millis| Some(Duration::from_millis(millis));
        for (since_last, is_held_back) in
            [(None, false), (since(0), true), (since(999), true), (since(1000), false)]
        {
            assert_eq!(is_early(since_last), is_held_back, "{since_last:?}");
        }
    }

    #[tokio::test]
    async fn only_a_write_that_stands_still_fails() {
        let (near, mut far) = tokio::io::duplex(8);
        let timed = WriteTimeout::new(TokioIo::new(near), Duration::from_millis(200));
        let mut timed = TokioIo::new(timed);
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 4];
            // All five reads together take longer than one write may be pending.
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(60)).await;
                far.read_exact(&mut bytes).await.unwrap();
            }
            far
        });
        timed.write_all(&[0; 20]).await.unwrap();
        let _far = reader.await.unwrap();
        timed.write_all(&[0; 8]).await.unwrap();
        let error = timed.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
