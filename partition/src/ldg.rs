//! Linear deterministic greedy streaming (LDG).

use crate::constraints::Constraints;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::{CounterRng, combine};

/// The number of passes over the nodes. From the second pass on all neighbors of a node are placed, and the node may
/// move (restreaming, Nishimura & Ugander 2013).
const PASSES: usize = 5;
/// The factor by which a part may exceed its even share of a weight.
const SLACK: f64 = 1.03;
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

/// The weights in each part, and the capacities of a part.
struct Loads {
    /// The weights in each part: `[num_parts, num_constraints]`, row-major.
    held: Vec<u64>,
    /// The largest weight that a part may hold: `[num_constraints]`.
    capacity: Vec<u64>,
}

impl Loads {
    fn new(constraints: &Constraints, num_parts: usize) -> Self {
        let capacity = |total: &u64| {
            let share = *total as f64 / num_parts as f64;
            // Rounding down must not leave less room than there is weight, nor a capacity of 0 to divide by.
            ((share * SLACK) as u64).max(total.div_ceil(num_parts as u64)).max(1)
        };
        Self {
            held: vec![0; num_parts * constraints.num()],
            capacity: constraints.totals.iter().map(capacity).collect(),
        }
    }

    /// Returns the weights in a part.
    fn of(&mut self, part: usize) -> &mut [u64] {
        let num = self.capacity.len();
        &mut self.held[part * num..(part + 1) * num]
    }

    fn add(&mut self, part: usize, weights: &[i32]) {
        self.of(part).iter_mut().zip(weights).for_each(|(held, &weight)| *held += weight as u64);
    }

    fn remove(&mut self, part: usize, weights: &[i32]) {
        self.of(part).iter_mut().zip(weights).for_each(|(held, &weight)| *held -= weight as u64);
    }

    /// Returns the part for a node that has `neighbors[p]` neighbors in each part `p`. Ties go to the less loaded part,
    /// then to the first one.
    fn choose(&self, neighbors: &[u32], weights: &[i32]) -> usize {
        // (part, has room, score, load). Parts with room come before full ones, then the higher score wins. Full parts
        // are compared by their load after the node is added.
        let mut best = (0, false, f64::NEG_INFINITY, f64::INFINITY);
        for (part, held) in self.held.chunks_exact(self.capacity.len()).enumerate() {
            let mut load = 0.0_f64;
            let mut full = false;
            let mut after = 0.0_f64;
            for ((&held, &weight), &capacity) in held.iter().zip(weights).zip(&self.capacity) {
                load = load.max(held as f64 / capacity as f64);
                after = after.max((held + weight as u64) as f64 / capacity as f64);
                full |= weight > 0 && held + weight as u64 > capacity;
            }
            let score = if full { -after } else { f64::from(neighbors[part]) * (1.0 - load).max(0.0) };
            let candidate = (part, !full, score, load);
            let better = (candidate.1, candidate.2).partial_cmp(&(best.1, best.2));
            if better == Some(std::cmp::Ordering::Greater)
                || (better == Some(std::cmp::Ordering::Equal) && candidate.3 < best.3)
            {
                best = candidate;
            }
        }
        best.0
    }
}
