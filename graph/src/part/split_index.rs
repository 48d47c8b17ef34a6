//! The positions of the labeled edges of a split, without a list of them.

use crate::dataset::{EdgeLabels, Split};

/// The edges between two counts.
const BLOCK: usize = 4096;

/// The number of edges of each split before every 4096th edge. It finds an edge of a split by its rank, with one search and
/// a scan of a few thousand bytes, and takes much less memory than lists of the edges would.
#[derive(Clone, Debug, Default)]
pub struct SplitIndex {
    /// By split: the number of its edges before each block, and then the number of all of them.
    before: [Vec<u64>; 3],
}

impl SplitIndex {
    /// Counts the edges of each split.
    pub(super) fn new(labels: Option<&EdgeLabels>) -> Self {
        let Some(labels) = labels else { return Self::default() };
        let mut before = [vec![0], vec![0], vec![0]];
        for block in labels.splits.chunks(BLOCK) {
            for (split, counts) in Split::ALL.into_iter().zip(&mut before) {
                let in_block = block.iter().filter(|&&code| code == split.code()).count() as u64;
                counts.push(counts.last().copied().unwrap_or_default() + in_block);
            }
        }
        Self { before }
    }

    /// Returns the number of edges of a split.
    pub fn len(&self, split: Split) -> usize {
        self.before[split.index()].last().copied().unwrap_or_default() as usize
    }

    /// Returns the number of edges of a split among the first `end` edges of `labels`, for which the index was made.
    pub fn len_below(&self, labels: &EdgeLabels, split: Split, end: usize) -> usize {
        let start = end / BLOCK * BLOCK;
        let before = self.before[split.index()][end / BLOCK] as usize;
        before + labels.splits[start..end].iter().filter(|&&code| code == split.code()).count()
    }

    /// Returns the position of the edge of a split that has `rank` edges of the split before it. `labels` are the labels for
    /// which the index was made. Returns the number of all edges if there is no such edge.
    pub fn position(&self, labels: &EdgeLabels, split: Split, rank: usize) -> usize {
        let before = &self.before[split.index()];
        let block = before.partition_point(|&count| count <= rank as u64).saturating_sub(1);
        let start = block * BLOCK;
        let codes = labels.splits.get(start..).unwrap_or_default();
        let skipped = rank - before[block] as usize;
        let mut of_split =
            codes.iter().enumerate().filter(|&(_, &code)| code == split.code()).map(|(at, _)| start + at);
        of_split.nth(skipped).unwrap_or(labels.splits.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{EdgeLabelValues, NO_SPLIT};

    #[test]
    fn ranks_and_positions_are_inverse() {
        let codes: Vec<u8> = (0..3 * BLOCK + 17).map(|at| [0, NO_SPLIT, 1, 0, 2][(at * at / 7) % 5]).collect();
        for codes in [codes.clone(), codes[..2 * BLOCK].to_vec(), codes[..1].to_vec(), Vec::new()] {
            let of_edges = vec![0; codes.len()].into();
            let values = EdgeLabelValues::Classes { of_edges, num_classes: 1 };
            let labels = EdgeLabels { values, splits: codes.clone().into() };
            let index = SplitIndex::new(Some(&labels));
            for split in Split::ALL {
                let expected: Vec<usize> = (0..codes.len()).filter(|&at| codes[at] == split.code()).collect();
                assert_eq!(index.len(split), expected.len());
                let found: Vec<usize> = (0..expected.len()).map(|rank| index.position(&labels, split, rank)).collect();
                assert_eq!(found, expected);
                assert_eq!(
                    index.len_below(&labels, split, codes.len() / 3),
                    expected.partition_point(|&at| at < codes.len() / 3)
                );
                assert_eq!(index.len_below(&labels, split, codes.len()), expected.len());
            }
        }
    }
}
