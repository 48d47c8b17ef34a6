//! The header of a collective on its way round the ring, beside messages on other connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::collective::HEADER_BYTES;
use crate::pump::{Halt, Side, moved};

/// A header that goes to the right neighbor while the left neighbor's is awaited.
///
/// All collectives begin with it on the ring, whatever way their data takes. So ranks that disagree find out also where
/// one of them waits on the ring and the other one elsewhere.
pub(crate) struct Greeting<'a> {
    own: &'a [u8],
    sent: usize,
    theirs: Vec<u8>,
}

impl<'a> Greeting<'a> {
    /// A greeting that has not begun; an empty one is done already.
    pub(crate) fn new(own: &'a [u8]) -> Self {
        Self { own, sent: 0, theirs: Vec::with_capacity(own.len()) }
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.sent < self.own.len()
    }

    pub(crate) fn wants_to_receive(&self) -> bool {
        self.theirs.len() < self.own.len()
    }

    /// Moves what the connections take and have; returns whether anything moved.
    pub(crate) fn advance(&mut self, mut from_left: &TcpStream, mut to_right: &TcpStream) -> Result<bool, Halt> {
        let mut count = 0;
        if self.wants_to_receive() {
            let mut buffer = [0; HEADER_BYTES];
            let missing = self.own.len() - self.theirs.len();
            let read = moved(from_left.read(&mut buffer[..missing]));
            let read = read.map_err(|error| Halt::Broken(Side::Left, error))?;
            self.theirs.extend_from_slice(&buffer[..read]);
            count += read;
            if !self.wants_to_receive() && self.theirs != self.own {
                return Err(Halt::Differs(std::mem::take(&mut self.theirs)));
            }
        }
        if self.wants_to_send() {
            let written = moved(to_right.write(&self.own[self.sent..]));
            let written = written.map_err(|error| Halt::Broken(Side::Right, error))?;
            self.sent += written;
            count += written;
        }
        Ok(count > 0)
    }
}
