//! Attributes of edges and times of nodes in generated graphs.

use super::options::FakeOptions;
use crate::dataset::EdgeAttributes;
use crate::memory::Features;
use crate::parallel;
use crate::rng::{CounterRng, combine};

/// The number of features per edge.
pub(in crate::readers) const EDGE_CHANNELS: usize = 4;
/// The exclusive upper bound of node times, which start at 0.
const NODE_TIMES: u64 = 1000;
/// The exclusive upper bound of the time from the later end of an edge to the edge itself.
const EDGE_TIMES: u64 = 100;
/// Constants that are mixed into the seed of node times and of edge attributes, so that they are independent.
const TIMES: u64 = 0x0074_696d_6573;
const ATTRIBUTES: u64 = 0x6174_7472_6962;

/// The nodes of the type at one end of edges.
#[derive(Clone, Copy)]
pub(super) struct EndNodes<'a> {
    pub(super) classes: &'a [u32],
    pub(super) times: &'a [i64],
}

/// The edges to draw attributes for.
pub(super) struct DrawnEdges<'a> {
    /// The source of each edge.
    pub(super) src: &'a [u32],
    /// The destination of each edge.
    pub(super) dst: &'a [u32],
    /// The nodes of the sources' type.
    pub(super) sources: EndNodes<'a>,
    /// The nodes of the destinations' type.
    pub(super) destinations: EndNodes<'a>,
    /// True if both directions of an edge have the same attributes.
    pub(super) is_undirected: bool,
}

impl DrawnEdges<'_> {
    /// Returns the random numbers of an edge, which depend only on `key` and its ends.
    #[inline]
    fn draws(&self, key: u64, edge: usize) -> CounterRng {
        let src = self.src[edge];
        let dst = self.dst[edge];
        // A pair in ascending order gives both directions of an undirected edge the same key.
        let pair = if self.is_undirected { [src.min(dst), src.max(dst)] } else { [src, dst] };
        CounterRng::new(combine(key, u64::from(pair[0]) << 32 | u64::from(pair[1])))
    }

    /// Returns true if both ends of an edge have the same class.
    #[inline]
    fn is_within(&self, edge: usize) -> bool {
        self.sources.classes[self.src[edge] as usize] == self.destinations.classes[self.dst[edge] as usize]
    }
}

/// Draws a time for each node.
pub(super) fn node_times(options: &FakeOptions) -> Vec<i64> {
    let key = combine(options.seed, TIMES);
    parallel::map_indices(options.avg_num_nodes, |node| {
        CounterRng::new(combine(key, node as u64)).below(NODE_TIMES) as i64
    })
}

/// Draws weights, times and features of edges. Within a class, edges have weights from 2 to 4 and features with mean 1.
/// Between classes, they have weights from 0.5 to 1 and features with mean 0. The random numbers of an edge depend only
/// on `seed` and its ends.
pub(super) fn edge_attributes(seed: u64, edges: &DrawnEdges) -> EdgeAttributes {
    let key = combine(seed, ATTRIBUTES);
    let num_edges = edges.src.len();
    // Draw 0 of an edge is for its weight, draw 1 for its time, and draw 2 keys a sequence for its features.
    let weights: Vec<f32> = parallel::map_indices(num_edges, |edge| {
        let base = if edges.is_within(edge) { 2.0 } else { 0.5 };
        (base * (1.0 + edges.draws(key, edge).unit())) as f32
    });
    let times: Vec<i64> = parallel::map_indices(num_edges, |edge| {
        let src_time = edges.sources.times[edges.src[edge] as usize];
        let dst_time = edges.destinations.times[edges.dst[edge] as usize];
        src_time.max(dst_time) + (edges.draws(key, edge).nth(1) % EDGE_TIMES) as i64
    });
    let features: Vec<[f32; EDGE_CHANNELS]> = parallel::map_indices(num_edges, |edge| {
        let mut draws = CounterRng::new(edges.draws(key, edge).nth(2));
        let mean = f32::from(u8::from(edges.is_within(edge)));
        std::array::from_fn(|_| draws.gaussian() + mean)
    });
    EdgeAttributes {
        features: Some(Features::F32 { values: features.into_flattened().into(), dim: EDGE_CHANNELS }),
        weights: Some(weights.into()),
        times: Some(times.into()),
        ..EdgeAttributes::default()
    }
}
