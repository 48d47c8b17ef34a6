//! The random numbers of nodes in layer-neighbor sampling.

use crate::batch_key::BatchKey;
use crate::config::labor::Labor;
use crate::part::source_ids::Sources;
use edgecut_graph::NodeTypeId;
use edgecut_graph::rng::{CounterRng, combine};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, TAU};

/// Distinguishes these random numbers from the random numbers of a hop, whose number is smaller.
const STREAM: u64 = u64::MAX;
/// The random bits of a number in (0, 1].
const UNIT_BITS: u32 = 53;
/// The bits after the point of factors as whole numbers.
const FACTOR_BITS: u32 = 28;
/// The candidates that are kept beyond twice their number, so that small numbers of neighbors are rarely selected anew.
const SPARE: usize = 32;

/// The random number of each node of one type in a batch: a function of the batch's key, the type and the original id. A
/// further number for each parallel edge also depends on the place of this edge among them, see [`Sources::number`].
///
/// Over a batch dependency of `K` batches the numbers turn into new ones. Batch `i` of `K` has the normal variate
/// `cos(t) x + sin(t) y` with `t = i / K * pi / 2`, as in DGL's GraphBolt, where `x` and `y` are normal variates of this
/// and the next `K` batches.
#[derive(Clone, Debug)]
pub(crate) struct LayerVariates {
    streams: [CounterRng; 2],
    /// The factors of the normal variates of both streams; `None` if batches are independent.
    factors: Option<[f64; 2]>,
    /// The factors as whole numbers, [`FACTOR_BITS`] bits to the left.
    whole_factors: [i64; 2],
}

impl LayerVariates {
    /// Makes the random numbers of the nodes of a type in a batch.
    pub(crate) fn new(labor: Labor, key: BatchKey, node_type: NodeTypeId) -> Self {
        let length = u64::from(labor.batch_dependency.get());
        let group = key.batch / length;
        let this = BatchKey { batch: group, ..key };
        let next = BatchKey { batch: group.wrapping_add(1), ..key };
        let angle = (key.batch % length) as f64 / length as f64 * FRAC_PI_2;
        let factors = [libm::cos(angle), libm::sin(angle)];
        Self {
            streams: [this, next].map(|group| stream_of(group, node_type)),
            factors: (length > 1).then_some(factors),
            whole_factors: factors.map(|factor| (factor * f64::from(1 << FACTOR_BITS)) as i64),
        }
    }

    /// Fills `drawn` with the `count` positions whose sources have the smallest random numbers, in any order. Equal ones
    /// are drawn in the order of positions. `sources` has the sources in a list of neighbors.
    pub(crate) fn draw(
        &self,
        sources: Sources<'_>,
        positions: impl Iterator<Item = u32>,
        count: usize,
        kept: &mut Vec<u64>,
        drawn: &mut Vec<u32>,
    ) {
        match self.factors {
            None => keep_smallest(positions.map(|at| key(self.uniform_rank(sources.number(at)), at)), count, kept),
            Some(_) => keep_smallest(positions.map(|at| key(self.bell_rank(sources.number(at)), at)), count, kept),
        }
        drawn.extend(kept.iter().map(|&key| key as u32));
    }

    /// Returns the rank of a source in an independent batch. Only the order counts, so the first bits of the random number
    /// suffice.
    #[inline]
    fn uniform_rank(&self, source: u64) -> u32 {
        (self.streams[0].nth(source) >> 32) as u32
    }

    /// Returns the rank of a source within a batch dependency. Only the order counts, so nearly normal whole numbers
    /// suffice, which take a fraction of the time of normal ones.
    #[inline]
    fn bell_rank(&self, source: u64) -> u32 {
        let [stream, next] = &self.streams;
        let [factor, next_factor] = self.whole_factors;
        let value = factor * bell(stream.nth(source)) + next_factor * bell(next.nth(source));
        // The value is between -2^61.5 and 2^61.5.
        ((value >> 31) + (1 << 31)) as u32
    }

    /// Returns the random number of a source by its [`Sources::number`], in (0, 1].
    pub(crate) fn unit(&self, source: u64) -> f64 {
        let [stream, next] = &self.streams;
        let Some([this, other]) = self.factors else { return above_zero(stream.nth(source)) };
        let value = this * normal(stream, source) + other * normal(next, source);
        // The normal distribution function.
        0.5 * libm::erfc(-value * FRAC_1_SQRT_2)
    }
}

fn stream_of(group: BatchKey, node_type: NodeTypeId) -> CounterRng {
    CounterRng::new(combine(combine(group.stream(), STREAM), u64::from(node_type.0)))
}

/// Returns a key by which ranks are compared before positions.
fn key(rank: u32, position: u32) -> u64 {
    u64::from(rank) << 32 | u64::from(position)
}

/// Leaves the `count` smallest keys in `kept`. The keys are distinct.
fn keep_smallest(keys: impl Iterator<Item = u64>, count: usize, kept: &mut Vec<u64>) {
    let most = count.saturating_mul(2).saturating_add(SPARE);
    let mut bound = u64::MAX;
    kept.clear();
    for key in keys {
        if key >= bound {
            continue;
        }
        kept.push(key);
        if kept.len() == most {
            kept.select_nth_unstable(count - 1);
            kept.truncate(count);
            bound = kept[count - 1];
        }
    }
    if kept.len() > count {
        kept.select_nth_unstable(count - 1);
        kept.truncate(count);
    }
}

/// Converts random bits to a number in (0, 1], whose logarithm is finite.
pub(crate) fn above_zero(bits: u64) -> f64 {
    ((bits >> (u64::BITS - UNIT_BITS)) + 1) as f64 * (1.0 / (1_u64 << UNIT_BITS) as f64)
}

/// Converts random bits to a number from a distribution that is nearly normal, with mean 0 and between -2^33 and 2^33: the
/// sum of four uniform numbers of 16 bits, refined by one of them so that few numbers are equal.
#[inline]
fn bell(bits: u64) -> i64 {
    /// The mean of the sum, and half of the refinement.
    const MEAN: i64 = (131_070 << 16) + (1 << 15);
    const EVERY_OTHER: u64 = 0x0000_ffff_0000_ffff;
    let pairs = (bits & EVERY_OTHER) + (bits >> 16 & EVERY_OTHER);
    let sum = (pairs + (pairs >> 32)) & 0xffff_ffff;
    (sum << 16 | bits & 0xffff) as i64 - MEAN
}

/// Returns a normal variate of a source (Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958).
/// `libm` computes the same bits on every machine.
fn normal(stream: &CounterRng, source: u64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(above_zero(stream.nth(2 * source))));
    radius * libm::cos(TAU * above_zero(stream.nth(2 * source + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    fn variates(batch_dependency: u32, batch: u64) -> LayerVariates {
        let labor = Labor { batch_dependency: NonZeroU32::new(batch_dependency).expect("not zero") };
        LayerVariates::new(labor, BatchKey { seed: 3, epoch: 1, batch }, NodeTypeId(0))
    }

    fn drawn(variates: &LayerVariates, sources: &[u32], count: usize) -> Vec<u32> {
        let mut drawn = Vec::new();
        let sources = Sources { originals: sources, copies: &[] };
        variates.draw(sources, 0..sources.originals.len() as u32, count, &mut Vec::new(), &mut drawn);
        drawn.sort_unstable();
        drawn
    }

    /// Returns the sources that are drawn from a list, up to 10.
    fn drawn_sources(variates: &LayerVariates, list: &BTreeSet<u32>) -> Vec<u32> {
        let list: Vec<u32> = list.iter().copied().collect();
        drawn(variates, &list, 10.min(list.len())).iter().map(|&at| list[at as usize]).collect()
    }

    #[test]
    fn numbers_are_uniform_at_every_step_of_a_dependency() {
        for (dependency, batch) in [(1, 5), (4, 0), (4, 1), (4, 2), (4, 3)] {
            let of_batch = variates(dependency, batch);
            let mut counts = [0_f64; 20];
            for source in 0..20_000 {
                counts[((of_batch.unit(source) * 20.0) as usize).min(19)] += 1.0;
            }
            let statistic: f64 = counts.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
            assert!(statistic < 43.8, "{dependency}, {batch}: chi-square of 19 degrees of freedom {statistic}");
        }
    }

    #[test]
    fn consecutive_batches_of_a_dependency_are_correlated_and_others_are_not() {
        for (dependency, first, second, r) in [
            (4, 0, 1, (FRAC_PI_2 / 4.0).cos()),
            (4, 1, 3, (FRAC_PI_2 / 2.0).cos()),
            // From the last batch of a group to the first of the next one.
            (4, 3, 4, (FRAC_PI_2 / 4.0).cos()),
            (4, 0, 4, 0.0),
            (1, 0, 1, 0.0),
        ] {
            let [of_first, of_second] = [first, second].map(|batch| variates(dependency, batch));
            let products = (0..20_000).map(|source| (of_first.unit(source) - 0.5) * (of_second.unit(source) - 0.5));
            let found = 12.0 * products.sum::<f64>() / 20_000.0;
            // The correlation of the uniform numbers that belong to normal variates with the correlation r.
            let expected = 6.0 / std::f64::consts::PI * (r / 2.0_f64).asin();
            assert!((found - expected).abs() < 0.03, "{dependency}: {first} and {second}: {found}");
        }
    }

    #[test]
    fn every_source_is_drawn_equally_often_at_every_step_of_a_dependency() {
        let sources: Vec<u32> = (0..40).map(|source| source * 7 + 1).collect();
        for (dependency, step) in [(1, 0), (8, 0), (8, 3), (8, 4)] {
            let mut counts = [0_f64; 40];
            let draws = 20_000;
            // Every other group, since a group shares a stream with the next one.
            for group in 0..draws {
                let of_batch = variates(dependency, 2 * group * u64::from(dependency) + step);
                drawn(&of_batch, &sources, 10).iter().for_each(|&at| counts[at as usize] += 1.0);
            }
            let expected = draws as f64 * 0.25;
            // The scale of draws without replacement, as in the tests of uniform hops.
            let scale = 0.75 * 40.0 / 39.0;
            let statistic: f64 = counts.iter().map(|count| (count - expected).powi(2) / (expected * scale)).sum();
            assert!(statistic < 72.1, "{dependency}, {step}: chi-square of 39 degrees of freedom {statistic}");
        }
    }

    #[test]
    fn types_epochs_and_batches_have_numbers_of_their_own() {
        let key = BatchKey { seed: 3, epoch: 1, batch: 6 };
        let others = [BatchKey { epoch: 2, ..key }, BatchKey { batch: 7, ..key }, BatchKey { seed: 4, ..key }];
        let all = [(key, 0), (key, 1)].into_iter().chain(others.map(|key| (key, 0)));
        let units =
            all.map(|(key, node_type)| LayerVariates::new(Labor::default(), key, NodeTypeId(node_type)).unit(9));
        let distinct: BTreeSet<u64> = units.map(f64::to_bits).collect();
        assert_eq!(distinct.len(), 5);
    }

    proptest! {
        #[test]
        fn the_smallest_keys_are_kept(
            keys in proptest::collection::hash_set(any::<u64>(), 1..400),
            count in 1_usize..60,
        ) {
            let mut kept = Vec::new();
            keep_smallest(keys.iter().copied(), count, &mut kept);
            kept.sort_unstable();
            let mut expected: Vec<u64> = keys.into_iter().collect();
            expected.sort_unstable();
            expected.truncate(count);
            prop_assert_eq!(kept, expected);
        }

        #[test]
        fn lists_with_common_sources_draw_the_common_smallest(
            first in proptest::collection::btree_set(0_u32..200, 1..80),
            second in proptest::collection::btree_set(0_u32..200, 1..80),
            dependency in 1_u32..4,
            batch in 0_u64..9,
        ) {
            // A source that both lists have and that one of them draws is drawn by the other one if all sources of the
            // other one with smaller numbers are fewer than its count.
            let of_batch = variates(dependency, batch);
            let all: BTreeSet<u32> = first.union(&second).copied().collect();
            for source in drawn_sources(&of_batch, &all) {
                prop_assert!(!first.contains(&source) || drawn_sources(&of_batch, &first).contains(&source));
                prop_assert!(!second.contains(&source) || drawn_sources(&of_batch, &second).contains(&source));
            }
        }
    }
}
