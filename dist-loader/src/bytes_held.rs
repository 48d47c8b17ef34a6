//! Sizes of arrays in memory.

use edgecut_dist_sampler::SampledSubgraph;

/// Returns the bytes of memory that a vector holds, including unused capacity.
pub(crate) fn bytes_held<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}

/// Returns the bytes of memory that a neighborhood holds.
pub(crate) fn bytes_of_neighborhood(subgraph: &SampledSubgraph) -> usize {
    let nodes = subgraph.nodes.iter().map(|nodes| bytes_held(&nodes.ids) + bytes_held(&nodes.batch));
    let of_edges = subgraph.edges.iter();
    let edges =
        of_edges.map(|edges| bytes_held(&edges.indptr) + bytes_held(&edges.indices) + bytes_held(&edges.positions));
    nodes.sum::<usize>() + edges.sum::<usize>()
}
