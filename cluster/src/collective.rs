//! What the collectives say to each other before any data: the header that finds ranks that disagree.

use std::ops::Range;

use crate::pump::{Flow, Incoming};
use crate::reduce::{ReduceOp, element_name};
use crate::ring::{Action, Step};

pub(crate) const HEADER_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"EDGC";

/// The kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce,
    Broadcast,
    AllGather,
    Barrier,
}

/// What one rank is about to do. Neighbors exchange it before each collective, and since the ring is closed, ranks
/// that differ anywhere are found by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) op: u8,
    // The number of the element type, which implies the width.
    pub(crate) element: u8,
    pub(crate) root: u32,
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
}

/// The two stages of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Header,
    Data,
}

impl Kind {
    fn from_code(code: u8) -> Option<Self> {
        [Self::AllReduce, Self::Broadcast, Self::AllGather, Self::Barrier].into_iter().find(|kind| *kind as u8 == code)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all-gather",
            Self::Barrier => "barrier",
        }
    }
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..7].copy_from_slice(&[self.kind as u8, self.op, self.element]);
        bytes[8..12].copy_from_slice(&self.root.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// What a neighbor's header says, in words, if it is not this one.
    pub(crate) fn difference(&self, theirs: &[u8]) -> Option<String> {
        if theirs == self.encode() {
            return None;
        }
        let described = Self::decode(theirs).map(|header| {
            let number =
                if header.sequence == self.sequence { String::new() } else { format!(" #{}", header.sequence) };
            format!("{}{number}", header.describe())
        });
        Some(described.unwrap_or_else(|| "something unreadable".to_owned()))
    }

    /// The collective in words: "all-reduce(sum) of 28 bytes of f32".
    pub(crate) fn describe(&self) -> String {
        let Self { kind, op, element, root, bytes, .. } = self;
        let element = element_name(*element);
        match kind {
            Kind::AllReduce => format!("all-reduce({}) of {bytes} bytes of {element}", ReduceOp::name(*op)),
            Kind::Broadcast => format!("broadcast from {root} of {bytes} bytes of {element}"),
            Kind::AllGather | Kind::Barrier => kind.name().to_owned(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        let eight = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes);
        let root = bytes[8..].first_chunk().copied().map(u32::from_le_bytes)?;
        let kind = Kind::from_code(bytes[4]).filter(|_| bytes[..4] == MAGIC)?;
        Some(Self { kind, op: bytes[5], element: bytes[6], root, sequence: eight(16)?, bytes: eight(24)? })
    }
}

impl Flow {
    /// Exchanges headers: the own one lies in front of the buffer, the neighbor's comes behind it.
    pub(crate) fn exchange_headers() -> Self {
        Self {
            incoming: vec![Incoming { range: HEADER_BYTES..2 * HEADER_BYTES, action: Action::Replace }],
            outgoing: std::iter::once(0..HEADER_BYTES).collect(),
            head_start: HEADER_BYTES,
        }
    }

    /// Executes the steps of a plan whose chunks lie at `chunk` in the buffer, in bytes.
    pub(crate) fn of_plan(steps: &[Step], chunk: impl Fn(usize) -> Range<usize>) -> Self {
        let incoming =
            steps.iter().map(|step| Incoming { range: chunk(step.recv_chunk), action: step.action }).collect();
        let outgoing: Vec<_> = steps.iter().map(|step| chunk(step.send_chunk)).collect();
        let head_start = outgoing.first().map_or(0, Range::len);
        Self { incoming, outgoing, head_start }
    }

    /// Passes `bytes` bytes down the ring, from the root to its left neighbor. `distance` is that from the root.
    pub(crate) fn of_broadcast(bytes: usize, distance: usize, size: usize) -> Self {
        let all = 0..bytes;
        let (is_root, is_last) = (distance == 0, distance + 1 == size);
        let incoming = if is_root { vec![] } else { vec![Incoming { range: all.clone(), action: Action::Replace }] };
        let outgoing = if is_last { vec![] } else { vec![all] };
        Self { incoming, outgoing, head_start: if is_root { bytes } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { kind: Kind::AllReduce, op: 0, element: 1, root: 0, sequence: 7, bytes: 28 };

    #[test]
    fn equal_headers_do_not_differ() {
        assert_eq!(HEADER.difference(&HEADER.encode()), None);
    }

    #[test]
    fn differences_are_put_in_words() {
        let difference = |theirs: Header| HEADER.difference(&theirs.encode()).unwrap();
        assert_eq!(difference(Header { bytes: 32, ..HEADER }), "all-reduce(sum) of 32 bytes of f32");
        assert_eq!(difference(Header { element: 3, ..HEADER }), "all-reduce(sum) of 28 bytes of u64");
        assert_eq!(difference(Header { kind: Kind::Barrier, sequence: 8, ..HEADER }), "barrier #8");
        assert_eq!(HEADER.difference(&[0xff; HEADER_BYTES]).unwrap(), "something unreadable");
    }

    #[test]
    fn a_broadcast_is_a_chain() {
        let root = Flow::of_broadcast(9, 0, 3);
        assert_eq!((root.incoming.len(), root.outgoing.len(), root.head_start), (0, 1, 9));
        let middle = Flow::of_broadcast(9, 1, 3);
        assert_eq!((middle.incoming.len(), middle.outgoing.len(), middle.head_start), (1, 1, 0));
        let last = Flow::of_broadcast(9, 2, 3);
        assert_eq!((last.incoming.len(), last.outgoing.len(), last.head_start), (1, 0, 0));
    }
}
