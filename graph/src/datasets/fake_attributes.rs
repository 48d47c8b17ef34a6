//! Attributes of edges and times of nodes in generated graphs.

use super::fake::FakeOptions;
use crate::rng::{CounterRng, combine};
use crate::{Buffer, EdgeAttributes, Features};
use rayon::prelude::*;

/// The number of features per edge.
const EDGE_CHANNELS: usize = 4;
/// The exclusive upper bound of node times, which start at 0.
const NODE_TIMES: u64 = 1000;
/// The exclusive upper bound of the time from the later end of an edge to the edge itself.
const EDGE_TIMES: u64 = 100;
/// Constants that are mixed into the seed of node times and of edge attributes, so that they are independent.
const TIMES: u64 = 0x0074_696d_6573;
const ATTRIBUTES: u64 = 0x6174_7472_6962;

/// The nodes of the type at one end of edges.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) classes: &'a [u32],
    pub(super) times: &'a [i64],
}

/// Draws a time for each node.
pub(super) fn node_times(options: &FakeOptions) -> Vec<i64> {
    let key = combine(options.seed, TIMES);
    let time = |node| CounterRng::new(combine(key, node as u64)).below(NODE_TIMES) as i64;
    (0..options.avg_num_nodes).into_par_iter().map(time).collect()
}

/// Draws weights, times and features of edges. Within a class, edges have weights from 2 to 4 and features with mean 1.
/// Between classes, they have weights from 0.5 to 1 and features with mean 0. The random numbers of an edge depend only
/// on `seed` and its ends. If `undirected` is true, they do not depend on the order of the ends, so both directions of
/// an edge have the same attributes.
pub(super) fn edge_attributes(
    seed: u64,
    (src, dst): (&[u32], &[u32]),
    (sources, destinations): (Ends, Ends),
    undirected: bool,
) -> EdgeAttributes {
    let seed = combine(seed, ATTRIBUTES);
    let edge = |(&src, &dst): (&u32, &u32)| {
        // A pair in ascending order gives both directions of an undirected edge the same key.
        let (first, second) = if undirected { (src.min(dst), src.max(dst)) } else { (src, dst) };
        let draws = CounterRng::new(combine(seed, u64::from(first) << 32 | u64::from(second)));
        let is_within = sources.classes[src as usize] == destinations.classes[dst as usize];
        (src, dst, is_within, draws)
    };
    let edges = || src.par_iter().zip(dst).map(edge);
    // Draw 0 of an edge is for its weight, draw 1 for its time, and draw 2 keys a sequence for its features.
    let weights = edges().map(|(_, _, is_within, mut draws)| {
        let base = if is_within { 2.0 } else { 0.5 };
        (base * (1.0 + draws.unit())) as f32
    });
    let times = edges().map(|(src, dst, _, draws)| {
        let later = sources.times[src as usize].max(destinations.times[dst as usize]);
        later + (draws.nth(1) % EDGE_TIMES) as i64
    });
    let mut features = vec![0.0_f32; src.len() * EDGE_CHANNELS];
    features.par_chunks_exact_mut(EDGE_CHANNELS).zip(edges()).for_each(|(row, (_, _, is_within, draws))| {
        let mut draws = CounterRng::new(draws.nth(2));
        row.iter_mut().for_each(|value| *value = draws.gaussian() + f32::from(u8::from(is_within)));
    });
    let times: Buffer<i64> = times.collect::<Vec<_>>().into();
    EdgeAttributes {
        features: Some(Features::F32 { values: features.into(), dim: EDGE_CHANNELS }),
        weights: Some(weights.collect::<Vec<_>>().into()),
        times: Some(times),
    }
}
