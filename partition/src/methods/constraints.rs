//! Balance constraints as vertex weights.

use crate::methods::joined::JoinedIds;
use crate::{Balance, Method, PartitionOptions};
use edgecut_graph::NodeData;
use edgecut_graph::part_writer::Grouped;

/// Vertex weights for multi-constraint balancing.
///
/// # Shapes
/// `weights` is `[num_nodes, num_constraints]`, row-major, over joined ids; `totals` is `[num_constraints]`. Weights
/// are not negative, and totals are positive. For METIS, totals are also at most `i32::MAX`, unless there are more
/// nodes than that. LDG sums in 64 bits, so its edge weights are not scaled.
#[derive(Debug)]
pub(crate) struct Constraints {
    pub(crate) weights: Vec<i32>,
    pub(crate) totals: Vec<u64>,
}

/// The maximum number of node weights. METIS slows down with each constraint and gains little, so smaller node types
/// share the last weight.
const MAX_NODE_WEIGHTS: usize = 4;
/// The minimum number of nodes per part for a weight of their own. With fewer, an even share means nothing.
const MIN_NODES_PER_PART: usize = 8;

/// The sizes of a graph, which decide what is balanced.
pub(crate) struct GraphSizes {
    /// The number of nodes of each type.
    pub(crate) num_nodes: Vec<usize>,
    pub(crate) num_edges: usize,
    pub(crate) num_train: usize,
}

/// The weight of a node in one of the constraints.
#[derive(Debug)]
pub(crate) enum Weight {
    /// 1 for each node of these types, or of all types.
    Nodes(Option<Vec<usize>>),
    /// The in-degree and 1.
    Edges,
    /// 1 for each training node.
    Train,
}

impl GraphSizes {
    /// Returns the sizes of a graph in memory.
    pub(crate) fn of(graph: &Grouped) -> Self {
        Self {
            num_nodes: graph.node_types.iter().map(|t| t.num_nodes).collect(),
            num_edges: graph.num_edges(),
            num_train: graph.node_types.iter().map(|t| t.splits.train.len()).sum(),
        }
    }

    /// Returns the weights of the quantities that `options` asks to balance, as far as the graph has them.
    pub(crate) fn weights(&self, options: &PartitionOptions) -> Vec<Weight> {
        let mut weights = Vec::new();
        for balance in effective_balance(self, options) {
            match balance {
                Balance::Nodes => weights.extend(self.node_weights(options.num_parts)),
                Balance::Edges => weights.push(Weight::Edges),
                Balance::Train => weights.push(Weight::Train),
            }
        }
        weights
    }

    /// Returns one weight per larger node type, and one for all others together. If only one weight is left, it covers all
    /// nodes.
    fn node_weights(&self, num_parts: u32) -> Vec<Weight> {
        let least = MIN_NODES_PER_PART * num_parts as usize;
        let sizes = &self.num_nodes;
        let mut by_size: Vec<usize> = (0..sizes.len()).filter(|&t| sizes[t] > 0).collect();
        by_size.sort_by_key(|&t| std::cmp::Reverse(sizes[t]));
        let own =
            by_size.len().min(if by_size.len() > MAX_NODE_WEIGHTS { MAX_NODE_WEIGHTS - 1 } else { by_size.len() });
        let (own, shared) = by_size.split_at(own);
        let mut groups: Vec<Vec<usize>> = own.iter().map(|&t| vec![t]).collect();
        groups.push(shared.to_vec());
        groups.retain(|types| types.iter().map(|&t| sizes[t]).sum::<usize>() >= least);
        if groups.len() < 2 {
            return vec![Weight::Nodes(None)];
        }
        groups.into_iter().map(|types| Weight::Nodes(Some(types))).collect()
    }
}

impl Constraints {
    /// Makes the weights of the quantities that `options` asks to balance, as far as the graph has them.
    pub(crate) fn new(graph: &Grouped, ids: &JoinedIds, options: &PartitionOptions) -> Self {
        let mut columns = Vec::new();
        for weight in GraphSizes::of(graph).weights(options) {
            columns.push(match weight {
                Weight::Nodes(types) => node_column(&graph.node_types, ids, types.as_deref()),
                Weight::Edges => edge_column(&ids.in_degrees(graph), options.method),
                Weight::Train => train_column(&graph.node_types, ids),
            });
        }
        let totals = columns.iter().map(|c| c.iter().map(|&w| w as u64).sum()).collect();
        let weights = (0..ids.num_nodes()).flat_map(|node| columns.iter().map(move |column| column[node])).collect();
        Self { weights, totals }
    }

    /// Returns the number of constraints.
    pub(crate) fn num(&self) -> usize {
        self.totals.len()
    }

    /// Returns the weights of one node.
    pub(crate) fn of(&self, node: usize) -> &[i32] {
        &self.weights[node * self.num()..(node + 1) * self.num()]
    }
}

/// Returns the requested quantities that the method can balance and the graph has.
pub(crate) fn effective_balance(sizes: &GraphSizes, options: &PartitionOptions) -> Vec<Balance> {
    if options.method == Method::Random {
        return vec![Balance::Nodes];
    }
    let train = sizes.num_train;
    let mut used = Vec::new();
    for balance in Balance::ALL {
        let is_possible = match balance {
            Balance::Nodes => true,
            Balance::Edges => sizes.num_edges > 0,
            // Fewer than one per part cannot be even, and a total weight of zero makes METIS put all nodes into one part.
            Balance::Train => train >= options.num_parts as usize && train > 0,
        };
        if is_possible && options.balance.contains(&balance) {
            used.push(balance);
        }
    }
    if used.is_empty() {
        used.push(Balance::Nodes);
    }
    used
}

/// Returns 1 for each node of some types, or of all types, and 0 for all others.
fn node_column(node_types: &[NodeData], ids: &JoinedIds, types: Option<&[usize]>) -> Vec<i32> {
    let Some(types) = types else { return vec![1; ids.num_nodes()] };
    let mut weights = vec![0; ids.num_nodes()];
    types.iter().for_each(|&t| weights[ids.start(t)..][..node_types[t].num_nodes].fill(1));
    weights
}

/// Returns in-degree + 1 per node. For METIS the degrees are scaled down if their sum would not fit its 31 bits.
fn edge_column(degrees: &[u64], method: Method) -> Vec<i32> {
    // Each node adds 1 to the sum, so the scaled degrees get what is left of the 31 bits.
    let room = (i32::MAX as u64).saturating_sub(degrees.len() as u64).max(1);
    let scale = match method {
        Method::Metis { .. } | Method::SemiExternal => degrees.iter().sum::<u64>().div_ceil(room).max(1),
        Method::Ldg | Method::Random => 1,
    };
    degrees.iter().map(|degree| (1 + degree / scale).min(i32::MAX as u64) as i32).collect()
}

/// Returns 1 for each training node, and 0 for all others.
fn train_column(node_types: &[NodeData], ids: &JoinedIds) -> Vec<i32> {
    let mut weights = vec![0; ids.num_nodes()];
    for (t, nodes) in node_types.iter().enumerate() {
        nodes.splits.train.iter().for_each(|&node| weights[ids.start(t) + node as usize] = 1);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_weights_are_scaled_for_metis_alone() {
        let small = [3, 0, 7];
        assert_eq!(edge_column(&small, Method::default()), [4, 1, 8]);
        assert_eq!(edge_column(&small, Method::Ldg), [4, 1, 8]);
        let large = [1 << 30, 1 << 30, 1 << 30, 5];
        assert_eq!(edge_column(&large, Method::Ldg), [(1 << 30) + 1, (1 << 30) + 1, (1 << 30) + 1, 6]);
        let scaled = edge_column(&large, Method::default());
        assert!(scaled.iter().map(|&w| w as u64).sum::<u64>() <= i32::MAX as u64, "{scaled:?}");
        assert!(scaled[0] > 1 << 28 && scaled[0] == scaled[2] && scaled[3] >= 1, "{scaled:?}");
    }
}
