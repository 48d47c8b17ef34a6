//! Sampling of one hop in which neighbors differ by weight, by time, by the seed for which they are drawn, or by random
//! numbers that all destinations share.

use crate::config::fan_out::Fanout;
use crate::config::sampling_policy::{SamplingPolicy, TemporalStrategy, TimeAttr};
use crate::part::layer_variates::{LayerVariates, above_zero};
use crate::part::source_ids::Sources;
use crate::part::uniform_hop::{Positions, TooLarge};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{PartEdges, prefetch, prefetch_all};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows per parallel task. Fewer than in the plain kernel, since each row reads the weights or times of all its
/// neighbors.
const ROWS_PER_TASK: usize = 64;
/// Rows between the prefetch of a list and its use.
const QUERIES_AHEAD: usize = 2;
/// The entries of a list that are prefetched. The processor itself prefetches the rest of a longer list.
const MAX_PREFETCH: usize = 128;

/// One row to expand, as requested by a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) row: u32,
    /// The number that the draws for the row's seed depend on, if neighborhoods are disjoint.
    pub(crate) group: Option<u32>,
    /// The latest time of a neighbor that may be drawn.
    pub(crate) time: Option<i64>,
}

/// The parameters with which one edge type is sampled in one hop.
pub(crate) struct ConstrainedDraw<'a> {
    pub(crate) edges: &'a PartEdges,
    pub(crate) original_ids: &'a [u32],
    pub(crate) fanout: Fanout,
    pub(crate) rule: SamplingPolicy,
    /// Key of the random numbers of (batch, hop, edge type). A node's original id and its group are combined with it.
    pub(crate) key: u64,
    /// True to return the positions of the neighbors in their lists.
    pub(crate) positions: bool,
    /// The random numbers of the sources in layer-neighbor sampling. They replace the random numbers of `key`.
    pub(crate) shared: Option<SharedNumbers<'a>>,
    /// The global ids of the sources that may be drawn, if not all may.
    pub(crate) sources: Option<Range<u32>>,
}

/// Random numbers of sources that all destinations share.
pub(crate) struct SharedNumbers<'a> {
    pub(crate) variates: LayerVariates,
    pub(crate) sources: Sources<'a>,
}

/// Buffers that are reused from row to row.
#[derive(Default)]
struct Buffers {
    positions: Positions,
    candidates: Vec<u32>,
    keyed: Vec<(f64, u32)>,
    kept: Vec<u64>,
    drawn: Vec<u32>,
}

impl ConstrainedDraw<'_> {
    /// Draws neighbors for `queries`. Appends to `out` the number of neighbors drawn for each query, then the neighbors
    /// of all queries end to end, as [`uniform_hop::sample_hop`](crate::part::uniform_hop::sample_hop) does, then their positions if
    /// `self.positions` is set.
    ///
    /// # Errors
    /// [`TooLarge`] if `out` would be longer than `max_len`.
    pub(crate) fn sample_hop(&self, queries: &[Query], out: &mut Vec<u32>, max_len: usize) -> Result<(), TooLarge> {
        let words = AtomicUsize::new(out.len());
        let draw = |queries: &[Query]| self.draw_all(queries, &words, max_len);
        let drawn: Option<Vec<[Vec<u32>; 3]>> = queries.par_chunks(ROWS_PER_TASK).map(draw).collect();
        let drawn = drawn.ok_or(TooLarge)?;
        for array in 0..3 {
            drawn.iter().for_each(|arrays| out.extend_from_slice(&arrays[array]));
        }
        Ok(())
    }

    /// Returns counts, neighbors and positions (empty unless requested). Returns `None` if `words`, the total of all
    /// tasks, exceeds `max_len`.
    fn draw_all(&self, queries: &[Query], words: &AtomicUsize, max_len: usize) -> Option<[Vec<u32>; 3]> {
        let mut buffers = Buffers::default();
        let mut counts = Vec::with_capacity(queries.len());
        let mut neighbors = Vec::new();
        let mut positions = Vec::new();
        for (at, query) in queries.iter().enumerate() {
            self.prefetch_after(&queries[at..]);
            if self.num_with_replacement(query) > max_len {
                return None;
            }
            self.draw(query, &mut buffers);
            let list = self.edges.csc.neighbors(query.row as usize);
            counts.push(buffers.drawn.len() as u32);
            neighbors.extend(buffers.drawn.iter().map(|&at| list[at as usize]));
            if self.positions {
                positions.extend_from_slice(&buffers.drawn);
            }
            let mine = 1 + buffers.drawn.len() * if self.positions { 2 } else { 1 };
            if words.fetch_add(mine, Ordering::Relaxed).saturating_add(mine) > max_len {
                return None;
            }
        }
        Some([counts, neighbors, positions])
    }

    /// Prefetches the memory of queries that follow the first one of `queries`, if their lists are read from the start.
    fn prefetch_after(&self, queries: &[Query]) {
        let Some(shared) = &self.shared else { return };
        if let Some(later) = queries.get(2 * QUERIES_AHEAD) {
            prefetch(self.edges.csc.indptr(), later.row as usize);
        }
        if let Some(soon) = queries.get(QUERIES_AHEAD) {
            let list = shared.sources.range(self.range(soon.row));
            prefetch_all(&list.originals[..list.originals.len().min(MAX_PREFETCH)]);
            prefetch_all(&list.copies[..list.copies.len().min(MAX_PREFETCH)]);
        }
    }

    /// Returns the number of neighbors that are drawn for a query with replacement, at most. Without replacement it is
    /// at most the degree. A peer chooses the fan-out, so this number is compared with the limit before memory is
    /// taken.
    fn num_with_replacement(&self, query: &Query) -> usize {
        let replace = self.rule.replace && !self.draws_latest(query) && self.edges.csc.degree(query.row as usize) > 0;
        match self.fanout {
            Fanout::Count(count) if replace => count as usize,
            _ => 0,
        }
    }

    /// Returns whether the latest neighbors are drawn, which are distinct. Sources of a type without times are always
    /// present, so none of them is the latest.
    fn draws_latest(&self, query: &Query) -> bool {
        self.rule.temporal.is_some_and(|temporal| temporal.strategy == TemporalStrategy::Last)
            && !self.times(query.row).is_empty()
    }

    /// Fills `buffers.drawn` with the drawn positions, ascending.
    fn draw(&self, query: &Query, buffers: &mut Buffers) {
        buffers.drawn.clear();
        if !self.rule.weighted && self.rule.temporal.is_none() && self.sources.is_none() {
            return self.draw_any(query, buffers);
        }
        let Buffers { positions, candidates, keyed, kept, drawn } = buffers;
        self.find_candidates(query, candidates);
        let count = match self.fanout {
            Fanout::All => return drawn.extend_from_slice(candidates),
            Fanout::Count(count) => count as usize,
        };
        let latest = self.draws_latest(query);
        let replace = self.rule.replace && !latest;
        if candidates.is_empty() || (!replace && candidates.len() <= count) {
            return drawn.extend_from_slice(candidates);
        }
        let mut rng = self.rng(query);
        if latest {
            let times = self.times(query.row);
            candidates.select_nth_unstable_by(count - 1, |a: &u32, b: &u32| {
                (times[*b as usize], *b).cmp(&(times[*a as usize], *a))
            });
            drawn.extend_from_slice(&candidates[..count]);
        } else if self.rule.weighted {
            let weights = self.weights(query.row);
            if replace {
                draw_with_replacement(candidates, weights, count, &mut rng, keyed, drawn);
            } else if let Some(shared) = &self.shared {
                let sources = shared.sources.range(self.range(query.row));
                draw_by_race(candidates, weights, count, |at| shared.variates.unit(sources.number(at)), keyed, drawn);
            } else {
                // The random number belongs to the position, so it does not depend on the other candidates.
                draw_by_race(candidates, weights, count, |at| above_zero(rng.nth(u64::from(at))), keyed, drawn);
            }
        } else if let Some(shared) = &self.shared {
            let sources = shared.sources.range(self.range(query.row));
            shared.variates.draw(sources, candidates.iter().copied(), count, kept, drawn);
        } else {
            drawn.resize(count, 0);
            positions.draw(candidates.len() as u32, replace, &mut rng, drawn);
            drawn.iter_mut().for_each(|at| *at = candidates[*at as usize]);
        }
        drawn.sort_unstable();
    }

    /// Draws uniformly from all neighbors, without reading weights, times or sources.
    fn draw_any(&self, query: &Query, buffers: &mut Buffers) {
        let Buffers { positions, kept, drawn, .. } = buffers;
        let degree = self.edges.csc.degree(query.row as usize) as u32;
        match (self.fanout, &self.shared) {
            (Fanout::Count(count), Some(shared)) if degree > count => {
                let sources = shared.sources.range(self.range(query.row));
                shared.variates.draw(sources, 0..degree, count as usize, kept, drawn);
                drawn.sort_unstable();
            }
            (Fanout::Count(count), None) if degree > 0 && (self.rule.replace || degree > count) => {
                drawn.resize(count as usize, 0);
                positions.draw(degree, self.rule.replace, &mut self.rng(query), drawn);
            }
            _ => drawn.extend(0..degree),
        }
    }

    fn rng(&self, query: &Query) -> CounterRng {
        let node = combine(self.key, u64::from(self.original_ids[query.row as usize]));
        CounterRng::new(query.group.map_or(node, |group| combine(node, u64::from(group))))
    }

    /// Finds the positions that may be drawn, ascending. Their sources may be drawn, they are not too late, and their
    /// weights are above zero.
    fn find_candidates(&self, query: &Query, candidates: &mut Vec<u32>) {
        candidates.clear();
        let list = self.edges.csc.neighbors(query.row as usize);
        candidates.extend(0..list.len() as u32);
        if let Some(sources) = &self.sources {
            candidates.retain(|&at| sources.contains(&list[at as usize]));
        }
        if let (Some(time), true) = (query.time, self.rule.temporal.is_some()) {
            let times = self.times(query.row);
            if !times.is_empty() {
                candidates.retain(|&at| times[at as usize] <= time);
            }
        }
        if self.rule.weighted {
            let weights = self.weights(query.row);
            candidates.retain(|&at| weights[at as usize] > 0.0);
        }
    }

    /// Returns the times of a row's edges that limit sampling. They are empty for types without times, which
    /// [`LocalPart`](crate::part::local_part::LocalPart) has checked to be allowed.
    fn times(&self, row: u32) -> &[i64] {
        let times = match self.rule.temporal.map(|temporal| temporal.attr) {
            Some(TimeAttr::EdgeTime) => &self.edges.attributes.times,
            Some(TimeAttr::NodeTime) => &self.edges.src_times,
            None => return &[],
        };
        times.as_ref().map_or(&[], |times| &times[self.range(row)])
    }

    fn weights(&self, row: u32) -> &[f32] {
        self.edges.attributes.weights.as_ref().map_or(&[], |weights| &weights[self.range(row)])
    }

    fn range(&self, row: u32) -> Range<usize> {
        let indptr = self.edges.csc.indptr();
        indptr[row as usize] as usize..indptr[row as usize + 1] as usize
    }
}

/// Draws `count` distinct candidates. There must be more than `count`. They are drawn one after the other, each with a
/// probability in proportion to its weight among those that are left. Each candidate arrives at an exponentially
/// distributed time with its weight as the rate, and the first `count` are drawn (Efraimidis and Spirakis: Weighted
/// random sampling with a reservoir, 2006). `libm` computes the same logarithm on every machine. `unit` returns the random
/// number of a position, in (0, 1].
fn draw_by_race(
    candidates: &[u32],
    weights: &[f32],
    count: usize,
    unit: impl Fn(u32) -> f64,
    keyed: &mut Vec<(f64, u32)>,
    drawn: &mut Vec<u32>,
) {
    let arrival = |&at: &u32| (-libm::log(unit(at)) / f64::from(weights[at as usize]), at);
    keyed.clear();
    keyed.extend(candidates.iter().map(arrival));
    keyed.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    drawn.extend(keyed[..count].iter().map(|&(_, at)| at));
}

/// Draws `count` candidates independently, each with a probability in proportion to its weight.
fn draw_with_replacement(
    candidates: &[u32],
    weights: &[f32],
    count: usize,
    rng: &mut CounterRng,
    keyed: &mut Vec<(f64, u32)>,
    drawn: &mut Vec<u32>,
) {
    keyed.clear();
    let mut total = 0.0;
    // Prefix sums of the weights, so that a uniform number below the total selects a candidate by binary search.
    keyed.extend(candidates.iter().map(|&at| {
        total += f64::from(weights[at as usize]);
        (total, at)
    }));
    drawn.extend((0..count).map(|_| {
        let goal = rng.unit() * total;
        let found = keyed.partition_point(|&(sum, _)| sum <= goal);
        // Rounding may move `goal` to the total, which lies past the last prefix sum.
        keyed[found.min(keyed.len() - 1)].1
    }));
}

#[cfg(test)]
#[path = "constrained_hop/tests.rs"]
mod tests;
