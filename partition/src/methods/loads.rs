//! The weights that parts hold, and how much they can take.

use crate::methods::constraints::Constraints;

/// The factor by which a part may exceed its even share of a weight.
const SLACK: f64 = 1.03;

/// The weights in each part, and the capacities of a part.
pub(crate) struct Loads {
    /// The weights in each part: `[num_parts, num_constraints]`, row-major.
    held: Vec<u64>,
    /// The largest weight that a part may hold: `[num_constraints]`.
    capacity: Vec<u64>,
}

impl Loads {
    pub(crate) fn new(constraints: &Constraints, num_parts: usize) -> Self {
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
    fn of_mut(&mut self, part: usize) -> &mut [u64] {
        let num = self.capacity.len();
        &mut self.held[part * num..(part + 1) * num]
    }

    pub(crate) fn add(&mut self, part: usize, weights: &[i32]) {
        self.of_mut(part).iter_mut().zip(weights).for_each(|(held, &weight)| *held += weight as u64);
    }

    /// Adds the sums of the weights of many nodes.
    pub(crate) fn add_sums(&mut self, part: usize, sums: &[u64]) {
        self.of_mut(part).iter_mut().zip(sums).for_each(|(held, sum)| *held += sum);
    }

    pub(crate) fn remove(&mut self, part: usize, weights: &[i32]) {
        self.of_mut(part).iter_mut().zip(weights).for_each(|(held, &weight)| *held -= weight as u64);
    }

    /// Returns the weights in a part.
    fn of(&self, part: usize) -> &[u64] {
        let num = self.capacity.len();
        &self.held[part * num..(part + 1) * num]
    }

    /// Returns the number of parts.
    pub(crate) fn num_parts(&self) -> usize {
        self.held.len() / self.capacity.len()
    }

    /// Returns the load of a part: the largest over all weights, relative to capacity.
    pub(crate) fn load(&self, part: usize) -> f64 {
        let loads = self.of(part).iter().zip(&self.capacity).map(|(&held, &capacity)| held as f64 / capacity as f64);
        loads.fold(0.0, f64::max)
    }

    /// Returns true if the part has room for a node with these weights.
    pub(crate) fn fits(&self, part: usize, weights: &[i32]) -> bool {
        let all = self.of(part).iter().zip(weights).zip(&self.capacity);
        all.into_iter().all(|((&held, &weight), &capacity)| weight == 0 || held + weight as u64 <= capacity)
    }

    /// Returns true if the part exceeds its capacity of some weight.
    pub(crate) fn is_over(&self, part: usize) -> bool {
        self.of(part).iter().zip(&self.capacity).any(|(held, capacity)| held > capacity)
    }

    /// Returns true if the part exceeds its capacity of a weight that a node with these weights has.
    pub(crate) fn relieves(&self, part: usize, weights: &[i32]) -> bool {
        let all = self.of(part).iter().zip(weights).zip(&self.capacity);
        all.into_iter().any(|((held, &weight), capacity)| weight > 0 && held > capacity)
    }

    /// Returns true if `part` has room for what a node with these weights relieves its part `from` of, whatever else it
    /// exceeds.
    pub(crate) fn can_relieve(&self, part: usize, from: usize, weights: &[i32]) -> bool {
        let exceeded = self.of(from).iter().zip(&self.capacity).map(|(held, capacity)| held > capacity);
        let all = exceeded.zip(self.of(part)).zip(weights).zip(&self.capacity);
        all.into_iter().all(|(((exceeded, &held), &weight), &capacity)| {
            !exceeded || weight == 0 || held + weight as u64 <= capacity
        })
    }

    /// Raises capacities to the balance that the parts have, but not to more than `most` times an even share.
    pub(crate) fn keep_up_balance(&mut self, constraints: &Constraints, most: f64) {
        let num = self.capacity.len();
        let num_parts = self.num_parts();
        for (at, (capacity, &total)) in self.capacity.iter_mut().zip(&constraints.totals).enumerate() {
            let held = self.held.iter().skip(at).step_by(num);
            let mean = held.clone().sum::<u64>() as f64 / num_parts as f64;
            let largest = held.max().copied().unwrap_or(0) as f64;
            if mean > 0.0 {
                let share = total as f64 / num_parts as f64;
                *capacity = (*capacity).max((share * (largest / mean).min(most)) as u64);
            }
        }
    }

    /// Returns the part with most of a node's neighbors among the parts with some and with room. Ties go to the less loaded
    /// part, then to the first one. Without such a part, the least loaded part is returned.
    pub(crate) fn most_neighbors(&self, neighbors: &[u32], weights: &[i32]) -> usize {
        let mut best: Option<usize> = None;
        for part in (0..neighbors.len()).filter(|&part| neighbors[part] > 0 && self.fits(part, weights)) {
            let is_better = best.is_none_or(|best| {
                neighbors[part] > neighbors[best]
                    || (neighbors[part] == neighbors[best] && self.load(part) < self.load(best))
            });
            if is_better {
                best = Some(part);
            }
        }
        best.unwrap_or_else(|| self.choose(&vec![0; neighbors.len()], weights))
    }

    /// Returns the part for a node that has `neighbors[p]` neighbors in each part `p`. Ties go to the less loaded part,
    /// then to the first one.
    pub(crate) fn choose(&self, neighbors: &[u32], weights: &[i32]) -> usize {
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
