//! A connection of the control thread, with its send and receive buffers.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use crate::failure::messages::Message;
use crate::frames::{MAX_FRAME_BYTES, take_frame};
use crate::secure::stream::SecureStream;

/// The most bytes that a peer may leave unread before it counts as stuck.
const MAX_OUTBOX_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// The use of a [`HeartbeatConnection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// A connection between rank 0 and another rank, from the rendezvous on, for heartbeats and messages. Its end means
    /// that the peer has died.
    Control,
    /// A connection between two other ranks for heartbeats only, opened by this rank. Its silence is a failure. Its end
    /// is not, since rank 0 detects the death of either rank.
    OwnPulse,
    /// The same as [`ConnectionKind::OwnPulse`], but opened by the peer.
    PeerPulse,
}

/// A connection of the control thread.
pub(crate) struct HeartbeatConnection {
    pub(crate) kind: ConnectionKind,
    pub(crate) rank: usize,
    pub(crate) stream: SecureStream,
    /// The bytes that wait to be sent.
    pub(crate) outbox: Vec<u8>,
    /// The time when data last arrived.
    pub(crate) last_heard: Instant,
    /// The error of an earlier send. Data that the peer sent before is still read, since it may give the reason.
    pub(crate) broken: Option<io::Error>,
    /// True if the last [`HeartbeatConnection::fill`] has left data, because the inbox was full. Before the first one it
    /// is true as well: the handshake may have received data.
    pub(crate) has_left_data: bool,
    /// True if the thread has to read: the kernel reports data or an error, or the kernel was not asked.
    pub(crate) is_to_read: bool,
    // The received bytes of incomplete messages.
    inbox: Vec<u8>,
}

impl HeartbeatConnection {
    pub(crate) fn new(kind: ConnectionKind, rank: usize, stream: SecureStream) -> Self {
        Self {
            kind,
            rank,
            stream,
            outbox: Vec::new(),
            last_heard: Instant::now(),
            broken: None,
            has_left_data: true,
            is_to_read: true,
            inbox: Vec::new(),
        }
    }

    /// Returns the time since data last arrived.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_heard)
    }

    /// Sends as much of the outbox as possible without blocking.
    ///
    /// # Errors
    /// A broken connection, or a peer that leaves too much data unread.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.outbox.len() {
            match self.stream.write(&self.outbox[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.drain(..written);
        if self.outbox.len() > MAX_OUTBOX_BYTES {
            return Err(io::Error::other("it does not read the messages that are sent to it"));
        }
        Ok(())
    }

    /// Reads the available data. An error means that the connection has ended.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        self.has_left_data = false;
        // The limit keeps a peer that sends without pause from blocking the other connections of this thread.
        while self.inbox.len() < 2 * MAX_FRAME_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.inbox.extend_from_slice(&buffer[..count]);
                    self.last_heard = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.has_left_data = true;
        Ok(())
    }

    /// Takes the complete messages out of the received data.
    ///
    /// # Errors
    /// A malformed message, with the kind `InvalidData`.
    pub(crate) fn take_messages(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        let malformed = |error: io::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(message) = take_frame(&mut self.inbox).map_err(malformed)? {
            messages.push(message);
        }
        Ok(messages)
    }
}
