//! An authenticated connection on a tokio runtime.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::secure::incoming::Memory;
use crate::secure::stream::Halves;

/// The most memory that a read initializes.
const MAX_INITIALIZED_BYTES: usize = 64 << 10;

/// A [`SecureStream`](crate::SecureStream) on a tokio runtime, made by
/// [`SecureStream::into_async`](crate::SecureStream::into_async).
///
/// While a read is pending, its caller must leave the memory that it reads into as it is, and read into the same memory
/// again. Large data is then received without a copy, if the memory is initialized. Memory that is not, such as that of
/// `AsyncReadExt::read_buf`, is filled with zeros first, in pieces, and bytes are copied to it. While a write is pending, the next one must begin with the same
/// bytes. The futures of tokio's extension traits keep both rules as long as they are not dropped before they are
/// ready.
pub struct AsyncSecureStream {
    socket: AsyncFd<TcpStream>,
    halves: Halves,
}

impl AsyncSecureStream {
    pub(super) fn new(socket: TcpStream, halves: Halves) -> io::Result<Self> {
        // SAFETY: a `TcpStream` owns its descriptor, which stays open and the same until it is dropped. `AsyncFd` owns
        // the `TcpStream`, and this type never hands it out.
        let socket = unsafe { AsyncFd::register(socket) }?;
        Ok(Self { socket, halves })
    }

    fn poll_read_slice(&mut self, cx: &mut Context<'_>, buffer: &mut [u8], memory: Memory) -> Poll<io::Result<usize>> {
        let Self { socket, halves } = self;
        // Bytes that were received already need no wait for the socket.
        if halves.incoming.is_some() {
            match halves.read(buffer, memory, |_| Err(ErrorKind::WouldBlock.into())) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
        loop {
            let mut guard = ready!(socket.poll_read_ready(cx))?;
            // A read that got less than it asked for has emptied the socket. Another attempt would be a system call in
            // vain.
            let mut is_empty = false;
            let outcome = halves.read(buffer, memory, |slices| {
                if is_empty {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let count = guard.get_inner().read_vectored(slices)?;
                is_empty = count > 0 && count < slices.iter().map(|slice| slice.len()).sum();
                Ok(count)
            });
            let would_block = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            if would_block || is_empty {
                guard.clear_ready();
            }
            if !would_block {
                return Poll::Ready(outcome);
            }
        }
    }
}

impl AsyncRead for AsyncSecureStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A record that is received in the caller's memory may need several reads. Each of them would overwrite its first
        // part with zeros if the memory had to be initialized.
        let is_initialized = buffer.initialized().len() == buffer.capacity();
        let (memory, limit) =
            if is_initialized { (Memory::Stays, usize::MAX) } else { (Memory::Changes, MAX_INITIALIZED_BYTES) };
        let unfilled = buffer.initialize_unfilled_to(buffer.remaining().min(limit));
        let count = ready!(self.get_mut().poll_read_slice(cx, unfilled, memory))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncSecureStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { socket, halves } = self.get_mut();
        loop {
            let mut guard = ready!(socket.poll_write_ready(cx))?;
            let mut is_full = false;
            let outcome = halves.write(slices, |slices| {
                if is_full {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let count = guard.get_inner().write_vectored(slices)?;
                is_full = count > 0 && count < slices.iter().map(|slice| slice.len()).sum();
                Ok(count)
            });
            let would_block = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            if would_block || is_full {
                guard.clear_ready();
            }
            if !would_block {
                return Poll::Ready(outcome);
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that the peer has closed has nothing left to shut down.
        match self.socket.get_ref().shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::handshake::tests::secure_pair;
    use crate::secure::protection::Protection;

    #[tokio::test]
    async fn data_arrives_in_memory_that_is_not_initialized() {
        for protection in [Protection::Unprotected, Protection::Checked, Protection::Encrypted] {
            let (one, other) = secure_pair(protection);
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            let mut one = one.into_async().unwrap();
            let mut other = other.into_async().unwrap();
            let data: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
            let sent = data.clone();
            let sender = tokio::spawn(async move { one.write_all(&sent).await.unwrap() });
            let mut received = Vec::with_capacity(data.len());
            while received.len() < data.len() {
                // Both kinds of memory take turns.
                let mut piece = [0; 9_000];
                let end = piece.len().min(data.len() - received.len());
                other.read_exact(&mut piece[..end]).await.unwrap();
                received.extend_from_slice(&piece[..end]);
                if received.len() < data.len() {
                    assert!(other.read_buf(&mut received).await.unwrap() > 0);
                }
            }
            assert!(received == data, "{protection:?}");
            sender.await.unwrap();
        }
    }

    #[tokio::test]
    async fn large_and_small_data_arrive_in_order_in_both_directions() {
        for protection in [Protection::Unprotected, Protection::Checked, Protection::Encrypted] {
            let (one, other) = secure_pair(protection);
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            let mut one = one.into_async().unwrap();
            let mut other = other.into_async().unwrap();
            let echo = tokio::spawn(async move {
                loop {
                    let Ok(len) = other.read_u32_le().await else { return };
                    let mut data = vec![0; len as usize];
                    other.read_exact(&mut data).await.unwrap();
                    other.write_all(&data).await.unwrap();
                }
            });
            for len in [1, 40, 5_000, 100_000, 3_000_000, 7] {
                let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
                one.write_all(&(len as u32).to_le_bytes()).await.unwrap();
                one.write_all(&data).await.unwrap();
                let mut echoed = vec![0; len];
                one.read_exact(&mut echoed).await.unwrap();
                assert!(echoed == data, "{protection:?}: {len} bytes");
            }
            one.shutdown().await.unwrap();
            assert_eq!(one.read(&mut [0]).await.unwrap(), 0);
            echo.await.unwrap();
        }
    }
}
