//! What is balanced, as vertex weights.

use crate::joined::JoinedIds;
use crate::{Balance, Method, PartitionOptions};
use edgecut_graph::Dataset;

/// Vertex weights for multi-constraint balancing.
///
/// # Shapes
/// `weights` is `[num_nodes, num_constraints]`, row-major, over joined ids; `totals` is `[num_constraints]`. Weights
/// are not negative, totals are positive and at most `i32::MAX`, except where there are more nodes than that.
#[derive(Debug)]
pub(crate) struct Constraints {
    pub(crate) weights: Vec<i32>,
    pub(crate) totals: Vec<u64>,
}

/// Balancing more node types than this one by one costs METIS more than it brings; the smaller ones share one weight.
const MAX_NODE_WEIGHTS: usize = 4;
/// A weight that has less than this per part is left out: there is nothing to be even about.
const MIN_NODES_PER_PART: usize = 8;

impl Constraints {
    pub(crate) fn new(dataset: &Dataset, ids: &JoinedIds, options: &PartitionOptions) -> Self {
        let mut columns = Vec::new();
        for balance in effective_balance(dataset, options) {
            match balance {
                Balance::Nodes => columns.extend(node_columns(dataset, ids, options.num_parts)),
                Balance::Edges => columns.push(edge_column(dataset, ids)),
                Balance::Train => columns.push(train_column(dataset, ids)),
            }
        }
        let totals = columns.iter().map(|c| c.iter().map(|&w| w as u64).sum()).collect();
        let weights = (0..ids.num_nodes()).flat_map(|node| columns.iter().map(move |column| column[node])).collect();
        Self { weights, totals }
    }

    pub(crate) fn num(&self) -> usize {
        self.totals.len()
    }

    /// The weights of one node.
    pub(crate) fn of(&self, node: usize) -> &[i32] {
        &self.weights[node * self.num()..(node + 1) * self.num()]
    }
}

/// Of what the options ask to balance, that which the method can and the graph has.
pub(crate) fn effective_balance(dataset: &Dataset, options: &PartitionOptions) -> Vec<Balance> {
    if options.method == Method::Random {
        return vec![Balance::Nodes];
    }
    let train: usize = dataset.node_types.iter().map(|t| t.splits.train.len()).sum();
    let possible = |balance: Balance| match balance {
        Balance::Nodes => true,
        Balance::Edges => dataset.num_edges() > 0,
        // Fewer than one a part cannot be even, and a weight of zero makes METIS put all nodes into one part.
        Balance::Train => train >= options.num_parts as usize && train > 0,
    };
    let mut used: Vec<Balance> =
        Balance::ALL.into_iter().filter(|b| options.balance.contains(b) && possible(*b)).collect();
    if used.is_empty() {
        used.push(Balance::Nodes);
    }
    used
}

/// One weight per larger node type, and one for all others together; a single one where that is all there is.
fn node_columns(dataset: &Dataset, ids: &JoinedIds, num_parts: u32) -> Vec<Vec<i32>> {
    let least = MIN_NODES_PER_PART * num_parts as usize;
    let sizes: Vec<usize> = dataset.node_types.iter().map(|t| t.num_nodes).collect();
    let mut by_size: Vec<usize> = (0..sizes.len()).filter(|&t| sizes[t] > 0).collect();
    by_size.sort_by_key(|&t| std::cmp::Reverse(sizes[t]));
    let own = by_size.len().min(if by_size.len() > MAX_NODE_WEIGHTS { MAX_NODE_WEIGHTS - 1 } else { by_size.len() });
    let (own, shared) = by_size.split_at(own);
    let mut groups: Vec<Vec<usize>> = own.iter().map(|&t| vec![t]).collect();
    groups.push(shared.to_vec());
    groups.retain(|types| types.iter().map(|&t| sizes[t]).sum::<usize>() >= least);
    if groups.len() < 2 {
        return vec![vec![1; ids.num_nodes()]];
    }
    let column = |types: &Vec<usize>| {
        let mut weights = vec![0; ids.num_nodes()];
        for &t in types {
            weights[ids.start(t)..ids.start(t) + sizes[t]].fill(1);
        }
        weights
    };
    groups.iter().map(column).collect()
}

/// In-degree + 1, scaled down where the sum would not fit METIS's 32 bits.
fn edge_column(dataset: &Dataset, ids: &JoinedIds) -> Vec<i32> {
    let degrees = ids.in_degrees(dataset);
    let room = (i32::MAX as u64).saturating_sub(degrees.len() as u64).max(1);
    let scale = degrees.iter().sum::<u64>().div_ceil(room).max(1);
    degrees.iter().map(|degree| (1 + degree / scale).min(i32::MAX as u64) as i32).collect()
}

fn train_column(dataset: &Dataset, ids: &JoinedIds) -> Vec<i32> {
    let mut weights = vec![0; ids.num_nodes()];
    for (t, nodes) in dataset.node_types.iter().enumerate() {
        nodes.splits.train.iter().for_each(|&node| weights[ids.start(t) + node as usize] = 1);
    }
    weights
}
