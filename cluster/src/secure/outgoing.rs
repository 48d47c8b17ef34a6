//! The sending half of a connection: cuts the bytes of its user into records.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

use crate::secure::record::{MAX_PAYLOAD_BYTES, RecordCodec};

/// The most records that one write prepares.
const MAX_RECORDS: usize = 8;
/// The most slices that these records consist of: a header and a payload each.
const MAX_SLICES: usize = 2 * MAX_RECORDS;
/// The size from which a slice has records of its own. The receiver can decode such a record where its payload belongs,
/// and a checked one is sent without a copy. Smaller slices share a record.
const LARGE_BYTES: usize = 4 << 10;
/// The longest record of small slices.
const MAX_SHARED_BYTES: usize = 16 << 10;
/// The most payload that one write checks: so little that it is still in the cache when the system copies it.
const MAX_CHECKED_BYTES: usize = 512 << 10;
/// The same for encrypted payloads, and their longest record: the receiver decrypts a record while the next one is
/// encrypted.
const MAX_ENCRYPTED_BYTES: usize = 128 << 10;
const MAX_ENCRYPTED_RECORD_BYTES: usize = 64 << 10;

/// The sending half of a connection.
///
/// A write prepares records and sends as much of them as the socket takes. It reports the bytes of a record when all of
/// it has been sent, so nothing is left behind when a caller has got rid of all its bytes. As long as a write has not
/// reported bytes, the next one must begin with the same bytes.
pub(super) struct Outgoing {
    codec: RecordCodec,
    // The records that are not sent completely.
    records: VecDeque<PreparedRecord>,
    // The headers of these records, and the payloads of those that are copied.
    buffer: Vec<u8>,
    // The bytes of the first record that were sent, with its header.
    sent: usize,
    // The payload bytes of records that were sent completely and not reported.
    unreported: usize,
}

/// A record that is being sent.
struct PreparedRecord {
    len: usize,
    // The header in the buffer, with the payload if it is copied.
    buffered: Range<usize>,
    is_copied: bool,
}

impl PreparedRecord {
    fn wire_bytes(&self) -> usize {
        self.buffered.len() + if self.is_copied { 0 } else { self.len }
    }
}

impl Outgoing {
    pub(super) fn new(codec: RecordCodec) -> Self {
        Self { codec, records: VecDeque::new(), buffer: Vec::new(), sent: 0, unreported: 0 }
    }

    /// Sends bytes of `slices` by `send`, which writes to the socket. Returns the number of bytes that were sent
    /// completely; 0 only if there are none to send.
    pub(super) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.records.is_empty() {
            self.prepare(slices)?;
        }
        while !self.records.is_empty() {
            let (parts, count) = self.unsent(slices)?;
            match send(&parts[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.unreported > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(std::mem::take(&mut self.unreported))
    }

    /// Prepares records of the first bytes of `slices`.
    fn prepare(&mut self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let is_encrypting = self.codec.is_encrypting();
        let mut room = if is_encrypting { MAX_ENCRYPTED_BYTES } else { MAX_CHECKED_BYTES };
        let max_record = if is_encrypting { MAX_ENCRYPTED_RECORD_BYTES } else { MAX_PAYLOAD_BYTES };
        self.buffer.clear();
        // The start of a record of small slices in the buffer.
        let mut shared: Option<usize> = None;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                // A large slice needs a place in addition to that of the small ones before it.
                let places = self.records.len() + usize::from(shared.is_some());
                if room == 0 || places >= MAX_RECORDS {
                    return self.finish_shared(shared);
                }
                let is_large = rest.len() >= LARGE_BYTES;
                let filled = shared.map_or(0, |start| self.buffer.len() - start - self.codec.header_bytes());
                let limit = if is_large { max_record } else { MAX_SHARED_BYTES - filled };
                let (bytes, tail) = rest.split_at(rest.len().min(limit).min(room));
                room -= bytes.len();
                rest = tail;
                if is_large {
                    self.finish_shared(shared.take())?;
                    self.push_large(bytes)?;
                } else {
                    let start = *shared.get_or_insert(self.buffer.len());
                    self.reserve_header(start);
                    self.buffer.extend_from_slice(bytes);
                    if filled + bytes.len() == MAX_SHARED_BYTES {
                        self.finish_shared(shared.take())?;
                    }
                }
            }
        }
        self.finish_shared(shared)
    }

    /// Appends an empty header for a record that begins at `start`, unless the buffer has it already.
    fn reserve_header(&mut self, start: usize) {
        if self.buffer.len() == start {
            self.buffer.resize(start + self.codec.header_bytes(), 0);
        }
    }

    /// Adds a record of one slice. Encryption needs a copy of it.
    fn push_large(&mut self, bytes: &[u8]) -> io::Result<()> {
        let start = self.buffer.len();
        self.reserve_header(start);
        if self.codec.is_encrypting() {
            self.buffer.extend_from_slice(bytes);
            return self.finish_shared(Some(start));
        }
        self.codec.check(bytes, &mut self.buffer[start..]);
        self.records.push_back(PreparedRecord {
            len: bytes.len(),
            buffered: start..self.buffer.len(),
            is_copied: false,
        });
        Ok(())
    }

    /// Adds the record whose header and payload are the end of the buffer, from `start` on.
    fn finish_shared(&mut self, start: Option<usize>) -> io::Result<()> {
        let Some(start) = start else { return Ok(()) };
        let (header, payload) = self.buffer[start..].split_at_mut(self.codec.header_bytes());
        self.codec.seal(payload, header)?;
        let len = payload.len();
        self.records.push_back(PreparedRecord { len, buffered: start..self.buffer.len(), is_copied: true });
        Ok(())
    }

    /// Returns the bytes of the records that were not sent yet, as slices and their number.
    fn unsent<'a>(&'a self, slices: &'a [IoSlice<'_>]) -> io::Result<([IoSlice<'a>; MAX_SLICES], usize)> {
        let mut parts = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let mut skipped = self.sent;
        let mut push = |bytes: &'a [u8]| {
            let skip = skipped.min(bytes.len());
            skipped -= skip;
            if skip < bytes.len() {
                parts[count] = IoSlice::new(&bytes[skip..]);
                count += 1;
            }
        };
        let mut position = self.unreported;
        for record in &self.records {
            push(&self.buffer[record.buffered.clone()]);
            if !record.is_copied {
                push(bytes_at(slices, position, record.len).ok_or_else(changed)?);
            }
            position += record.len;
        }
        Ok((parts, count))
    }

    /// Records that `count` more bytes were sent.
    fn advance(&mut self, count: usize) {
        self.sent += count;
        while let Some(record) = self.records.front().filter(|record| record.wire_bytes() <= self.sent) {
            self.sent -= record.wire_bytes();
            self.unreported += record.len;
            self.records.pop_front();
        }
    }
}

/// Returns `len` bytes from `position` on in `slices`, which must be in one slice.
fn bytes_at<'a>(slices: &'a [IoSlice<'_>], mut position: usize, len: usize) -> Option<&'a [u8]> {
    for slice in slices {
        if position < slice.len() {
            return slice.get(position..position + len);
        }
        position -= slice.len();
    }
    None
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "a write was repeated with other bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::incoming::{Incoming, Memory};
    use crate::secure::noise::{CIPHER_KEY_BYTES, RecordKeys};
    use crate::secure::protection::Protection;

    fn codec(protection: Protection) -> RecordCodec {
        let keys = RecordKeys { cipher_key: [3; CIPHER_KEY_BYTES], header_seed: 1, payload_seed: 2 };
        RecordCodec::new(&keys, protection).unwrap()
    }

    /// Sends `slices` over a socket that takes `room` bytes at a time and then makes the sender wait. Returns the bytes
    /// on the wire.
    fn send(protection: Protection, slices: &[&[u8]], room: usize) -> Vec<u8> {
        let mut outgoing = Outgoing::new(codec(protection));
        let mut wire = Vec::new();
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut sent = 0;
        while sent < total {
            let mut skip = sent;
            let mut rest = Vec::new();
            for slice in slices {
                let at = skip.min(slice.len());
                skip -= at;
                rest.push(IoSlice::new(&slice[at..]));
            }
            let mut is_ready = true;
            let outcome = outgoing.write(&rest, |parts| {
                if !std::mem::replace(&mut is_ready, false) {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).take(room).collect();
                wire.extend_from_slice(&bytes);
                Ok(bytes.len())
            });
            match outcome {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert!(outgoing.records.is_empty(), "nothing is left behind");
        wire
    }

    /// Receives `len` bytes from the wire, which delivers `room` bytes at a time, into memory of `width` bytes.
    fn receive(protection: Protection, wire: &[u8], len: usize, width: usize, room: usize) -> Vec<u8> {
        let mut incoming = Incoming::new(codec(protection), "a test".to_owned());
        let mut data = vec![0; len];
        let mut received = 0;
        let mut taken = 0;
        while received < len {
            let mut is_ready = true;
            let end = len.min(received + width);
            let outcome = incoming.read(&mut data[received..end], Memory::Stays, |parts| {
                if !std::mem::replace(&mut is_ready, false) {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let mut count = 0;
                for part in parts {
                    let len = part.len().min(room - count).min(wire.len() - taken);
                    part[..len].copy_from_slice(&wire[taken..taken + len]);
                    taken += len;
                    count += len;
                }
                Ok(count)
            });
            match outcome {
                Ok(0) => panic!("the wire ends after {received} of {len} bytes"),
                Ok(count) => received += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        data
    }

    #[test]
    fn slices_of_all_sizes_arrive_over_any_wire() {
        let data: Vec<u8> = (0..700_000_u32).map(|at| (at ^ (at >> 8)) as u8).collect();
        let cuts: [&[usize]; 6] = [
            &[1],
            &[32, 300_000],
            &[16, 5_000, 40, 16, 100, 16, 600_000, 50],
            &[10; 40],
            &[3_000; 30],
            &[4_096, 65_536, 4_095, 262_144, 1],
        ];
        for protection in [Protection::Checked, Protection::Encrypted] {
            for lengths in cuts {
                let mut at = 0;
                let slices: Vec<&[u8]> = lengths
                    .iter()
                    .map(|len| {
                        at += len;
                        &data[at - len..at]
                    })
                    .collect();
                for room in [7_777, usize::MAX / 2] {
                    let wire = send(protection, &slices, room);
                    for width in [32, 50_000, usize::MAX / 2] {
                        let received = receive(protection, &wire, at, width, room);
                        assert!(received == data[..at], "{protection:?}, {lengths:?}, {room}, {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_that_change_between_two_writes_are_refused() {
        let mut outgoing = Outgoing::new(codec(Protection::Checked));
        let large = vec![1; 10_000];
        let wait = |_: &[IoSlice<'_>]| Err(ErrorKind::WouldBlock.into());
        assert_eq!(outgoing.write(&[IoSlice::new(&large)], wait).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(outgoing.write(&[IoSlice::new(b"other")], wait).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
