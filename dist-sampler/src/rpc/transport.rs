//! A tarpc transport that sends bulk arrays next to the messages instead of inside them.
//!
//! A frame consists of the magic `EBK1`, the head's length (`u32`), the payload's length (`u64`), the payload and the
//! head, all little-endian. The head is the message in bincode without its payload. The payload comes before the head
//! so that it is read into its own, aligned memory and used in place. See `docs/src/wire.md`.

use crate::rpc::payload_memory::PayloadMemory;
use bytes::Bytes;
use futures::{Sink, Stream};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const MAGIC: [u8; 4] = *b"EBK1";
const HEADER_BYTES: usize = 16;
/// The largest head. Heads hold a few numbers per request, so a larger one is not from a peer of this implementation.
const MAX_HEAD_BYTES: usize = 1 << 20;
/// The number of queued bytes above which the sender waits for the network.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// A message with a bulk array that is sent next to it.
pub(crate) trait CarriesPayload {
    /// Takes the payload out and leaves an empty one.
    fn take_payload(&mut self) -> Bytes;
    /// Puts a payload in.
    fn put_payload(&mut self, payload: Bytes);
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

/// A transport over a byte stream: a [`Stream`] of `In` and a [`Sink`] of `Out`.
pub(crate) struct BulkTransport<S, In, Out> {
    stream: S,
    max_payload_bytes: usize,
    reading: Reading,
    writing: VecDeque<Bytes>,
    queued_bytes: usize,
    end_is_error: bool,
    received: Arc<AtomicU64>,
    _messages: PhantomData<fn(Out) -> In>,
}

enum Reading {
    Header { buffer: [u8; HEADER_BYTES], filled: usize },
    Payload { head_len: usize, memory: PayloadMemory, filled: usize },
    Head { payload: Bytes, buffer: Vec<u8>, filled: usize },
}

impl Reading {
    const START: Self = Self::Header { buffer: [0; HEADER_BYTES], filled: 0 };
}

impl<S, In, Out> BulkTransport<S, In, Out> {
    /// Frames messages on `stream`. Fails if the peer announces a payload larger than `max_payload_bytes`.
    pub(crate) fn new(stream: S, max_payload_bytes: usize) -> Self {
        Self {
            stream,
            max_payload_bytes,
            reading: Reading::START,
            writing: VecDeque::new(),
            queued_bytes: 0,
            end_is_error: false,
            received: Arc::default(),
            _messages: PhantomData,
        }
    }

    /// Makes the end of the stream an error, also between two frames.
    pub(crate) fn with_end_as_error(self) -> Self {
        Self { end_is_error: true, ..self }
    }

    /// Adds the bytes that arrive to `received`.
    pub(crate) fn counting(self, received: Arc<AtomicU64>) -> Self {
        Self { received, ..self }
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads until `buffer` is full, and adds the bytes read to `received`. Returns `Ok(false)` if the stream ends first.
fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    received: &AtomicU64,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
    filled: &mut usize,
) -> Poll<io::Result<bool>> {
    while *filled < buffer.len() {
        let mut unread = ReadBuf::new(&mut buffer[*filled..]);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut unread))?;
        let read = unread.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(false));
        }
        *filled += read;
        received.fetch_add(read as u64, Ordering::Relaxed);
    }
    Poll::Ready(Ok(true))
}

impl<S: AsyncRead + Unpin, In: DeserializeOwned + CarriesPayload, Out> Stream for BulkTransport<S, In, Out> {
    type Item = io::Result<In>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<In>>> {
        let this = &mut *self;
        loop {
            match &mut this.reading {
                Reading::Header { buffer, filled } => {
                    if !ready!(poll_fill(&mut this.stream, &this.received, cx, buffer, filled))? {
                        // A stream may end between frames, but not within one.
                        let cut = *filled > 0 || this.end_is_error;
                        return Poll::Ready(cut.then(|| Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    let (head_len, payload_len) = parse_header(buffer, this.max_payload_bytes)?;
                    let memory = PayloadMemory::new(payload_len);
                    this.reading = Reading::Payload { head_len, memory, filled: 0 };
                }
                Reading::Payload { head_len, memory, filled } => {
                    if !ready!(poll_fill(&mut this.stream, &this.received, cx, memory.bytes_mut(), filled))? {
                        return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    let payload = std::mem::replace(memory, PayloadMemory::new(0)).into_bytes();
                    this.reading = Reading::Head { payload, buffer: vec![0; *head_len], filled: 0 };
                }
                Reading::Head { payload, buffer, filled } => {
                    if !ready!(poll_fill(&mut this.stream, &this.received, cx, buffer, filled))? {
                        return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    let mut message = In::from_head(buffer).map_err(|e| invalid(format!("message head: {e}")))?;
                    message.put_payload(std::mem::take(payload));
                    this.reading = Reading::START;
                    return Poll::Ready(Some(Ok(message)));
                }
            }
        }
    }
}

fn parse_header(header: &[u8; HEADER_BYTES], max_payload_bytes: usize) -> io::Result<(usize, usize)> {
    let word = |range: std::ops::Range<usize>| {
        header[range].iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
    };
    if header[..4] != MAGIC {
        return Err(invalid("frame without the magic EBK1: the peer speaks another protocol".into()));
    }
    let head_len = word(4..8);
    let payload_len = word(8..16);
    if head_len > MAX_HEAD_BYTES as u64 || payload_len > max_payload_bytes as u64 {
        let why = format!(
            "frame of {head_len} + {payload_len} bytes is above the limit of {MAX_HEAD_BYTES} + {max_payload_bytes}"
        );
        return Err(invalid(why));
    }
    Ok((head_len as usize, payload_len as usize))
}

impl<S: AsyncWrite + Unpin, In, Out> BulkTransport<S, In, Out> {
    /// Writes queued bytes until at most `keep` are left.
    fn poll_drain(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<io::Result<()>> {
        while self.queued_bytes > keep {
            // One system call for several frames. 16 slices hold the header, payload and head of five of them.
            let mut slices = [IoSlice::new(&[]); 16];
            let mut used = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.writing) {
                *slice = IoSlice::new(bytes);
                used += 1;
            }
            let mut written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..used]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.queued_bytes -= written;
            while let Some(front) = self.writing.front_mut() {
                if front.len() > written {
                    let _ = front.split_to(written);
                    break;
                }
                written -= front.len();
                self.writing.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, In, Out: Serialize + CarriesPayload> Sink<Out> for BulkTransport<S, In, Out> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(cx, MAX_QUEUED_BYTES)
    }

    fn start_send(mut self: Pin<&mut Self>, mut message: Out) -> io::Result<()> {
        let payload = message.take_payload();
        let head = bincode::serialize(&message).map_err(|e| invalid(format!("message head: {e}")))?;
        if head.len() > MAX_HEAD_BYTES || payload.len() > self.max_payload_bytes {
            let head = head.len();
            let payload = payload.len();
            return Err(invalid(format!(
                "message of {head} + {payload} bytes is above the limit of {MAX_HEAD_BYTES} + {}",
                self.max_payload_bytes
            )));
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&(head.len() as u32).to_le_bytes());
        header.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        for bytes in [header.into(), payload, head.into()] {
            let bytes: Bytes = bytes;
            self.queued_bytes += bytes.len();
            self.writing.push_back(bytes);
        }
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx, 0))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::bytes_of;
    use edgecut_testing::assert_has;
    use futures::{SinkExt, StreamExt};
    use serde::Deserialize;
    use tokio::io::AsyncWriteExt;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        text: String,
        #[serde(skip)]
        payload: Bytes,
    }

    impl CarriesPayload for Note {
        fn take_payload(&mut self) -> Bytes {
            std::mem::take(&mut self.payload)
        }
        fn put_payload(&mut self, payload: Bytes) {
            self.payload = payload;
        }
    }

    type Transport<S> = BulkTransport<S, Note, Note>;

    #[tokio::test]
    async fn messages_arrive_whole_in_order_and_aligned() {
        let (a, b) = tokio::io::duplex(37);
        let mut a = Transport::new(a, 1 << 20);
        let mut b = Transport::new(b, 1 << 20);
        let sent: Vec<Vec<u64>> = [0, 1, 5, 1000, 0, 3].map(|n| (0..n).collect()).to_vec();
        let copy = sent.clone();
        let sender = tokio::spawn(async move {
            for (i, values) in copy.into_iter().enumerate() {
                a.send(Note { text: "x".repeat(i * 30), payload: bytes_of(values) }).await.unwrap();
            }
        });
        for (i, values) in sent.iter().enumerate() {
            let note = b.next().await.unwrap().unwrap();
            assert_eq!(note.text.len(), i * 30);
            assert_eq!(bytemuck::cast_slice::<u8, u64>(&note.payload), values);
        }
        sender.await.unwrap();
        assert!(b.next().await.is_none(), "the stream ends between messages without an error");
    }

    #[tokio::test]
    async fn rejects_what_is_no_frame() {
        let frame = |magic: &[u8], head: u32, payload: u64| {
            [magic, &head.to_le_bytes(), &payload.to_le_bytes(), &[0; 4]].concat()
        };
        for (bytes, why) in [
            (frame(b"HTTP", 1, 1), "magic"),
            (frame(&MAGIC, 1, 1 << 40), "above the limit"),
            (frame(&MAGIC, 1 << 30, 0), "above the limit"),
            (frame(&MAGIC, 4, 0), "message head"),
            (frame(&MAGIC, 40, 40), "unexpected end"),
            (MAGIC.to_vec(), "unexpected end"),
        ] {
            let (mut a, b) = tokio::io::duplex(1 << 10);
            a.write_all(&bytes).await.unwrap();
            drop(a);
            assert_has(Transport::new(b, 1 << 20).next().await.unwrap().unwrap_err().to_string(), &[why]);
        }
    }

    #[tokio::test]
    async fn refuses_to_send_above_the_limit() {
        let (a, _b) = tokio::io::duplex(64);
        let mut a = Transport::new(a, 16);
        let note = Note { text: String::new(), payload: bytes_of(vec![0_u8; 17]) };
        assert!(a.send(note).await.unwrap_err().to_string().contains("above the limit"));
    }
}
