//! Payloads of messages: bytes that are there, and rows that are gathered while they are sent.

use bytes::{Bytes, BytesMut};
use std::fmt;
use std::io;
use std::task::{Context, Poll};

/// The size of the pieces in which payloads are made and taken. It is much smaller than the second-level cache of a CPU, so
/// that a piece is still there when the system copies it, or when its rows are placed.
pub(crate) const PIECE_BYTES: usize = 128 << 10;

/// A payload to send.
#[derive(Default)]
pub(crate) struct Payload {
    /// The first bytes.
    pub(crate) bytes: Bytes,
    /// The bytes after them, which are made when the connection takes them.
    pub(crate) pieces: Option<Box<dyn PieceSource>>,
}

impl Payload {
    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.pieces.as_ref().map_or(0, |pieces| pieces.bytes_left())
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, pieces: None }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// The maker of a payload's bytes, piece by piece.
pub(crate) trait PieceSource: Send {
    /// Returns the number of bytes that are left.
    fn bytes_left(&self) -> usize;

    /// Makes the next bytes, at least one and at most about [`PIECE_BYTES`]. `memory` may be used for them: it is free
    /// again once they are sent.
    ///
    /// # Errors
    /// Bytes that cannot be made. The connection ends, since the payload's size is already sent.
    fn poll_piece(&mut self, cx: &mut Context<'_>, memory: &mut BytesMut) -> Poll<io::Result<Bytes>>;
}

/// The receiver of a reply's payload while it arrives.
pub(crate) trait PayloadSink: Send + Sync {
    /// Returns the size of the expected payload. Payloads of other sizes are not passed to [`PayloadSink::arrived`].
    fn payload_bytes(&self) -> usize;

    /// Takes the bytes that have arrived so far, from the first on. A request that is sent again has several replies.
    fn arrived(&self, bytes: &[u8]);
}
