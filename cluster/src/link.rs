//! A connection of the control thread, with what waits to be sent and to be read.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::wire::{MAX_FRAME_BYTES, Message, take_frame};

/// The most bytes that a peer may leave unread before it counts as stuck.
const MAX_OUTBOX_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// The use of a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Between a rank and rank 0, from the rendezvous on: heartbeats and news. Its end is the death of the peer.
    Control,
    /// Between two other ranks, opened by this one: heartbeats alone. Its silence is a failure, its end is not, since
    /// rank 0 sees the death of either.
    OwnPulse,
    /// The same, opened by the peer.
    PeerPulse,
}

/// A connection of the control thread.
pub(crate) struct Link {
    pub(crate) kind: LinkKind,
    pub(crate) rank: usize,
    pub(crate) stream: TcpStream,
    pub(crate) outbox: Vec<u8>,
    pub(crate) last_heard: Instant,
    /// Why nothing more can be sent. What the peer sent before is still read, for it may say why it ended.
    pub(crate) broken: Option<io::Error>,
    inbox: Vec<u8>,
}

impl Link {
    pub(crate) fn new(kind: LinkKind, rank: usize, stream: TcpStream) -> Self {
        Self { kind, rank, stream, inbox: Vec::new(), outbox: Vec::new(), last_heard: Instant::now(), broken: None }
    }

    /// For how long nothing has come.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_heard)
    }

    /// Sends what the socket takes.
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
            return Err(io::Error::other("it does not read what is sent to it"));
        }
        Ok(())
    }

    /// Reads what is there. An error is the end of the connection.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        // A peer that sends without end must not keep this thread from the others.
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
        Ok(())
    }

    /// The messages that have come whole.
    pub(crate) fn take_messages(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        let malformed = |error: io::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        while let Some(message) = take_frame(&mut self.inbox).map_err(malformed)? {
            messages.push(message);
        }
        Ok(messages)
    }
}
