//! Synthetic graphs with communities, hubs, and features that a graph neural network can learn from.

use super::attributes::{DrawnEdges, EndNodes, edge_attributes, node_times};
use super::nodes::{classes, features, splits, weights};
use super::options::{FakeOptions, Stream};
use super::weighted_nodes::WeightedNodes;
use crate::dataset::{Dataset, NodeData};
use crate::memory::Buffer;
use crate::rng::CounterRng;
use crate::{DEFAULT_NODE_TYPE, GraphError, parallel};

/// The name for which [`load`](crate::readers::load) generates a graph.
pub(in crate::readers) const FAKE_NAME: &str = "fake";

/// The number of edges that one task draws.
const EDGES_PER_TASK: usize = 1024;
/// The number of attempts to draw an edge that is not a self loop.
const MAX_TRIES: usize = 16;

/// Generates a graph by a degree-corrected stochastic block model (Karrer and Newman, 2011) whose blocks are the
/// classes.
///
/// Each node gets a random class and a weight from a power law. Each edge joins two nodes drawn by weight, which are of
/// the same class with probability `homophily`. The features of a node are the mean of its class plus noise. The mean
/// is a random vector of length `feature_signal`. The same options give the same graph, bit for bit, on any number of
/// threads.
///
/// Every edge is stored in both directions, sorted by (source, destination). There are no self loops. Hubs may have
/// duplicate edges, and a few nodes may have no edges.
///
/// ```
/// use edgecut_graph::readers::{FakeOptions, fake};
/// let graph = fake(&FakeOptions { avg_num_nodes: 100, num_channels: 8, ..FakeOptions::default() })?;
/// let nodes = &graph.node_types[0];
/// assert_eq!(nodes.features.as_ref().map(|features| features.dim()), Some(8));
/// assert_eq!((nodes.splits.train.len(), nodes.splits.valid.len(), nodes.splits.test.len()), (60, 20, 20));
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
///
/// # Errors
/// [`GraphError::Dataset`] if an option is out of range.
pub fn fake(options: &FakeOptions) -> Result<Dataset, GraphError> {
    options.check().map_err(|why| GraphError::Dataset { dataset: FAKE_NAME.into(), why })?;
    let classes = classes(options);
    let (src, dst) = edges(options, &classes);
    let times = options.edge_attributes.then(|| node_times(options));
    let attributes = times.as_ref().map(|times| {
        let nodes = EndNodes { classes: &classes, times };
        let edges = DrawnEdges { src: &src, dst: &dst, sources: nodes, destinations: nodes, is_undirected: true };
        edge_attributes(options.seed, &edges)
    });
    let nodes = NodeData {
        name: DEFAULT_NODE_TYPE.into(),
        num_nodes: options.avg_num_nodes,
        features: features(options, &classes),
        labels: Some(parallel::map(&classes, |&class| i64::from(class)).into()),
        num_classes: options.num_classes,
        splits: splits(options),
        times: times.map(Into::into),
    };
    let mut dataset = Dataset::homogeneous(FAKE_NAME, nodes, src, dst);
    dataset.edge_types[0].attributes = attributes.unwrap_or_default();
    Ok(dataset)
}

fn edges(options: &FakeOptions, classes: &[u32]) -> (Buffer<u32>, Buffer<u32>) {
    let weights = weights(options);
    let nodes = WeightedNodes::new(classes, &weights, options.num_classes);
    // Both directions of every edge, packed so that sorting orders them by (source, destination).
    let mut keys = vec![0_u64; 2 * options.num_pairs()];
    parallel::for_each_chunk(&mut keys, 2 * EDGES_PER_TASK, &|first, keys| {
        for (offset, both) in keys.chunks_exact_mut(2).enumerate() {
            let index = first / 2 + offset;
            let (a, b) = edge(options, &nodes, &mut options.rng(Stream::Edge, index));
            both[0] = u64::from(a) << 32 | u64::from(b);
            both[1] = u64::from(b) << 32 | u64::from(a);
        }
    });
    parallel::sort(&mut keys);
    let src: Vec<u32> = parallel::map(&keys, |&key| (key >> 32) as u32);
    let dst: Vec<u32> = parallel::map(&keys, |&key| key as u32);
    (src.into(), dst.into())
}

fn edge(options: &FakeOptions, nodes: &WeightedNodes, draws: &mut CounterRng) -> (u32, u32) {
    let class = nodes.draw_class(draws);
    let other = if draws.unit() < options.homophily { class } else { nodes.draw_other_class(class, draws) };
    let mut ends = (0, 0);
    for _ in 0..MAX_TRIES {
        ends = (nodes.draw(class, draws), nodes.draw(other, draws));
        if ends.0 != ends.1 {
            return ends;
        }
    }
    // The class has a single node, or one that outweighs all others: join it to the node with the next id.
    (ends.0, (ends.0 + 1) % options.avg_num_nodes as u32)
}

#[cfg(test)]
mod tests;
