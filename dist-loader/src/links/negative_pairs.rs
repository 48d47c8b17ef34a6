//! Negatives that are listed as pairs of nodes.

use edgecut_graph::EdgeTypeId;
use edgecut_graph::rng::CounterRng;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The negative destinations of sources. Both ends are original ids, so that the pairs do not depend on the partitioning.
///
/// Invariant: `sources` and the destinations of each source ascend and are distinct. `offsets` has `sources.len() + 1` entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NegativePairs {
    sources: Vec<u32>,
    offsets: Vec<usize>,
    destinations: Vec<u32>,
}

impl NegativePairs {
    /// Collects pairs of a source and a destination. A pair that is given twice counts once.
    pub fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut sources = Vec::new();
        let mut offsets = Vec::new();
        let mut destinations = Vec::with_capacity(pairs.len());
        for (source, destination) in pairs {
            if sources.last() != Some(&source) {
                sources.push(source);
                offsets.push(destinations.len());
            }
            destinations.push(destination);
        }
        offsets.push(destinations.len());
        Self { sources, offsets, destinations }
    }

    /// Returns the destinations of a source, ascending.
    pub fn of_source(&self, source: u32) -> &[u32] {
        match self.sources.binary_search(&source) {
            Ok(at) => &self.destinations[self.offsets[at]..self.offsets[at + 1]],
            Err(_) => &[],
        }
    }

    /// Returns at most `num` destinations of a source by chance, without `excluded`.
    pub(super) fn choose(&self, source: u32, excluded: u32, num: usize, rng: &mut CounterRng) -> Vec<u32> {
        let all = self.of_source(source);
        let own = all.binary_search(&excluded);
        let positions = choose_positions(all.len() - usize::from(own.is_ok()), num, rng);
        let mut chosen = Vec::with_capacity(positions.len());
        for position in positions {
            let is_behind = own.is_ok_and(|own| position >= own);
            chosen.push(all[position + usize::from(is_behind)]);
        }
        chosen
    }
}

/// Negatives that change between epochs, by predicted edge type. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ChangingNegatives(Arc<Mutex<BTreeMap<EdgeTypeId, Arc<NegativePairs>>>>);

impl ChangingNegatives {
    /// Replaces the negatives of an edge type. Batches that are made already keep theirs.
    pub fn set(&self, edge_type: EdgeTypeId, pairs: NegativePairs) {
        self.lock().insert(edge_type, Arc::new(pairs));
    }

    /// Returns the negatives of an edge type; `None` before the first ones are set.
    pub fn get(&self, edge_type: EdgeTypeId) -> Option<Arc<NegativePairs>> {
        self.lock().get(&edge_type).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<EdgeTypeId, Arc<NegativePairs>>> {
        // A panic between two changes of the map leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `num` different positions below `len` in random order, or all of them if there are fewer (Fisher-Yates, without
/// the positions that stay in place).
pub(super) fn choose_positions(len: usize, num: usize, rng: &mut CounterRng) -> Vec<usize> {
    let mut moved: FxHashMap<usize, usize> = FxHashMap::default();
    let mut chosen = Vec::with_capacity(len.min(num));
    for first in 0..len.min(num) {
        let other = first + rng.below((len - first) as u64) as usize;
        let at_first = moved.get(&first).copied().unwrap_or(first);
        chosen.push(moved.insert(other, at_first).unwrap_or(other));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn positions_are_those_of_a_shuffled_list() {
        for len in [0, 1, 2, 5, 40] {
            for num in [0, 1, 3, 40, 50] {
                let mut list: Vec<usize> = (0..len).collect();
                let mut rng = CounterRng::new(7);
                for first in 0..len.min(num) {
                    list.swap(first, first + rng.below((len - first) as u64) as usize);
                }
                list.truncate(num);
                assert_eq!(choose_positions(len, num, &mut CounterRng::new(7)), list, "{num} of {len}");
            }
        }
    }

    #[test]
    fn the_excluded_destination_is_never_chosen() {
        let pairs = NegativePairs::new((0..6).map(|destination| (1, 10 * destination)).collect());
        for excluded in [0, 20, 50, 55] {
            let mut found = BTreeSet::new();
            for key in 0..60 {
                let chosen = pairs.choose(1, excluded, 2, &mut CounterRng::new(key));
                assert_eq!(chosen.len(), 2);
                found.extend(chosen);
            }
            let expected: BTreeSet<u32> =
                (0..6).map(|n| 10 * n).filter(|&destination| destination != excluded).collect();
            assert_eq!(found, expected, "without {excluded}");
            assert_eq!(pairs.choose(1, excluded, 99, &mut CounterRng::new(3)).len(), expected.len());
        }
        assert!(pairs.choose(2, 0, 3, &mut CounterRng::new(0)).is_empty());
    }
}
