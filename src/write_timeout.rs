//! Fails writes that make no progress, so that a client that never reads is disconnected.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::Sleep;

/// An I/O stream whose writes fail with [`io::ErrorKind::TimedOut`] after `wait` without progress.
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
    use super::*;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
