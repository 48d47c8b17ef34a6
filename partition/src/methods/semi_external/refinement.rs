//! Refinement of parts by label propagation, within the capacities of parts.

use super::ratings::Ratings;
use super::rounds::{Move, Pass, evaluate};
use crate::methods::constraints::Constraints;
use crate::methods::loads::Loads;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::combine;

/// The maximum number of passes.
const PASSES: u64 = 12;
/// A pass that moves less than one in this number of nodes is the last one.
const SETTLED: usize = 1000;
/// The maximum number of passes that move nodes out of parts above their capacity.
const BALANCING_PASSES: u64 = 8;
/// The number of these passes, the last ones, in which no part may exceed another capacity in return.
const STRICT_PASSES: u64 = 2;

/// Moves nodes to the parts that most of their neighbors are in, as far as these have room, and nodes out of parts that
/// exceed their capacity.
pub(super) fn refine(
    graph: &Groups,
    constraints: &Constraints,
    num_parts: u32,
    parts: Vec<u32>,
    seed: u64,
) -> Vec<u32> {
    let mut state = Parts { loads: Loads::new(constraints, num_parts as usize), of: parts, constraints };
    state.of.iter().enumerate().for_each(|(node, &part)| state.loads.add(part as usize, constraints.of(node)));
    balance(graph, &mut state);
    for pass in 0..PASSES {
        let seed = combine(seed, pass);
        let mut moved = 0;
        let decide = |state: &Parts, ratings: &mut Ratings, node: usize| {
            state.rate(graph, ratings, node);
            state.best(ratings, node, combine(seed, node as u64) as u32)
        };
        let pass = Pass { num_nodes: graph.num_rows(), seed };
        pass.run(&mut state, decide, |state, step| moved += usize::from(state.join(step)));
        if moved * SETTLED < graph.num_rows() {
            break;
        }
    }
    balance(graph, &mut state);
    state.of
}

/// Moves nodes out of parts that exceed their capacity, those first that lose the least.
///
/// With several weights, parts can be full of nodes of which none has the weight in question. The first passes then move
/// nodes nevertheless, and the next ones move others out in return.
fn balance(graph: &Groups, state: &mut Parts) {
    for pass in 0..BALANCING_PASSES {
        let strict = pass + STRICT_PASSES >= BALANCING_PASSES;
        let over: Vec<bool> = (0..state.loads.num_parts()).map(|part| state.loads.is_over(part)).collect();
        if !over.contains(&true) {
            return;
        }
        let candidates: Vec<u32> = (0..state.of.len() as u32)
            .filter(|&node| {
                let part = state.of[node as usize] as usize;
                over[part] && state.loads.relieves(part, state.constraints.of(node as usize))
            })
            .collect();
        let loss = |ratings: &mut Ratings, node: usize| {
            state.rate(graph, ratings, node);
            Some(state.loss(ratings, node))
        };
        let mut by_loss: Vec<Move> = evaluate(&candidates, loss).into_iter().flatten().collect();
        by_loss.sort_by_key(|step| step.target);
        let mut ratings = Ratings::default();
        for Move { node, .. } in by_loss {
            let part = state.of[node as usize] as usize;
            if state.loads.relieves(part, state.constraints.of(node as usize)) {
                state.rate(graph, &mut ratings, node as usize);
                if let Some(target) = state.refuge(&ratings, node as usize, strict) {
                    state.place(Move { node, target });
                }
            }
        }
    }
}

/// The parts during refinement.
struct Parts<'a> {
    of: Vec<u32>,
    loads: Loads,
    constraints: &'a Constraints,
}

impl Parts<'_> {
    /// Counts the neighbors of a node in each part.
    fn rate(&self, graph: &Groups, ratings: &mut Ratings, node: usize) {
        let neighbors = graph.row(node);
        ratings.reset(neighbors.len().min(self.loads.num_parts()));
        neighbors.iter().for_each(|&neighbor| ratings.add(self.of[neighbor as usize]));
    }

    /// Returns the part with room that has the most neighbors of the node, if it is another one. Among parts with the same
    /// number, the node stays, or else `salt` decides.
    fn best(&self, ratings: &Ratings, node: usize, salt: u32) -> Option<u32> {
        let own = self.of[node];
        let mut best = (0, 0, own);
        for (part, weight) in ratings.iter() {
            let tie = if part == own { u32::MAX } else { (part ^ salt).wrapping_mul(0x9E37_79B1) >> 1 };
            let candidate = (weight, tie, part);
            if candidate > best && (part == own || self.loads.fits(part as usize, self.constraints.of(node))) {
                best = candidate;
            }
        }
        (best.2 != own).then_some(best.2)
    }

    /// Returns the loss of the best move of a node out of its part, as a number that ascends with the loss per neighbor.
    fn loss(&self, ratings: &Ratings, node: usize) -> u32 {
        let own = self.of[node];
        let inside = ratings.iter().find(|&(part, _)| part == own).map_or(0, |(_, weight)| weight);
        let outside = ratings.iter().filter(|&(part, _)| part != own).map(|(_, weight)| weight).max().unwrap_or(0);
        (i64::from(inside) - i64::from(outside) + i64::from(u32::MAX / 2)).clamp(0, i64::from(u32::MAX)) as u32
    }

    /// Returns the part with room that has the most neighbors of the node, except for its own, and otherwise the least
    /// loaded part with room. Unless `strict`, a part that has room only for what the own part exceeds comes last.
    fn refuge(&self, ratings: &Ratings, node: usize, strict: bool) -> Option<u32> {
        let own = self.of[node];
        let weights = self.constraints.of(node);
        let with_room = |part: &u32| *part != own && self.loads.fits(*part as usize, weights);
        let near = ratings.iter().filter(|(part, _)| with_room(part)).max_by_key(|&(part, weight)| (weight, !part));
        let relieving =
            |part: &u32| !strict && *part != own && self.loads.can_relieve(*part as usize, own as usize, weights);
        let least_loaded = |accepts: &dyn Fn(&u32) -> bool| {
            let all = (0..self.loads.num_parts() as u32).filter(accepts);
            all.min_by(|&a, &b| self.loads.load(a as usize).total_cmp(&self.loads.load(b as usize)))
        };
        near.map(|(part, _)| part).or_else(|| least_loaded(&with_room)).or_else(|| least_loaded(&relieving))
    }

    /// Moves a node if there is still room for it, and returns true if it moved.
    fn join(&mut self, step: Move) -> bool {
        let fits = self.loads.fits(step.target as usize, self.constraints.of(step.node as usize));
        if fits {
            self.place(step);
        }
        fits
    }

    /// Moves a node.
    fn place(&mut self, step: Move) {
        let node = step.node as usize;
        let weights = self.constraints.of(node);
        self.loads.remove(self.of[node] as usize, weights);
        self.loads.add(step.target as usize, weights);
        self.of[node] = step.target;
    }
}
