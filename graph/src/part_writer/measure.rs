//! Quality measures of a partitioning: cut and halo.

use crate::part::{PartMeta, Report};
use std::ops::Range;

/// The in-edges of one part for one edge type. `indptr` has one entry per owned destination plus one, and need not
/// start at 0. `indices` are global ids of sources.
pub struct EdgeSlice<'a> {
    /// The type of the sources.
    pub src_type: usize,
    /// The type of the destinations.
    pub dst_type: usize,
    /// The start of the in-edges of each owned destination, followed by the end of the last one.
    pub indptr: &'a [u64],
    /// The sources of the in-edges.
    pub indices: &'a [u32],
}

impl EdgeSlice<'_> {
    /// Returns the sources of each row.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        let base = self.indptr[0];
        self.indptr.windows(2).map(move |w| &self.indices[(w[0] - base) as usize..(w[1] - base) as usize])
    }
}

/// The measures of the edges of one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartMeasure {
    edges: u64,
    cut_edges: u64,
    halo_nodes: u64,
    rows_with_neighbors: u64,
    sum_of_remote_shares: f64,
}

/// The sizes and the measures of one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPart {
    /// The number of owned nodes of all types.
    pub nodes: u64,
    /// The number of owned training nodes.
    pub train_nodes: u64,
    /// The measures of the edges.
    pub measure: PartMeasure,
}

impl PartMeasure {
    /// Measures a part that owns the global ids `owned` of each node type. `num_nodes` are the sizes of the node types.
    /// Sums are computed in a fixed order, so the result has the same bits on every machine.
    pub fn new(owned: &[Range<usize>], num_nodes: &[usize], edges: &[EdgeSlice]) -> Self {
        let mut measure = Self::default();
        for node_type in 0..owned.len() {
            measure.add_halo(node_type, &owned[node_type], num_nodes[node_type], edges);
            measure.add_rows(node_type, owned, edges);
        }
        measure
    }

    fn add_halo(&mut self, src_type: usize, owned: &Range<usize>, num_nodes: usize, edges: &[EdgeSlice]) {
        // One bit per node of the type marks the sources already counted.
        let mut seen = vec![0_u64; num_nodes.div_ceil(64)];
        for slice in edges.iter().filter(|e| e.src_type == src_type) {
            for node in slice.indices.iter().map(|&i| i as usize).filter(|node| !owned.contains(node)) {
                seen[node / 64] |= 1 << (node % 64);
            }
        }
        self.halo_nodes += seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    }

    fn add_rows(&mut self, dst_type: usize, owned: &[Range<usize>], edges: &[EdgeSlice]) {
        let mut degrees = vec![(0_u64, 0_u64); owned[dst_type].len()];
        for slice in edges.iter().filter(|e| e.dst_type == dst_type) {
            let local = &owned[slice.src_type];
            for (row, (all, remote)) in slice.rows().zip(&mut degrees) {
                *all += row.len() as u64;
                *remote += row.iter().filter(|&&node| !local.contains(&(node as usize))).count() as u64;
            }
        }
        for (all, remote) in degrees.into_iter().filter(|&(all, _)| all > 0) {
            self.edges += all;
            self.cut_edges += remote;
            self.rows_with_neighbors += 1;
            self.sum_of_remote_shares += remote as f64 / all as f64;
        }
    }
}

/// Combines the measures of all parts into a report.
pub fn report(parts: &[MeasuredPart]) -> Report {
    let edges: u64 = parts.iter().map(|part| part.measure.edges).sum();
    let cut_edges = parts.iter().map(|part| part.measure.cut_edges).sum();
    let rows: u64 = parts.iter().map(|part| part.measure.rows_with_neighbors).sum();
    let shares: f64 = parts.iter().map(|part| part.measure.sum_of_remote_shares).sum();
    let line = |part: &MeasuredPart| PartMeta {
        nodes: part.nodes,
        edges: part.measure.edges,
        train_nodes: part.train_nodes,
        halo_nodes: part.measure.halo_nodes,
    };
    Report {
        parts: parts.iter().map(line).collect(),
        cut_edges,
        cut_fraction: fraction(cut_edges as f64, edges),
        remote_neighbor_fraction: fraction(shares, rows),
    }
}

/// Returns `part / whole` rounded to nine decimals, or 0 if `whole` is 0. Such numbers survive every JSON reader bit
/// for bit.
pub fn fraction(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part / whole as f64 * 1e9).round() / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_cut_edges_halo_nodes_and_remote_shares() {
        // The part owns nodes 2 and 3 of 6. Node 2 has neighbors 0, 0 and 3, and node 3 has only itself.
        let edges = [EdgeSlice { src_type: 0, dst_type: 0, indptr: &[7, 10, 11], indices: &[0, 0, 3, 3] }];
        let owned = 2..4;
        let measure = PartMeasure::new(std::slice::from_ref(&owned), &[6], &edges);
        let expected = PartMeasure {
            edges: 4,
            cut_edges: 2,
            halo_nodes: 1,
            rows_with_neighbors: 2,
            sum_of_remote_shares: 2.0 / 3.0,
        };
        assert_eq!(measure, expected);
        let other = MeasuredPart { nodes: 4, ..MeasuredPart::default() };
        let report = report(&[MeasuredPart { nodes: 2, train_nodes: 1, measure }, other]);
        assert_eq!((report.cut_edges, report.cut_fraction), (2, 0.5));
        assert_eq!(report.remote_neighbor_fraction, 0.333_333_333);
    }

    #[test]
    fn a_graph_without_edges_has_no_cut() {
        let report = report(&[MeasuredPart { nodes: 1, ..MeasuredPart::default() }]);
        assert_eq!((report.cut_fraction, report.remote_neighbor_fraction), (0.0, 0.0));
    }
}
