//! Random removal of edges in training.

use edgecut_graph::rng::combine;

/// Separates these random numbers from other users of the seed ("drop edge" in ASCII).
const DROP_EDGE: u64 = 0x6472_6f70_6564_6765;

/// Random removal of edges in training (Rong et al., "DropEdge: Towards deep graph convolutional networks on node
/// classification", ICLR 2020). An epoch lacks the same edges in all batches and layers.
///
/// An edge is removed by the random seed, the epoch and the original ids of its ends, so that the removed edges depend neither
/// on parts nor on batches. Parallel edges are removed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropEdges {
    /// Random numbers below this one remove an edge.
    threshold: u64,
    key: u64,
}

impl DropEdges {
    /// Removes each edge with this probability, which is below 1.
    pub fn new(probability: f64, seed: u64) -> Self {
        // The conversion saturates.
        Self { threshold: (probability * 2.0_f64.powi(64)) as u64, key: combine(DROP_EDGE, seed) }
    }

    /// Returns the removal in an epoch.
    pub fn in_epoch(self, epoch: u64) -> Self {
        Self { key: combine(self.key, epoch), ..self }
    }

    /// Returns true if an edge of a type is removed, given by the original ids of its ends.
    pub fn removes(self, edge_type: usize, src: u64, dst: u64) -> bool {
        let of_type = combine(self.key, edge_type as u64);
        combine(combine(of_type, src), dst) < self.threshold
    }

    /// Removes edges of a type, which are a CSR with a row per destination: its offsets and its sources. Returns the positions of
    /// the edges that are kept. `src_id` and `dst_id` return the original ids of nodes by their numbers.
    pub(crate) fn apply(
        self,
        edge_type: usize,
        (indptr, indices): (&mut [u32], &mut Vec<u32>),
        src_id: impl Fn(u32) -> u64,
        dst_id: impl Fn(u32) -> u64,
    ) -> Vec<u32> {
        let mut kept = Vec::with_capacity(indices.len());
        let mut start = 0;
        for row in 0..indptr.len().saturating_sub(1) {
            let end = indptr[row + 1];
            let dst = dst_id(row as u32);
            kept.extend((start..end).filter(|&edge| !self.removes(edge_type, src_id(indices[edge as usize]), dst)));
            start = end;
            indptr[row + 1] = kept.len() as u32;
        }
        keep_rows(indices, &kept, indices.len());
        kept
    }
}

/// Keeps the values of some edges, whose positions ascend. `values` has as many values for each of `num_edges` edges, or none.
pub(crate) fn keep_rows<T: Copy>(values: &mut Vec<T>, kept: &[u32], num_edges: usize) {
    let width = values.len().checked_div(num_edges).unwrap_or(0);
    for (row, &edge) in kept.iter().enumerate() {
        let start = edge as usize * width;
        values.copy_within(start..start + width, row * width);
    }
    values.truncate(kept.len() * width);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes edges from a graph of edges `s` to `d`, whose nodes have the ids in `order`. Returns the edges that are left.
    fn kept(drop: DropEdges, order: [u64; 6]) -> Vec<(u64, u64)> {
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        let mut values = Vec::new();
        for row in 0..5 {
            for src in 0..6 {
                indices.push(src);
                values.push((10 * order[src as usize] + order[row]) as f32);
            }
            indptr.push(indices.len() as u32);
        }
        let id = |number: u32| order[number as usize];
        let rows = drop.apply(1, (&mut indptr, &mut indices), id, id);
        keep_rows(&mut values, &rows, 30);
        let mut edges = Vec::new();
        for row in 0..5 {
            for edge in indptr[row] as usize..indptr[row + 1] as usize {
                let src = order[indices[edge] as usize];
                edges.push((src, order[row]));
                assert_eq!(values[edge], (10 * src + order[row]) as f32);
            }
        }
        assert_eq!((indices.len(), values.len()), (edges.len(), edges.len()));
        edges.sort_unstable();
        edges
    }

    #[test]
    fn the_removed_edges_depend_on_the_ids_of_their_ends_only() {
        let drop = DropEdges::new(0.5, 7).in_epoch(2);
        // All nodes but the last have in-edges.
        let found = kept(drop, [0, 1, 2, 3, 4, 5]);
        assert_eq!(found, kept(drop, [4, 2, 0, 1, 3, 5]));
        assert!(!found.is_empty() && found.len() < 30);
    }

    fn removed(drop: DropEdges, edge_type: usize, is_reverse: bool) -> Vec<bool> {
        let ends = (0..4000).map(|n| if is_reverse { (n + 1, n) } else { (n, n + 1) });
        ends.map(|(src, dst)| drop.removes(edge_type, src, dst)).collect()
    }

    #[test]
    fn each_epoch_type_and_direction_has_other_edges() {
        let drop = DropEdges::new(0.3, 7);
        let base = removed(drop.in_epoch(0), 0, false);
        let share = base.iter().filter(|removed| **removed).count() as f64 / 4000.0;
        // Five standard deviations.
        assert!((share - 0.3).abs() < 5.0 * (0.3_f64 * 0.7 / 4000.0).sqrt(), "{share}");
        let others = [
            removed(drop.in_epoch(1), 0, false),
            removed(drop.in_epoch(0), 1, false),
            removed(drop.in_epoch(0), 0, true),
        ];
        for other in others {
            let equal = base.iter().zip(&other).filter(|(a, b)| a == b).count() as f64 / 4000.0;
            assert!((equal - 0.58).abs() < 0.05, "{equal}");
        }
    }
}
