//! Uniform sampling of in-neighbors in one hop, for given rows of a part.
//!
//! This kernel reads no attributes of edges. Sampling by weight or time reads all neighbors of a node and has a kernel
//! of its own, `constrained_hop`.

use crate::config::fan_out::Fanout;
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{Csc, prefetch, prefetch_all};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

/// Rows per parallel task: large enough to outweigh the cost of a task, small enough to spread a hop over the threads.
const ROWS_PER_TASK: usize = 512;
/// Rows that are drawn together, so that their memory reads overlap.
const ROWS_AHEAD: usize = 16;
/// Words of the bit set that holds a draw. Lists of up to 64 neighbors per word use it.
const BIT_SET_WORDS: usize = 8;
/// The largest fan-out for which membership in a draw from a longer list is tested by a linear scan.
const SCAN_LIMIT: usize = 48;

/// The parameters with which one edge type is sampled in one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) fanout: Fanout,
    pub(crate) replace: bool,
    /// Key of the random numbers of (batch, hop, edge type). A node's original id is combined with it.
    pub(crate) key: u64,
}

impl Draw {
    /// Returns whether a neighbor may be drawn twice.
    fn replaces(&self) -> bool {
        self.replace && self.fanout != Fanout::All
    }

    /// Returns the number of neighbors to draw for a node of in-degree `degree`.
    pub(crate) fn count(&self, degree: usize) -> usize {
        match self.fanout {
            Fanout::All => degree,
            Fanout::Count(_) if degree == 0 => 0,
            Fanout::Count(count) if self.replace => count as usize,
            Fanout::Count(count) => degree.min(count as usize),
        }
    }
}

/// The error of a reply that would exceed its limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Draws neighbors for `rows`. Appends to `out` the number of neighbors drawn for each row, then the neighbors of all
/// rows end to end, as global ids. The neighbors of a row are in the order of the original edge list.
/// `original_ids[row]` keys the draw of a row. Rows must be in range.
///
/// # Errors
/// [`TooLarge`] if `out` would be longer than `max_len`.
pub(crate) fn sample_hop(
    csc: &Csc,
    original_ids: &[u32],
    rows: &[u32],
    draw: &Draw,
    out: &mut Vec<u32>,
    max_len: usize,
) -> Result<(), TooLarge> {
    let part = Topology { indptr: csc.indptr(), indices: csc.indices(), original_ids };
    let start = out.len();
    out.resize(start + rows.len(), 0);
    // Counts come first: they bound the reply before anything is drawn, and give each task its own slice of `out`.
    out[start..].par_chunks_mut(ROWS_PER_TASK).zip(rows.par_chunks(ROWS_PER_TASK)).for_each(|(counts, rows)| {
        part.count(rows, draw, counts);
    });
    let edges: usize = out[start..].iter().map(|&count| count as usize).sum();
    if out.len().saturating_add(edges) > max_len {
        return Err(TooLarge);
    }
    out.resize(out.len() + edges, 0);
    let (counts, mut neighbors) = out[start..].split_at_mut(rows.len());
    let mut tasks = Vec::with_capacity(rows.len().div_ceil(ROWS_PER_TASK));
    for (rows, counts) in rows.chunks(ROWS_PER_TASK).zip(counts.chunks(ROWS_PER_TASK)) {
        let (mine, rest) = neighbors.split_at_mut(counts.iter().map(|&count| count as usize).sum());
        tasks.push((rows, counts, mine));
        neighbors = rest;
    }
    tasks.into_par_iter().for_each(|(rows, counts, out)| part.draw_all(rows, counts, draw, out));
    Ok(())
}

/// The arrays of a part that a hop reads. All reads are at random addresses, so each is prefetched a few rows ahead.
#[derive(Clone, Copy)]
struct Topology<'a> {
    indptr: &'a [u64],
    indices: &'a [u32],
    original_ids: &'a [u32],
}

impl Topology<'_> {
    fn range(&self, row: u32) -> (usize, usize) {
        (self.indptr[row as usize] as usize, self.indptr[row as usize + 1] as usize)
    }

    /// Computes the number of neighbors to draw for each row.
    fn count(&self, rows: &[u32], draw: &Draw, counts: &mut [u32]) {
        for (i, (&row, count)) in rows.iter().zip(counts).enumerate() {
            if let Some(&soon) = rows.get(i + ROWS_AHEAD) {
                prefetch(self.indptr, soon as usize);
            }
            let (start, end) = self.range(row);
            *count = draw.count(end - start) as u32;
        }
    }

    /// Draws the neighbors of the rows of one task, in groups of [`ROWS_AHEAD`].
    fn draw_all(&self, rows: &[u32], counts: &[u32], draw: &Draw, mut out: &mut [u32]) {
        let mut positions = Positions::default();
        let mut groups = rows.chunks(ROWS_AHEAD).zip(counts.chunks(ROWS_AHEAD)).peekable();
        while let Some((rows, counts)) = groups.next() {
            for &soon in groups.peek().map_or(&[][..], |(rows, _)| rows) {
                prefetch(self.original_ids, soon as usize);
                prefetch(self.indptr, soon as usize);
            }
            let (mine, rest) = out.split_at_mut(counts.iter().map(|&count| count as usize).sum());
            self.draw(rows, counts, draw, &mut positions, mine);
            out = rest;
        }
    }

    /// Draws the neighbors of at most [`ROWS_AHEAD`] rows. The first pass draws positions into `out` and prefetches the
    /// list entries. The second pass replaces the positions by the entries, which have arrived by then.
    fn draw(&self, rows: &[u32], counts: &[u32], draw: &Draw, positions: &mut Positions, out: &mut [u32]) {
        let mut lists = [&self.indices[..0]; ROWS_AHEAD];
        let takes_some = |count: usize, degree: usize| draw.replaces() || count < degree;
        let mut rest = &mut out[..];
        for ((&row, &count), list) in rows.iter().zip(counts).zip(&mut lists) {
            let (mine, others) = rest.split_at_mut(count as usize);
            let (start, end) = self.range(row);
            *list = &self.indices[start..end];
            if takes_some(mine.len(), list.len()) {
                let mut rng = CounterRng::new(combine(draw.key, u64::from(self.original_ids[row as usize])));
                positions.draw(list.len() as u32, draw.replace, &mut rng, mine);
                for &at in &*mine {
                    prefetch(list, at as usize);
                }
            } else {
                prefetch_all(list);
            }
            rest = others;
        }
        let mut rest = out;
        for (&count, list) in counts.iter().zip(lists) {
            let (mine, others) = rest.split_at_mut(count as usize);
            if takes_some(mine.len(), list.len()) {
                mine.iter_mut().for_each(|at| *at = list[*at as usize]);
            } else {
                mine.copy_from_slice(list);
            }
            rest = others;
        }
    }
}

/// A generator of random positions in a neighbor list, which reuses its memory from row to row.
#[derive(Default)]
pub(crate) struct Positions {
    seen: FxHashSet<u32>,
}

impl Positions {
    /// Fills `out` with ascending positions below `degree`. Without replacement it uses Floyd's algorithm (Bentley and
    /// Floyd: A sample of brilliance, 1987), which needs one random number per drawn position for any degree. The way
    /// to remember drawn positions depends on the sizes. The result does not.
    pub(crate) fn draw(&mut self, degree: u32, replace: bool, rng: &mut CounterRng, out: &mut [u32]) {
        if replace {
            out.iter_mut().for_each(|at| *at = rng.below(u64::from(degree)) as u32);
            return out.sort_unstable();
        }
        // Step `last` of Floyd's algorithm draws a position from 0..=last. If that position is taken, it takes `last`,
        // which no earlier step could have drawn.
        let lasts = degree - out.len() as u32..degree;
        if degree as usize <= BIT_SET_WORDS * 64 {
            return draw_into_bits(lasts, rng, out);
        }
        if out.len() <= SCAN_LIMIT {
            for (drawn, last) in lasts.enumerate() {
                let at = rng.below(u64::from(last) + 1) as u32;
                out[drawn] = if out[..drawn].contains(&at) { last } else { at };
            }
        } else {
            self.seen.clear();
            for (last, out) in lasts.zip(&mut *out) {
                let at = rng.below(u64::from(last) + 1) as u32;
                *out = if self.seen.insert(at) { at } else { last };
                self.seen.insert(*out);
            }
        }
        out.sort_unstable();
    }
}

/// Runs Floyd's algorithm for short lists. A bit per position gives constant-time membership tests and sorted output.
fn draw_into_bits(lasts: std::ops::Range<u32>, rng: &mut CounterRng, out: &mut [u32]) {
    let words = lasts.end.div_ceil(64) as usize;
    let mut bits = [0_u64; BIT_SET_WORDS];
    for last in lasts {
        let at = rng.below(u64::from(last) + 1) as u32;
        let is_drawn = bits[at as usize / 64] >> (at % 64) & 1 == 1;
        let at = if is_drawn { last } else { at };
        bits[at as usize / 64] |= 1 << (at % 64);
    }
    let mut out = out.iter_mut();
    for (word, mut bits) in bits[..words].iter().copied().enumerate() {
        for out in out.by_ref().take(bits.count_ones() as usize) {
            *out = word as u32 * 64 + bits.trailing_zeros();
            // Clears the lowest set bit.
            bits &= bits - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a star: row 0 has `degree` neighbors, with node `i + 1` at position `i`.
    fn star(degree: u32) -> Csc {
        Csc::new(vec![0, u64::from(degree)].into(), (1..=degree).collect::<Vec<_>>().into(), degree as usize + 1)
            .unwrap()
    }

    fn draw_once(csc: &Csc, fanout: u32, replace: bool, key: u64) -> Vec<u32> {
        let mut out = Vec::new();
        sample_hop(csc, &[7], &[0], &Draw { fanout: Fanout::Count(fanout), replace, key }, &mut out, usize::MAX)
            .unwrap();
        assert_eq!(out[0] as usize, out.len() - 1);
        out.split_off(1)
    }

    /// Returns Pearson's statistic of the counts of each neighbor in `draws` hops.
    fn chi_square(degree: u32, fanout: u32, replace: bool, draws: u64) -> f64 {
        let csc = star(degree);
        let mut counts = vec![0_f64; degree as usize];
        for key in 0..draws {
            for neighbor in draw_once(&csc, fanout, replace, combine(11, key)) {
                counts[neighbor as usize - 1] += 1.0;
            }
        }
        let share = f64::from(fanout) / f64::from(degree);
        let expected = draws as f64 * share;
        // Without replacement the indicators of one draw are negatively correlated. This scales the statistic by
        // 1 - share against the multinomial one, up to the factor degree / (degree - 1).
        let scale = if replace { 1.0 } else { (1.0 - share) * f64::from(degree) / f64::from(degree - 1) };
        counts.iter().map(|c| (c - expected).powi(2) / (expected * scale)).sum()
    }

    #[test]
    fn every_neighbor_is_drawn_equally_often() {
        // Degrees near the fan-outs and on both sides of the scan limit. The bound is the 99.9 % quantile of the
        // chi-square distribution by Wilson and Hilferty's approximation. The draws are keyed, so the test is
        // deterministic.
        for (degree, fanout) in
            [(11, 10), (12, 10), (20, 10), (200, 10), (600, 10), (2, 1), (61, 60), (300, 60), (600, 60)]
        {
            for replace in [false, true] {
                let free = f64::from(degree - 1);
                let bound = free * (1.0 - 2.0 / (9.0 * free) + 3.09 * (2.0 / (9.0 * free)).sqrt()).powi(3);
                let found = chi_square(degree, fanout, replace, 20_000);
                assert!(found < bound, "degree {degree}, fan-out {fanout}, replace {replace}: {found} > {bound}");
            }
        }
    }

    #[test]
    fn pairs_of_neighbors_are_drawn_equally_often() {
        let degree = 6;
        let fanout = 3;
        let draws = 40_000_u64;
        let csc = star(degree);
        let mut counts = std::collections::HashMap::new();
        for key in 0..draws {
            *counts.entry(draw_once(&csc, fanout, false, combine(5, key))).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 20, "all 3-subsets of 6 occur");
        let expected = draws as f64 / 20.0;
        let found: f64 = counts.values().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        assert!(found < 43.8, "chi-square of 19 degrees of freedom at 99.9 %: {found}");
    }

    #[test]
    fn a_reply_above_the_limit_is_refused_before_it_is_drawn() {
        let csc = star(40);
        let hop = |max_len| {
            let draw = Draw { fanout: Fanout::Count(10), replace: false, key: 0 };
            let mut out = vec![9];
            sample_hop(&csc, &[7], &[0], &draw, &mut out, max_len).map(|()| out.len())
        };
        assert_eq!((hop(12), hop(11)), (Ok(12), Err(TooLarge)));
    }

    #[test]
    fn how_membership_is_tested_does_not_show() {
        let mut positions = Positions::default();
        for (degree, count) in [(1, 1), (64, 20), (64, 64), (65, 48), (512, 49), (513, 48), (513, 49)] {
            let mut rng = CounterRng::new(combine(3, count));
            let mut floyd = std::collections::HashSet::new();
            let mut expected = Vec::new();
            for last in degree - count as u32..degree {
                let at = rng.below(u64::from(last) + 1) as u32;
                let at = if floyd.contains(&at) { last } else { at };
                floyd.insert(at);
                expected.push(at);
            }
            expected.sort_unstable();
            let mut drawn = vec![0; count as usize];
            positions.draw(degree, false, &mut CounterRng::new(combine(3, count)), &mut drawn);
            assert_eq!(drawn, expected, "degree {degree}, count {count}");
        }
    }

    proptest! {
        #[test]
        fn a_draw_without_replacement_is_a_subset_in_order(degree in 1_u32..800, fanout in 1_u32..120, key: u64) {
            let drawn = draw_once(&star(degree), fanout, false, key);
            prop_assert_eq!(drawn.len() as u32, degree.min(fanout));
            prop_assert!(drawn.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(drawn.iter().all(|&n| (1..=degree).contains(&n)));
        }

        #[test]
        fn rows_are_drawn_alike_alone_and_together(rows in proptest::collection::vec(0_u32..40, 0..1500), key: u64) {
            let indptr: Vec<u64> = (0..=40_u64).map(|r| r * (r + 1) / 2).collect();
            let indices: Vec<u32> = (0..indptr[40] as u32).map(|i| i % 40).collect();
            let csc = Csc::new(indptr.into(), indices.into(), 40).unwrap();
            let ids: Vec<u32> = (0..40).map(|i| i * 3 + 1).collect();
            let draw = Draw { fanout: Fanout::Count(5), replace: false, key };
            let mut together = Vec::new();
            sample_hop(&csc, &ids, &rows, &draw, &mut together, usize::MAX).unwrap();
            let mut neighbors = &together[rows.len()..];
            for (i, &row) in rows.iter().enumerate() {
                let mut alone = Vec::new();
                sample_hop(&csc, &ids, &[row], &draw, &mut alone, usize::MAX).unwrap();
                prop_assert_eq!(alone[0], together[i]);
                let (mine, rest) = neighbors.split_at(alone[0] as usize);
                prop_assert_eq!(&alone[1..], mine);
                neighbors = rest;
            }
        }
    }
}
