//! Payloads of messages: bytes that are there, and rows that are gathered while they are sent.

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::sync::Weak;
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

    /// Makes the next bytes, at least one and about [`PIECE_BYTES`]. `memory` may be used for them: it is free again once
    /// they are sent.
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

/// The sink of the reply to a request.
pub(crate) struct ReplySink {
    pub(crate) request_id: u64,
    pub(crate) sink: Weak<dyn PayloadSink>,
}

/// A message with a bulk array that is sent next to it.
pub(crate) trait CarriesPayload {
    /// Takes the payload out and leaves an empty one.
    fn take_payload(&mut self) -> Payload;
    /// Puts a payload in.
    fn put_payload(&mut self, payload: Bytes);
    /// Takes the sink of the reply to this message, if there is one.
    fn take_sink(&mut self) -> Option<ReplySink> {
        None
    }
    /// Returns the number of the request that this message answers, if it does.
    fn answered_request(&self) -> Option<u64> {
        None
    }
    /// Decodes a message without its payload.
    ///
    /// # Errors
    /// An error if the bytes do not encode such a message.
    fn from_head(head: &[u8]) -> bincode::Result<Self>
    where
        Self: DeserializeOwned,
    {
        bincode::deserialize(head)
    }
}
