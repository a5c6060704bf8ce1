//! A connection whose other side takes nothing is given up.
//!
//! Whoever asks for much and reads none of it would otherwise keep its connection, and what is written for it, for ever: the
//! network lets a full window stand for as long as both sides live. Every write that gets on begins the time anew, so that a
//! slow reader is served and only one that stands still is not. Reads are bounded by those who read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that fails when nothing of what is written is taken for a while.
pub(crate) struct Stalling<S> {
    stream: S,
    timeout: Duration,
    /// Runs while a write waits.
    over: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(crate) const fn new(stream: S, timeout: Duration) -> Self {
        Self {
            stream,
            timeout,
            over: None,
        }
    }

    fn bound<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.over = None;
            return polled;
        }
        let timeout = self.timeout;
        let over = self
            .over
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        over.as_mut().poll(cx).map(|()| {
            let said = "the other side takes nothing";
            Err(io::Error::new(io::ErrorKind::TimedOut, said))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bound(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bound(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A socket keeps nothing back: these two never wait, and say nothing about the other side.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_writer_is_served_while_it_gets_on_and_fails_when_it_stands_still() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Stalling::new(near, Duration::from_millis(400));
        let slow = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                far.read_exact(&mut byte).await.expect("there is a byte");
            }
            far
        });
        near.write_all(&[7; 12]).await.expect("slow is not still");
        let _far = slow.await.expect("it has read");
        let error = near.write_all(&[7; 12]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
