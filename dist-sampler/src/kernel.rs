//! One hop: draws in-neighbors of given rows of a part.

use crate::config::Fanout;
use edgecut_graph::Csc;
use edgecut_graph::rng::{CounterRng, combine};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

/// Rows per parallel task: enough work to be worth a task, few enough to share out a hop.
const ROWS_PER_TASK: usize = 512;
/// Up to this fan-out, membership in the draw is tested by looking through it.
const SCAN_LIMIT: usize = 48;

/// How one edge type is sampled in one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) fanout: Fanout,
    pub(crate) replace: bool,
    /// Names the random numbers of (batch, hop, edge type); a node's original id completes it.
    pub(crate) key: u64,
}

impl Draw {
    /// Neighbors drawn for a node of in-degree `degree`.
    pub(crate) fn count(&self, degree: usize) -> usize {
        match self.fanout {
            Fanout::All => degree,
            Fanout::Count(_) if degree == 0 => 0,
            Fanout::Count(count) if self.replace => count as usize,
            Fanout::Count(count) => degree.min(count as usize),
        }
    }
}

/// The number of edges that `draw` takes for `rows`.
pub(crate) fn count_edges(csc: &Csc, rows: &[u32], draw: &Draw) -> usize {
    rows.iter().map(|&row| draw.count(csc.degree(row as usize))).sum()
}

/// Appends to `out` the number of neighbors drawn for each row, then the neighbors of all rows end to end (global ids,
/// each row's in the order of the original edge list). `original_ids[row]` keys the choice; rows must be in range.
pub(crate) fn sample_hop(csc: &Csc, original_ids: &[u32], rows: &[u32], draw: &Draw, out: &mut Vec<u32>) {
    let start = out.len();
    out.extend(rows.iter().map(|&row| draw.count(csc.degree(row as usize)) as u32));
    let edges: usize = out[start..].iter().map(|&count| count as usize).sum();
    out.resize(start + rows.len() + edges, 0);
    let (counts, mut neighbors) = out[start..].split_at_mut(rows.len());
    let mut tasks = Vec::with_capacity(rows.len().div_ceil(ROWS_PER_TASK));
    for (rows, counts) in rows.chunks(ROWS_PER_TASK).zip(counts.chunks(ROWS_PER_TASK)) {
        let (mine, rest) = neighbors.split_at_mut(counts.iter().map(|&count| count as usize).sum());
        tasks.push((rows, counts, mine));
        neighbors = rest;
    }
    tasks.into_par_iter().for_each(|(rows, counts, mut out)| {
        let mut positions = Positions::default();
        for (&row, &count) in rows.iter().zip(counts) {
            let (mine, rest) = out.split_at_mut(count as usize);
            let neighbors = csc.neighbors(row as usize);
            if draw.replace && draw.fanout != Fanout::All || mine.len() < neighbors.len() {
                let mut rng = CounterRng::new(combine(draw.key, u64::from(original_ids[row as usize])));
                let drawn = positions.draw(neighbors.len() as u32, mine.len(), draw.replace, &mut rng);
                for (to, &at) in mine.iter_mut().zip(drawn) {
                    *to = neighbors[at as usize];
                }
            } else {
                mine.copy_from_slice(neighbors);
            }
            out = rest;
        }
    });
}

/// Draws positions in a neighbor list; keeps its memory from row to row.
#[derive(Default)]
struct Positions {
    drawn: Vec<u32>,
    seen: FxHashSet<u32>,
}

impl Positions {
    /// `count` positions below `degree`, ascending. Without replacement by Floyd's algorithm (Bentley and Floyd: A
    /// sample of brilliance, 1987), which takes `count` random numbers whatever the degree.
    fn draw(&mut self, degree: u32, count: usize, replace: bool, rng: &mut CounterRng) -> &[u32] {
        self.drawn.clear();
        if replace {
            self.drawn.extend((0..count).map(|_| rng.below(u64::from(degree)) as u32));
        } else if count <= SCAN_LIMIT {
            for last in degree - count as u32..degree {
                let at = rng.below(u64::from(last) + 1) as u32;
                let at = if self.drawn.contains(&at) { last } else { at };
                self.drawn.push(at);
            }
        } else {
            self.seen.clear();
            for last in degree - count as u32..degree {
                let at = rng.below(u64::from(last) + 1) as u32;
                let at = if self.seen.insert(at) { at } else { last };
                self.seen.insert(at);
                self.drawn.push(at);
            }
        }
        self.drawn.sort_unstable();
        &self.drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A star: row 0 has `degree` neighbors, node `i + 1` at position `i`.
    fn star(degree: u32) -> Csc {
        Csc::new(vec![0, u64::from(degree)].into(), (1..=degree).collect::<Vec<_>>().into(), degree as usize + 1)
            .unwrap()
    }

    fn draw_once(csc: &Csc, fanout: u32, replace: bool, key: u64) -> Vec<u32> {
        let mut out = Vec::new();
        sample_hop(csc, &[7], &[0], &Draw { fanout: Fanout::Count(fanout), replace, key }, &mut out);
        assert_eq!(out[0] as usize, out.len() - 1);
        out.split_off(1)
    }

    /// Pearson's statistic of how often each neighbor is drawn in `draws` hops.
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
        // Without replacement one draw's indicators are negatively correlated: the statistic shrinks by 1 - share
        // against the multinomial's, up to the factor (degree) / (degree - 1).
        let scale = if replace { 1.0 } else { (1.0 - share) * f64::from(degree) / f64::from(degree - 1) };
        counts.iter().map(|c| (c - expected).powi(2) / (expected * scale)).sum()
    }

    #[test]
    fn every_neighbor_is_drawn_equally_often() {
        // Degrees around the fan-outs, and the two sides of the scan limit; the bound is the chi-square distribution's
        // 99.9 % quantile by Wilson and Hilferty's approximation. The draws are keyed, so the test never flickers.
        for (degree, fanout) in [(11, 10), (12, 10), (20, 10), (200, 10), (2, 1), (61, 60), (300, 60)] {
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
        let (degree, fanout, draws) = (6, 3, 40_000_u64);
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

    proptest! {
        #[test]
        fn a_draw_without_replacement_is_a_subset_in_order(degree in 1_u32..200, fanout in 1_u32..120, key: u64) {
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
            sample_hop(&csc, &ids, &rows, &draw, &mut together);
            let mut neighbors = &together[rows.len()..];
            for (i, &row) in rows.iter().enumerate() {
                let mut alone = Vec::new();
                sample_hop(&csc, &ids, &[row], &draw, &mut alone);
                prop_assert_eq!(alone[0], together[i]);
                let (mine, rest) = neighbors.split_at(alone[0] as usize);
                prop_assert_eq!(&alone[1..], mine);
                neighbors = rest;
            }
        }
    }
}
