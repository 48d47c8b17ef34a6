//! Changes to TCP segments in Ethernet frames, with valid checksums.

use std::ops::Range;

const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_TCP: u8 = 6;
const FLAGS_RST_ACK: u8 = 0x14;
const FLAG_SYN: u8 = 0x02;
const FLAG_ACK: u8 = 0x10;

/// The places of an IPv4 packet with a TCP segment in a frame.
struct Segment {
    ip: usize,
    tcp: usize,
    payload: Range<usize>,
}

impl Segment {
    /// Finds the TCP segment of a frame; `None` if it has none.
    fn of(frame: &[u8]) -> Option<Self> {
        let ip = ETHERNET_BYTES;
        if frame.get(12..14)? != ETHERTYPE_IPV4 || *frame.get(ip + 9)? != PROTOCOL_TCP {
            return None;
        }
        let tcp = ip + usize::from(frame[ip] & 0x0f) * 4;
        let end = ip + usize::from(u16::from_be_bytes([frame[ip + 2], frame[ip + 3]]));
        let payload = tcp + usize::from(*frame.get(tcp + 12)? >> 4) * 4;
        (payload <= end && end <= frame.len()).then_some(Self { ip, tcp, payload: payload..end })
    }

    /// Computes the checksums again.
    fn update_checksums(&self, frame: &mut [u8]) {
        let header = self.ip..self.tcp;
        frame[self.ip + 10..self.ip + 12].fill(0);
        let sum = checksum(frame[header].iter().copied());
        frame[self.ip + 10..self.ip + 12].copy_from_slice(&sum.to_be_bytes());
        frame[self.tcp + 16..self.tcp + 18].fill(0);
        let length = (self.payload.end - self.tcp) as u16;
        let addresses = frame[self.ip + 12..self.ip + 20].iter().copied();
        let pseudo = addresses.chain([0, PROTOCOL_TCP]).chain(length.to_be_bytes());
        let sum = checksum(pseudo.chain(frame[self.tcp..self.payload.end].iter().copied()));
        frame[self.tcp + 16..self.tcp + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns the Internet checksum (RFC 1071) of some bytes.
fn checksum(bytes: impl Iterator<Item = u8>) -> u16 {
    let mut sum = 0_u32;
    for (position, byte) in bytes.enumerate() {
        sum += if position % 2 == 0 { u32::from(byte) << 8 } else { u32::from(byte) };
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the data of the TCP segment of a frame; nothing if it has none.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    Segment::of(frame).map_or(&[], |segment| &frame[segment.payload])
}

/// Returns the ports of a TCP segment with data, and the sequence number after its data.
pub(crate) fn data_end(frame: &[u8]) -> Option<([u8; 4], u32)> {
    let segment = Segment::of(frame).filter(|segment| !segment.payload.is_empty())?;
    let field = |at: usize| -> Option<[u8; 4]> { frame.get(segment.tcp + at..segment.tcp + at + 4)?.try_into().ok() };
    Some((field(0)?, u32::from_be_bytes(field(4)?).wrapping_add(segment.payload.len() as u32)))
}

/// The ports of a TCP segment.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) source: [u8; 2],
    pub(crate) destination: [u8; 2],
    /// True if the segment opens a connection.
    pub(crate) opens: bool,
}

/// Returns the ports of a TCP segment; `None` if the frame has none.
pub(crate) fn ports(frame: &[u8]) -> Option<Ports> {
    let tcp = Segment::of(frame)?.tcp;
    let flags = frame[tcp + 13];
    Some(Ports {
        source: [frame[tcp], frame[tcp + 1]],
        destination: [frame[tcp + 2], frame[tcp + 3]],
        opens: flags & FLAG_SYN != 0 && flags & FLAG_ACK == 0,
    })
}

/// Makes a host the destination of a TCP segment. Hosts differ in the last byte of their addresses only.
pub(crate) fn send_to(frame: &mut [u8], host: usize) {
    let Some(segment) = Segment::of(frame) else { return };
    frame[5] = host as u8;
    frame[segment.ip + 19] = host as u8 + 1;
    segment.update_checksums(frame);
}

/// Makes a host the source of a TCP segment.
pub(crate) fn send_from(frame: &mut [u8], host: usize) {
    let Some(segment) = Segment::of(frame) else { return };
    frame[segment.ip + 15] = host as u8 + 1;
    segment.update_checksums(frame);
}

/// Changes one bit of the data of a TCP segment. Returns false if the frame has no such data.
pub(crate) fn corrupt(frame: &mut [u8]) -> bool {
    let Some(segment) = Segment::of(frame).filter(|segment| !segment.payload.is_empty()) else { return false };
    let middle = segment.payload.start + segment.payload.len() / 2;
    frame[middle] ^= 1;
    segment.update_checksums(frame);
    true
}

/// Makes a TCP segment one that resets its connection. Returns false if the frame has no segment.
pub(crate) fn reset(frame: &mut Vec<u8>) -> bool {
    let Some(mut segment) = Segment::of(frame) else { return false };
    frame.truncate(segment.payload.start);
    segment.payload.end = segment.payload.start;
    frame[segment.tcp + 13] = FLAGS_RST_ACK;
    let length = (segment.payload.end - segment.ip) as u16;
    frame[segment.ip + 2..segment.ip + 4].copy_from_slice(&length.to_be_bytes());
    segment.update_checksums(frame);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment with the data `abcd` and valid checksums.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_BYTES];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
        frame.extend([0x45, 0, 0, 44, 0, 1, 0, 0, 64, PROTOCOL_TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        frame.extend(b"abcd");
        let segment = Segment::of(&frame).unwrap();
        segment.update_checksums(&mut frame);
        frame
    }

    fn is_valid(frame: &[u8]) -> bool {
        let mut copy = frame.to_vec();
        Segment::of(frame).unwrap().update_checksums(&mut copy);
        copy == frame
    }

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        assert_eq!(checksum([0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7].into_iter()), !0xddf2);
    }

    #[test]
    fn changed_segments_have_valid_checksums() {
        let original = frame();
        let mut corrupted = original.clone();
        assert!(corrupt(&mut corrupted) && is_valid(&corrupted));
        assert_eq!(corrupted.iter().zip(&original).filter(|(a, b)| a != b).count(), 2, "a byte and the checksum");
        assert_eq!(data_end(&original), Some(([0x30, 0x39, 0, 80], 5)));
        let mut ended = original.clone();
        assert!(reset(&mut ended) && is_valid(&ended));
        assert_eq!((ended.len(), ended[ETHERNET_BYTES + 20 + 13]), (original.len() - 4, FLAGS_RST_ACK));
    }

    #[test]
    fn segments_with_another_end_have_valid_checksums() {
        let mut frame = frame();
        send_to(&mut frame, 6);
        send_from(&mut frame, 4);
        assert!(is_valid(&frame));
        assert_eq!((frame[5], &frame[26..34]), (6, &[10, 0, 0, 5, 10, 0, 0, 7][..]));
        let ports = ports(&frame).unwrap();
        assert_eq!((ports.source, ports.destination, ports.opens), ([0x30, 0x39], [0, 80], false));
        frame[ETHERNET_BYTES + 20 + 13] = FLAG_SYN;
        assert!(super::ports(&frame).unwrap().opens);
    }

    #[test]
    fn other_frames_are_left_alone() {
        let mut arp = vec![0_u8; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let mut short = frame();
        short.truncate(40);
        for mut frame in [arp, short, Vec::new()] {
            let before = frame.clone();
            assert!(!corrupt(&mut frame) && !reset(&mut frame));
            assert_eq!(frame, before);
        }
    }
}
