//! Counter-based random numbers. Each number is a pure function of named keys, so it depends neither on the order of
//! the work nor on the number of threads.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).

/// The increment of SplitMix64: the odd integer closest to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Applies the finalizer of SplitMix64, a bijection in which every input bit affects every output bit.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Folds `value` into `key`. The order of the folded values matters.
#[inline]
pub const fn combine(key: u64, value: u64) -> u64 {
    mix(key.wrapping_add(GAMMA) ^ mix(value.wrapping_add(GAMMA)))
}

/// A sequence of random numbers that is determined by a key.
///
/// ```
/// use edgecut_graph::rng::{CounterRng, combine};
/// let seed = 7;
/// let epoch = 3;
/// let mut rng = CounterRng::new(combine(seed, epoch));
/// assert!(rng.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct CounterRng {
    state: u64,
}

impl CounterRng {
    /// Creates the sequence of `key`.
    #[inline]
    pub const fn new(key: u64) -> Self {
        Self { state: key }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Returns the result of the `n`-th future call of [`CounterRng::next_u64`], counted from 0, without advancing.
    #[inline]
    pub const fn nth(&self, n: u64) -> u64 {
        mix(self.state.wrapping_add(n.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// Returns a number in `0..bound`, or 0 if `bound` is 0. It scales 64 random bits by multiplication (Lemire, "Fast
    /// Random Integer Generation in an Interval", 2019), with a bias of less than `bound` in 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns an approximately Gaussian number with mean 0 and variance 1: the scaled sum of four uniform numbers. It
    /// is at most 3.5 from the mean. Unlike an exact Gaussian it needs no logarithm, so every machine computes the same
    /// bits.
    #[inline]
    pub fn gaussian(&mut self) -> f32 {
        // The variance of a sum of four uniform numbers on 0..=65535 is (65536^2 - 1) / 3.
        const SCALE: f32 = 1.0 / 37_837.22;
        let bits = self.next_u64();
        let sum: u32 = [0, 16, 32, 48].into_iter().map(|shift| (bits >> shift) as u32 & 0xffff).sum();
        // The mean of the sum is 4 * 65535 / 2 = 131070.
        (sum as f32 - 131_070.0) * SCALE
    }

    /// Shuffles `items` in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_generator() {
        // The first outputs of SplitMix64 from state 1234567, as the reference implementation in C prints them.
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431_u64];
        let start = CounterRng::new(1_234_567);
        let mut rng = start.clone();
        for (n, expected) in expected.into_iter().enumerate() {
            assert_eq!((rng.next_u64(), start.nth(n as u64)), (expected, expected));
        }
    }

    #[test]
    fn units_and_gaussians_have_their_moments() {
        let count = 100_000_u64;
        let moments = |draw: fn(&mut CounterRng) -> f64| {
            let values: Vec<f64> = (0..count).map(|i| draw(&mut CounterRng::new(combine(3, i)))).collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64)
        };
        let (mean, variance) = moments(CounterRng::unit);
        assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(|rng| f64::from(rng.gaussian()));
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn the_order_of_combined_values_matters() {
        assert_ne!(combine(combine(0, 1), 2), combine(combine(0, 2), 1));
        assert_ne!(combine(1, 2), combine(2, 1));
    }

    #[test]
    fn a_shuffle_is_a_permutation_that_the_key_decides() {
        let shuffled = |key| {
            let mut values: Vec<u32> = (0..100).collect();
            CounterRng::new(key).shuffle(&mut values);
            values
        };
        assert_eq!(shuffled(5), shuffled(5));
        assert_ne!(shuffled(5), shuffled(6));
        let mut sorted = shuffled(5);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
