//! A tarpc transport that sends bulk arrays next to the messages instead of inside them.
//!
//! A frame consists of the magic `EBK1`, the head's length (`u32`), the payload's length (`u64`), the head and the
//! payload, all little-endian. The head is the message in bincode without its payload, which is read into its own, aligned
//! memory and used in place. See `docs/src/wire.md`.

use crate::payload::{Payload, PayloadSink};
use crate::rpc::frame_reader::FrameReader;
use crate::rpc::frame_writer::FrameWriter;
use crate::rpc::payload_memory::PayloadMemory;
use crate::rpc::reply_sinks::{ReplySink, ReplySinks};
use bytes::Bytes;
use futures::{Sink, Stream};
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};

const MAGIC: [u8; 4] = *b"EBK1";
const HEADER_BYTES: usize = 16;
/// The largest head. Heads hold a few numbers per request, so a larger one is not from a peer of this implementation.
const MAX_HEAD_BYTES: usize = 1 << 20;
/// The number of queued bytes above which the sender waits for the network.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// The bytes that sinks take before the thread looks for events of the network.
const MAX_TAKEN_BYTES: usize = 1 << 20;

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

/// A transport over a byte stream: a [`Stream`] of `In` and a [`Sink`] of `Out`.
pub(crate) struct BulkTransport<S, In, Out> {
    stream: S,
    max_payload_bytes: usize,
    reader: FrameReader,
    reading: Reading<In>,
    writer: FrameWriter,
    sinks: ReplySinks,
    /// The bytes that sinks have taken since the thread looked for events of the network.
    taken_bytes: usize,
    /// True if a sink has taken bytes since other tasks of the thread had their turn.
    has_taken: bool,
    end_is_error: bool,
    _messages: PhantomData<fn(Out)>,
}

/// The part of a frame that is being received.
enum Reading<In> {
    Header { buffer: [u8; HEADER_BYTES], filled: usize },
    Head { buffer: Vec<u8>, filled: usize, payload_len: usize },
    Payload { message: Option<In>, memory: PayloadMemory, filled: usize, sink: Option<Arc<dyn PayloadSink>> },
}

impl<In> Reading<In> {
    const START: Self = Self::Header { buffer: [0; HEADER_BYTES], filled: 0 };
}

impl<S, In, Out> BulkTransport<S, In, Out> {
    /// Frames messages on `stream`. Fails if the peer announces a payload larger than `max_payload_bytes`.
    pub(crate) fn new(stream: S, max_payload_bytes: usize) -> Self {
        Self {
            stream,
            max_payload_bytes,
            reader: FrameReader::default(),
            reading: Reading::START,
            writer: FrameWriter::default(),
            sinks: ReplySinks::default(),
            taken_bytes: 0,
            has_taken: false,
            end_is_error: false,
            _messages: PhantomData,
        }
    }

    /// Makes the end of the stream an error, also between two frames.
    pub(crate) fn with_end_as_error(self) -> Self {
        Self { end_is_error: true, ..self }
    }

    /// Adds the bytes that arrive to `received`.
    pub(crate) fn counting(mut self, received: Arc<AtomicU64>) -> Self {
        self.reader.received = received;
        self
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<S, In, Out> BulkTransport<S, In, Out>
where
    S: AsyncRead + AsyncWrite + Unpin,
    In: DeserializeOwned + CarriesPayload + Unpin,
{
    /// Receives the next message.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<In>>> {
        loop {
            match &mut self.reading {
                Reading::Header { buffer, filled } => {
                    if !ready!(self.reader.poll_fill(&mut self.stream, cx, buffer, filled))? {
                        // A stream may end between frames, but not within one.
                        let cut = *filled > 0 || self.end_is_error;
                        return Poll::Ready(cut.then(|| Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    let (head_len, payload_len) = parse_header(buffer, self.max_payload_bytes)?;
                    self.reading = Reading::Head { buffer: vec![0; head_len], filled: 0, payload_len };
                }
                Reading::Head { buffer, filled, payload_len } => {
                    if !ready!(self.reader.poll_fill(&mut self.stream, cx, buffer, filled))? {
                        return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    let message = In::from_head(buffer).map_err(|e| invalid(format!("message head: {e}")))?;
                    let memory = PayloadMemory::new(*payload_len);
                    let sink = message.answered_request().and_then(|id| self.sinks.take(id, *payload_len));
                    self.reading = Reading::Payload { message: Some(message), memory, filled: 0, sink };
                }
                Reading::Payload { message, memory, filled, sink } => {
                    while *filled < memory.len() {
                        let before = *filled;
                        if sink.is_some() {
                            ready!(poll_turn(self.has_taken, &mut self.taken_bytes, cx));
                            if let Poll::Ready(Err(error)) = self.writer.poll_drain(&mut self.stream, cx, 0) {
                                return Poll::Ready(Some(Err(error)));
                            }
                        }
                        if !ready!(self.reader.poll_more(&mut self.stream, cx, memory.bytes_mut(), filled))? {
                            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                        }
                        if let Some(sink) = sink {
                            sink.arrived(&memory.as_ref()[..*filled]);
                            self.taken_bytes += *filled - before;
                            self.has_taken = true;
                        }
                    }
                    let payload = std::mem::replace(memory, PayloadMemory::new(0)).into_bytes();
                    let message = message.take();
                    self.reading = Reading::START;
                    if let Some(mut message) = message {
                        message.put_payload(payload);
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
            }
        }
    }
}

/// Gives other tasks of the thread their turn after a sink has taken bytes. A batch whose reply is complete can then send
/// its next requests before another reply is received, and the peer does not run out of requests.
fn poll_turn(has_taken: bool, taken_bytes: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
    if !has_taken {
        return Poll::Ready(());
    }
    if *taken_bytes < MAX_TAKEN_BYTES {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    *taken_bytes = 0;
    // The thread looks for events of the network before it continues.
    pin!(tokio::task::yield_now()).poll(cx)
}

impl<S, In, Out> Stream for BulkTransport<S, In, Out>
where
    S: AsyncRead + AsyncWrite + Unpin,
    In: DeserializeOwned + CarriesPayload + Unpin,
{
    type Item = io::Result<In>;

    /// Receives the next message. While a sink takes its payload, queued messages are sent as well, since the caller may
    /// not get to [`Sink::poll_flush`] before the message is complete.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<In>>> {
        let message = self.poll_message(cx);
        if message.is_pending() {
            self.has_taken = false;
        }
        message
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

impl<S, In, Out> Sink<Out> for BulkTransport<S, In, Out>
where
    S: AsyncWrite + Unpin,
    In: Unpin,
    Out: Serialize + CarriesPayload,
{
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.writer.poll_drain(&mut this.stream, cx, MAX_QUEUED_BYTES)
    }

    fn start_send(mut self: Pin<&mut Self>, mut message: Out) -> io::Result<()> {
        if let Some(sink) = message.take_sink() {
            self.sinks.add(sink);
        }
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
        let mut start = Vec::with_capacity(HEADER_BYTES + head.len());
        start.extend_from_slice(&MAGIC);
        start.extend_from_slice(&(head.len() as u32).to_le_bytes());
        start.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        start.extend_from_slice(&head);
        self.writer.push(start.into(), payload);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.writer.poll_drain(&mut this.stream, cx, 0))?;
        Pin::new(&mut this.stream).poll_flush(cx)
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
    use crate::payload::PieceSource;
    use bytes::BytesMut;
    use edgecut_testing::assert_has;
    use futures::{FutureExt, SinkExt, StreamExt};
    use serde::Deserialize;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::AsyncWriteExt;

    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Note {
        text: String,
        #[serde(skip)]
        payload: Bytes,
        /// The sizes of pieces that follow the payload.
        #[serde(skip)]
        pieces: Vec<usize>,
        /// The number of the request that this message answers.
        answers: Option<u64>,
        #[serde(skip)]
        sink: Option<ReplySink>,
    }

    /// Makes pieces of numbers, which count up through all pieces.
    struct Counting {
        sizes: Vec<usize>,
        next: u8,
        is_late: bool,
    }

    impl PieceSource for Counting {
        fn bytes_left(&self) -> usize {
            self.sizes.iter().sum()
        }

        fn poll_piece(&mut self, cx: &mut Context<'_>, memory: &mut BytesMut) -> Poll<io::Result<Bytes>> {
            // Each piece keeps the writer waiting once.
            self.is_late = !self.is_late;
            if self.is_late {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            memory.reserve(self.sizes[0]);
            for _ in 0..self.sizes.remove(0) {
                memory.extend_from_slice(&[self.next]);
                self.next = self.next.wrapping_add(1);
            }
            Poll::Ready(Ok(memory.split().freeze()))
        }
    }

    impl CarriesPayload for Note {
        fn take_payload(&mut self) -> Payload {
            let sizes = std::mem::take(&mut self.pieces);
            let pieces: Box<dyn PieceSource> = Box::new(Counting { sizes, next: 0, is_late: false });
            Payload { bytes: std::mem::take(&mut self.payload), pieces: Some(pieces) }
        }
        fn put_payload(&mut self, payload: Bytes) {
            self.payload = payload;
        }
        fn take_sink(&mut self) -> Option<ReplySink> {
            self.sink.take()
        }
        fn answered_request(&self) -> Option<u64> {
            self.answers
        }
    }

    /// Records how much of a reply has arrived.
    struct Arriving {
        payload_bytes: usize,
        arrived: AtomicUsize,
    }

    impl PayloadSink for Arriving {
        fn payload_bytes(&self) -> usize {
            self.payload_bytes
        }
        fn arrived(&self, bytes: &[u8]) {
            self.arrived.store(bytes.len(), Ordering::Relaxed);
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
                a.send(Note { text: "x".repeat(i * 30), payload: bytes_of(values), ..Note::default() }).await.unwrap();
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
    async fn payloads_of_pieces_arrive_after_the_bytes_before_them() {
        let sizes: [&[usize]; 5] = [&[], &[1], &[70_000, 3, 20_000], &[5, 5], &[300_000; 8]];
        for pipe in [37, 5_000, 1 << 20] {
            let (a, b) = tokio::io::duplex(pipe);
            let mut a = Transport::new(a, 4 << 20);
            let mut b = Transport::new(b, 4 << 20);
            let sender = tokio::spawn(async move {
                for pieces in sizes {
                    let payload = bytes_of(vec![9_u8; pieces.len()]);
                    a.feed(Note { payload, pieces: pieces.to_vec(), ..Note::default() }).await.unwrap();
                }
                a.flush().await.unwrap();
            });
            for pieces in sizes {
                let payload = b.next().await.unwrap().unwrap().payload;
                let made = (0..pieces.iter().sum::<usize>()).map(|at| at as u8);
                let expected: Vec<u8> = pieces.iter().map(|_| 9).chain(made).collect();
                assert!(payload == expected, "{pieces:?} through {pipe} bytes");
            }
            sender.await.unwrap();
            assert!(b.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn requests_are_sent_before_more_of_a_reply_is_received() {
        const REPLY_BYTES: usize = 3 << 20;
        let (client, server) = tokio::io::duplex(4 << 20);
        let mut client = Transport::new(client, REPLY_BYTES);
        let mut server = Transport::new(server, REPLY_BYTES);
        let sink = Arc::new(Arriving { payload_bytes: REPLY_BYTES, arrived: AtomicUsize::new(0) });
        let reply_sink = ReplySink { request_id: 7, sink: Arc::downgrade(&sink) as Weak<dyn PayloadSink> };
        client.send(Note { sink: Some(reply_sink), ..Note::default() }).await.unwrap();
        server.next().await.unwrap().unwrap();
        let payload = bytes_of(vec![9_u8; REPLY_BYTES]);
        server.send(Note { payload: payload.clone(), answers: Some(7), ..Note::default() }).await.unwrap();
        let mut turns = 0;
        let reply = loop {
            match std::future::poll_fn(|cx| Poll::Ready(client.poll_next_unpin(cx))).await {
                Poll::Ready(reply) => break reply.unwrap().unwrap(),
                Poll::Pending => turns += 1,
            }
            let arrived = sink.arrived.load(Ordering::Relaxed);
            assert!(arrived < REPLY_BYTES);
            if turns > 1 {
                let sent = server.next().now_or_never();
                let sent = sent.unwrap_or_else(|| panic!("no request was sent after {arrived} bytes had arrived"));
                assert_eq!(sent.unwrap().unwrap().text, format!("request {}", turns - 1));
            }
            // tarpc adds a request while a reply is received, and does not flush before the reply is complete.
            client.feed(Note { text: format!("request {turns}"), ..Note::default() }).await.unwrap();
        };
        assert!(turns >= REPLY_BYTES >> 20, "{turns} turns for other tasks");
        assert!(reply.payload == payload);
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
        let note = Note { payload: bytes_of(vec![0_u8; 17]), ..Note::default() };
        assert!(a.send(note).await.unwrap_err().to_string().contains("above the limit"));
    }
}
