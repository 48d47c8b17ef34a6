//! The order in which a pass of label propagation visits nodes, and the parallel evaluation of their moves.

use super::ratings::Ratings;
use edgecut_graph::rng::combine;
use rayon::prelude::*;

/// The maximum number of consecutive nodes in a block. A pass visits block after block, so that a mapped graph is read
/// from its start to its end, with one block of rows in the page cache.
const BLOCK: usize = 1 << 16;
/// The number of rounds per block. Nodes of one round decide at the same time, without seeing each other's moves. More
/// rounds give better decisions and more waiting for the slowest thread.
const ROUNDS: usize = 8;
/// The number of nodes that one task evaluates.
const TASK: usize = 128;

/// A decision of a node: the id of the cluster or part that it wants to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) node: u32,
    pub(super) target: u32,
}

/// The nodes of a graph in the order of one pass.
///
/// A round consists of the nodes of a block with the same hash, so that neighbors with consecutive ids rarely decide in
/// the same round. Rounds depend on the number of nodes and the seed alone, which makes the result of a pass the same
/// on any number of threads.
///
/// Invariant: the nodes of a round decide in parallel on a frozen state, and their moves are applied in the order of
/// the nodes.
pub(super) struct Pass {
    pub(super) num_nodes: usize,
    pub(super) seed: u64,
}

impl Pass {
    /// Calls `apply` for each round with the moves that `decide` returns for the round's nodes, in ascending order of
    /// nodes. `decide` runs on all threads. It reads `state`, which only `apply` changes.
    pub(super) fn run<S: Sync>(
        &self,
        state: &mut S,
        decide: impl Fn(&S, &mut Ratings, usize) -> Option<u32> + Sync,
        mut apply: impl FnMut(&mut S, Move),
    ) {
        let block = (self.num_nodes / 16).clamp(256, BLOCK);
        let mut rounds: [Vec<u32>; ROUNDS] = Default::default();
        for first in (0..self.num_nodes).step_by(block) {
            rounds.iter_mut().for_each(Vec::clear);
            for node in first..self.num_nodes.min(first + block) {
                rounds[(combine(self.seed, node as u64) >> 32) as usize % ROUNDS].push(node as u32);
            }
            for nodes in &rounds {
                let moves = evaluate(nodes, |ratings, node| decide(state, ratings, node));
                moves.into_iter().flatten().for_each(|step| apply(state, step));
            }
        }
    }
}

/// Returns the moves of `nodes`, in their order.
pub(super) fn evaluate(nodes: &[u32], decide: impl Fn(&mut Ratings, usize) -> Option<u32> + Sync) -> Vec<Vec<Move>> {
    let of_task = |ratings: &mut Ratings, nodes: &[u32]| -> Vec<Move> {
        let decisions = nodes.iter().filter_map(|&node| Some(Move { node, target: decide(ratings, node as usize)? }));
        decisions.collect()
    };
    nodes.par_chunks(TASK).map_init(Ratings::default, of_task).collect()
}
