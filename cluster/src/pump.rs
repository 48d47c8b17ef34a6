//! Moves the bytes of one collective: reads from the left neighbor and writes to the right one at the same time, on
//! one thread.
//!
//! A rank that first sends and then receives deadlocks as soon as the messages outgrow the sockets' buffers, since in
//! a ring all ranks send first. Here whichever socket is ready moves on.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::flow::{Flow, Outgoing};
use crate::partners::Sides;
use crate::readiness::wait_ready;
use crate::reduce::MAX_WIDTH;
use crate::ring::Action;
use crate::stopwatch::Stopwatch;

/// What is read at once before it is reduced: small enough to stay in the cache, large enough to keep calls rare.
const SEGMENT_BYTES: usize = 256 * 1024;
/// The longest greeting.
const MAX_GREETING_BYTES: usize = 64;
/// For so long a rank that waits looks again and again before it sleeps: about what it takes to wake a thread up, and far
/// more than a neighbor needs that is at the same collective. Between two looks any other thread may have the core.
pub(crate) const WAKEFUL: Duration = Duration::from_micros(50);
/// How often a waiting collective looks whether the job has failed.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(100);

/// The two connections of a rank in a ring, both non-blocking.
pub(crate) struct Pump {
    from_left: TcpStream,
    to_right: TcpStream,
    // Received bytes that wait to be reduced; kept from call to call.
    segment: Vec<u8>,
}

/// How received elements become part of the own ones.
pub(crate) trait Merge {
    /// Bytes of an element, at most [`MAX_WIDTH`].
    fn width(&self) -> usize;
    /// Combines whole elements; `last` when all ranks have then contributed.
    fn merge(&mut self, own: &mut [u8], received: &[u8], last: bool);
}

/// For flows that only copy.
pub(crate) struct CopyOnly;

impl Merge for CopyOnly {
    fn width(&self) -> usize {
        1
    }

    fn merge(&mut self, own: &mut [u8], received: &[u8], _last: bool) {
        own.copy_from_slice(received);
    }
}

/// A neighbor in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What a waiting flow tells about itself, and asks.
pub(crate) trait Lookout {
    /// Nothing has moved for `quiet`, and `side` is waited for. Says whether the job has failed.
    fn job_failed(&mut self, side: Side, quiet: Duration) -> bool;
}

/// Why a flow stopped.
#[derive(Debug)]
pub(crate) enum Halt {
    /// A connection broke.
    Broken(Side, io::Error),
    /// Nothing moved for too long, and this side is the one waited for.
    Silent(Side),
    /// The left neighbor's greeting is not the own one, but this.
    Differs(Vec<u8>),
    /// The job failed elsewhere.
    JobFailed,
}

/// How far a flow got, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    received: usize,
    sent: usize,
    to_receive: usize,
    to_send: usize,
    awaits_greeting: bool,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { received, to_receive, sent, to_send, awaits_greeting } = self;
        if *awaits_greeting {
            return f.write_str("before any data");
        }
        write!(f, "received {received} of {to_receive} bytes, sent {sent} of {to_send}")
    }
}

impl Pump {
    pub(crate) fn new(from_left: TcpStream, to_right: TcpStream) -> Self {
        Self { from_left, to_right, segment: vec![0; SEGMENT_BYTES] }
    }

    /// Returns the two connections, for the header of a collective whose data goes elsewhere.
    pub(crate) fn sides(&self) -> Sides<'_> {
        Sides { from_left: &self.from_left, to_right: &self.to_right }
    }

    /// Runs a flow to its end, on positions in `data`. The longest wait without any progress is `patience`.
    ///
    /// The greeting, unless empty, goes ahead of the data; no data is taken from a neighbor whose greeting differs.
    pub(crate) fn run(
        &mut self,
        greeting: &[u8],
        flow: &Flow,
        data: &mut [u8],
        merge: &mut dyn Merge,
        patience: Duration,
        lookout: &mut dyn Lookout,
    ) -> Result<(), (Halt, Progress)> {
        let mut run = Run::new(self, greeting, flow, data, merge);
        run.finish(patience, lookout).map_err(|halt| (halt, run.progress))
    }
}

/// One flow under way.
struct Run<'a> {
    pump: &'a mut Pump,
    greeting: &'a [u8],
    greeting_sent: usize,
    // What the left neighbor has sent of its greeting.
    greeted: Vec<u8>,
    flow: &'a Flow,
    data: &'a mut [u8],
    merge: &'a mut dyn Merge,
    // The piece that is being received, and how much of it has been dealt with.
    piece: usize,
    dealt_with: usize,
    // Bytes in the segment buffer that wait to be reduced.
    waiting: usize,
    // The range that is being sent, and how much of it has been.
    range: usize,
    sent_of_range: usize,
    // Incoming bytes dealt with, over all pieces.
    relayable: usize,
    progress: Progress,
}

impl<'a> Run<'a> {
    fn new(
        pump: &'a mut Pump,
        greeting: &'a [u8],
        flow: &'a Flow,
        data: &'a mut [u8],
        merge: &'a mut dyn Merge,
    ) -> Self {
        let progress = Progress {
            to_receive: flow.incoming.iter().map(|piece| piece.range.len()).sum(),
            to_send: flow.outgoing.iter().map(|next| next.range.len()).sum(),
            awaits_greeting: !greeting.is_empty(),
            ..Progress::default()
        };
        Self {
            pump,
            greeting,
            greeting_sent: 0,
            greeted: Vec::new(),
            flow,
            data,
            merge,
            piece: 0,
            dealt_with: 0,
            waiting: 0,
            range: 0,
            sent_of_range: 0,
            relayable: 0,
            progress,
        }
    }

    fn finish(&mut self, patience: Duration, lookout: &mut dyn Lookout) -> Result<(), Halt> {
        let mut quiet_since: Option<Stopwatch> = None;
        loop {
            let sent = match self.send() {
                Ok(sent) => sent,
                Err(error) => {
                    // A neighbor that disagrees hangs up. In a ring of two, what it sent before says why.
                    return Err(match self.receive() {
                        Err(halt @ Halt::Differs(_)) => halt,
                        _ => Halt::Broken(Side::Right, error),
                    });
                }
            };
            let received = self.receive()?;
            if !self.wants_to_receive() && !self.wants_to_send() {
                return Ok(());
            }
            if sent || received {
                quiet_since = None;
                continue;
            }
            let quiet = quiet_since.get_or_insert_with(Stopwatch::start).elapsed();
            let side = if self.wants_to_receive() { Side::Left } else { Side::Right };
            if lookout.job_failed(side, quiet) {
                return Err(Halt::JobFailed);
            }
            match patience.saturating_sub(quiet) {
                Duration::ZERO => return Err(Halt::Silent(side)),
                _ if quiet < WAKEFUL => std::thread::yield_now(),
                remaining => self.wait(remaining.min(LOOK_AROUND))?,
            }
        }
    }

    fn wants_to_receive(&self) -> bool {
        self.progress.awaits_greeting || self.progress.received < self.progress.to_receive
    }

    fn wants_to_send(&self) -> bool {
        self.greeting_sent < self.greeting.len() || self.progress.sent < self.progress.to_send
    }

    /// What the relay rule allows to send now of the range that is next.
    fn sendable(&self) -> Range<usize> {
        let Some(Outgoing { range, relays }) = self.flow.outgoing.get(self.range) else { return 0..0 };
        let released = relays.map_or(range.len(), |start| self.relayable.saturating_sub(start).min(range.len()));
        let start = range.start + self.sent_of_range;
        start..(range.start + released).max(start)
    }

    fn wait(&self, timeout: Duration) -> Result<(), Halt> {
        let mut sockets = Vec::with_capacity(2);
        if self.wants_to_receive() {
            sockets.push(PollFd::new(&self.pump.from_left, PollFlags::IN));
        }
        if self.greeting_sent < self.greeting.len() || !self.sendable().is_empty() {
            sockets.push(PollFd::new(&self.pump.to_right, PollFlags::OUT));
        }
        wait_ready(&mut sockets, timeout).map_err(|error| Halt::Broken(Side::Left, error))
    }

    /// Sends a segment if the socket takes it, with what is left of the greeting ahead of it; says whether anything
    /// moved.
    fn send(&mut self) -> io::Result<bool> {
        while self.flow.outgoing.get(self.range).is_some_and(|next| next.range.len() == self.sent_of_range) {
            self.range += 1;
            self.sent_of_range = 0;
        }
        let Range { start, end } = self.sendable();
        let segment = &self.data[start..end.min(start + SEGMENT_BYTES)];
        let greeting = &self.greeting[self.greeting_sent..];
        let count = match (greeting.is_empty(), segment.is_empty()) {
            (true, true) => return Ok(false),
            (true, false) => moved(self.pump.to_right.write(segment))?,
            // One call and one packet, where the data is little.
            (false, _) => moved(self.pump.to_right.write_vectored(&[IoSlice::new(greeting), IoSlice::new(segment)]))?,
        };
        let of_greeting = count.min(greeting.len());
        self.greeting_sent += of_greeting;
        self.sent_of_range += count - of_greeting;
        self.progress.sent += count - of_greeting;
        Ok(count > 0)
    }

    /// Receives a segment if there is one, and reduces it; says whether anything moved.
    fn receive(&mut self) -> Result<bool, Halt> {
        let broken = |error| Halt::Broken(Side::Left, error);
        if self.progress.awaits_greeting && !self.receive_greeting()? {
            return Ok(false);
        }
        let flow = self.flow;
        while flow.incoming.get(self.piece).is_some_and(|piece| piece.range.len() == self.dealt_with) {
            self.piece += 1;
            self.dealt_with = 0;
        }
        let Some(piece) = flow.incoming.get(self.piece) else { return Ok(false) };
        let start = piece.range.start + self.dealt_with;
        let rest = start..piece.range.end;
        let count = match piece.action {
            Action::Replace => self.receive_in_place(rest),
            Action::Reduce => self.receive_and_merge(rest, false),
            Action::ReduceLast => self.receive_and_merge(rest, true),
        };
        let count = count.map_err(broken)?;
        self.progress.received += count;
        Ok(count > 0)
    }

    /// Receives what is there of the left neighbor's greeting; says whether that is all of it. It must be the same as
    /// the own one.
    fn receive_greeting(&mut self) -> Result<bool, Halt> {
        let mut buffer = [0; MAX_GREETING_BYTES];
        let missing = self.greeting.len() - self.greeted.len();
        let read = moved(self.pump.from_left.read(&mut buffer[..missing]));
        let count = read.map_err(|error| Halt::Broken(Side::Left, error))?;
        self.greeted.extend_from_slice(&buffer[..count]);
        if count < missing {
            return Ok(false);
        }
        if self.greeted != self.greeting {
            return Err(Halt::Differs(std::mem::take(&mut self.greeted)));
        }
        self.progress.awaits_greeting = false;
        Ok(true)
    }

    fn receive_in_place(&mut self, range: Range<usize>) -> io::Result<usize> {
        let end = range.end.min(range.start + SEGMENT_BYTES);
        let count = moved(self.pump.from_left.read(&mut self.data[range.start..end]))?;
        self.dealt_with += count;
        self.relayable += count;
        Ok(count)
    }

    fn receive_and_merge(&mut self, range: Range<usize>, last: bool) -> io::Result<usize> {
        let end = SEGMENT_BYTES.min(range.len());
        let segment = &mut self.pump.segment;
        let count = moved(self.pump.from_left.read(&mut segment[self.waiting..end]))?;
        let available = self.waiting + count;
        let width = self.merge.width().clamp(1, MAX_WIDTH);
        // An element whose bytes are not all there yet stays in front of the buffer.
        let whole = available - available % width;
        self.merge.merge(&mut self.data[range.start..range.start + whole], &segment[..whole], last);
        segment.copy_within(whole..available, 0);
        self.waiting = available - whole;
        self.dealt_with += whole;
        self.relayable += whole;
        Ok(count)
    }
}

/// The bytes that a read or write moved: none if it would have to wait. The buffers are never empty, so zero bytes
/// are the end of the connection.
pub(crate) fn moved(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(error),
    }
}
