//! The parts of new nodes.

use crate::methods::constraints::{Constraints, GraphSizes, Weight};
use crate::methods::loads::Loads;
use crate::{Balance, Method, PartitionError, PartitionOptions};
use edgecut_graph::{Meta, Neighbor, NewNodes, PartQuantities, PartsUpdate};

/// The number of passes over the new nodes. From the second pass on, all neighbors of a node are placed.
const PASSES: usize = 3;
const UNPLACED: u32 = u32::MAX;
/// The largest balance of a partitioning that new nodes may keep up.
const MOST_BALANCE: f64 = 1.1;

/// Places each new node in the part that has most of its neighbors and room for it. Of equal parts, the one with more room
/// takes it, then the first one. Nodes come in the order of their ids, several times. Without a neighbor, and if all parts
/// with neighbors are full, the least loaded part takes the node. Returns the parts of the new nodes of each type.
///
/// A part has room up to 1.03 times its even share of the quantities that the parts were balanced by, or up to the
/// imbalance that the known nodes have, but at most 1.1.
///
/// # Errors
/// [`PartitionError::TooManyParts`] if the update leaves fewer nodes than parts.
pub(super) fn place(update: &PartsUpdate, meta: &Meta) -> Result<Vec<Vec<u32>>, PartitionError> {
    let known = update.known_quantities();
    let new = update.new_nodes();
    let sizes = sizes(&known, &new);
    let num_nodes = sizes.num_nodes.iter().sum();
    if meta.num_parts as usize > num_nodes {
        return Err(PartitionError::TooManyParts { num_parts: meta.num_parts, num_nodes });
    }
    let parts = place_all(&known, &new, &sizes, meta);
    let mut by_type = vec![Vec::new(); meta.node_types.len()];
    new.node_types.iter().zip(parts).for_each(|(&t, part)| by_type[t].push(part));
    Ok(by_type)
}

/// Returns the sizes of the graph after the update.
fn sizes(known: &[PartQuantities], new: &NewNodes) -> GraphSizes {
    let num_types = known.first().map_or(0, |part| part.nodes.len());
    let mut num_nodes = vec![0; num_types];
    for part in known {
        num_nodes.iter_mut().zip(&part.nodes).for_each(|(sum, &number)| *sum += number as usize);
    }
    new.node_types.iter().for_each(|&t| num_nodes[t] += 1);
    let num_edges: u64 = known.iter().flat_map(|part| &part.in_edges).chain(&new.in_edges).sum();
    let num_train: u64 = known.iter().flat_map(|part| &part.train).sum();
    let num_train = num_train as usize + new.is_train.iter().filter(|is_train| **is_train).count();
    GraphSizes { num_nodes, num_edges: num_edges as usize, num_train }
}

fn place_all(known: &[PartQuantities], new: &NewNodes, sizes: &GraphSizes, meta: &Meta) -> Vec<u32> {
    let mut balance: Vec<Balance> = meta.provenance.balance.iter().filter_map(|name| name.parse().ok()).collect();
    if balance.is_empty() {
        // The parts were assigned by another program.
        balance = Balance::ALL.to_vec();
    }
    let options = PartitionOptions { balance, method: Method::Ldg, ..PartitionOptions::new(meta.num_parts) };
    let weights = sizes.weights(&options);
    let sums: Vec<Vec<u64>> =
        known.iter().map(|part| weights.iter().map(|weight| sum_in_part(weight, part)).collect()).collect();
    let num_new = new.node_types.len();
    let of_new: Vec<i32> =
        (0..num_new).flat_map(|node| weights.iter().map(move |weight| weight_of_new(weight, new, node))).collect();
    let mut totals = vec![0; weights.len()];
    let all = sums.iter().flatten().copied().chain(of_new.iter().map(|&weight| weight as u64));
    all.enumerate().for_each(|(at, weight)| totals[at % weights.len()] += weight);
    let constraints = Constraints { weights: of_new, totals };
    let mut loads = Loads::new(&constraints, meta.num_parts as usize);
    sums.iter().enumerate().for_each(|(part, sums)| loads.add_sums(part, sums));
    loads.keep_up_balance(&constraints, MOST_BALANCE);
    let mut parts = vec![UNPLACED; num_new];
    let mut of_parts = vec![0_u32; meta.num_parts as usize];
    for _ in 0..PASSES {
        let mut has_moved = false;
        let mut start = 0;
        for (node, &end) in new.ends.iter().enumerate() {
            let weights = constraints.of(node);
            if parts[node] != UNPLACED {
                loads.remove(parts[node] as usize, weights);
            }
            of_parts.fill(0);
            for neighbor in &new.neighbors[start..end] {
                let part = match *neighbor {
                    Neighbor::InPart(part) => part,
                    Neighbor::New(other) => parts[other as usize],
                };
                if part != UNPLACED {
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
    parts
}

/// Returns the sum of a weight over the known nodes of a part.
fn sum_in_part(weight: &Weight, part: &PartQuantities) -> u64 {
    match weight {
        Weight::Nodes(None) => part.nodes.iter().sum(),
        Weight::Nodes(Some(types)) => types.iter().map(|&t| part.nodes[t]).sum(),
        Weight::Edges => part.nodes.iter().chain(&part.in_edges).sum(),
        Weight::Train => part.train.iter().sum(),
    }
}

/// Returns the weight of a new node.
fn weight_of_new(weight: &Weight, new: &NewNodes, node: usize) -> i32 {
    match weight {
        Weight::Nodes(types) => i32::from(types.as_ref().is_none_or(|types| types.contains(&new.node_types[node]))),
        Weight::Edges => (1 + new.in_edges[node]).min(i32::MAX as u64) as i32,
        Weight::Train => i32::from(new.is_train[node]),
    }
}
