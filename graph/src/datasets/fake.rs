//! Synthetic graphs with communities, hubs, and features that a graph neural network can learn from.

use super::fake_attributes::{Ends, edge_attributes, node_times};
use super::weighted_nodes::{WeightedNodes, fractional_power};
use crate::rng::{CounterRng, combine};
use crate::{Buffer, DEFAULT_NODE_TYPE, Dataset, Features, GraphError, NodeData, Split, Splits};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The name for which [`load`](super::load) generates a graph.
pub const FAKE_NAME: &str = "fake";

/// The number of attempts to draw an edge that is not a self loop.
const MAX_TRIES: usize = 16;

/// The options of [`fake`]. The first four fields have the names and defaults of PyG's `FakeDataset`.
///
/// ```
/// use edgecut_graph::datasets::{FakeOptions, fake};
/// let dataset = fake(&FakeOptions { avg_num_nodes: 500, avg_degree: 8.0, ..FakeOptions::default() })?;
/// assert_eq!(dataset.node_types[0].num_nodes, 500);
/// assert_eq!(dataset.num_edges(), 4000); // 2000, each in both directions
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeOptions {
    /// The exact number of nodes. PyG draws a number near it. Default 1000.
    pub avg_num_nodes: usize,
    /// The mean in-degree, counting both directions of each edge. Default 10.
    pub avg_degree: f64,
    /// The number of features per node, 0 for none. Default 64.
    pub num_channels: usize,
    /// The number of classes, each of which is a community. Default 10.
    pub num_classes: usize,
    /// The probability that an edge stays in its class, in `0..=1`. Default 0.8.
    pub homophily: f64,
    /// The exponent of the power law of degrees, above 2. The probability of degree `d` is about proportional to
    /// `d^-degree_exponent`, up to about `avg_degree * sqrt(nodes) / 3`. Default 2.5.
    pub degree_exponent: f64,
    /// The distance of a class mean from the origin. The noise of each feature has variance 1. Default 1.5, with which
    /// features alone identify the class of about half of the nodes with ten classes.
    pub feature_signal: f64,
    /// The share of training nodes. Default 0.6.
    pub train_fraction: f64,
    /// The share of validation nodes. The remaining nodes are test nodes. Default 0.2.
    pub valid_fraction: f64,
    /// The seed of all random choices. Default 0.
    pub seed: u64,
    /// True to give edges weights, times and features, and nodes times. Edges within a class have larger weights.
    /// Default false.
    pub edge_attributes: bool,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self {
            avg_num_nodes: 1000,
            avg_degree: 10.0,
            num_channels: 64,
            num_classes: 10,
            homophily: 0.8,
            degree_exponent: 2.5,
            feature_signal: 1.5,
            train_fraction: 0.6,
            valid_fraction: 0.2,
            seed: 0,
            edge_attributes: false,
        }
    }
}

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
/// # Errors
/// [`GraphError::Dataset`] if an option is out of range.
pub fn fake(options: &FakeOptions) -> Result<Dataset, GraphError> {
    options.check().map_err(|why| GraphError::Dataset { dataset: FAKE_NAME.into(), why })?;
    let classes = classes(options);
    let (src, dst) = edges(options, &classes);
    let times = options.edge_attributes.then(|| node_times(options));
    let attributes = times.as_ref().map(|times| {
        let ends = Ends { classes: &classes, times };
        edge_attributes(options.seed, (&src, &dst), (ends, ends), true)
    });
    let nodes = NodeData {
        name: DEFAULT_NODE_TYPE.into(),
        num_nodes: options.avg_num_nodes,
        features: features(options, &classes),
        labels: Some(classes.par_iter().map(|&class| i64::from(class)).collect::<Vec<_>>().into()),
        num_classes: options.num_classes,
        splits: splits(options),
        times: times.map(Into::into),
    };
    let mut dataset = Dataset::homogeneous(FAKE_NAME, nodes, src, dst);
    dataset.edge_types[0].attributes = attributes.unwrap_or_default();
    Ok(dataset)
}

/// The purpose of a random number. Each purpose has its own stream.
#[derive(Clone, Copy)]
enum Stream {
    Class = 1,
    Weight,
    Edge,
    ClassMean,
    Noise,
    Split,
}

impl FakeOptions {
    /// Returns the random numbers of one item, which depend neither on other items nor on the number of threads.
    fn rng(&self, stream: Stream, item: usize) -> CounterRng {
        CounterRng::new(combine(combine(self.seed, stream as u64), item as u64))
    }

    /// Returns the number of undirected edges.
    fn num_pairs(&self) -> usize {
        if self.avg_num_nodes < 2 { 0 } else { (self.avg_num_nodes as f64 * self.avg_degree / 2.0).round() as usize }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let share = |name: &str, value: f64| {
            if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}, outside 0..=1")) }
        };
        if !(1..=u32::MAX as usize).contains(&self.avg_num_nodes) {
            return Err(format!("avg_num_nodes is {}, outside 1..2^32", self.avg_num_nodes));
        }
        if !(self.avg_degree >= 0.0 && self.avg_degree * self.avg_num_nodes as f64 <= (1_u64 << 40) as f64) {
            return Err(format!("avg_degree is {}, negative or more than 2^40 edges", self.avg_degree));
        }
        if self.num_channels > 1 << 20 {
            return Err(format!("num_channels is {}, above 2^20", self.num_channels));
        }
        if !(1..=1 << 20).contains(&self.num_classes) {
            return Err(format!("num_classes is {}, outside 1..=2^20", self.num_classes));
        }
        share("homophily", self.homophily)?;
        if !(self.degree_exponent > 2.0 && self.degree_exponent.is_finite()) {
            return Err(format!("degree_exponent is {}, must be above 2", self.degree_exponent));
        }
        if !(self.feature_signal.is_finite() && self.feature_signal.abs() <= 1e6) {
            return Err(format!("feature_signal is {}, outside -10^6..10^6", self.feature_signal));
        }
        share("train_fraction", self.train_fraction)?;
        share("valid_fraction", self.valid_fraction)?;
        share("train_fraction + valid_fraction", self.train_fraction + self.valid_fraction)
    }
}

pub(super) fn classes(options: &FakeOptions) -> Vec<u32> {
    let class = |node| options.rng(Stream::Class, node).below(options.num_classes as u64) as u32;
    (0..options.avg_num_nodes).into_par_iter().map(class).collect()
}

fn edges(options: &FakeOptions, classes: &[u32]) -> (Buffer<u32>, Buffer<u32>) {
    let weights = weights(options);
    let nodes = WeightedNodes::new(classes, &weights, options.num_classes);
    // Both directions of every edge, packed so that sorting orders them by (source, destination).
    let mut keys = vec![0_u64; 2 * options.num_pairs()];
    keys.par_chunks_exact_mut(2).enumerate().for_each(|(index, both)| {
        let (a, b) = edge(options, &nodes, &mut options.rng(Stream::Edge, index));
        both[0] = u64::from(a) << 32 | u64::from(b);
        both[1] = u64::from(b) << 32 | u64::from(a);
    });
    keys.par_sort_unstable();
    let src: Vec<u32> = keys.par_iter().map(|key| (key >> 32) as u32).collect();
    let dst: Vec<u32> = keys.par_iter().map(|&key| key as u32).collect();
    (src.into(), dst.into())
}

/// Draws a weight for each node, at least 1, from a Pareto distribution. Weights are capped at the square root of the
/// number of nodes, above which two hubs would share more than one edge on average.
pub(super) fn weights(options: &FakeOptions) -> Vec<f64> {
    // Inverse transform sampling: the probability of a weight above `w` is `w^(1 - degree_exponent)`.
    let exponent = 1.0 / (options.degree_exponent - 1.0);
    let cap = (options.avg_num_nodes as f64).sqrt();
    let weight = |node| (1.0 / fractional_power(1.0 - options.rng(Stream::Weight, node).unit(), exponent)).min(cap);
    (0..options.avg_num_nodes).into_par_iter().map(weight).collect()
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

pub(super) fn features(options: &FakeOptions, classes: &[u32]) -> Option<Features> {
    let dim = options.num_channels;
    if dim == 0 {
        return None;
    }
    let means = class_means(options);
    let mut values = vec![0.0_f32; classes.len() * dim];
    values.par_chunks_exact_mut(dim).zip(classes).enumerate().for_each(|(node, (row, &class))| {
        let mut draws = options.rng(Stream::Noise, node);
        let mean = &means[class as usize * dim..][..dim];
        for (value, mean) in row.iter_mut().zip(mean) {
            *value = mean + draws.gaussian();
        }
    });
    Some(Features::F32 { values: values.into(), dim })
}

/// Returns a random vector of length `feature_signal` for each class, end to end.
fn class_means(options: &FakeOptions) -> Vec<f32> {
    let mean = |class| {
        let mut draws = options.rng(Stream::ClassMean, class);
        let direction: Vec<f32> = (0..options.num_channels).map(|_| draws.gaussian()).collect();
        let length = direction.iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        direction.into_iter().map(move |v| v / length * options.feature_signal as f32)
    };
    (0..options.num_classes).flat_map(mean).collect()
}

pub(super) fn splits(options: &FakeOptions) -> Splits {
    let num_nodes = options.avg_num_nodes;
    // Sorting by random keys shuffles the nodes in parallel.
    let mut order: Vec<(u64, u32)> =
        (0..num_nodes).into_par_iter().map(|node| (options.rng(Stream::Split, node).next_u64(), node as u32)).collect();
    order.par_sort_unstable();
    let at = |fraction: f64| ((num_nodes as f64 * fraction).round() as usize).min(num_nodes);
    let train_end = at(options.train_fraction);
    let valid_end = at(options.train_fraction + options.valid_fraction).max(train_end);
    let mut splits = Splits::default();
    for (split, range) in
        [(Split::Train, 0..train_end), (Split::Valid, train_end..valid_end), (Split::Test, valid_end..num_nodes)]
    {
        let mut ids: Vec<u32> = order[range].iter().map(|&(_, node)| node).collect();
        ids.par_sort_unstable();
        splits.set(split, ids.into());
    }
    splits
}

#[cfg(test)]
mod tests;
