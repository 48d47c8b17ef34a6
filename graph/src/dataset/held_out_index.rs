//! An index for looking up edges among the held-out ones.

use super::EdgeList;
use super::directions::pack;
use crate::parallel;
use rayon::slice::ParallelSliceMut;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// The minimum number of filter bits per held-out edge. About one in sixteen lookups of other edges passes the filter.
const FILTER_BITS_PER_EDGE: usize = 16;
/// Mark of a held-out edge that is also a training edge.
pub(super) const SAME: u8 = 1;
/// Mark of a held-out edge whose reverse is a training edge of the same type.
pub(super) const MIRRORED: u8 = 2;
/// Mark of a held-out edge whose reverse is a training edge of the declared reverse type.
pub(super) const IN_REVERSE_TYPE: u8 = 4;
/// Mark of the first held-out edge of a pair of nodes that a training edge joins at another time.
const AT_OTHER_TIME: u8 = 8;
/// Mark of a held-out edge whose reverse is a training edge of another type in the opposite direction.
pub(super) const IN_OPPOSITE_TYPE: u8 = 16;

/// The held-out edges of one type, for lookups from many threads. It takes 27 to 29 bytes per held-out edge, regardless
/// of the number of training edges.
///
/// If held-out and training edges have times, two edges are the same only if their ends and times are equal. Later
/// interactions of the same two nodes are separate edges.
pub(super) struct HeldOutIndex {
    /// A Bloom filter with one hash function over the pairs of nodes. Its length is a power of two.
    filter: Vec<u64>,
    /// The edges, sorted by pair, time and split.
    edges: Vec<IndexedEdge>,
    /// The marks of each edge in `edges`.
    found: Vec<AtomicU8>,
    /// True if times distinguish edges.
    timed: bool,
}

/// A held-out edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IndexedEdge {
    pair: u64,
    /// The time, or 0 if times do not distinguish edges.
    time: i64,
    /// 0 for validation, 1 for test.
    split: u8,
}

/// An edge to look up.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) time: Option<i64>,
}

impl Candidate {
    /// Returns the edge with source and destination swapped.
    pub(super) fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, time: self.time }
    }
}

impl HeldOutIndex {
    /// Indexes validation and test edges, each given in any number of lists. `timed` says if the edges to look up have
    /// times.
    pub(super) fn new(lists: &[Vec<&EdgeList>; 2], timed: bool) -> Self {
        let all = || lists.iter().flatten().filter(|list| !list.is_empty());
        let timed = timed && all().all(|list| list.times.is_some());
        let mut edges = Vec::with_capacity(all().map(|list| list.len()).sum());
        for (split, lists) in lists.iter().enumerate() {
            for list in lists {
                let times = list.times.as_deref().filter(|_| timed);
                let edge = |at: usize| IndexedEdge {
                    pair: pack(list.src[at], list.dst[at]),
                    time: times.map_or(0, |times| times[at]),
                    split: split as u8,
                };
                edges.extend(parallel::filter_map(list.len(), |at| Some(edge(at))));
            }
        }
        edges.par_sort_unstable();
        let words = (edges.len() * FILTER_BITS_PER_EDGE).div_ceil(64).next_power_of_two();
        let mut index =
            Self { filter: vec![0; words], found: edges.iter().map(|_| AtomicU8::new(0)).collect(), edges, timed };
        for at in 0..index.edges.len() {
            let (word, bit) = index.filter_bit(index.edges[at].pair);
            index.filter[word] |= bit;
        }
        index
    }

    pub(super) fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Returns the number of held-out edges.
    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Returns the word and the bit of a pair in the filter.
    fn filter_bit(&self, pair: u64) -> (usize, u64) {
        // Multiplicative hashing by the golden ratio.
        let hash = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper bits of the product depend on all bits of the pair.
        let at = (hash >> 20) as usize % (self.filter.len() * 64);
        (at / 64, 1 << (at % 64))
    }

    /// Finds the edges that equal `candidate`, and the first edge of its pair of nodes. A candidate without a time
    /// equals all edges between its ends.
    fn find(&self, candidate: Candidate) -> Option<Found> {
        let pair = pack(candidate.src, candidate.dst);
        let (word, bit) = self.filter_bit(pair);
        // Most training edges are not held out, so the filter spares them the binary search and its cache misses.
        if self.filter[word] & bit == 0 {
            return None;
        }
        let first_of_pair = self.edges.partition_point(|edge| edge.pair < pair);
        if self.edges.get(first_of_pair).is_none_or(|edge| edge.pair != pair) {
            return None;
        }
        let rest = &self.edges[first_of_pair..];
        let (start, end) = match candidate.time.filter(|_| self.timed) {
            Some(time) => (
                rest.partition_point(|edge| (edge.pair, edge.time) < (pair, time)),
                rest.partition_point(|edge| (edge.pair, edge.time) <= (pair, time)),
            ),
            None => (0, rest.partition_point(|edge| edge.pair == pair)),
        };
        Some(Found { first_of_pair, same: first_of_pair + start..first_of_pair + end })
    }

    /// Returns true if `candidate` is held out.
    pub(super) fn contains(&self, candidate: Candidate) -> bool {
        self.find(candidate).is_some_and(|found| !found.same.is_empty())
    }

    /// Returns true if `candidate` is a test edge.
    pub(super) fn is_test_edge(&self, candidate: Candidate) -> bool {
        // Equal edges are sorted by split, so a test edge is the last of them.
        self.find(candidate).is_some_and(|found| self.edges[found.same].last().is_some_and(|edge| edge.split == 1))
    }

    /// Sets the mark `what`, one of `SAME`, `MIRRORED`, `IN_REVERSE_TYPE` and `IN_OPPOSITE_TYPE`, on the held-out edges that
    /// equal `candidate`.
    pub(super) fn mark(&self, candidate: Candidate, what: u8) {
        let Some(found) = self.find(candidate) else { return };
        let is_marked = |at: usize| self.found[at].load(Ordering::Relaxed) & what != 0;
        // Many training edges may equal many held-out ones, so a range that is already marked is skipped. Marks are set
        // in ascending order, so a marked first and last edge mean that a thread has marked the whole range.
        if !found.same.clone().next().is_some_and(is_marked) || !found.same.clone().next_back().is_some_and(is_marked) {
            for at in found.same.clone() {
                self.found[at].fetch_or(what, Ordering::Relaxed);
            }
        }
        if found.same.is_empty() && what == SAME {
            self.found[found.first_of_pair].fetch_or(AT_OTHER_TIME, Ordering::Relaxed);
        }
    }

    /// Counts the validation and test edges with the mark `what`.
    pub(super) fn marked(&self, what: u8) -> [u64; 2] {
        let mut counts = [0, 0];
        for (edge, found) in self.edges.iter().zip(&self.found) {
            if found.load(Ordering::Relaxed) & what != 0 {
                counts[usize::from(edge.split)] += 1;
            }
        }
        counts
    }

    /// Counts the validation and test edges with the mark `what`, and removes the mark.
    pub(super) fn take_marked(&self, what: u8) -> [u64; 2] {
        let counts = self.marked(what);
        for found in &self.found {
            found.fetch_and(!what, Ordering::Relaxed);
        }
        counts
    }

    /// Counts the validation and test edges whose ends are joined by training edges, but only at other times.
    pub(super) fn at_other_times(&self) -> [u64; 2] {
        let mut counts = [0, 0];
        let mut at = 0;
        for of_pair in self.edges.chunk_by(|a, b| a.pair == b.pair) {
            let found = &self.found[at..at + of_pair.len()];
            // The mark is on the first edge of a pair, and applies to all of its edges that are not training edges.
            if found[0].load(Ordering::Relaxed) & AT_OTHER_TIME != 0 {
                for (edge, found) in of_pair.iter().zip(found) {
                    counts[usize::from(edge.split)] += u64::from(found.load(Ordering::Relaxed) & SAME == 0);
                }
            }
            at += of_pair.len();
        }
        counts
    }

    /// Counts the validation edges that are also test edges, and those whose reverse is a test edge.
    pub(super) fn valid_in_test(&self) -> [u64; 2] {
        let valid = |at: usize| {
            let edge = self.edges[at];
            let candidate = Candidate { src: (edge.pair >> 32) as u32, dst: edge.pair as u32, time: Some(edge.time) };
            (edge.split == 0).then_some(candidate)
        };
        let mirrored = |edge: Candidate| edge.src != edge.dst && self.is_test_edge(edge.reversed());
        let num_edges = self.edges.len();
        [
            parallel::count(num_edges, |at| valid(at).is_some_and(|edge| self.is_test_edge(edge))) as u64,
            parallel::count(num_edges, |at| valid(at).is_some_and(mirrored)) as u64,
        ]
    }
}

/// The positions in the index that match a looked-up edge.
struct Found {
    first_of_pair: usize,
    /// The edges that equal the candidate, empty if only the nodes match.
    same: Range<usize>,
}
