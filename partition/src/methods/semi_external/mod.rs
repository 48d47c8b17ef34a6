//! Semi-external multilevel partitioning.
//!
//! Memory grows with the nodes, and edges are only streamed (Akhremtsev, Sanders & Schulz, "(Semi-)External Algorithms for
//! Graph Partitioning and Clustering", 2014). Size-constrained label propagation clusters the nodes, the clusters are
//! contracted to a graph of bounded size, METIS splits this graph, and label propagation over the nodes refines the parts
//! (Meyerhenke, Sanders & Schulz, "Partitioning Complex Networks via Size-Constrained Clustering", 2014).

mod clustering;
mod contraction;
mod ratings;
mod refinement;
mod rounds;
#[cfg(test)]
mod tests;

use crate::methods::constraints::Constraints;
use crate::{PartitionError, methods::metis};
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::combine;
use std::borrow::Cow;

/// The bounds of the graph of clusters.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The number of neighbor entries up to which METIS splits the graph itself.
    direct: usize,
    /// The minimum number of clusters.
    clusters: usize,
    /// The minimum number of clusters per part.
    clusters_per_part: usize,
    /// The maximum number of pairs of adjacent clusters.
    pairs: usize,
}

impl Bounds {
    fn new(num_nodes: usize) -> Self {
        Self { direct: 1 << 20, clusters: 4096, clusters_per_part: 256, pairs: (num_nodes / 4).clamp(1 << 21, 1 << 28) }
    }
}

/// The bytes of METIS per neighbor entry of the graph of clusters, and of making this graph.
const BYTES_PER_ENTRY: u64 = 64;
/// The bytes of the neighbor entries and pairs of clusters that are read at a time.
const BLOCK_BYTES: u64 = 64 << 20;

/// Returns the maximum number of bytes that [`split`] allocates beside the graph and the constraints. It does not grow with
/// the number of edges, except that a graph with few of them has a smaller graph of clusters.
pub(crate) fn memory_bytes(num_nodes: u64, num_neighbors: u64, num_constraints: u64, num_parts: u64) -> u64 {
    let bounds = Bounds::new(num_nodes as usize);
    let entries = num_neighbors.min(2 * bounds.pairs.max(bounds.direct / 2) as u64);
    // Labels, sizes and weights of clusters, and nodes that are alone with their favorites.
    let clustering = num_nodes * (24 + 4 * num_constraints);
    // Contraction and METIS, beside the cluster of each node.
    let coarse = entries * BYTES_PER_ENTRY + num_nodes * 4;
    let loads = num_parts * num_constraints * 8;
    clustering.max(coarse) + loads + BLOCK_BYTES
}

/// Splits the symmetric graph into `num_parts` parts, and returns the part of each node.
///
/// # Errors
/// Returns [`PartitionError::Metis`] if METIS fails on the graph of clusters.
pub(crate) fn split(
    graph: &Groups,
    constraints: &Constraints,
    num_parts: u32,
    seed: u64,
) -> Result<Vec<u32>, PartitionError> {
    split_within(Bounds::new(graph.num_rows()), graph, constraints, num_parts, seed)
}

fn split_within(
    bounds: Bounds,
    graph: &Groups,
    constraints: &Constraints,
    num_parts: u32,
    seed: u64,
) -> Result<Vec<u32>, PartitionError> {
    if graph.values.len() <= bounds.direct {
        return metis::split(graph.into(), constraints, num_parts, false, seed, None);
    }
    let wanted = bounds.clusters.max(bounds.clusters_per_part * num_parts as usize);
    let clusters = clustering::cluster(graph, constraints, wanted, combine(seed, 1));
    let coarse = contraction::contract(graph, constraints, &clusters, bounds.pairs, combine(seed, 2));
    let weighted = metis::Weighted {
        offsets: &coarse.offsets,
        neighbors: Cow::Borrowed(&coarse.neighbors),
        edge_weights: Some(&coarse.edge_weights),
    };
    let of_clusters = metis::split(weighted, &coarse.constraints, num_parts, false, seed, None)?;
    drop(coarse);
    let mut parts = clusters.of;
    parts.iter_mut().for_each(|part| *part = of_clusters[*part as usize]);
    let parts = refinement::refine(graph, constraints, num_parts, parts, combine(seed, 3));
    Ok(parts)
}
