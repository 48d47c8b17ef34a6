//! The connections of a rank to its peers in recursive doubling, and the exchange of one step.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::collective::HEADER_BYTES;
use crate::greeting::Greeting;
use crate::pump::{Halt, LOOK_AROUND, Side, WAKEFUL, moved};
use crate::readiness::wait_ready;
use crate::stopwatch::Stopwatch;

/// The non-blocking connections of a rank to the peers of its plan.
pub(crate) struct Partners(Vec<Partner>);

/// The connection to a peer.
pub(crate) struct Partner {
    /// The position of the peer in the group.
    pub(crate) position: usize,
    pub(crate) stream: TcpStream,
}

/// The exchange of one step: a message to a peer and one from it. Each message is the header of the collective, then
/// data.
pub(crate) struct Exchange<'a> {
    stream: &'a TcpStream,
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

/// The connections of a rank to its neighbors in the ring, on which headers are exchanged.
pub(crate) struct Sides<'a> {
    pub(crate) from_left: &'a TcpStream,
    pub(crate) to_right: &'a TcpStream,
}

/// The connection on which a problem occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Peer,
    Neighbor(Side),
}

/// The reason why a step stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A connection broke.
    Broken(At, io::Error),
    /// No byte moved for too long, while this connection was waited for.
    Silent(At),
    /// This header was received there, which differs from the own one.
    Differs(At, Vec<u8>),
    /// The job has failed, as recorded on the board.
    JobFailed,
}

impl Partners {
    pub(crate) fn new(partners: Vec<Partner>) -> Self {
        Self(partners)
    }

    /// Creates an exchange with the peer at `position`; `None` if there is no connection to it.
    pub(crate) fn exchange<'a>(
        &'a self,
        position: usize,
        header: &'a [u8; HEADER_BYTES],
        outgoing: Option<&'a [u8]>,
        incoming: Option<&'a mut [u8]>,
    ) -> Option<Exchange<'a>> {
        let partner = self.0.iter().find(|partner| partner.position == position)?;
        let their_header = [0; HEADER_BYTES];
        Some(Exchange { stream: &partner.stream, header, outgoing, incoming, their_header, sent: 0, received: 0 })
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
    fn advance(&mut self) -> Result<bool, Stop> {
        let sent = match self.send() {
            Ok(sent) => sent,
            Err(error) => {
                // A peer that calls another collective closes the connection. Its header, sent before, shows that.
                return Err(match self.receive() {
                    Err(stop @ Stop::Differs(..)) => stop,
                    _ => Stop::Broken(At::Peer, error),
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

    fn receive(&mut self) -> Result<bool, Stop> {
        if !self.wants_to_receive() {
            return Ok(false);
        }
        let Some(data) = &mut self.incoming else { return Ok(false) };
        let awaits_header = self.received < HEADER_BYTES;
        let header = &mut self.their_header[self.received.min(HEADER_BYTES)..];
        let data = &mut data[self.received.saturating_sub(HEADER_BYTES)..];
        let read = if awaits_header {
            moved(self.stream.read_vectored(&mut [IoSliceMut::new(header), IoSliceMut::new(data)]))
        } else {
            moved(self.stream.read(data))
        };
        let count = read.map_err(|error| Stop::Broken(At::Peer, error))?;
        self.received += count;
        if awaits_header && self.received >= HEADER_BYTES && self.their_header != *self.header {
            return Err(Stop::Differs(At::Peer, self.their_header.to_vec()));
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
    greeting: &mut Greeting<'_>,
    sides: &Sides<'_>,
    patience: Duration,
    mut job_failed: impl FnMut(At, Duration) -> bool,
) -> Result<(), Stop> {
    let mut quiet_since: Option<Stopwatch> = None;
    loop {
        let mut has_moved = match &mut exchange {
            Some(exchange) => exchange.advance()?,
            None => false,
        };
        if greeting.wants_to_send() || greeting.wants_to_receive() {
            has_moved |= greeting.advance(sides.from_left, sides.to_right).map_err(of_ring)?;
        }
        let Some(at) = awaited(exchange.as_deref(), greeting) else { return Ok(()) };
        if has_moved {
            quiet_since = None;
            continue;
        }
        let quiet = quiet_since.get_or_insert_with(Stopwatch::start).elapsed();
        if job_failed(at, quiet) {
            return Err(Stop::JobFailed);
        }
        match patience.saturating_sub(quiet) {
            Duration::ZERO => return Err(Stop::Silent(at)),
            // Poll for a while before sleeping: see `WAKEFUL`.
            _ if quiet < WAKEFUL => std::thread::yield_now(),
            remaining => wait(exchange.as_deref(), greeting, sides, remaining.min(LOOK_AROUND))
                .map_err(|error| Stop::Broken(at, error))?,
        }
    }
}

/// Returns the connection that a step waits for; `None` when the step is done.
fn awaited(exchange: Option<&Exchange<'_>>, greeting: &Greeting<'_>) -> Option<At> {
    match exchange {
        Some(exchange) if exchange.wants_to_receive() || exchange.wants_to_send() => Some(At::Peer),
        Some(_) => None,
        None if greeting.wants_to_receive() => Some(At::Neighbor(Side::Left)),
        None if greeting.wants_to_send() => Some(At::Neighbor(Side::Right)),
        None => None,
    }
}

fn wait(
    exchange: Option<&Exchange<'_>>,
    greeting: &Greeting<'_>,
    sides: &Sides<'_>,
    timeout: Duration,
) -> io::Result<()> {
    let mut sockets = Vec::with_capacity(3);
    if let Some(exchange) = exchange {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, exchange.wants_to_receive());
        events.set(PollFlags::OUT, exchange.wants_to_send());
        sockets.push(PollFd::new(exchange.stream, events));
    }
    if greeting.wants_to_receive() {
        sockets.push(PollFd::new(sides.from_left, PollFlags::IN));
    }
    if greeting.wants_to_send() {
        sockets.push(PollFd::new(sides.to_right, PollFlags::OUT));
    }
    wait_ready(&mut sockets, timeout)
}

fn of_ring(halt: Halt) -> Stop {
    match halt {
        Halt::Broken(side, error) => Stop::Broken(At::Neighbor(side), error),
        Halt::Silent(side) => Stop::Silent(At::Neighbor(side)),
        Halt::Differs(theirs) => Stop::Differs(At::Neighbor(Side::Left), theirs),
        Halt::JobFailed => Stop::JobFailed,
    }
}
