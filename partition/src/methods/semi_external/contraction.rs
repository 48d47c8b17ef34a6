//! Contraction of clusters to the vertices of a small graph.

use super::clustering::Clusters;
use crate::methods::constraints::Constraints;
use edgecut_graph::part_writer::Groups;
use edgecut_graph::rng::{combine, mix};
use rayon::prelude::*;
use std::ops::Range;

/// The number of shards of the table of pairs, each of which one task changes at a time.
const SHARDS: usize = 16;
/// The number of neighbor entries that are read before they are added to the table.
const BLOCK: u64 = 1 << 22;
/// The number of nodes whose edges one task reads.
const TASK: usize = 1 << 10;

/// A graph of clusters. The weight of an edge is the number of edges between two clusters, and the weights of a vertex
/// are those of all its nodes.
pub(super) struct CoarseGraph {
    /// The start of each row, followed by the end of the last row.
    pub(super) offsets: Vec<u64>,
    /// The neighbors of each vertex.
    pub(super) neighbors: Vec<u32>,
    /// The weight of the edge to each neighbor.
    pub(super) edge_weights: Vec<i32>,
    /// The weights of vertices.
    pub(super) constraints: Constraints,
}

/// Contracts the clusters of a symmetric graph.
///
/// The result has at most about `max_pairs` pairs of adjacent clusters. If there are more, edges are sampled: each pair of
/// nodes is kept or left out by its hash, at a rate that keeps the number of pairs below the maximum. Heavy edges keep
/// about their share of the weight, so the cut of the sample estimates that of the graph (threshold sampling of coarse
/// edges is due to Gottesbüren et al. 2025).
pub(super) fn contract(
    graph: &Groups,
    constraints: &Constraints,
    clusters: &Clusters,
    max_pairs: usize,
    seed: u64,
) -> CoarseGraph {
    let mut rate = 1.0_f64;
    let pairs = loop {
        match Pairs::count(graph, clusters, max_pairs, rate, seed) {
            Ok(pairs) => break pairs,
            // The table was full after this share of the nodes. Pairs repeat, so a sample of this rate fits.
            Err(share) => rate *= (0.9 * share).clamp(0.01, 0.9),
        }
    };
    let (offsets, neighbors, edge_weights) = pairs.rows(clusters.num);
    CoarseGraph { offsets, neighbors, edge_weights, constraints: coarse_constraints(constraints, clusters) }
}

/// Adds up the weights of the nodes of each cluster.
fn coarse_constraints(constraints: &Constraints, clusters: &Clusters) -> Constraints {
    let num = constraints.num();
    let mut sums = vec![0_u64; clusters.num * num];
    for (node, &cluster) in clusters.of.iter().enumerate() {
        let sums = &mut sums[cluster as usize * num..(cluster as usize + 1) * num];
        sums.iter_mut().zip(constraints.of(node)).for_each(|(sum, &weight)| *sum += weight as u64);
    }
    // METIS adds weights up in 31 bits.
    let scales: Vec<u64> = constraints.totals.iter().map(|total| total.div_ceil(i32::MAX as u64 / 2).max(1)).collect();
    let mut weights = Vec::with_capacity(sums.len());
    let mut totals = vec![0; num];
    for (at, &sum) in sums.iter().enumerate() {
        let column = at % num;
        let weight = if sum == 0 { 0 } else { (sum / scales[column]).max(1) as i32 };
        weights.push(weight);
        totals[column] += weight as u64;
    }
    Constraints { weights, totals }
}

/// The number of sampled edges between each two clusters.
struct Pairs {
    shards: Vec<PairTable>,
}

impl Pairs {
    /// Counts the edges that are sampled with `rate`. Returns the share of the nodes whose edges were read before the
    /// table was full, if it is too small.
    fn count(graph: &Groups, clusters: &Clusters, max_pairs: usize, rate: f64, seed: u64) -> Result<Self, f64> {
        let threshold = (rate * u64::MAX as f64) as u64;
        let mut shards: Vec<PairTable> = (0..SHARDS).map(|_| PairTable::default()).collect();
        let num_nodes = graph.num_rows();
        let keys = |nodes: Range<usize>| {
            let mut keys: [Vec<u64>; SHARDS] = Default::default();
            for node in nodes {
                let own = clusters.of[node];
                let row = graph.row(node);
                // Each edge is in two rows. It counts in that of its smaller end.
                let larger = row.iter().filter(|&&neighbor| neighbor as usize > node);
                for &neighbor in larger {
                    let other = clusters.of[neighbor as usize];
                    let sampled = || combine(combine(seed, node as u64), u64::from(neighbor)) <= threshold;
                    if other != own && (rate >= 1.0 || sampled()) {
                        let key = u64::from(own.min(other)) << 32 | u64::from(own.max(other));
                        keys[mix(key) as usize % SHARDS].push(key);
                    }
                }
            }
            keys
        };
        let mut end = 0;
        while end < num_nodes {
            let first = end;
            let next_block = graph.offsets[first] + BLOCK;
            end = graph.offsets.partition_point(|&offset| offset <= next_block).clamp(first + 2, num_nodes + 1) - 1;
            let tasks: Vec<usize> = (first..end).step_by(TASK).collect();
            let lists: Vec<[Vec<u64>; SHARDS]> =
                tasks.into_par_iter().map(|first| keys(first..end.min(first + TASK))).collect();
            shards.par_iter_mut().enumerate().for_each(|(shard, table)| {
                lists.iter().flat_map(|keys| &keys[shard]).for_each(|&key| table.add(key));
            });
            if shards.iter().map(|table| table.used).sum::<usize>() > max_pairs {
                return Err(end as f64 / num_nodes as f64);
            }
        }
        Ok(Self { shards })
    }

    /// Returns the offsets, the neighbors in ascending order and the weights of the graph with these edges.
    fn rows(self, num_vertices: usize) -> (Vec<u64>, Vec<u32>, Vec<i32>) {
        let mut total = 0_u64;
        let mut offsets = vec![0_u64; num_vertices + 1];
        for (key, count) in self.shards.iter().flat_map(PairTable::iter) {
            let [a, b] = ends(key);
            offsets[a + 1] += 1;
            offsets[b + 1] += 1;
            total += u64::from(count);
        }
        for row in 0..num_vertices {
            offsets[row + 1] += offsets[row];
        }
        // METIS adds weights up in 31 bits, both directions of an edge.
        let scale = (2 * total).div_ceil(i32::MAX as u64 / 2).max(1);
        let mut next = offsets.clone();
        let mut entries = vec![(0_u32, 0_i32); offsets[num_vertices] as usize];
        for table in self.shards {
            for (key, count) in table.iter() {
                let weight = (u64::from(count) / scale).max(1) as i32;
                let [a, b] = ends(key);
                for (from, to) in [(a, b), (b, a)] {
                    entries[next[from] as usize] = (to as u32, weight);
                    next[from] += 1;
                }
            }
        }
        let mut rest = &mut entries[..];
        let mut rows = Vec::with_capacity(num_vertices);
        for ends in offsets.windows(2) {
            let (row, tail) = rest.split_at_mut((ends[1] - ends[0]) as usize);
            rows.push(row);
            rest = tail;
        }
        rows.into_par_iter().for_each(|row| row.sort_unstable());
        let neighbors = entries.iter().map(|&(neighbor, _)| neighbor).collect();
        (offsets, neighbors, entries.iter().map(|&(_, weight)| weight).collect())
    }
}

/// Returns the two clusters of a key.
fn ends(key: u64) -> [usize; 2] {
    [(key >> 32) as usize, key as u32 as usize]
}

/// Counts by pair: an open-addressing hash table that grows by half of its size.
#[derive(Default)]
struct PairTable {
    keys: Vec<u64>,
    counts: Vec<u32>,
    used: usize,
}

/// The key of a free slot. No pair has it, because the two clusters of a pair differ.
const FREE: u64 = u64::MAX;

impl PairTable {
    /// Adds 1 to the count of a pair.
    fn add(&mut self, key: u64) {
        // At most 3/4 of the slots are in use.
        if self.used * 4 >= self.keys.len() * 3 {
            self.grow();
        }
        self.add_many(key, 1);
    }

    fn add_many(&mut self, key: u64, count: u32) {
        let num_slots = self.keys.len();
        // The low bits of the hash select the shard, the high ones the slot.
        let mut slot = ((u128::from(mix(key)) * num_slots as u128) >> 64) as usize;
        loop {
            if self.keys[slot] == key {
                self.counts[slot] = self.counts[slot].saturating_add(count);
                return;
            }
            if self.keys[slot] == FREE {
                self.keys[slot] = key;
                self.counts[slot] = count;
                self.used += 1;
                return;
            }
            slot += 1;
            if slot == num_slots {
                slot = 0;
            }
        }
    }

    fn grow(&mut self) {
        let num_slots = (self.keys.len() * 3 / 2).max(64);
        let keys = std::mem::replace(&mut self.keys, vec![FREE; num_slots]);
        let counts = std::mem::replace(&mut self.counts, vec![0; num_slots]);
        self.used = 0;
        keys.into_iter().zip(counts).filter(|&(key, _)| key != FREE).for_each(|(key, count)| self.add_many(key, count));
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.keys.iter().copied().zip(self.counts.iter().copied()).filter(|&(key, _)| key != FREE)
    }
}
