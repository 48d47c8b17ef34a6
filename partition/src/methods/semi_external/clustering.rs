//! Clustering by size-constrained label propagation.

use super::ratings::Ratings;
use super::rounds::{Move, Pass, evaluate};
use crate::methods::constraints::Constraints;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::combine;

/// The maximum number of passes. Further passes move few nodes.
const PASSES: u64 = 5;
/// A pass that moves less than one in this number of nodes is the last one.
const SETTLED: usize = 200;
/// The factor by which a cluster may exceed the mean cluster of the wanted number of clusters.
const LIMIT_FACTOR: u64 = 2;
/// The cluster of no node.
const NONE: u32 = u32::MAX;

/// The clusters of the nodes of a graph.
pub(super) struct Clusters {
    /// The cluster of each node, below `num`. Clusters are numbered in the order of their first nodes.
    pub(super) of: Vec<u32>,
    /// The number of clusters.
    pub(super) num: usize,
}

/// Groups nodes with many common edges, into some `wanted` clusters or more. No cluster has more than about twice its
/// share of the nodes and of each constraint, except for single nodes above that.
///
/// Each node starts as a cluster of its own, and then joins the cluster that it has the most edges to, among those with
/// room for it (Meyerhenke, Sanders & Schulz 2014). Afterwards, nodes that are still alone join each other if they have the
/// most edges to the same full cluster, as the leaves of a star have (two-hop clustering, LaSalle et al. 2015).
pub(super) fn cluster(graph: &Groups, constraints: &Constraints, wanted: usize, seed: u64) -> Clusters {
    let num_nodes = graph.num_rows();
    let mut state = Labels::new(constraints, num_nodes, wanted);
    for pass in 0..PASSES {
        let seed = combine(seed, pass);
        let mut moved = 0;
        let decide = |state: &Labels, ratings: &mut Ratings, node: usize| {
            state.rate(graph, ratings, node);
            state.best(ratings, node, combine(seed, node as u64) as u32)
        };
        Pass { num_nodes, seed }.run(&mut state, decide, |state, step| moved += usize::from(state.join(step)));
        if moved * SETTLED < num_nodes {
            break;
        }
    }
    state.join_the_single(graph, combine(seed, PASSES));
    let Labels { of, .. } = state;
    number(of)
}

/// The clusters during label propagation. A cluster's id is that of the node that was alone in it at first.
struct Labels<'a> {
    of: Vec<u32>,
    /// The number of nodes in each cluster.
    sizes: Vec<u32>,
    /// The weights of each cluster: `[num_nodes, num_constraints]`, row-major.
    weights: Vec<u32>,
    constraints: &'a Constraints,
    max_size: u64,
    /// The maximum of each weight of a cluster: `[num_constraints]`.
    limits: Vec<u64>,
}

impl<'a> Labels<'a> {
    fn new(constraints: &'a Constraints, num_nodes: usize, wanted: usize) -> Self {
        let limit = |total: u64| (LIMIT_FACTOR * total / wanted as u64).max(1);
        Self {
            of: (0..num_nodes as u32).collect(),
            sizes: vec![1; num_nodes],
            weights: constraints.weights.iter().map(|&weight| weight as u32).collect(),
            constraints,
            max_size: limit(num_nodes as u64),
            limits: constraints.totals.iter().map(|&total| limit(total)).collect(),
        }
    }

    /// Counts the edges between a node and each cluster.
    fn rate(&self, graph: &Groups, ratings: &mut Ratings, node: usize) {
        let neighbors = graph.row(node);
        ratings.reset(neighbors.len());
        neighbors.iter().for_each(|&neighbor| ratings.add(self.of[neighbor as usize]));
    }

    /// Returns true if the cluster has room for the node.
    fn fits(&self, label: u32, node: usize) -> bool {
        let num = self.limits.len();
        let label = label as usize;
        let held = &self.weights[label * num..(label + 1) * num];
        u64::from(self.sizes[label]) < self.max_size
            && held
                .iter()
                .zip(self.constraints.of(node))
                .zip(&self.limits)
                .all(|((&held, &weight), &limit)| weight == 0 || u64::from(held) + weight as u64 <= limit)
    }

    /// Returns the cluster that the node should join, if it is another one: that with the most edges to the node. Ties
    /// are resolved by `salt`.
    fn best(&self, ratings: &Ratings, node: usize, salt: u32) -> Option<u32> {
        let own = self.of[node];
        let mut best = (0, 0, own);
        for (label, weight) in ratings.iter() {
            let tie = (label ^ salt).wrapping_mul(0x9E37_79B1) | 1;
            let candidate = (weight, if label == own { u32::MAX } else { tie }, label);
            if candidate > best && (label == own || self.fits(label, node)) {
                best = candidate;
            }
        }
        (best.2 != own).then_some(best.2)
    }

    /// Moves a node if there is still room for it, and returns true if it moved.
    fn join(&mut self, step: Move) -> bool {
        let node = step.node as usize;
        if !self.fits(step.target, node) {
            return false;
        }
        let num = self.limits.len();
        let from = self.of[node] as usize;
        let to = step.target as usize;
        self.sizes[from] -= 1;
        self.sizes[to] += 1;
        for (c, &weight) in self.constraints.of(node).iter().enumerate() {
            self.weights[from * num + c] -= weight as u32;
            self.weights[to * num + c] += weight as u32;
        }
        self.of[node] = step.target;
        true
    }

    /// Joins nodes that are alone in their cluster with each other, if they have the most edges to the same cluster or
    /// have no edges.
    fn join_the_single(&mut self, graph: &Groups, seed: u64) {
        let single: Vec<u32> =
            (0..self.of.len() as u32).filter(|&node| self.sizes[self.of[node as usize] as usize] == 1).collect();
        let decide = |ratings: &mut Ratings, node: usize| {
            self.rate(graph, ratings, node);
            let salt = combine(seed, node as u64) as u32;
            let tie = |label: u32| (label ^ salt).wrapping_mul(0x9E37_79B1);
            let others = ratings.iter().filter(|&(label, _)| label != self.of[node]);
            Some(others.max_by_key(|&(label, weight)| (weight, tie(label))).map_or(NONE, |(label, _)| label))
        };
        let favorites = evaluate(&single, decide);
        // The cluster that nodes with the same favorite join at present; the last one is for nodes without edges.
        let mut open = vec![NONE; self.of.len() + 1];
        for Move { node, target } in favorites.into_iter().flatten() {
            let own = self.of[node as usize];
            if self.sizes[own as usize] != 1 {
                continue;
            }
            let open = &mut open[(target as usize).min(self.of.len())];
            if *open == NONE || !self.join(Move { node, target: *open }) {
                *open = own;
            }
        }
    }
}

/// Numbers clusters in the order of their first nodes.
fn number(mut of: Vec<u32>) -> Clusters {
    let mut numbers = vec![NONE; of.len()];
    let mut num = 0;
    for label in &mut of {
        let number = &mut numbers[*label as usize];
        if *number == NONE {
            *number = num;
            num += 1;
        }
        *label = *number;
    }
    Clusters { of, num: num as usize }
}
