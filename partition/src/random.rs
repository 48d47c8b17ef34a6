//! Explicit, replayable randomness, and the random assignment.

/// SplitMix64 (Steele, Lea & Flood 2014): a counter and a mixing function.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by multiply and shift; the bias is under `bound` in 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Fisher-Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Deals the nodes `0..num_nodes` out in random order, type after type (`ends` are the ends of the types' ranges):
/// parts differ by at most one node, also within each type.
pub(crate) fn deal(ends: &[usize], num_parts: u32, seed: u64) -> Vec<u32> {
    let num_nodes = ends.last().copied().unwrap_or(0);
    let mut rng = SplitMix64::new(seed);
    let mut order: Vec<u32> = (0..num_nodes as u32).collect();
    let mut start = 0;
    for &end in ends {
        rng.shuffle(&mut order[start..end]);
        start = end;
    }
    let mut parts = vec![0; num_nodes];
    for (turn, &node) in order.iter().enumerate() {
        parts[node as usize] = (turn % num_parts as usize) as u32;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gets_its_share_of_each_type_to_within_one() {
        let ends = [10, 11, 30];
        let parts = deal(&ends, 4, 7);
        for range in [0..10, 10..11, 11..30, 0..30] {
            let count = |p: u32| parts[range.clone()].iter().filter(|&&q| q == p).count();
            let counts: Vec<usize> = (0..4).map(count).collect();
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
        assert_ne!(parts, deal(&ends, 4, 8));
        assert_eq!(parts, deal(&ends, 4, 7));
    }

    #[test]
    fn splitmix_gives_its_published_numbers() {
        let mut rng = SplitMix64::new(1_234_567);
        assert_eq!(rng.next(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next(), 3_203_168_211_198_807_973);
    }
}
