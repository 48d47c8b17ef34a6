//! The frames that a connection has not sent yet.

use crate::payload::{Payload, PieceSource};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// The slices of one system call.
const MAX_SLICES: usize = 16;
/// The next piece of a payload is made when at most as many bytes are to be sent before it: the start of its frame.
const MIN_SENT_BYTES: usize = 16 << 10;
/// The bytes of pieces that are made before other work of the thread has its turn.
const MAX_MADE_BYTES: usize = 1 << 20;

/// The frames that wait to be sent, in order.
#[derive(Default)]
pub(super) struct FrameWriter {
    queue: VecDeque<Queued>,
    /// The bytes of all frames in the queue, also those that are not made yet.
    queued_bytes: usize,
    /// The memory of the pieces.
    memory: BytesMut,
    /// The bytes that were made since other work had its turn.
    made_bytes: usize,
}

enum Queued {
    Bytes(Bytes),
    /// Bytes that are made once those before them are sent.
    Pieces(Box<dyn PieceSource>),
}

impl FrameWriter {
    /// Adds a frame: its first bytes, then its payload.
    pub(super) fn push(&mut self, start: Bytes, payload: Payload) {
        self.queued_bytes += start.len() + payload.len();
        self.queue.push_back(Queued::Bytes(start));
        if !payload.bytes.is_empty() {
            self.queue.push_back(Queued::Bytes(payload.bytes));
        }
        if let Some(pieces) = payload.pieces.filter(|pieces| pieces.bytes_left() > 0) {
            self.queue.push_back(Queued::Pieces(pieces));
        }
    }

    /// Sends until at most `keep` bytes are left.
    pub(super) fn poll_drain<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        keep: usize,
    ) -> Poll<io::Result<()>> {
        while self.queued_bytes > keep {
            let made = self.poll_make(cx)?;
            // One system call for several frames, with the start of a frame and the first piece of its payload.
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let mut used = 0;
            for (slice, queued) in slices.iter_mut().zip(&self.queue) {
                let Queued::Bytes(bytes) = queued else { break };
                *slice = IoSlice::new(bytes);
                used += 1;
            }
            if used == 0 {
                ready!(made);
                return Poll::Ready(Err(io::Error::other("a payload ended early")));
            }
            let written = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..used]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Makes the next piece if little is to be sent before it.
    fn poll_make(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut before = 0;
        let mut at = 0;
        let pieces = loop {
            match self.queue.get_mut(at) {
                Some(Queued::Bytes(bytes)) => before += bytes.len(),
                Some(Queued::Pieces(pieces)) => break pieces,
                None => return Poll::Ready(Ok(())),
            }
            at += 1;
            if before > MIN_SENT_BYTES || at == MAX_SLICES {
                return Poll::Ready(Ok(()));
            }
        };
        if at == 0 && self.made_bytes >= MAX_MADE_BYTES {
            self.made_bytes = 0;
            // The thread looks for events of the network before it continues here.
            return pin!(tokio::task::yield_now()).poll(cx).map(Ok);
        }
        let piece = ready!(pieces.poll_piece(cx, &mut self.memory))?;
        self.made_bytes += piece.len();
        if pieces.bytes_left() == 0 {
            self.queue.remove(at);
        }
        self.queue.insert(at, Queued::Bytes(piece));
        Poll::Ready(Ok(()))
    }

    /// Removes bytes that were sent.
    fn advance(&mut self, mut written: usize) {
        self.queued_bytes -= written;
        while let Some(Queued::Bytes(front)) = self.queue.front_mut() {
            if front.len() > written {
                let _ = front.split_to(written);
                return;
            }
            written -= front.len();
            self.queue.pop_front();
        }
    }
}
