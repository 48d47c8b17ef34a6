//! The straightforward way of batching graphs: edge lists that are shifted, concatenated and sorted, and dense rows.

use edgecut_graph::GraphDataset;

/// A graph with its own arrays.
pub(crate) struct PlainGraph {
    num_nodes: u32,
    /// Pairs (source, destination).
    edges: Vec<(u32, u32)>,
    rows: Vec<Vec<f32>>,
}

impl PlainGraph {
    pub(crate) fn of(graphs: &GraphDataset, number: usize) -> Self {
        let graph = graphs.graph(number);
        let into = |node: usize| graph.neighbors(node).iter().map(move |&source| (source, node as u32));
        let edges = (0..graph.num_nodes()).flat_map(into).collect();
        let mut features = Vec::new();
        graphs.append_features(number, &mut features);
        let rows = features.chunks(graphs.feature_dim().max(1)).map(<[f32]>::to_vec).collect();
        Self { num_nodes: graph.num_nodes() as u32, edges, rows }
    }
}

/// Batches graphs. Returns the offsets of the in-edges by destination, the sources of the edges, and the concatenated
/// rows of all nodes.
pub(crate) fn plain_batch(graphs: &[PlainGraph]) -> (Vec<u32>, Vec<u32>, Vec<f32>) {
    let mut edges = Vec::new();
    let mut rows = Vec::new();
    let mut first = 0;
    for graph in graphs {
        edges.extend(graph.edges.iter().map(|&(from, to)| (first + from, first + to)));
        graph.rows.iter().for_each(|row| rows.extend_from_slice(row));
        first += graph.num_nodes;
    }
    edges.sort_by_key(|&(_, to)| to);
    let mut indptr = vec![0; first as usize + 1];
    edges.iter().for_each(|&(_, to)| indptr[to as usize + 1] += 1);
    for node in 0..first as usize {
        indptr[node + 1] += indptr[node];
    }
    (indptr, edges.into_iter().map(|(from, _)| from).collect(), rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_dist_loader::GraphBatch;
    use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};

    #[test]
    fn both_ways_build_the_same() {
        let options = FakeGraphsOptions { num_graphs: 20, ..FakeGraphsOptions::default() };
        let graphs = fake_graphs(&options).expect("graphs").with_degrees_as_labels();
        let list: Vec<PlainGraph> = (0..20).map(|graph| PlainGraph::of(&graphs, graph)).collect();
        let batch = GraphBatch::new(&graphs, (0..20).collect());
        assert_eq!(plain_batch(&list), (batch.indptr, batch.indices, batch.features));
    }
}
