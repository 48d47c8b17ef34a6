//! Random permutations in constant memory.

use crate::rng::{combine, mix};

/// The rounds of the Feistel network. With ideal round functions, four rounds make a permutation that few queries
/// cannot distinguish from a random one (Luby and Rackoff, "How to construct pseudorandom permutations from
/// pseudorandom functions", 1988). The additional rounds are for the small halves of short lists.
const ROUNDS: usize = 8;
/// The minimum number of bits of a half. A short list gets a larger domain than it needs, because a half of fewer
/// values has too few different round functions.
const MIN_HALF_BITS: u32 = 4;

/// A random permutation of `0..len`, determined by a key and evaluated one position at a time in constant memory.
///
/// It is a balanced Feistel network over the smallest domain with an even number of bits that holds all positions. A
/// result outside `0..len` passes through the network again (cycle walking; Black and Rogaway, "Ciphers with arbitrary
/// finite domains", 2002). The domain is at most four times the length, or 256 for short lists. So except in short
/// lists, a position takes fewer than four passes on average.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Creates the permutation of `0..len` for `key`.
    pub fn new(len: u64, key: u64) -> Self {
        // The number of bits of the largest position, `len - 1`.
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(MIN_HALF_BITS);
        Self { len, half_bits, keys: std::array::from_fn(|round| combine(key, round as u64)) }
    }

    /// Returns the number of positions.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the permutation has no positions.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value at `position`.
    ///
    /// # Panics
    /// If `position` is not below the length.
    pub fn at(&self, position: u64) -> u64 {
        assert!(position < self.len, "position {position} of a permutation of {}", self.len);
        let mut value = self.pass(position);
        // The network is a bijection, so following it from `position` leads back to `position`, which is below `len`.
        // The walk therefore ends.
        while value >= self.len {
            value = self.pass(value);
        }
        value
    }

    /// Passes a value through the network, a bijection of its domain.
    fn pass(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut left = value >> self.half_bits;
        let mut right = value & mask;
        // A round swaps the halves and mixes one into the other by XOR. This is invertible for any mixing function.
        for key in self.keys {
            let mixed = left ^ (mix(key ^ right) & mask);
            left = right;
            right = mixed;
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_appears_once_at_every_length() {
        for len in 1..=2000_u64 {
            let order = Permutation::new(len, combine(3, len));
            let mut seen = vec![false; len as usize];
            for position in 0..len {
                let value = order.at(position) as usize;
                assert!(!std::mem::replace(&mut seen[value], true), "value {value} twice at length {len}");
            }
        }
    }

    #[test]
    fn large_lengths_are_permuted_too() {
        // One more and one less than a full domain, and a length between two domains.
        for len in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_001] {
            let order = Permutation::new(len, len);
            let mut seen = vec![false; len as usize];
            (0..len).for_each(|position| seen[order.at(position) as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "length {len}");
        }
        for len in [u64::from(u32::MAX), (1 << 40) + 12_345, u64::MAX] {
            let order = Permutation::new(len, 1);
            let mut values: Vec<u64> = (0..1000).map(|i| order.at(i)).chain([order.at(len - 1)]).collect();
            assert!(values.iter().all(|&value| value < len));
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), 1001);
        }
    }

    /// Returns the chi-square statistic of the counts of (position, value) over many keys.
    fn chi_square_of_places(len: u64, keys: u64) -> f64 {
        let mut counts = vec![0.0_f64; (len * len) as usize];
        for key in 0..keys {
            let order = Permutation::new(len, combine(17, key));
            (0..len).for_each(|position| counts[(position * len + order.at(position)) as usize] += 1.0);
        }
        let expected = keys as f64 / len as f64;
        counts.iter().map(|count| (count - expected).powi(2) / expected).sum()
    }

    #[test]
    fn every_value_is_equally_likely_at_every_position() {
        for (len, keys) in [(2, 4000), (3, 6000), (7, 14_000), (16, 16_000), (40, 20_000), (256, 25_600)] {
            let statistic = chi_square_of_places(len, keys);
            // Rows and columns have fixed sums, which reduces the degrees of freedom. A deviation of six standard
            // deviations from the mean is not chance.
            let freedom = ((len - 1) * (len - 1)) as f64;
            let limit = freedom + 6.0 * (2.0 * freedom).sqrt() + 12.0;
            assert!(statistic < limit, "length {len}: chi-square {statistic} of {freedom} degrees of freedom");
        }
    }

    #[test]
    fn all_orders_of_a_short_list_are_equally_likely() {
        let keys = 24_000;
        let mut counts = std::collections::HashMap::new();
        for key in 0..keys {
            let order = Permutation::new(4, combine(5, key));
            let order: Vec<u64> = (0..4).map(|position| order.at(position)).collect();
            *counts.entry(order).or_insert(0.0_f64) += 1.0;
        }
        let statistic: f64 = counts.values().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        assert_eq!(counts.len(), 24);
        assert!(statistic < 60.0, "chi-square of 23 degrees of freedom: {statistic}");
    }

    #[test]
    fn neighbors_are_far_apart() {
        let len = 100_000;
        let order = Permutation::new(len, 9);
        let mean =
            (0..len - 1).map(|i: u64| order.at(i).abs_diff(order.at(i + 1)) as f64).sum::<f64>() / (len - 1) as f64;
        // Two random numbers in a range are on average a third of the range apart.
        assert!((mean / len as f64 - 1.0 / 3.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn the_key_decides_and_memory_is_constant() {
        let values = |key| (0..50).map(|i| Permutation::new(50, key).at(i)).collect::<Vec<_>>();
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
        assert!(size_of::<Permutation>() <= 96);
        assert!(Permutation::new(0, 1).is_empty());
    }
}
