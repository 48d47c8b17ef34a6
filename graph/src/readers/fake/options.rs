//! The options of generated graphs.

use crate::rng::{CounterRng, combine};
use serde::{Deserialize, Serialize};

/// The options of [`fake`](fn@super::fake). The first four fields have the names and defaults of PyG's `FakeDataset`.
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

/// The purpose of a random number. Each purpose has its own stream.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Class = 1,
    Weight,
    Edge,
    ClassMean,
    Noise,
    Split,
}

impl FakeOptions {
    /// Returns the random numbers of one item, which depend neither on other items nor on the number of threads.
    pub(super) fn rng(&self, stream: Stream, item: usize) -> CounterRng {
        CounterRng::new(combine(combine(self.seed, stream as u64), item as u64))
    }

    /// Returns the number of undirected edges.
    pub(in crate::readers) fn num_pairs(&self) -> usize {
        if self.avg_num_nodes < 2 { 0 } else { (self.avg_num_nodes as f64 * self.avg_degree / 2.0).round() as usize }
    }

    /// Checks that all options are in range.
    ///
    /// # Errors
    /// Names the option and its value.
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
