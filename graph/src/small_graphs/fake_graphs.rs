//! Synthetic sets of graphs whose class is visible in their structure.

use super::{GraphData, GraphDataset};
use crate::GraphError;
use crate::parallel;
use crate::rng::{CounterRng, combine};

/// The name for which [`load_graphs`](super::load_graphs) generates graphs.
pub const FAKE_GRAPHS_NAME: &str = "fake-graphs";
/// The number of hub nodes per graph. Graphs of later classes have more edges to hubs.
const HUBS: u64 = 3;
/// The number of undirected edges per node.
const EDGES_PER_NODE: usize = 2;
/// The number of graphs that are generated in parallel before they are appended.
const GRAPHS_AT_ONCE: usize = 1 << 12;
/// The share of graphs that have the structure of a random class.
const NOISE: f64 = 0.1;

/// The options of [`fake_graphs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeGraphsOptions {
    /// The number of graphs. Default 1000.
    pub num_graphs: usize,
    /// The mean number of nodes. Sizes range from half to one and a half times this. Default 20.
    pub avg_num_nodes: usize,
    /// The number of classes. Default 2.
    pub num_classes: usize,
    /// The seed of all random choices. Default 0.
    pub seed: u64,
}

impl Default for FakeGraphsOptions {
    fn default() -> Self {
        Self { num_graphs: 1000, avg_num_nodes: 20, num_classes: 2, seed: 0 }
    }
}

/// Generates graphs without features. Each graph has two undirected edges per node, stored in both directions. A share
/// of the edges leads to one of three hubs, and this share grows with the class. A tenth of the graphs have the
/// structure of a random class, so no model can classify all graphs correctly. The same options give the same graphs on
/// any number of threads.
///
/// # Errors
/// [`GraphError::Dataset`] if an option is out of range.
pub fn fake_graphs(options: &FakeGraphsOptions) -> Result<GraphDataset, GraphError> {
    let FakeGraphsOptions { num_graphs, avg_num_nodes, num_classes, seed } = *options;
    let fail = |why: String| Err(GraphError::Dataset { dataset: FAKE_GRAPHS_NAME.into(), why });
    if !(1..=1 << 16).contains(&num_classes) || num_graphs < num_classes {
        return fail(format!(
            "{num_classes} classes of {num_graphs} graphs: expected at least 1 class and at least one graph per class"
        ));
    }
    let most_nodes = avg_num_nodes.saturating_mul(3).div_ceil(2).saturating_mul(num_graphs);
    if avg_num_nodes < 2 || most_nodes > u32::MAX as usize {
        return fail(format!(
            "avg_num_nodes is {avg_num_nodes}: expected at least 2, and fewer than 2^32 nodes in all graphs together"
        ));
    }
    let mut data = GraphData { node_offsets: vec![0], ..GraphData::default() };
    let mut first = 0;
    for start in (0..num_graphs).step_by(GRAPHS_AT_ONCE) {
        let chunk = start..(start + GRAPHS_AT_ONCE).min(num_graphs);
        let drawn = parallel::collect(chunk.len(), &|at| draw(options, start + at, seed));
        for (graph, (num_nodes, edges)) in chunk.zip(drawn) {
            for (a, b) in edges {
                data.src.extend([first + a, first + b]);
                data.dst.extend([first + b, first + a]);
            }
            first += num_nodes;
            data.node_offsets.push(u64::from(first));
            data.labels.push((graph % num_classes) as i64);
        }
    }
    GraphDataset::new(FAKE_GRAPHS_NAME, data)
}

/// Draws a graph. Returns the number of nodes and the undirected edges.
fn draw(options: &FakeGraphsOptions, graph: usize, seed: u64) -> (u32, Vec<(u32, u32)>) {
    let mut rng = CounterRng::new(combine(combine(0xfa4e, seed), graph as u64));
    let avg = options.avg_num_nodes as u64;
    let num_nodes = (avg / 2).max(2) + rng.below(avg + 1);
    let classes = options.num_classes as u64;
    let class = if rng.unit() < NOISE { rng.below(classes) } else { graph as u64 % classes };
    let to_hubs = (class as f64 + 0.5) / classes as f64;
    let edge = |_| {
        let from = rng.below(num_nodes);
        // The hubs are the first nodes of a graph.
        let among = if rng.unit() < to_hubs { HUBS.min(num_nodes) } else { num_nodes };
        let to = rng.below(among);
        // An edge that would be a self loop leads to the next node.
        let to = if to == from { (to + 1) % num_nodes } else { to };
        (from as u32, to as u32)
    };
    (num_nodes as u32, (0..EDGES_PER_NODE * num_nodes as usize).map(edge).collect())
}
