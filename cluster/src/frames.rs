//! The wire format of all messages except bulk data: a length (u32, little-endian), then JSON.
//!
//! These messages are rare and small. They are read only from peers that have proved the shared secret, and a frame
//! holds at most [`MAX_FRAME_BYTES`].

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::io_error::invalid;

/// The largest message: large enough for the roster of the largest job.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// Encodes a message with its length.
pub(crate) fn encode<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - LENGTH_BYTES;
    if length > MAX_FRAME_BYTES {
        return Err(invalid(format!("a message of {length} bytes is over the limit of {MAX_FRAME_BYTES}")));
    }
    frame[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Writes one message.
pub(crate) fn write_frame<M: Serialize>(mut writer: impl Write, message: &M) -> io::Result<()> {
    writer.write_all(&encode(message)?)
}

/// Reads one message and no byte after it.
pub(crate) fn read_frame<M: DeserializeOwned>(mut reader: impl Read) -> io::Result<M> {
    let mut length = [0; LENGTH_BYTES];
    reader.read_exact(&mut length)?;
    let mut body = vec![0; checked_length(length)?];
    reader.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Removes the first message from `buffer` and returns it; `None` while it is incomplete.
pub(crate) fn take_frame<M: DeserializeOwned>(buffer: &mut Vec<u8>) -> io::Result<Option<M>> {
    let Some((length, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = checked_length(*length)?;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    buffer.drain(..LENGTH_BYTES + length);
    Ok(Some(message))
}

fn checked_length(bytes: [u8; LENGTH_BYTES]) -> io::Result<usize> {
    match u32::from_le_bytes(bytes) as usize {
        length if length <= MAX_FRAME_BYTES => Ok(length),
        length => Err(invalid(format!("a message of {length} bytes is over the limit of {MAX_FRAME_BYTES}"))),
    }
}

/// A blocking stream with one deadline for all reads and writes together.
///
/// A timeout of the socket alone would restart with every read, so a peer that sends single bytes could extend it
/// without limit.
pub(crate) struct Timed<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) deadline: Instant,
}

impl Timed<'_> {
    fn remaining(&self) -> io::Result<Duration> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed")),
            remaining => Ok(remaining),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer).map_err(timed_out)
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read_vectored(slices).map_err(timed_out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(buffer).map_err(timed_out)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write_vectored(slices).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes the timeouts of the handshake from a stream and makes it non-blocking, for use with an event loop.
pub(crate) fn make_nonblocking(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.set_nonblocking(true)
}

/// Turns the error of a socket timeout, "would block", into one that users understand.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Message {
        Heartbeat,
        Leaving,
    }

    #[test]
    fn a_frame_survives_any_split() {
        let frame = encode(&Message::Leaving).unwrap();
        let mut buffer = Vec::new();
        for (index, byte) in frame.iter().enumerate() {
            assert_eq!(take_frame::<Message>(&mut buffer).unwrap(), None, "after {index} bytes");
            buffer.push(*byte);
        }
        buffer.push(7);
        assert_eq!(take_frame(&mut buffer).unwrap(), Some(Message::Leaving));
        assert_eq!(buffer, [7], "what follows stays");
    }

    #[test]
    fn rejects_a_frame_over_the_limit() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        assert_eq!(read_frame::<Message>(&bytes[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(take_frame::<Message>(&mut bytes).is_err());
        assert!(encode(&"x".repeat(MAX_FRAME_BYTES)).is_err());
    }

    #[test]
    fn rejects_truncated_and_malformed_frames() {
        let frame = encode(&Message::Heartbeat).unwrap();
        assert!(read_frame::<Message>(&frame[..frame.len() - 1]).is_err());
        let mut malformed = encode(&"no such message").unwrap();
        assert!(take_frame::<Message>(&mut malformed).is_err());
    }
}
