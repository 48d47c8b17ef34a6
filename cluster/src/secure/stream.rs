//! An authenticated connection, as a stream of bytes.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::secure::async_stream::AsyncSecureStream;
use crate::secure::incoming::{Incoming, Memory};
use crate::secure::noise::RecordKeys;
use crate::secure::outgoing::Outgoing;
use crate::secure::protection::Protection;
use crate::secure::record::RecordCodec;
use crate::secure::timed::TimedSecureStream;

/// An authenticated connection to another process. Its bytes are checked or encrypted, see [`Protection`].
///
/// The file descriptor is that of the socket. A caller may wait for it after a read that would block, but not before
/// one: bytes that were received may already be in memory. A write reports bytes when they have been sent completely;
/// after one that would block, the next write must begin with the same bytes.
pub struct SecureStream {
    socket: TcpStream,
    halves: Halves,
    peer_protection: Protection,
}

/// The protection of a connection, and the keys of each direction.
pub(crate) struct SessionKeys {
    /// The stronger one of the protections that the two sides were started with.
    pub(crate) protection: Protection,
    /// The protection that the other side was started with.
    pub(crate) peer_protection: Protection,
    pub(crate) incoming: RecordKeys,
    pub(crate) outgoing: RecordKeys,
}

/// The two directions of a connection. They are `None` if its bytes are sent as they are.
pub(super) struct Halves {
    pub(super) incoming: Option<Box<Incoming>>,
    pub(super) outgoing: Option<Box<Outgoing>>,
}

impl SecureStream {
    /// Protects a connection after its handshake. `peer` names the other end in errors.
    pub(crate) fn new(socket: TcpStream, keys: &SessionKeys, peer: String) -> io::Result<Self> {
        let halves = if keys.protection == Protection::Unprotected {
            Halves { incoming: None, outgoing: None }
        } else {
            let incoming = RecordCodec::new(&keys.incoming, keys.protection)?;
            let outgoing = RecordCodec::new(&keys.outgoing, keys.protection)?;
            Halves {
                incoming: Some(Box::new(Incoming::new(incoming, peer))),
                outgoing: Some(Box::new(Outgoing::new(outgoing))),
            }
        };
        Ok(Self { socket, halves, peer_protection: keys.peer_protection })
    }

    /// Returns the protection that the other end was started with.
    pub(crate) fn peer_protection(&self) -> Protection {
        self.peer_protection
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns the local address of the connection.
    ///
    /// # Errors
    /// The errors of [`TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// The errors of [`TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Returns whether data is sent at once, also if it is little.
    ///
    /// # Errors
    /// The errors of [`TcpStream::nodelay`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.nodelay()
    }

    /// Makes reads and writes wait, or return at once with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// The errors of [`TcpStream::set_nonblocking`].
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(is_nonblocking)
    }

    /// Limits the wait for each piece of data.
    ///
    /// # Errors
    /// The errors of [`TcpStream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// Hands the connection to the tokio runtime of the calling thread. The connection must be non-blocking.
    ///
    /// # Errors
    /// A runtime without network support.
    pub fn into_async(self) -> io::Result<AsyncSecureStream> {
        AsyncSecureStream::new(self.socket, self.halves)
    }

    /// Returns a view of the blocking connection with one deadline for all reads and writes together.
    pub(crate) fn by(&mut self, deadline: Instant) -> TimedSecureStream<'_> {
        TimedSecureStream { socket: &self.socket, halves: &mut self.halves, deadline }
    }

    /// Reads into memory that stays: as long as this returns [`io::ErrorKind::WouldBlock`], the caller must pass the
    /// same memory and leave it as it is. Large data is then received without a copy.
    pub(crate) fn read_in_place(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let socket = &self.socket;
        self.halves.read(buffer, Memory::Stays, |slices| { socket }.read_vectored(slices))
    }

    /// Reads into several slices, under the same condition as [`SecureStream::read_in_place`].
    pub(crate) fn read_vectored_in_place(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.halves.incoming.is_none() {
            return (&self.socket).read_vectored(slices);
        }
        let first = slices.iter_mut().find(|slice| !slice.is_empty());
        first.map_or(Ok(0), |slice| self.read_in_place(slice))
    }
}

impl Read for SecureStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let socket = &self.socket;
        self.halves.read(buffer, Memory::Changes, |slices| { socket }.read_vectored(slices))
    }
}

impl Write for SecureStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let socket = &self.socket;
        self.halves.write(slices, |slices| { socket }.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for SecureStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for SecureStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecureStream").field(&self.socket).finish()
    }
}

impl Halves {
    /// Reads by `receive`, which reads from the socket.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        memory: Memory,
        mut receive: impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match &mut self.incoming {
            Some(incoming) => incoming.read(buffer, memory, receive),
            None => receive(&mut [IoSliceMut::new(buffer)]),
        }
    }

    /// Writes by `send`, which writes to the socket.
    pub(super) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match &mut self.outgoing {
            Some(outgoing) => outgoing.write(slices, send),
            None => send(slices),
        }
    }
}
