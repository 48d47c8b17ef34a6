//! The probabilities of nodes to be candidates of a batch.

use super::config::{LinkTrainingConfig, target_edge_types};
use crate::error::TrainError;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{LinkBatch, NegativeDistribution, SharedCandidates};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::collections::BTreeSet;

/// The probabilities of nodes to be in a batch, for the correction of in-batch negatives (Yi et al., "Sampling-bias-corrected
/// neural modeling for large corpus item recommendations", RecSys 2019).
///
/// A node is expected among the ends of a batch's edges in proportion to its in-degree, and among the drawn negatives by
/// their distribution. With `n` expected occurrences, it is in the batch with probability `1 - exp(-n)`. In-degrees count
/// edges that carry messages alone, over all edge types. [`Popularity::new`] refuses graphs in which they are not in
/// proportion to the numbers of predicted edges that end or start at the nodes.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    /// By node type, the number of in-edges and the number of nodes.
    totals: Vec<(f64, f64)>,
    /// The number of drawn negatives of each type.
    num_drawn: f64,
    by_degree: bool,
}

impl Popularity {
    /// Returns the probabilities for a configuration; `None` if it does not correct scores. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the in-degrees of candidates are not in proportion to their occurrences, or if this cannot
    /// be checked.
    pub(super) fn new(
        graph: &DistGraph,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Option<Self>, TrainError> {
        if !config.log_q_correction {
            return Ok(None);
        }
        let meta = graph.part().meta();
        if graph.is_client() {
            let what = "the log-Q correction needs the degrees of all nodes, which a client of servers does not have: \
                        leave out `log_q_correction`, or train with the parts";
            return Err(TrainError::config(what));
        }
        let targets = target_edge_types(meta, config)?;
        let candidates: BTreeSet<NodeTypeId> = targets.iter().map(|e| graph.part().edges(*e).dst_type).collect();
        for candidate in candidates {
            if !is_proportional(graph, &targets, candidate, world)? {
                let node_type = &meta.node_types[candidate.index()].name;
                return Err(TrainError::config(format!(
                    "the log-Q correction expects a node of type {node_type} in a batch in proportion to its in-degree, but \
                     the edges to predict end and start at these nodes in other proportions, since they have edges of other \
                     types, or edges in one direction only: leave out `log_q_correction`, or train on a graph without the \
                     other edges or with both directions"
                )));
            }
        }
        let mut totals = Vec::with_capacity(meta.node_types.len());
        for nodes in &meta.node_types {
            let into = meta.edge_types.iter().filter(|edges| edges.dst_type == nodes.name);
            let num_edges: u64 = into.map(|edges| edges.num_edges).sum();
            totals.push((num_edges as f64, nodes.book.num_nodes() as f64));
        }
        Ok(Some(Self {
            totals,
            num_drawn: config.num_negatives as f64,
            by_degree: config.negatives == NegativeDistribution::Degree,
        }))
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

/// Returns true if the edges to predict end and start at each node of a type in proportion to the in-degree of the node over all
/// edge types. Every rank must call this.
///
/// Numbers that are not in proportion have another random linear function with a probability of nearly 1, so that no process
/// needs the numbers of all nodes.
fn is_proportional(
    graph: &DistGraph,
    targets: &[EdgeTypeId],
    node_type: NodeTypeId,
    world: &mut ProcessGroup,
) -> Result<bool, TrainError> {
    let part = graph.part();
    let first = part.owned(node_type).start;
    let mut occurrences = Sum::default();
    let mut in_degrees = Sum::default();
    // One of the processes that share a part counts it.
    let edge_types = part.edge_type_ids().filter(|_| graph.replicas().1 == 0);
    for edge_type in edge_types {
        let edges = part.edges(edge_type);
        let is_target = targets.contains(&edge_type);
        if edges.dst_type == node_type {
            let mut ends = Sum::default();
            for row in 0..edges.csc.num_rows() {
                ends.add(first + row as u32, edges.csc.degree(row) as u64);
            }
            in_degrees.merge(ends);
            if is_target {
                occurrences.merge(ends);
            }
        }
        if is_target && edges.src_type == node_type {
            edges.csc.indices().iter().for_each(|&source| occurrences.add(source, 1));
        }
    }
    let [occurrences, in_degrees] = Sum::over_all([occurrences, in_degrees], world)?;
    Ok(occurrences.weighted.wrapping_mul(in_degrees.count) == in_degrees.weighted.wrapping_mul(occurrences.count))
}

/// The sum of numbers of nodes, and their sum with a random weight for each node, modulo 2^64.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    weighted: u64,
}

impl Sum {
    /// Adds the number of a node, which is a global id.
    fn add(&mut self, node: u32, number: u64) {
        let weight = CounterRng::new(u64::from(node)).next_u64();
        self.merge(Self { count: number, weighted: weight.wrapping_mul(number) });
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.weighted = self.weighted.wrapping_add(other.weighted);
    }

    /// Adds the sums of all ranks. Every rank must call this.
    fn over_all(sums: [Self; 2], world: &mut ProcessGroup) -> Result<[Self; 2], TrainError> {
        // The halves of a word are added apart, since the collective must not overflow.
        let mut words = sums.map(|sum| [sum.count, sum.weighted & u64::from(u32::MAX), sum.weighted >> 32]);
        world.all_reduce(words.as_flattened_mut(), ReduceOp::Sum)?;
        Ok(words.map(|[count, low, high]| Self { count, weighted: low.wrapping_add(high << 32) }))
    }
}
