//! Lookups of in-neighbors that avoid scanning the whole list of a node with a high in-degree.

use edgecut_graph::Csc;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The in-degree from which a node is a hub. Scanning fewer neighbors takes less than 100 ns.
const MIN_HUB_DEGREE: usize = 512;
/// The number of scans of a hub before its neighbors are sorted. Sorting takes about as long as these scans.
const SCANS_PER_SORT: u64 = 64;

/// The remaining memory for sorted copies, in bytes, shared by all edge types of a process.
pub(crate) struct HubBudget(AtomicUsize);

impl HubBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// Sorted copies of the in-neighbors of the hubs of one edge type.
///
/// In-neighbors are stored in the order of the edge list, so a plain lookup scans them. The copy of a hub is made once
/// its scans have taken as long as sorting, so all lookups together take at most twice the time of the better choice.
/// Hubs that exceed the budget are always scanned.
pub(crate) struct HubIndex {
    hubs: RwLock<FxHashMap<u32, Arc<Hub>>>,
    budget: Arc<HubBudget>,
}

#[derive(Default)]
struct Hub {
    scans: AtomicU64,
    /// `None` if the copy would have exceeded the budget.
    sorted: OnceLock<Option<Box<[u32]>>>,
}

impl HubIndex {
    pub(crate) fn new(budget: Arc<HubBudget>) -> Self {
        Self { hubs: RwLock::default(), budget }
    }

    /// Returns whether `src` is among the in-neighbors of `row`, which must be in range.
    pub(crate) fn contains(&self, csc: &Csc, row: u32, src: u32) -> bool {
        let neighbors = csc.neighbors(row as usize);
        if neighbors.len() < MIN_HUB_DEGREE {
            return neighbors.contains(&src);
        }
        let hub = self.hub(row);
        let sorted = match hub.sorted.get() {
            Some(sorted) => sorted.as_deref(),
            None if hub.scans.fetch_add(1, Ordering::Relaxed) < SCANS_PER_SORT => None,
            None => hub.sorted.get_or_init(|| self.sort(neighbors)).as_deref(),
        };
        match sorted {
            Some(sorted) => sorted.binary_search(&src).is_ok(),
            None => neighbors.contains(&src),
        }
    }

    fn hub(&self, row: u32) -> Arc<Hub> {
        // Almost all lookups find the entry, so they take the shared lock only.
        if let Some(hub) = self.hubs.read().unwrap_or_else(PoisonError::into_inner).get(&row) {
            return hub.clone();
        }
        self.hubs.write().unwrap_or_else(PoisonError::into_inner).entry(row).or_default().clone()
    }

    fn sort(&self, neighbors: &[u32]) -> Option<Box<[u32]>> {
        self.budget.take(size_of_val(neighbors)).then(|| {
            let mut sorted: Box<[u32]> = neighbors.into();
            sorted.sort_unstable();
            sorted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a node without neighbors, a hub with even neighbors in descending order, each twice, and a small node.
    fn csc() -> Csc {
        let hub: Vec<u32> = (0..MIN_HUB_DEGREE as u32).rev().flat_map(|i| [2 * i, 2 * i]).collect();
        let end = hub.len() as u64;
        let indices: Vec<u32> = hub.into_iter().chain([5, 3]).collect();
        Csc::new(vec![0, 0, end, end + 2].into(), indices.into(), 2 * MIN_HUB_DEGREE).unwrap()
    }

    fn sorted_hubs(index: &HubIndex) -> usize {
        let hubs = index.hubs.read().unwrap();
        hubs.values().filter(|hub| matches!(hub.sorted.get(), Some(Some(_)))).count()
    }

    #[test]
    fn lookups_find_the_same_before_and_after_sorting_and_without_room_for_it() {
        let csc = csc();
        let hub_bytes = csc.degree(1) * size_of::<u32>();
        for (budget, expected_hubs) in [(hub_bytes, 1), (hub_bytes - 1, 0)] {
            let index = HubIndex::new(Arc::new(HubBudget::new(budget)));
            for _ in 0..3 {
                for row in 0..3 {
                    for src in 0..2 * MIN_HUB_DEGREE as u32 {
                        let expected = csc.neighbors(row as usize).contains(&src);
                        assert_eq!(index.contains(&csc, row, src), expected, "{src} into {row}");
                    }
                }
            }
            assert_eq!(sorted_hubs(&index), expected_hubs);
            assert_eq!(index.hubs.read().unwrap().len(), 1, "only the hub has an entry");
        }
    }

    #[test]
    fn threads_share_the_index() {
        let csc = csc();
        let index = HubIndex::new(Arc::new(HubBudget::new(1 << 20)));
        std::thread::scope(|scope| {
            for start in 0..4 {
                let csc = &csc;
                let index = &index;
                scope.spawn(move || {
                    for src in start..2 * MIN_HUB_DEGREE as u32 {
                        assert_eq!(index.contains(csc, 1, src), src.is_multiple_of(2));
                    }
                });
            }
        });
        assert_eq!(sorted_hubs(&index), 1);
        assert_eq!(index.budget.0.load(Ordering::Relaxed), (1 << 20) - csc.degree(1) * size_of::<u32>());
    }
}
