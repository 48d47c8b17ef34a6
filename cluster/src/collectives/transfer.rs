//! The transfer of the bytes of one collective: reads from the left neighbor and writes to the right neighbor at the
//! same time, on one thread.
//!
//! If every rank of a ring first sent and then received, all would block as soon as the messages exceed the sockets'
//! buffers. Here each socket makes progress whenever it is ready.

use crate::timeouts::{FAILURE_CHECK_INTERVAL, POLL_BEFORE_SLEEP_TIMEOUT};
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::collectives::reduce::MAX_WIDTH;
use crate::collectives::ring::Action;
use crate::collectives::transfer_plan::{Outgoing, TransferPlan};
use crate::readiness::wait_ready;
use crate::secure::stream::SecureStream;
use crate::stopwatch::Stopwatch;

/// The most bytes that are read before they are reduced: few enough to stay in the cache, enough to keep system calls
/// rare.
const SEGMENT_BYTES: usize = 256 * 1024;
/// The longest header.
const MAX_HEADER_BYTES: usize = 64;

/// The two connections of a rank in a ring, both non-blocking.
pub(crate) struct Transfer {
    from_left: SecureStream,
    to_right: SecureStream,
    // The buffer of received bytes that wait to be reduced, reused between calls.
    segment: Vec<u8>,
}

/// The operation that combines received elements with the own ones.
pub(crate) trait Merge {
    /// Returns the size of an element in bytes, at most [`MAX_WIDTH`].
    fn width(&self) -> usize;
    /// Combines whole elements. `last` is true if `own` then holds the contributions of all ranks.
    fn merge(&mut self, own: &mut [u8], received: &[u8], last: bool);
}

/// The operation of transfers that only copy.
pub(crate) struct CopyOnly;

impl Merge for CopyOnly {
    fn width(&self) -> usize {
        1
    }

    fn merge(&mut self, own: &mut [u8], received: &[u8], _last: bool) {
        own.copy_from_slice(received);
    }
}

/// The connections of a rank to its neighbors in the ring, on which headers are exchanged.
pub(crate) struct RingStreams<'a> {
    pub(crate) from_left: &'a mut SecureStream,
    pub(crate) to_right: &'a mut SecureStream,
}

/// A neighbor in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// An observer of a waiting transfer.
pub(crate) trait TransferObserver {
    /// Called while the transfer waits for `side` and no byte has moved for `quiet`. Returns whether the job has
    /// failed.
    fn job_failed(&mut self, side: Side, quiet: Duration) -> bool;
}

/// An error of a transfer, or of a step of recursive doubling. `P` names the connection.
#[derive(Debug)]
pub(crate) enum TransferError<P = Side> {
    /// A connection broke.
    Broken(P, io::Error),
    /// No byte moved for too long, while this connection was waited for.
    Silent(P),
    /// This header was received there, which differs from the own one.
    Differs(P, Vec<u8>),
    /// The job has failed, as recorded in the state of the job.
    JobFailed,
}

impl<P> TransferError<P> {
    /// Returns the error with another name of the connection.
    pub(crate) fn at<Q>(self, rename: impl FnOnce(P) -> Q) -> TransferError<Q> {
        match self {
            Self::Broken(at, cause) => TransferError::Broken(rename(at), cause),
            Self::Silent(at) => TransferError::Silent(rename(at)),
            Self::Differs(at, theirs) => TransferError::Differs(rename(at), theirs),
            Self::JobFailed => TransferError::JobFailed,
        }
    }
}

/// The progress of a transfer, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    received: usize,
    sent: usize,
    to_receive: usize,
    to_send: usize,
    awaits_header: bool,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { received, to_receive, sent, to_send, awaits_header } = self;
        if *awaits_header {
            return f.write_str("before any data");
        }
        write!(f, "received {received} of {to_receive} bytes, sent {sent} of {to_send}")
    }
}

impl Transfer {
    pub(crate) fn new(from_left: SecureStream, to_right: SecureStream) -> Self {
        Self { from_left, to_right, segment: vec![0; SEGMENT_BYTES] }
    }

    /// Returns the two connections, for the header of a collective whose data uses other connections.
    pub(crate) fn streams(&mut self) -> RingStreams<'_> {
        RingStreams { from_left: &mut self.from_left, to_right: &mut self.to_right }
    }

    /// Executes a plan on `data` to its end. `patience` is the longest wait without progress.
    ///
    /// The header, unless it is empty, goes ahead of the data. No data is accepted from a neighbor whose header
    /// differs.
    pub(crate) fn run(
        &mut self,
        header: &[u8],
        plan: &TransferPlan,
        data: &mut [u8],
        merge: &mut dyn Merge,
        patience: Duration,
        observer: &mut dyn TransferObserver,
    ) -> Result<(), (TransferError, Progress)> {
        let mut run = Run::new(self, header, plan, data, merge);
        run.finish(patience, observer).map_err(|error| (error, run.progress))
    }
}

/// A transfer in progress.
struct Run<'a> {
    transfer: &'a mut Transfer,
    header: &'a [u8],
    header_sent: usize,
    // The bytes of the left neighbor's header so far.
    their_header: Vec<u8>,
    plan: &'a TransferPlan,
    data: &'a mut [u8],
    merge: &'a mut dyn Merge,
    // The index of the piece that is being received, and the bytes of it that have been processed.
    piece: usize,
    processed: usize,
    // The bytes in the segment buffer that wait to be reduced: the start of an incomplete element.
    waiting: usize,
    // The index of the range that is being sent, and the bytes of it that have been sent.
    range: usize,
    sent_of_range: usize,
    // The incoming bytes that have been processed, over all pieces. The relay rule compares with this.
    relayable: usize,
    progress: Progress,
}

impl<'a> Run<'a> {
    fn new(
        transfer: &'a mut Transfer,
        header: &'a [u8],
        plan: &'a TransferPlan,
        data: &'a mut [u8],
        merge: &'a mut dyn Merge,
    ) -> Self {
        let progress = Progress {
            to_receive: plan.incoming.iter().map(|piece| piece.range.len()).sum(),
            to_send: plan.outgoing.iter().map(|next| next.range.len()).sum(),
            awaits_header: !header.is_empty(),
            ..Progress::default()
        };
        Self {
            transfer,
            header,
            header_sent: 0,
            their_header: Vec::new(),
            plan,
            data,
            merge,
            piece: 0,
            processed: 0,
            waiting: 0,
            range: 0,
            sent_of_range: 0,
            relayable: 0,
            progress,
        }
    }

    fn finish(&mut self, patience: Duration, observer: &mut dyn TransferObserver) -> Result<(), TransferError> {
        let mut quiet_since: Option<Stopwatch> = None;
        loop {
            let sent = match self.send() {
                Ok(sent) => sent,
                Err(error) => {
                    // A neighbor that calls another collective closes its connections. In a ring of two, the right
                    // neighbor is the left one as well, and the header that it sent before shows the mismatch.
                    return Err(match self.receive() {
                        Err(error @ TransferError::Differs(..)) => error,
                        _ => TransferError::Broken(Side::Right, error),
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
            if observer.job_failed(side, quiet) {
                return Err(TransferError::JobFailed);
            }
            match patience.saturating_sub(quiet) {
                Duration::ZERO => return Err(TransferError::Silent(side)),
                // Poll for a while before sleeping: see `POLL_BEFORE_SLEEP_TIMEOUT`.
                _ if quiet < POLL_BEFORE_SLEEP_TIMEOUT => std::thread::yield_now(),
                remaining => self.wait(remaining.min(FAILURE_CHECK_INTERVAL))?,
            }
        }
    }

    fn wants_to_receive(&self) -> bool {
        self.progress.awaits_header || self.progress.received < self.progress.to_receive
    }

    fn wants_to_send(&self) -> bool {
        self.header_sent < self.header.len() || self.progress.sent < self.progress.to_send
    }

    /// Returns the bytes of the current range that the relay rule allows to send now.
    fn sendable(&self) -> Range<usize> {
        let Some(Outgoing { range, relays }) = self.plan.outgoing.get(self.range) else { return 0..0 };
        // Of the bytes that this range forwards, `relayable - start` have been processed.
        let released = relays.map_or(range.len(), |start| self.relayable.saturating_sub(start).min(range.len()));
        let start = range.start + self.sent_of_range;
        start..(range.start + released).max(start)
    }

    fn wait(&self, timeout: Duration) -> Result<(), TransferError> {
        let mut sockets = Vec::with_capacity(2);
        if self.wants_to_receive() {
            sockets.push(PollFd::new(&self.transfer.from_left, PollFlags::IN));
        }
        if self.header_sent < self.header.len() || !self.sendable().is_empty() {
            sockets.push(PollFd::new(&self.transfer.to_right, PollFlags::OUT));
        }
        wait_ready(&mut sockets, timeout).map_err(|error| TransferError::Broken(Side::Left, error))
    }

    /// Sends a segment without blocking, after the rest of the header. Returns whether any byte moved.
    fn send(&mut self) -> io::Result<bool> {
        while self.plan.outgoing.get(self.range).is_some_and(|next| next.range.len() == self.sent_of_range) {
            self.range += 1;
            self.sent_of_range = 0;
        }
        let Range { start, end } = self.sendable();
        let segment = &self.data[start..end.min(start + SEGMENT_BYTES)];
        let header = &self.header[self.header_sent..];
        let count = match (header.is_empty(), segment.is_empty()) {
            (true, true) => return Ok(false),
            (true, false) => moved(self.transfer.to_right.write(segment))?,
            // Header and data in one system call, and in one packet if the data is small.
            (false, _) => moved(self.transfer.to_right.write_vectored(&[IoSlice::new(header), IoSlice::new(segment)]))?,
        };
        let of_header = count.min(header.len());
        self.header_sent += of_header;
        self.sent_of_range += count - of_header;
        self.progress.sent += count - of_header;
        Ok(count > 0)
    }

    /// Receives a segment without blocking, and reduces it. Returns whether any byte moved.
    fn receive(&mut self) -> Result<bool, TransferError> {
        let broken = |error| TransferError::Broken(Side::Left, error);
        if self.progress.awaits_header && !self.receive_header()? {
            return Ok(false);
        }
        let plan = self.plan;
        while plan.incoming.get(self.piece).is_some_and(|piece| piece.range.len() == self.processed) {
            self.piece += 1;
            self.processed = 0;
        }
        let Some(piece) = plan.incoming.get(self.piece) else { return Ok(false) };
        let start = piece.range.start + self.processed;
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

    /// Receives the available bytes of the left neighbor's header. Returns whether the header is complete.
    ///
    /// # Errors
    /// A header that differs from the own one, or a broken connection.
    fn receive_header(&mut self) -> Result<bool, TransferError> {
        let mut buffer = [0; MAX_HEADER_BYTES];
        let missing = self.header.len() - self.their_header.len();
        let read = moved(self.transfer.from_left.read(&mut buffer[..missing]));
        let count = read.map_err(|error| TransferError::Broken(Side::Left, error))?;
        self.their_header.extend_from_slice(&buffer[..count]);
        if count < missing {
            return Ok(false);
        }
        if self.their_header != self.header {
            return Err(TransferError::Differs(Side::Left, std::mem::take(&mut self.their_header)));
        }
        self.progress.awaits_header = false;
        Ok(true)
    }

    fn receive_in_place(&mut self, range: Range<usize>) -> io::Result<usize> {
        let end = range.end.min(range.start + SEGMENT_BYTES);
        let count = moved(self.transfer.from_left.read_in_place(&mut self.data[range.start..end]))?;
        self.processed += count;
        self.relayable += count;
        Ok(count)
    }

    fn receive_and_merge(&mut self, range: Range<usize>, last: bool) -> io::Result<usize> {
        let end = SEGMENT_BYTES.min(range.len());
        let segment = &mut self.transfer.segment;
        let count = moved(self.transfer.from_left.read_in_place(&mut segment[self.waiting..end]))?;
        let available = self.waiting + count;
        let width = self.merge.width().clamp(1, MAX_WIDTH);
        // The bytes of an incomplete element move to the front of the buffer.
        let whole = available - available % width;
        self.merge.merge(&mut self.data[range.start..range.start + whole], &segment[..whole], last);
        segment.copy_within(whole..available, 0);
        self.waiting = available - whole;
        self.processed += whole;
        self.relayable += whole;
        Ok(count)
    }
}

/// Returns the number of bytes that a non-blocking read or write moved; 0 if it would have to wait. The buffers are
/// never empty, so a result of zero bytes means that the connection has ended.
pub(crate) fn moved(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(error),
    }
}
