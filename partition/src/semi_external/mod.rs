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

use crate::constraints::Constraints;
use crate::{PartitionError, metis};
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::combine;

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
        let env = |n: &str, d: usize| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
        Self {
            direct: env("DIRECT", 1 << 20),
            clusters: env("CLUSTERS", 4096),
            clusters_per_part: env("CPP", 256),
            pairs: env("PAIRS", (num_nodes / 4).max(1 << 21)),
        }
    }
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
        return metis::split(graph, constraints, num_parts, false, seed, None);
    }
    let t = std::time::Instant::now();
    let wanted = bounds.clusters.max(bounds.clusters_per_part * num_parts as usize);
    let clusters = clustering::cluster(graph, constraints, wanted, combine(seed, 1));
    eprintln!("cluster {:?} n'={}", t.elapsed(), clusters.num);
    let coarse = contraction::contract(graph, constraints, &clusters, bounds.pairs, combine(seed, 2));
    eprintln!(
        "contract {:?} entries={} weight={}",
        t.elapsed(),
        coarse.neighbors.len(),
        coarse.edge_weights.iter().map(|&w| w as u64).sum::<u64>()
    );
    let weighted = metis::Weighted {
        offsets: &coarse.offsets,
        neighbors: &coarse.neighbors,
        edge_weights: Some(&coarse.edge_weights),
    };
    let of_clusters = metis::split_weighted(weighted, &coarse.constraints, num_parts, false, seed, None)?;
    drop(coarse);
    let mut parts = clusters.of;
    parts.iter_mut().for_each(|part| *part = of_clusters[*part as usize]);
    eprintln!("metis {:?} cut={:.4}", t.elapsed(), cut(graph, &parts));
    let parts = refinement::refine(graph, constraints, num_parts, parts, combine(seed, 3));
    eprintln!("refine {:?} cut={:.4}", t.elapsed(), cut(graph, &parts));
    Ok(parts)
}

fn cut(graph: &Groups, parts: &[u32]) -> f64 {
    let mut c = 0;
    for r in 0..graph.num_rows() {
        for &v in graph.row(r) {
            c += u64::from(parts[r] != parts[v as usize]);
        }
    }
    c as f64 / graph.values.len() as f64
}
