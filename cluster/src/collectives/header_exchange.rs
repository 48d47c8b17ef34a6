//! The exchange of collective headers between ring neighbors, concurrently with messages on other connections.

use std::io::{Read, Write};

use crate::collectives::header::HEADER_BYTES;
use crate::collectives::transfer::{Side, TransferError, moved};
use crate::secure::stream::SecureStream;

/// A header exchange in progress: this rank's header goes to the right neighbor, the left neighbor's header is
/// received.
///
/// Every collective exchanges headers on the ring, also when its data uses other connections. So a mismatch is found
/// even if one rank runs a ring algorithm and the other one recursive doubling.
pub(crate) struct HeaderExchange<'a> {
    own: &'a [u8],
    // Bytes of `own` that were sent.
    sent: usize,
    // The bytes of the left neighbor's header so far.
    theirs: Vec<u8>,
}

impl<'a> HeaderExchange<'a> {
    /// Creates an exchange of `own`; with an empty header it is complete from the start.
    pub(crate) fn new(own: &'a [u8]) -> Self {
        Self { own, sent: 0, theirs: Vec::with_capacity(own.len()) }
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.sent < self.own.len()
    }

    pub(crate) fn wants_to_receive(&self) -> bool {
        self.theirs.len() < self.own.len()
    }

    /// Sends and receives as much as possible without blocking. Returns whether any byte moved.
    ///
    /// # Errors
    /// A broken connection, or a left neighbor whose header differs.
    pub(crate) fn advance(
        &mut self,
        from_left: &mut SecureStream,
        to_right: &mut SecureStream,
    ) -> Result<bool, TransferError> {
        let mut count = 0;
        if self.wants_to_receive() {
            let mut buffer = [0; HEADER_BYTES];
            let missing = self.own.len() - self.theirs.len();
            let read = moved(from_left.read(&mut buffer[..missing]));
            let read = read.map_err(|error| TransferError::Broken(Side::Left, error))?;
            self.theirs.extend_from_slice(&buffer[..read]);
            count += read;
            if !self.wants_to_receive() && self.theirs != self.own {
                return Err(TransferError::Differs(Side::Left, std::mem::take(&mut self.theirs)));
            }
        }
        if self.wants_to_send() {
            let written = moved(to_right.write(&self.own[self.sent..]));
            let written = written.map_err(|error| TransferError::Broken(Side::Right, error))?;
            self.sent += written;
            count += written;
        }
        Ok(count > 0)
    }
}
