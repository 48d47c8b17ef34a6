//! The header of a collective. Ranks exchange it before any data, to detect ranks that call different collectives.

use crate::collectives::reduce::{ReduceOp, element_name};

pub(crate) const HEADER_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"EDGC";

/// The kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveKind {
    AllReduce,
    Broadcast,
    AllGather,
    Barrier,
}

/// The description of a collective that a rank is about to run. Neighbors in the ring compare it before each
/// collective. Since the ring is closed, two ranks that differ imply two neighbors that differ, so any mismatch is
/// detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: CollectiveKind,
    pub(crate) op: u8,
    // The number of the element type, which determines its size.
    pub(crate) element: u8,
    pub(crate) root: u32,
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
}

impl CollectiveKind {
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
    /// Creates the header of a collective on `bytes` bytes, without its sequence number.
    pub(crate) fn new(kind: CollectiveKind, element: u8, bytes: usize) -> Self {
        Self { kind, op: 0, element, root: 0, sequence: 0, bytes: bytes as u64 }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..7].copy_from_slice(&[self.kind as u8, self.op, self.element]);
        bytes[8..12].copy_from_slice(&self.root.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// Describes a neighbor's header that differs from this one.
    pub(crate) fn difference(&self, theirs: &[u8]) -> String {
        let Some(header) = Self::decode(theirs) else { return "something unreadable".to_owned() };
        let number = if header.sequence == self.sequence { String::new() } else { format!(" #{}", header.sequence) };
        format!("{}{number}", header.describe())
    }

    /// Describes the collective: "all-reduce(sum) of 28 bytes of f32".
    pub(crate) fn describe(&self) -> String {
        let Self { kind, op, element, root, bytes, .. } = self;
        let element = element_name(*element);
        match kind {
            CollectiveKind::AllReduce => format!("all-reduce({}) of {bytes} bytes of {element}", ReduceOp::name(*op)),
            CollectiveKind::Broadcast => format!("broadcast from {root} of {bytes} bytes of {element}"),
            CollectiveKind::AllGather | CollectiveKind::Barrier => kind.name().to_owned(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        let eight = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes);
        let root = bytes[8..].first_chunk().copied().map(u32::from_le_bytes)?;
        let kind = CollectiveKind::from_code(bytes[4]).filter(|_| bytes[..4] == MAGIC)?;
        Some(Self { kind, op: bytes[5], element: bytes[6], root, sequence: eight(16)?, bytes: eight(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { kind: CollectiveKind::AllReduce, op: 0, element: 1, root: 0, sequence: 7, bytes: 28 };

    #[test]
    fn differences_are_put_in_words() {
        let difference = |theirs: Header| HEADER.difference(&theirs.encode());
        assert_eq!(difference(Header { bytes: 32, ..HEADER }), "all-reduce(sum) of 32 bytes of f32");
        assert_eq!(difference(Header { element: 3, ..HEADER }), "all-reduce(sum) of 28 bytes of u64");
        assert_eq!(difference(Header { kind: CollectiveKind::Barrier, sequence: 8, ..HEADER }), "barrier #8");
        assert_eq!(HEADER.difference(&[0xff; HEADER_BYTES]), "something unreadable");
    }
}
