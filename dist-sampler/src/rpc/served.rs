//! The state of a service: counters of its requests, and whether it ends.

use crate::payload::PieceSource;
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Totals and current numbers, shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct Served {
    connections: AtomicU64,
    in_progress: AtomicU64,
    requests: AtomicU64,
    batches: AtomicU64,
    refused: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    is_ending: AtomicBool,
}

/// The requests that a process has answered since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedCount {
    /// Open connections. A client has two, and so has another server or rank.
    pub connections: u64,
    /// Requests that run or wait.
    pub in_progress: u64,
    /// Requests that were answered or refused.
    pub requests: u64,
    /// Batches that were sampled for clients.
    pub batches: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Bytes of payload received.
    pub received_bytes: u64,
    /// Bytes of payload sent.
    pub sent_bytes: u64,
}

impl Served {
    pub(crate) fn count(&self) -> ServedCount {
        ServedCount {
            connections: self.connections.load(Ordering::Relaxed),
            in_progress: self.in_progress.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
        }
    }

    /// Makes the service refuse all further requests.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Counts a connection until the result is dropped.
    pub(crate) fn connection(self: &Arc<Self>) -> Current {
        Current::new(self, |served| &served.connections)
    }

    /// Counts a request in progress until the result is dropped.
    pub(crate) fn request(self: &Arc<Self>, payload_bytes: usize) -> Current {
        self.received_bytes.fetch_add(payload_bytes as u64, Ordering::Relaxed);
        Current::new(self, |served| &served.in_progress)
    }

    pub(crate) fn answered(&self, payload_bytes: usize, is_batch: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(u64::from(is_batch), Ordering::Relaxed);
        self.sent_bytes.fetch_add(payload_bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection or a request that is counted as long as this value exists.
#[derive(Debug)]
pub(crate) struct Current {
    served: Arc<Served>,
    counter: fn(&Served) -> &AtomicU64,
}

impl Current {
    fn new(served: &Arc<Served>, counter: fn(&Served) -> &AtomicU64) -> Self {
        counter(served).fetch_add(1, Ordering::Relaxed);
        Self { served: served.clone(), counter }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        (self.counter)(&self.served).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The pieces of a reply. Its request is in progress until the last one is made.
pub(crate) struct CountedPieces {
    pub(crate) pieces: Box<dyn PieceSource>,
    pub(crate) _in_progress: Current,
}

impl PieceSource for CountedPieces {
    fn bytes_left(&self) -> usize {
        self.pieces.bytes_left()
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, memory: &mut BytesMut) -> Poll<io::Result<Bytes>> {
        self.pieces.poll_piece(cx, memory)
    }
}
