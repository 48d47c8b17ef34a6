//! Synthetic graphs with communities, hubs, and features that a graph neural network can learn from.

use super::attributes::{DrawnEdges, EndNodes, edge_attributes, node_times};
use super::nodes::{classes, features, splits, weights};
use super::options::{FakeOptions, Stream};
use super::weighted_nodes::WeightedNodes;
use crate::dataset::{Dataset, NodeData, sorted_edges};
use crate::memory::{Buffer, Workspace};
use crate::part_writer::Pairs;
use crate::rng::CounterRng;
use crate::{DEFAULT_NODE_TYPE, GraphError, parallel};

/// The name for which [`load`](crate::readers::load) generates a graph.
pub(in crate::readers) const FAKE_NAME: &str = "fake";

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
    fake_in(&Workspace::default(), options)
}

/// Like [`fake`], with edges, features and labels in `space`. Arrays in memory take up to 48 bytes per node.
///
/// # Errors
/// As [`fake`], [`GraphError::Scratch`], and [`GraphError::MemoryLimit`] for attributes of edges in scratch files.
pub fn fake_in(space: &Workspace, options: &FakeOptions) -> Result<Dataset, GraphError> {
    options.check().map_err(|why| GraphError::Dataset { dataset: FAKE_NAME.into(), why })?;
    if space.is_scratch() && options.edge_attributes {
        let why = "`edge_attributes` takes memory for each generated edge".into();
        return Err(GraphError::MemoryLimit { why });
    }
    let classes = classes(options);
    let (src, dst) = edges(space, options, &classes)?;
    let times = options.edge_attributes.then(|| node_times(options));
    let attributes = times.as_ref().map(|times| {
        let nodes = EndNodes { classes: &classes, times };
        let edges = DrawnEdges { src: &src, dst: &dst, sources: nodes, destinations: nodes, is_undirected: true };
        edge_attributes(options.seed, &edges)
    });
    let nodes = NodeData {
        name: DEFAULT_NODE_TYPE.into(),
        num_nodes: options.avg_num_nodes,
        features: features(space, options, &classes)?,
        labels: Some(labels(space, &classes)?),
        num_classes: options.num_classes,
        splits: splits(options),
        times: times.map(Into::into),
        ..NodeData::default()
    };
    let mut dataset = Dataset::homogeneous(FAKE_NAME, nodes, src, dst);
    dataset.edge_types[0].attributes = attributes.unwrap_or_default();
    Ok(dataset)
}

fn labels(space: &Workspace, classes: &[u32]) -> Result<Buffer<i64>, GraphError> {
    space.build(classes.len(), "generating labels", |range| {
        Ok(parallel::map(&classes[range], |&class| i64::from(class)))
    })
}

/// Draws the edges, and sorts both directions by (source, destination).
fn edges(space: &Workspace, options: &FakeOptions, classes: &[u32]) -> Result<(Buffer<u32>, Buffer<u32>), GraphError> {
    let nodes = WeightedNodes::new(classes, &weights(options), options.num_classes);
    let pairs = space.build(options.num_pairs(), "generating edges", |range| {
        Ok(parallel::map_indices(range.len(), |offset| {
            let (a, b) = edge(options, &nodes, &mut options.rng(Stream::Edge, range.start + offset));
            u64::from(a) << 32 | u64::from(b)
        }))
    })?;
    drop(nodes);
    sorted_edges(space, options.avg_num_nodes, &BothDirections(&pairs))
}

/// Both directions of pairs of nodes.
struct BothDirections<'a>(&'a [u64]);

impl Pairs for BothDirections<'_> {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        for &pair in self.0 {
            visit((pair >> 32) as u32, pair as u32);
            visit(pair as u32, (pair >> 32) as u32);
        }
    }
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
