//! A connection on which the statements of one flight share one Sync.
//!
//! The driver ends every statement with a Sync, to which the server answers at once: a flight of six statements is answered in six
//! packets, and wakes its reader six times. On a machine whose network costs more than its statements that is most of a small
//! transaction. Here a Sync is left out where the next statement of the same transaction follows it in the same write; the server
//! then answers all of them together. What the driver reads is what it would have read: the end of each statement is put in where it
//! belongs.
//!
//! **Invariant:** the driver sees the same messages in the same order, with and without this. A Sync only separates
//! what fails: after an error the server passes over everything up to the next one, and what it passed over is answered here
//! with the words of the server itself, that the transaction is aborted.
//!
//! **Invariant:** nothing is left out outside a transaction, where a Sync is a commit.

mod coming;
mod going;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

use coming::Coming;
use going::Going;

/// How much is taken from the server at a time.
const READ_BYTES: usize = 16 * 1024;
/// The driver has to wait while more than this has not been taken by the server.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// What ends the answer to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server says so.
    Said,
    /// Its Sync was left out: it is put in here.
    LeftOut,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Flights<S> {
    inner: S,
    going: Going,
    coming: Coming,
    /// How the answers that are still to come end, in their order.
    ends: VecDeque<End>,
    read: Box<[u8]>,
}

impl<S> Flights<S> {
    /// Over a connection on which nothing was said yet.
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            going: Going::default(),
            coming: Coming::default(),
            ends: VecDeque::new(),
            read: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }
}

impl<S: AsyncWrite + Unpin> Flights<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.going.out.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.going.out))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.going.out.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Flights<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.going.out.len() > WAITING_BYTES_MAX {
            ready!(this.poll_send(cx))?;
        }
        match this.coming.greeted {
            true => this.going.take(buf, &mut this.ends)?,
            // The first message has no kind, and nothing of a greeting is ever left out.
            false => this.going.out.extend_from_slice(buf),
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.going.settle(&mut this.ends);
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.going.settle(&mut this.ends);
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Flights<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.coming.fit.is_empty() {
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.coming.take(read.filled(), &mut this.ends)?;
        }
        let handed = this.coming.fit.len().min(buf.remaining());
        buf.put_slice(&this.coming.fit[..handed]);
        this.coming.fit.advance(handed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Flights<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // Whoever has to be sure of the server checks its certificate.
        ChannelBinding::none()
    }
}

/// Bytes that are cut into messages.
#[derive(Debug, Default)]
struct Messages {
    /// The beginning of a message whose end is still to come.
    part: BytesMut,
}

impl Messages {
    /// Takes bytes, and hands out every message that is whole now.
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        if self.part.is_empty() {
            let taken = whole(bytes, &mut each)?;
            self.part.extend_from_slice(&bytes[taken..]);
        } else {
            self.part.extend_from_slice(bytes);
            let taken = whole(&self.part, &mut each)?;
            self.part.advance(taken);
        }
        Ok(())
    }
}

/// A message between the driver and the server.
#[derive(Clone, Copy)]
struct Message<'a> {
    kind: u8,
    body: &'a [u8],
    /// With its kind and its length.
    bytes: &'a [u8],
}

/// Hands out the messages that are whole; how many bytes they are.
fn whole(bytes: &[u8], each: &mut impl FnMut(Message<'_>)) -> io::Result<usize> {
    let mut taken = 0;
    while let Some((&[kind, a, b, c, d], rest)) = bytes[taken..].split_first_chunk() {
        // The length counts itself and not the kind.
        let length = u32::from_be_bytes([a, b, c, d]).checked_sub(4);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some(body) = rest.get(..length.ok_or(io::ErrorKind::InvalidData)?) else {
            break;
        };
        let end = taken + 5 + body.len();
        each(Message {
            kind,
            body,
            bytes: &bytes[taken..end],
        });
        taken = end;
    }
    Ok(taken)
}
