//! The probabilities of nodes to be candidates of a batch.

use super::config::LinkTrainingConfig;
use edgecut_dist_loader::{LinkBatch, NegativeDistribution, SharedCandidates};
use edgecut_graph::Meta;

/// The probabilities of nodes to be in a batch, for the correction of in-batch negatives (Yi et al., "Sampling-bias-corrected
/// neural modeling for large corpus item recommendations", RecSys 2019).
///
/// A node is expected among the ends of a batch's edges in proportion to its in-degree, and among the drawn negatives by
/// their distribution. With `n` expected occurrences, it is in the batch with probability `1 - exp(-n)`. In-degrees count
/// edges that carry messages alone, over all edge types.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    /// By node type, the number of in-edges and the number of nodes.
    totals: Vec<(f64, f64)>,
    /// The number of drawn negatives of each type.
    num_drawn: f64,
    by_degree: bool,
}

impl Popularity {
    /// Returns the probabilities for a configuration; `None` if it does not correct scores.
    pub(super) fn new(meta: &Meta, config: &LinkTrainingConfig) -> Option<Self> {
        if !config.log_q_correction {
            return None;
        }
        let mut totals = Vec::with_capacity(meta.node_types.len());
        for nodes in &meta.node_types {
            let into = meta.edge_types.iter().filter(|edges| edges.dst_type == nodes.name);
            let num_edges: u64 = into.map(|edges| edges.num_edges).sum();
            totals.push((num_edges as f64, nodes.book.num_nodes() as f64));
        }
        Some(Self {
            totals,
            num_drawn: config.num_negatives as f64,
            by_degree: config.negatives == NegativeDistribution::Degree,
        })
    }

    /// Returns the logarithm of each candidate's probability to be in the batch.
    pub(super) fn log_probabilities(&self, batch: &LinkBatch, group: &SharedCandidates) -> Vec<f32> {
        let t = group.dst_type;
        let degrees = &batch.graph.nodes[t.index()].degrees;
        let (num_edges, num_nodes) = self.totals[t.index()];
        let mut num_ends = 0.0;
        for edge_type in &batch.edge_types {
            let (src, dst) = batch.relations.ends[edge_type.index()];
            num_ends += f64::from(u8::from(src == t) + u8::from(dst == t));
        }
        let mut log_probabilities = Vec::with_capacity(group.candidates.len());
        for &candidate in &group.candidates {
            // A node without in-edges may be the source of an edge.
            let share = f64::from(degrees[candidate as usize].max(1)) / num_edges.max(1.0);
            let drawn = if self.by_degree { share } else { 1.0 / num_nodes };
            let expected = num_ends * share + self.num_drawn * drawn;
            log_probabilities.push((-(-expected).exp_m1()).ln() as f32);
        }
        log_probabilities
    }
}
