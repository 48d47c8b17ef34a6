//! The edges that an update removes.

use crate::update::RemovedCounts;
use crate::update::numbers::KnownNumbers;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The removed edges of a type.
pub(super) struct Removals {
    /// The listed pairs of global ids, each with its position in the list. If the pairs have no direction, the smaller id is the first one.
    listed: HashMap<[u32; 2], usize>,
    both_directions: bool,
    /// The listed pairs, as original ids.
    pairs: Vec<[u32; 2]>,
    /// True for each listed pair that an edge joins.
    is_met: Vec<AtomicBool>,
    num_listed: AtomicU64,
    num_with_nodes: AtomicU64,
}

impl Removals {
    pub(super) fn new(pairs: &[[u32; 2]], both_directions: bool, [src, dst]: [&KnownNumbers; 2]) -> Self {
        let sources = src.globals_of(pairs.iter().map(|pair| pair[0]).collect());
        let destinations = dst.globals_of(pairs.iter().map(|pair| pair[1]).collect());
        let mut removals = Self {
            listed: HashMap::new(),
            both_directions,
            pairs: Vec::new(),
            is_met: Vec::new(),
            num_listed: AtomicU64::new(0),
            num_with_nodes: AtomicU64::new(0),
        };
        for &pair in pairs {
            let key = removals.key([sources.get(pair[0]), destinations.get(pair[1])]);
            if !removals.listed.contains_key(&key) {
                removals.listed.insert(key, removals.pairs.len());
                removals.pairs.push(pair);
                removals.is_met.push(AtomicBool::new(false));
            }
        }
        removals
    }

    /// Returns the key of a pair in `listed`.
    fn key(&self, mut pair: [u32; 2]) -> [u32; 2] {
        if self.both_directions {
            pair.sort_unstable();
        }
        pair
    }

    pub(super) fn removes_nothing(&self, ends: [&KnownNumbers; 2]) -> bool {
        self.listed.is_empty() && ends.iter().all(|end| end.keeps_all())
    }

    /// Returns true for a known edge that is removed.
    pub(super) fn is_removed(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) -> bool {
        ends[0].is_removed(pair[0])
            || ends[1].is_removed(pair[1])
            || !self.listed.is_empty() && self.listed.contains_key(&self.key(pair))
    }

    /// Counts a known edge that is removed.
    pub(super) fn count(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) {
        if let Some(&at) = self.listed.get(&self.key(pair)) {
            self.is_met[at].store(true, Ordering::Relaxed);
            self.num_listed.fetch_add(1, Ordering::Relaxed);
        } else if ends[0].is_removed(pair[0]) || ends[1].is_removed(pair[1]) {
            self.num_with_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true for a known edge that is removed, and counts it.
    pub(super) fn removes(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) -> bool {
        let is_removed = self.is_removed(ends, pair);
        if is_removed {
            self.count(ends, pair);
        }
        is_removed
    }

    pub(super) fn counts(&self) -> RemovedCounts {
        let unmatched = self.is_met.iter().zip(&self.pairs).filter(|(is_met, _)| !is_met.load(Ordering::Relaxed));
        RemovedCounts {
            listed: self.num_listed.load(Ordering::Relaxed),
            with_nodes: self.num_with_nodes.load(Ordering::Relaxed),
            first_unmatched: unmatched.clone().next().map(|(_, &pair)| pair),
            num_unmatched: unmatched.count() as u64,
        }
    }
}
