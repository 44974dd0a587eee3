//! A connection whose client does not read: its writes must go on, or it ends.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::Sleep;

/// Bytes to and from a client, where a write that makes no progress for a while is an error.
///
/// A write that goes on at once, as almost all do, costs nothing: the timer is set only while one
/// waits.
pub(crate) struct WriteTimeout<T> {
    inner: T,
    limit: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteTimeout<T> {
    pub(crate) const fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit, waiting: None }
    }

    /// Lets a finished step pass, and an unfinished one for as long as it may take.
    fn watch<O>(
        &mut self,
        context: &mut Context<'_>,
        step: Poll<io::Result<O>>,
    ) -> Poll<io::Result<O>> {
        if step.is_ready() {
            self.waiting = None;
            return step;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match waiting.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<T: Read + Unpin> Read for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for WriteTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch(context, step)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket's flush never waits: the timer of a waiting write is left alone.
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.watch(context, step)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_client_that_never_reads_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut server = WriteTimeout::new(TokioIo::new(server), Duration::from_millis(50));
        let piece = vec![0_u8; 1 << 20];
        let mut written = 0;
        let error = loop {
            let step =
                std::future::poll_fn(|context| Pin::new(&mut server).poll_write(context, &piece));
            match step.await {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(written > 0, "until nothing more fits");
        drop(client);
    }
}
