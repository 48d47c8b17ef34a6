//! The division of nodes or edges into splits.

use super::{NO_SPLIT, Split, Splits};
use crate::Share;
use crate::memory::Buffer;
use crate::rng::{CounterRng, combine};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A random order of the rows of a type, which are nodes or edges. It is a function of the seed, the name of the type and the
/// row.
#[derive(Clone, Copy, Debug)]
pub struct SplitOrder<'a> {
    /// The seed of all random choices.
    pub seed: u64,
    /// The name of the node type or edge type.
    pub name: &'a str,
}

/// Rows of a type that are divided into splits. The rows take the only memory, because there may be many edges.
#[derive(Clone, Debug)]
pub struct Division<T> {
    /// The rows of training, validation and test and of no split, one after the other.
    rows: Vec<T>,
    /// The end of each split among the rows.
    ends: [usize; 3],
}

/// The random numbers below which groups are in the training split, in it or the validation split, and in any split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimits([u64; 3]);

impl GroupLimits {
    /// Returns the limits that put each group into a split with the probability of its share.
    pub fn of_shares(shares: [Share; 3]) -> Self {
        Self(sums(shares).map(|sum| (sum.to_f64() * 2.0_f64.powi(64)) as u64))
    }
}

impl<T: RowNumber> Division<T> {
    /// Returns the [code](Split::code) of the split of each of `num_rows` rows, [`NO_SPLIT`] for a row in none.
    pub fn codes(&self, num_rows: usize) -> Vec<u8> {
        let mut codes = vec![NO_SPLIT; num_rows];
        let mut start = 0;
        for (split, end) in Split::ALL.into_iter().zip(self.ends) {
            self.rows[start..end].iter().for_each(|&row| codes[row.into() as usize] = split.code());
            start = end;
        }
        codes
    }
}

impl From<Division<u32>> for Splits {
    fn from(Division { rows, ends: [train, valid, test] }: Division<u32>) -> Self {
        Self {
            train: ascending(&rows[..train]),
            valid: ascending(&rows[train..valid]),
            test: ascending(&rows[valid..test]),
        }
    }
}

fn ascending(rows: &[u32]) -> Buffer<u32> {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    rows.into()
}

impl SplitOrder<'_> {
    /// Divides rows at random. A split has the share of the rows, rounded down.
    pub fn at_random<T: RowNumber>(&self, mut rows: Vec<T>, shares: [Share; 3]) -> Division<T> {
        rows.par_sort_unstable_by_key(|&row| (self.draw(row.into()), row));
        Division { ends: ends(rows.len(), shares), rows }
    }

    /// Divides rows by their times: the earliest are in the training split. Rows with the same time are in random order.
    pub fn by_times<T: RowNumber>(&self, mut rows: Vec<T>, times: &[i64], shares: [Share; 3]) -> Division<T> {
        rows.par_sort_unstable_by_key(|&row| (times[row.into() as usize], self.draw(row.into()), row));
        Division { ends: ends(rows.len(), shares), rows }
    }

    /// Divides the rows of a later table by their times. Rows draw by `keys`, one for each row, and not by their numbers in this
    /// table. No row is lost by rounding: a boundary between splits that falls within a row is before or after it at random, so
    /// that many small tables have the shares of one large table.
    pub fn later_by_times<T: RowNumber>(
        &self,
        mut rows: Vec<T>,
        times: &[i64],
        keys: &[i64],
        shares: [Share; 3],
    ) -> Division<T> {
        rows.par_sort_unstable_by_key(|&row| {
            let at = row.into() as usize;
            (times[at], self.draw(keys[at] as u64), row)
        });
        let of_rows = rows.iter().map(|&row| self.draw(keys[row.into() as usize] as u64));
        let of_table = self.draw(of_rows.fold(0, u64::wrapping_add));
        let ends = sums(shares).map(|sum| sum.drawn_of(rows.len() as u64, of_table) as usize);
        Division { rows, ends }
    }

    /// Divides rows at random, with all rows of a group in one split: the one in whose share of the rows the middle of the
    /// group is. Also returns the limits that divide later groups by the same rule.
    pub fn by_groups<T: RowNumber>(
        &self,
        mut rows: Vec<T>,
        groups: &[i64],
        shares: [Share; 3],
    ) -> (Division<T>, GroupLimits) {
        let group = |row: T| groups[row.into() as usize];
        rows.par_sort_unstable_by_key(|&row| (self.draw(group(row) as u64), group(row), row));
        let of_shares = ends(rows.len(), shares);
        let mut ends = [0; 3];
        let mut start = 0;
        for of_group in rows.chunk_by(|&one, &other| group(one) == group(other)) {
            let middle = start + of_group.len() / 2;
            start += of_group.len();
            // The middles ascend, so the groups of a split follow each other.
            for (end, share) in ends.iter_mut().zip(of_shares) {
                if middle < share {
                    *end = start;
                }
            }
        }
        let mut limits = GroupLimits([0; 3]);
        let mut share = 0.0;
        for (at, &end) in ends.iter().enumerate() {
            share += shares[at].to_f64();
            // A group draws below the limit if it is in this split or an earlier one. Between the last such group and the
            // next one, the limit is the one that gives new groups their share.
            let low = if end == 0 { 0 } else { self.draw(group(rows[end - 1]) as u64).saturating_add(1) };
            let high = if end == rows.len() { u64::MAX } else { self.draw(group(rows[end]) as u64) };
            limits.0[at] = ((share * 2.0_f64.powi(64)) as u64).max(low).min(high);
        }
        (Division { rows, ends }, limits)
    }

    /// Divides rows by the limits of earlier groups, so that a group stays in its split.
    pub fn by_group_limits<T: RowNumber>(&self, mut rows: Vec<T>, groups: &[i64], limits: GroupLimits) -> Division<T> {
        let draw = |row: T| self.draw(groups[row.into() as usize] as u64);
        rows.par_sort_unstable_by_key(|&row| (draw(row), row));
        let ends = limits.0.map(|limit| rows.partition_point(|&row| draw(row) < limit));
        Division { rows, ends }
    }

    fn draw(&self, key: u64) -> u64 {
        let of_type = combine(self.seed, xxh3_64(self.name.as_bytes()));
        CounterRng::new(combine(of_type, key)).next_u64()
    }
}

/// The number of a node or an edge.
pub trait RowNumber: Copy + Ord + Send + Sync + Into<u64> {}

impl RowNumber for u32 {}
impl RowNumber for u64 {}

/// Returns the share of training, of it and validation, and of all three splits.
fn sums([train, valid, test]: [Share; 3]) -> [Share; 3] {
    let two = train.plus(valid);
    [train, two, two.plus(test)]
}

/// Returns the end of each split among `num_rows` rows.
fn ends(num_rows: usize, shares: [Share; 3]) -> [usize; 3] {
    let mut end = 0;
    shares.map(|share| {
        end = (end + share.of(num_rows as u64) as usize).min(num_rows);
        end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits 103 nodes.
    fn split(shares: [f64; 3], seed: u64) -> Splits {
        let shares = shares.map(|share| Share::new(share).unwrap());
        SplitOrder { seed, name: "paper" }.at_random((0..103_u32).collect(), shares).into()
    }

    #[test]
    fn shares_are_rounded_down_and_depend_on_the_seed() {
        let splits = split([0.8, 0.1, 0.1], 7);
        assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [82, 10, 10]);
        let mut all = [&splits.train[..], &splits.valid, &splits.test].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 102);
        assert_eq!(split([0.8, 0.1, 0.1], 7).train[..], splits.train[..]);
        assert_ne!(split([0.8, 0.1, 0.1], 8).train[..], splits.train[..]);
        let none = split([0.0; 3], 7);
        assert!(none.train.is_empty() && none.test.is_empty());
    }

    #[test]
    fn shares_are_decimals() {
        // 100 * 0.29 and 100 * 0.57 are less than 29 and 57 in floats.
        let shares = [0.29, 0.57, 0.14].map(|share| Share::new(share).unwrap());
        let splits = Splits::from(SplitOrder { seed: 7, name: "paper" }.at_random((0..100).collect(), shares));
        assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [29, 57, 14]);
    }

    #[test]
    fn the_earliest_nodes_train() {
        let times: Vec<i64> = (0..100).map(|node| -node / 10).collect();
        let shares = [0.6, 0.2, 0.2].map(|share| Share::new(share).unwrap());
        let order = |seed| SplitOrder { seed, name: "paper" };
        let splits = Splits::from(order(7).by_times((0..100).collect(), &times, shares));
        assert_eq!(splits.train[..], (40..100).collect::<Vec<u32>>());
        assert_eq!(splits.test[..], (0..20).collect::<Vec<u32>>());
        // Nodes of one time are in a random order.
        let shares = [0.05, 0.05, 0.9].map(|share| Share::new(share).unwrap());
        let [one, other] = [7, 8].map(|seed| Splits::from(order(seed).by_times((0..100).collect(), &times, shares)));
        assert!(one.train.iter().all(|&node| node >= 90));
        assert_ne!(one.train[..], other.train[..]);
    }

    #[test]
    fn later_rows_are_divided_without_a_rest() {
        let shares = [0.7, 0.2, 0.1].map(|share| Share::new(share).unwrap());
        let order = SplitOrder { seed: 7, name: "paper" };
        let limits = GroupLimits::of_shares(shares);
        let mut at_random = [0; 3];
        let mut by_times = [0; 3];
        for table in 0..1000 {
            // Each row has the same splits in any other row of its table.
            let keys: Vec<i64> = (0..1 + table % 3).map(|row| 1000 * table + row).collect();
            let reversed: Vec<i64> = keys.iter().rev().copied().collect();
            let rows: Vec<u32> = (0..keys.len() as u32).collect();
            let [codes, mut others] =
                [&keys, &reversed].map(|keys| order.by_group_limits(rows.clone(), keys, limits).codes(keys.len()));
            others.reverse();
            assert_eq!(codes, others);
            codes.iter().for_each(|&code| at_random[code as usize] += 1);
            let times = vec![5; keys.len()];
            let [codes, mut others] = [&keys, &reversed]
                .map(|keys| order.later_by_times(rows.clone(), &times, keys, shares).codes(keys.len()));
            others.reverse();
            assert_eq!(codes, others);
            codes.iter().for_each(|&code| by_times[code as usize] += 1);
        }
        for found in [at_random, by_times] {
            for (count, expected) in found.into_iter().zip([1399_i32, 400, 200]) {
                assert!(expected.abs_diff(count) < 80, "{found:?}");
            }
        }
        // The latest rows are for tests.
        let half = [0.5, 0.0, 0.5].map(|share| Share::new(share).unwrap());
        assert_eq!(order.later_by_times(vec![0_u32, 1], &[9, 3], &[4, 5], half).codes(2), [2, 0]);
    }

    #[test]
    fn groups_are_in_one_split() {
        let groups: Vec<i64> = (0..1000).map(|node| node % 97).collect();
        let shares = [0.6, 0.2, 0.1].map(|share| Share::new(share).unwrap());
        let order = SplitOrder { seed: 7, name: "paper" };
        let (division, limits) = order.by_groups((0..1000).collect(), &groups, shares);
        let splits = Splits::from(division);
        let [train, valid, test] = [&splits.train, &splits.valid, &splits.test]
            .map(|nodes| nodes.iter().map(|&node| node % 97).collect::<std::collections::BTreeSet<u32>>());
        assert!(train.is_disjoint(&valid) && train.is_disjoint(&test) && valid.is_disjoint(&test));
        for (nodes, expected) in [(&splits.train, 600), (&splits.valid, 200), (&splits.test, 100)] {
            assert!(nodes.len().abs_diff(expected) <= 11, "{} of {expected}", nodes.len());
        }
        // Later rows join the splits of their groups, and new groups have about the same shares.
        let later = Splits::from(order.by_group_limits((0..1000).collect(), &groups, limits));
        for split in Split::ALL {
            assert_eq!(later.get(split)[..], splits.get(split)[..]);
        }
        let groups: Vec<i64> = (1000..2000).collect();
        let new = Splits::from(order.by_group_limits((0..1000).collect(), &groups, limits));
        for (split, expected) in Split::ALL.into_iter().zip([600, 200, 100]) {
            assert!(new.get(split).len().abs_diff(expected) < 60, "{} of {expected}", new.get(split).len());
        }
        // A split without a share stays empty.
        let shares = [0.0, 0.0, 1.0].map(|share| Share::new(share).unwrap());
        let (_, limits) = order.by_groups((0..3).collect::<Vec<u32>>(), &groups, shares);
        let new = order.by_group_limits((0..1000).collect::<Vec<u32>>(), &groups, limits);
        assert_eq!(new.codes(1000), vec![2; 1000]);
    }
}
