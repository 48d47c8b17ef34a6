//! The receiving half of a connection: takes records apart and verifies them.

use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;

use crate::secure::modified::modified;
use crate::secure::record::{MAX_HEADER_BYTES, RecordCodec, RecordHeader};

/// The most bytes that a read takes from the socket before it knows the record that they belong to.
const STAGED_BYTES: usize = 16 << 10;
/// The most bytes that a read takes beyond the record in progress: the header of the next one, and a small payload.
const AHEAD_BYTES: usize = 512;
/// The size from which the payload of a record is read and decoded in the caller's memory.
const LARGE_BYTES: usize = 4 << 10;

/// The memory that a caller reads into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A read that reports no bytes may be followed by one into other memory. Bytes are copied.
    Changes,
    /// As long as a read has reported no bytes, the caller keeps the memory as it is and reads into the same memory
    /// again. Large records are decoded in it.
    Stays,
}

/// The receiving half of a connection. No byte is delivered before its record was verified.
pub(super) struct Incoming {
    codec: RecordCodec,
    // The sender in errors.
    peer: String,
    // Received bytes that were not looked at yet.
    staging: Box<[u8]>,
    staged: Range<usize>,
    record: Option<PartialRecord>,
    // Memory for records that are not decoded in the caller's memory.
    own: Vec<u8>,
    // The bytes in `own` that were verified and not delivered.
    ready: Range<usize>,
    is_broken: bool,
}

/// A record whose payload is being received.
#[derive(Clone, Copy)]
struct PartialRecord {
    header: RecordHeader,
    filled: usize,
    // The address of the caller's memory, if the payload goes there.
    place: Option<usize>,
}

impl Incoming {
    pub(super) fn new(codec: RecordCodec, peer: String) -> Self {
        Self {
            codec,
            peer,
            staging: vec![0; STAGED_BYTES].into(),
            staged: 0..0,
            record: None,
            own: Vec::new(),
            ready: 0..0,
            is_broken: false,
        }
    }

    /// Reads verified bytes into `buffer`. `receive` reads from the socket. Returns 0 at the end of the stream.
    ///
    /// # Errors
    /// The errors of the socket; a stream that ends within a record; a record that was modified on the way. After the
    /// last one, all reads fail.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        memory: Memory,
        mut receive: impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            if self.is_broken {
                return Err(modified(&self.peer));
            }
            if !self.ready.is_empty() || buffer.is_empty() {
                return Ok(self.deliver(buffer));
            }
            let Some(record) = self.record else {
                if !self.begin_record(buffer, memory, &mut receive)? {
                    return Ok(0);
                }
                continue;
            };
            self.fill(record, buffer, &mut receive)?;
            self.record = None;
            let len = record.header.len;
            let payload = if record.place.is_some() { &mut buffer[..len] } else { &mut self.own[..len] };
            self.is_broken = !self.codec.open(payload, &record.header);
            if self.is_broken {
                continue;
            }
            if record.place.is_some() {
                return Ok(len);
            }
            self.ready = 0..len;
        }
    }

    /// Copies verified bytes to the caller.
    fn deliver(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.ready.len());
        let end = self.ready.start + count;
        buffer[..count].copy_from_slice(&self.own[self.ready.start..end]);
        self.ready.start = end;
        count
    }

    /// Receives and decodes the header of the next record. Returns false at the end of the stream.
    fn begin_record(
        &mut self,
        buffer: &[u8],
        memory: Memory,
        receive: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        let header_bytes = self.codec.header_bytes();
        debug_assert!(header_bytes <= MAX_HEADER_BYTES);
        while self.staged.len() < header_bytes {
            self.staging.copy_within(self.staged.clone(), 0);
            self.staged = 0..self.staged.len();
            let count = uninterrupted(receive, &mut [IoSliceMut::new(&mut self.staging[self.staged.end..])])?;
            if count == 0 {
                return if self.staged.is_empty() { Ok(false) } else { Err(cut_off()) };
            }
            self.staged.end += count;
        }
        let start = self.staged.start;
        let Some(header) = self.codec.parse(&self.staging[start..start + header_bytes]) else {
            self.is_broken = true;
            return Ok(true);
        };
        self.staged.start += header_bytes;
        let is_in_place = memory == Memory::Stays && (LARGE_BYTES..=buffer.len()).contains(&header.len);
        if !is_in_place && self.own.len() < header.len {
            self.own.resize(header.len, 0);
        }
        let place = is_in_place.then(|| buffer.as_ptr().addr());
        self.record = Some(PartialRecord { header, filled: 0, place });
        Ok(true)
    }

    /// Receives the rest of a payload.
    fn fill(
        &mut self,
        mut record: PartialRecord,
        buffer: &mut [u8],
        receive: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let len = record.header.len;
        let payload = match record.place {
            Some(place) if place != buffer.as_ptr().addr() || buffer.len() < len => return Err(moved()),
            Some(_) => &mut buffer[..len],
            None => &mut self.own[..len],
        };
        let count = self.staged.len().min(len - record.filled);
        let staged = self.staged.start..self.staged.start + count;
        payload[record.filled..record.filled + count].copy_from_slice(&self.staging[staged]);
        self.staged.start += count;
        record.filled += count;
        while record.filled < len {
            // All staged bytes were taken above. The next header comes with the rest of this record.
            self.staged = 0..0;
            self.record = Some(record);
            let rest = IoSliceMut::new(&mut payload[record.filled..]);
            let count = uninterrupted(receive, &mut [rest, IoSliceMut::new(&mut self.staging[..AHEAD_BYTES])])?;
            if count == 0 {
                return Err(cut_off());
            }
            let own = count.min(len - record.filled);
            record.filled += own;
            self.staged = 0..count - own;
        }
        Ok(())
    }
}

fn uninterrupted(
    receive: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    slices: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    loop {
        match receive(slices) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection ended within a message")
}

fn moved() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a read was repeated with other memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::noise::{CIPHER_KEY_BYTES, RecordKeys};
    use crate::secure::outgoing::Outgoing;
    use crate::secure::protection::Protection;

    fn codec(protection: Protection) -> RecordCodec {
        let keys = RecordKeys { cipher_key: [3; CIPHER_KEY_BYTES], header_seed: 1, payload_seed: 2 };
        RecordCodec::new(&keys, protection).unwrap()
    }

    fn wire(protection: Protection, data: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        let sent = Outgoing::new(codec(protection)).write(&[io::IoSlice::new(data)], |parts| {
            parts.iter().for_each(|part| wire.extend_from_slice(part));
            Ok(parts.iter().map(|part| part.len()).sum())
        });
        assert_eq!(sent.unwrap(), data.len());
        wire
    }

    /// Reads from a wire that ends. Returns the bytes that were delivered, and the error, if any.
    fn read_all(protection: Protection, mut wire: &[u8], memory: Memory) -> (Vec<u8>, Option<io::Error>) {
        let mut incoming = Incoming::new(codec(protection), "rank 1".to_owned());
        let mut data = Vec::new();
        let mut buffer = vec![0; 100_000];
        loop {
            match incoming.read(&mut buffer, memory, |parts| io::Read::read_vectored(&mut wire, parts)) {
                Ok(0) => return (data, None),
                Ok(count) => data.extend_from_slice(&buffer[..count]),
                Err(error) => return (data, Some(error)),
            }
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_record_delivers_nothing_of_it() {
        for protection in [Protection::Checked, Protection::Encrypted] {
            for data in [vec![5; 100], vec![6; 30_000]] {
                let wire = wire(protection, &data);
                for memory in [Memory::Changes, Memory::Stays] {
                    assert_eq!(read_all(protection, &wire, memory).0, data);
                    for end in [1, wire.len() - data.len(), wire.len() / 2 + 10, wire.len() - 1] {
                        let (delivered, error) = read_all(protection, &wire[..end], memory);
                        assert_eq!(error.unwrap().kind(), ErrorKind::UnexpectedEof);
                        assert!(delivered.is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn a_repeated_record_is_an_error_that_names_the_peer() {
        for protection in [Protection::Checked, Protection::Encrypted] {
            let wire = wire(protection, b"heartbeat");
            let (delivered, error) = read_all(protection, &[&wire[..], &wire[..]].concat(), Memory::Changes);
            assert_eq!(delivered, b"heartbeat");
            let text = error.unwrap().to_string();
            assert!(text.starts_with("a message from rank 1 was modified on the way"), "{text}");
        }
    }

    #[test]
    fn memory_that_moves_within_a_record_is_refused() {
        let wire = wire(Protection::Checked, &vec![7; 30_000]);
        let mut incoming = Incoming::new(codec(Protection::Checked), String::new());
        let mut buffer = vec![0; 60_000];
        let mut first = &wire[..20_000];
        let outcome = incoming.read(&mut buffer[..30_000], Memory::Stays, |parts| {
            if first.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            io::Read::read_vectored(&mut first, parts)
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut rest = &wire[20_000..];
        let moved = incoming.read(&mut buffer[1..], Memory::Stays, |parts| io::Read::read_vectored(&mut rest, parts));
        assert_eq!(moved.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
