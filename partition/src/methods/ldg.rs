//! Linear deterministic greedy streaming (LDG).

use crate::methods::constraints::Constraints;
use crate::methods::loads::Loads;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::{CounterRng, combine};

/// The number of passes over the nodes. From the second pass on all neighbors of a node are placed, and the node may
/// move (restreaming, Nishimura & Ugander 2013).
const PASSES: usize = 5;
const UNPLACED: u32 = u32::MAX;

/// Splits the symmetric graph into `num_parts` parts, and returns the part of each node.
///
/// Nodes come in a seeded random order, a new one in each pass. A node goes to the part `p` with the largest
/// `neighbors in p * (1 - load of p)` (Stanton & Kliot 2012), where the load is the largest over all constraints,
/// relative to capacity. Full parts are skipped. If all parts are full, or no neighbor is placed, the least loaded part
/// takes the node.
pub(crate) fn split(graph: &Groups, constraints: &Constraints, num_parts: u32, seed: u64) -> Vec<u32> {
    let num_parts = num_parts as usize;
    let mut order: Vec<u32> = (0..graph.num_rows() as u32).collect();
    let mut parts = vec![UNPLACED; graph.num_rows()];
    let mut loads = Loads::new(constraints, num_parts);
    let mut neighbors = vec![0_u32; num_parts];
    for pass in 0..PASSES {
        CounterRng::new(combine(seed, pass as u64)).shuffle(&mut order);
        for &node in &order {
            let node = node as usize;
            // A node that moves must not count against the part that it leaves.
            if parts[node] != UNPLACED {
                loads.remove(parts[node] as usize, constraints.of(node));
            }
            neighbors.fill(0);
            for &neighbor in graph.row(node) {
                let part = parts[neighbor as usize];
                if part != UNPLACED {
                    neighbors[part as usize] += 1;
                }
            }
            let part = loads.choose(&neighbors, constraints.of(node));
            loads.add(part, constraints.of(node));
            parts[node] = part as u32;
        }
    }
    parts
}
