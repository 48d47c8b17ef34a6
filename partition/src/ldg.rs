//! Linear deterministic greedy streaming.

use crate::constraints::Constraints;
use edgecut_graph::parts::Groups;
use edgecut_graph::rng::{CounterRng, combine};

/// Passes over the stream; from the second on a node's neighbors are all placed, and it may move (restreaming,
/// Nishimura & Ugander 2013).
const PASSES: usize = 5;
/// A part may hold this much more than its even share of a weight.
const SLACK: f64 = 1.03;
const UNPLACED: u32 = u32::MAX;

/// Splits the symmetric graph into `num_parts` parts: a part per node.
///
/// Nodes come in seeded random order, another one in each pass, and go to the part `p` with the largest `neighbors in p * (1 - load of p)`
/// (Stanton & Kliot 2012), where the load is the largest over all constraints, relative to capacity. A part without
/// room is passed over; with no room anywhere, or no neighbor placed, the least loaded part takes the node.
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

/// The weight in each part, relative to its capacity: `[num_parts, num_constraints]`.
struct Loads {
    held: Vec<u64>,
    capacity: Vec<u64>,
}

impl Loads {
    fn new(constraints: &Constraints, num_parts: usize) -> Self {
        let capacity = |total: &u64| {
            let share = *total as f64 / num_parts as f64;
            ((share * SLACK) as u64).max(total.div_ceil(num_parts as u64)).max(1)
        };
        Self {
            held: vec![0; num_parts * constraints.num()],
            capacity: constraints.totals.iter().map(capacity).collect(),
        }
    }

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

    /// The part for a node with so many `neighbors` in each part. Ties go to the less loaded, then to the first part.
    fn choose(&self, neighbors: &[u32], weights: &[i32]) -> usize {
        let mut best = (0, false, f64::NEG_INFINITY, f64::INFINITY);
        for (part, held) in self.held.chunks_exact(self.capacity.len()).enumerate() {
            let (mut load, mut full, mut after) = (0.0_f64, false, 0.0_f64);
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
