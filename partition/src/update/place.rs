//! The parts of new nodes.

use crate::methods::constraints::Constraints;
use crate::methods::joined::JoinedIds;
use crate::methods::loads::Loads;
use crate::{Assignment, Balance, Method, PartitionOptions};
use edgecut_graph::part_writer::Grouped;
use edgecut_graph::{Dataset, Meta};

/// The number of passes over the new nodes. From the second pass on, all neighbors of a node are placed.
const PASSES: usize = 3;
const UNPLACED: u32 = u32::MAX;
/// The largest balance of a partitioning that new nodes may keep up.
const MOST_BALANCE: f64 = 1.1;

/// The neighbors of new nodes in both directions, as joined ids.
pub(super) struct Neighbors {
    /// The new nodes, ascending.
    nodes: Vec<u32>,
    /// The end of each node's neighbors in `pairs`.
    ends: Vec<usize>,
    /// A new node, by its position, and a neighbor; sorted, each once.
    pairs: Vec<(u32, u32)>,
}

impl Neighbors {
    /// Finds the neighbors of the nodes past those of `known`, which has the part of each other node.
    pub(super) fn new(dataset: &Dataset, ids: &JoinedIds, known: &[Vec<u32>]) -> Self {
        let mut nodes = Vec::new();
        // The position of each type's first new node.
        let mut firsts = Vec::with_capacity(known.len());
        for (t, (of_type, known)) in dataset.node_types.iter().zip(known).enumerate() {
            firsts.push(nodes.len() as u32);
            nodes.extend((known.len()..of_type.num_nodes).map(|node| (ids.start(t) + node) as u32));
        }
        let mut pairs = Vec::new();
        for edges in &dataset.edge_types {
            let types = [edges.src_type.index(), edges.dst_type.index()];
            let num_known = types.map(|t| known[t].len() as u32);
            for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
                let ends = [src, dst];
                for (end, other) in [(0, 1), (1, 0)] {
                    if ends[end] >= num_known[end] {
                        let position = firsts[types[end]] + ends[end] - num_known[end];
                        pairs.push((position, ids.start(types[other]) as u32 + ends[other]));
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let ends = (0..nodes.len() as u32).map(|node| pairs.partition_point(|pair| pair.0 <= node)).collect();
        Self { nodes, ends, pairs }
    }

    /// Places each new node in the part that has most of its neighbors and room for it. Of equal parts, the one with more room
    /// takes it, then the first one. Nodes come in the order of their ids, several times. Without a neighbor, and if all parts
    /// with neighbors are full, the least loaded part takes the node.
    ///
    /// A part has room up to 1.03 times its even share of the quantities that the parts were balanced by, or up to the
    /// imbalance that the known nodes have, but at most 1.1.
    pub(super) fn assignment(&self, grouped: &Grouped, ids: &JoinedIds, known: &[Vec<u32>], meta: &Meta) -> Assignment {
        let mut parts = vec![UNPLACED; ids.num_nodes()];
        for (t, known) in known.iter().enumerate() {
            parts[ids.start(t)..][..known.len()].copy_from_slice(known);
        }
        if !self.nodes.is_empty() {
            self.place(grouped, ids, &mut parts, meta);
        }
        Assignment { parts: ids.split(&parts) }
    }

    fn place(&self, grouped: &Grouped, ids: &JoinedIds, parts: &mut [u32], meta: &Meta) {
        let mut balance: Vec<Balance> = meta.provenance.balance.iter().filter_map(|name| name.parse().ok()).collect();
        if balance.is_empty() {
            // The parts were assigned by another program.
            balance = Balance::ALL.to_vec();
        }
        let options = PartitionOptions { balance, method: Method::Ldg, ..PartitionOptions::new(meta.num_parts) };
        let constraints = Constraints::new(grouped, ids, &options);
        let mut loads = Loads::new(&constraints, meta.num_parts as usize);
        for (node, &part) in parts.iter().enumerate().filter(|(_, part)| **part != UNPLACED) {
            loads.add(part as usize, constraints.of(node));
        }
        loads.keep_up_balance(&constraints, MOST_BALANCE);
        let mut of_parts = vec![0_u32; meta.num_parts as usize];
        for _ in 0..PASSES {
            let mut has_moved = false;
            let mut start = 0;
            for (&node, &end) in self.nodes.iter().zip(&self.ends) {
                let node = node as usize;
                let weights = constraints.of(node);
                if parts[node] != UNPLACED {
                    loads.remove(parts[node] as usize, weights);
                }
                of_parts.fill(0);
                for &(_, neighbor) in &self.pairs[start..end] {
                    let part = parts[neighbor as usize];
                    if part != UNPLACED && neighbor as usize != node {
                        of_parts[part as usize] += 1;
                    }
                }
                start = end;
                let part = loads.most_neighbors(&of_parts, weights) as u32;
                loads.add(part as usize, weights);
                has_moved |= parts[node] != part;
                parts[node] = part;
            }
            if !has_moved {
                break;
            }
        }
    }
}
