//! The connections of a rank to its peers in recursive doubling, and the exchange of one step.

use crate::timeouts::{FAILURE_CHECK_INTERVAL, POLL_BEFORE_SLEEP_TIMEOUT};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::collectives::header::HEADER_BYTES;
use crate::collectives::header_exchange::HeaderExchange;
use crate::collectives::transfer::{RingStreams, Side, TransferError, moved};
use crate::readiness::wait_ready;
use crate::secure::stream::SecureStream;
use crate::stopwatch::Stopwatch;

/// The non-blocking connections of a rank to the peers of its plan.
pub(crate) struct DoublingPeers(Vec<DoublingPeer>);

/// The connection to a peer.
pub(crate) struct DoublingPeer {
    /// The position of the peer in the group.
    pub(crate) position: usize,
    pub(crate) stream: SecureStream,
}

/// The exchange of one step: a message to a peer and one from it. Each message is the header of the collective, then
/// data.
pub(crate) struct Exchange<'a> {
    stream: &'a mut SecureStream,
    header: &'a [u8; HEADER_BYTES],
    // `None` if the step sends nothing.
    outgoing: Option<&'a [u8]>,
    // `None` if the step receives nothing.
    incoming: Option<&'a mut [u8]>,
    their_header: [u8; HEADER_BYTES],
    // Bytes so far, including those of the header.
    sent: usize,
    received: usize,
}

/// The other end of the connection on which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Peer,
    Neighbor(Side),
}

/// An error of a step.
type StepError = TransferError<Endpoint>;

impl DoublingPeers {
    pub(crate) fn new(doubling_peers: Vec<DoublingPeer>) -> Self {
        Self(doubling_peers)
    }

    /// Creates an exchange with the peer at `position`; `None` if there is no connection to it.
    pub(crate) fn exchange<'a>(
        &'a mut self,
        position: usize,
        header: &'a [u8; HEADER_BYTES],
        outgoing: Option<&'a [u8]>,
        incoming: Option<&'a mut [u8]>,
    ) -> Option<Exchange<'a>> {
        let peer = self.0.iter_mut().find(|peer| peer.position == position)?;
        let their_header = [0; HEADER_BYTES];
        Some(Exchange { stream: &mut peer.stream, header, outgoing, incoming, their_header, sent: 0, received: 0 })
    }
}

impl Exchange<'_> {
    /// Returns the number of bytes received and the number to receive, headers included.
    pub(crate) fn received(&self) -> (usize, usize) {
        (self.received, self.incoming.as_ref().map_or(0, |data| HEADER_BYTES + data.len()))
    }

    /// Returns the number of bytes sent and the number to send, headers included.
    pub(crate) fn sent(&self) -> (usize, usize) {
        (self.sent, self.outgoing.map_or(0, |data| HEADER_BYTES + data.len()))
    }

    fn wants_to_send(&self) -> bool {
        let (sent, to_send) = self.sent();
        sent < to_send
    }

    fn wants_to_receive(&self) -> bool {
        let (received, to_receive) = self.received();
        received < to_receive
    }

    /// Sends and receives as much as possible without blocking. Returns whether any byte moved.
    fn advance(&mut self) -> Result<bool, StepError> {
        let sent = match self.send() {
            Ok(sent) => sent,
            Err(error) => {
                // A peer that calls another collective closes the connection. Its header, sent before, shows that.
                return Err(match self.receive() {
                    Err(error @ StepError::Differs(..)) => error,
                    _ => StepError::Broken(Endpoint::Peer, error),
                });
            }
        };
        Ok(self.receive()? || sent)
    }

    fn send(&mut self) -> io::Result<bool> {
        let Some(data) = self.outgoing.filter(|_| self.wants_to_send()) else { return Ok(false) };
        let header = &self.header[self.sent.min(HEADER_BYTES)..];
        let data = &data[self.sent.saturating_sub(HEADER_BYTES)..];
        let count = if header.is_empty() {
            moved(self.stream.write(data))?
        } else {
            // Header and data in one system call, and in one packet if the data is small.
            moved(self.stream.write_vectored(&[IoSlice::new(header), IoSlice::new(data)]))?
        };
        self.sent += count;
        Ok(count > 0)
    }

    fn receive(&mut self) -> Result<bool, StepError> {
        if !self.wants_to_receive() {
            return Ok(false);
        }
        let Some(data) = &mut self.incoming else { return Ok(false) };
        let awaits_header = self.received < HEADER_BYTES;
        let header = &mut self.their_header[self.received.min(HEADER_BYTES)..];
        let data = &mut data[self.received.saturating_sub(HEADER_BYTES)..];
        let read = if awaits_header {
            moved(self.stream.read_vectored_in_place(&mut [IoSliceMut::new(header), IoSliceMut::new(data)]))
        } else {
            moved(self.stream.read_in_place(data))
        };
        let count = read.map_err(|error| StepError::Broken(Endpoint::Peer, error))?;
        self.received += count;
        if awaits_header && self.received >= HEADER_BYTES && self.their_header != *self.header {
            return Err(StepError::Differs(Endpoint::Peer, self.their_header.to_vec()));
        }
        Ok(count > 0)
    }
}

/// Runs an exchange to its end, and the header exchange on the ring at the same time. Without an exchange, completes
/// the header exchange.
///
/// While nothing moves, `job_failed` is called with the connection that this rank waits for and the time since the last
/// progress. It returns whether the job has failed.
pub(crate) fn run_step(
    mut exchange: Option<&mut Exchange<'_>>,
    headers: &mut HeaderExchange<'_>,
    streams: &mut RingStreams<'_>,
    patience: Duration,
    mut job_failed: impl FnMut(Endpoint, Duration) -> bool,
) -> Result<(), StepError> {
    let mut quiet_since: Option<Stopwatch> = None;
    loop {
        let mut has_moved = match &mut exchange {
            Some(exchange) => exchange.advance()?,
            None => false,
        };
        if headers.wants_to_send() || headers.wants_to_receive() {
            has_moved |=
                headers.advance(streams.from_left, streams.to_right).map_err(|error| error.at(Endpoint::Neighbor))?;
        }
        let Some(at) = awaited(exchange.as_deref(), headers) else { return Ok(()) };
        if has_moved {
            quiet_since = None;
            continue;
        }
        let quiet = quiet_since.get_or_insert_with(Stopwatch::start).elapsed();
        if job_failed(at, quiet) {
            return Err(StepError::JobFailed);
        }
        match patience.saturating_sub(quiet) {
            Duration::ZERO => return Err(StepError::Silent(at)),
            // Poll for a while before sleeping: see `POLL_BEFORE_SLEEP_TIMEOUT`.
            _ if quiet < POLL_BEFORE_SLEEP_TIMEOUT => std::thread::yield_now(),
            remaining => wait(exchange.as_deref(), headers, streams, remaining.min(FAILURE_CHECK_INTERVAL))
                .map_err(|error| StepError::Broken(at, error))?,
        }
    }
}

/// Returns the connection that a step waits for; `None` when the step is done.
fn awaited(exchange: Option<&Exchange<'_>>, headers: &HeaderExchange<'_>) -> Option<Endpoint> {
    match exchange {
        Some(exchange) if exchange.wants_to_receive() || exchange.wants_to_send() => Some(Endpoint::Peer),
        Some(_) => None,
        None if headers.wants_to_receive() => Some(Endpoint::Neighbor(Side::Left)),
        None if headers.wants_to_send() => Some(Endpoint::Neighbor(Side::Right)),
        None => None,
    }
}

fn wait(
    exchange: Option<&Exchange<'_>>,
    headers: &HeaderExchange<'_>,
    streams: &RingStreams<'_>,
    timeout: Duration,
) -> io::Result<()> {
    let mut sockets = Vec::with_capacity(3);
    if let Some(exchange) = exchange {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, exchange.wants_to_receive());
        events.set(PollFlags::OUT, exchange.wants_to_send());
        sockets.push(PollFd::new(&*exchange.stream, events));
    }
    if headers.wants_to_receive() {
        sockets.push(PollFd::new(&*streams.from_left, PollFlags::IN));
    }
    if headers.wants_to_send() {
        sockets.push(PollFd::new(&*streams.to_right, PollFlags::OUT));
    }
    wait_ready(&mut sockets, timeout)
}
