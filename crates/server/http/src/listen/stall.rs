//! Ends connections whose client does not read: an unread answer occupies memory for as long as its connection lasts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection whose writes fail once the client has accepted nothing for a while.
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Time at which the pending write fails; unused while none is pending.
    deadline: Pin<Box<Sleep>>,
    is_pending: bool,
    lifted: PausesAllowed,
}

/// Lifts the timeout of a connection: a terminal's user may pause for as long as the stream's own rules allow.
#[derive(Debug, Clone, Default)]
pub(crate) struct PausesAllowed(Arc<AtomicBool>);

impl PausesAllowed {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        let lifted = PausesAllowed::default();
        Self { stream, limit, deadline: Box::pin(sleep(limit)), is_pending: false, lifted }
    }

    /// Returns the switch that lifts the timeout.
    pub(super) fn lifted(&self) -> PausesAllowed {
        self.lifted.clone()
    }

    /// Passes a result on, unless it has been pending for too long.
    fn timed<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() || self.lifted.0.load(Ordering::Relaxed) {
            self.is_pending = false;
            return result;
        }
        if !self.is_pending {
            self.is_pending = true;
            self.deadline.as_mut().reset(Instant::now() + self.limit);
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read what it requested",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // A flush of nothing is no progress, so it must not restart the clock of a pending write.
        match flushed.is_ready() && self.is_pending {
            true => flushed,
            false => self.timed(cx, flushed),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, closed)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const LIMIT: Duration = Duration::from_millis(600);

    #[tokio::test]
    async fn a_write_without_progress_ends_after_its_time_and_a_slow_one_does_not() {
        let (client, server) = tokio::io::duplex(10);
        let mut stream = WriteTimeout::new(server, LIMIT);
        // The client takes longer than the limit in all, but reads now and then.
        let mut reads = client;
        let slow = tokio::spawn(async move {
            for _ in 0..10 {
                tokio::time::sleep(LIMIT / 4).await;
                reads.read_u8().await.unwrap();
            }
            reads
        });
        stream.write_all(&[0; 20]).await.unwrap();
        let idle = slow.await.unwrap();
        let began = Instant::now();
        let error = stream.write_all(&[0; 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIMIT, "{:?}", began.elapsed());
        drop(idle);
    }

    #[tokio::test]
    async fn a_stream_may_pause_once_it_is_allowed_to() {
        let (client, server) = tokio::io::duplex(10);
        let mut stream = WriteTimeout::new(server, LIMIT);
        stream.lifted().set();
        let writing = tokio::spawn(async move { stream.write_all(&[0; 20]).await });
        tokio::time::sleep(2 * LIMIT).await;
        assert!(!writing.is_finished());
        let mut all = client;
        all.read_exact(&mut [0; 20]).await.unwrap();
        writing.await.unwrap().unwrap();
    }
}
