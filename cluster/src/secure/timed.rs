//! A blocking connection with one deadline for all reads and writes together.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::frames::Timed;
use crate::secure::incoming::Memory;
use crate::secure::stream::Halves;

/// A view of a [`SecureStream`](crate::SecureStream) with a deadline. It applies to each system call, so a peer that
/// sends single bytes cannot extend it.
pub(crate) struct TimedSecureStream<'a> {
    pub(super) socket: &'a TcpStream,
    pub(super) halves: &'a mut Halves,
    pub(super) deadline: Instant,
}

impl Read for TimedSecureStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut timed = Timed { stream: self.socket, deadline: self.deadline };
        self.halves.read(buffer, Memory::Changes, |slices| timed.read_vectored(slices))
    }
}

impl Write for TimedSecureStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut timed = Timed { stream: self.socket, deadline: self.deadline };
        self.halves.write(&[IoSlice::new(buffer)], |slices| timed.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
