//! Counter-based random numbers: what is drawn is a pure function of named keys, never of the order of the work.
//!
//! The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names a batch: two batches with the same key and the same seed nodes are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// The seed of the run.
    pub seed: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The batch within the epoch, over all ranks.
    pub batch: u64,
}

impl BatchKey {
    /// The key as one number, which is what goes over the wire.
    pub fn stream(self) -> u64 {
        combine(combine(combine(0, self.seed), self.epoch), self.batch)
    }
}

/// The finaliser of SplitMix64: a bijection that spreads every input bit over the output.
pub fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Folds `value` into `key`; the order of the values matters.
pub fn combine(key: u64, value: u64) -> u64 {
    mix(key.wrapping_add(GAMMA) ^ mix(value.wrapping_add(GAMMA)))
}

/// A sequence of random numbers that a key names.
#[derive(Clone, Debug)]
pub struct CounterRng {
    state: u64,
}

impl CounterRng {
    /// The sequence that `key` names.
    pub fn new(key: u64) -> Self {
        Self { state: key }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number in `0..bound`, by multiplication (Lemire 2019); for bounds below 2^32 the bias is below 2^-32.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// Shuffles `values` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            let j = self.below(i as u32 + 1) as usize;
            values.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_batch_key_changes_the_stream() {
        let key = BatchKey { seed: 1, epoch: 2, batch: 3 };
        let others = [BatchKey { seed: 2, ..key }, BatchKey { epoch: 1, ..key }, BatchKey { batch: 2, ..key }];
        for other in others {
            assert_ne!(key.stream(), other.stream());
        }
        assert_ne!(combine(combine(0, 1), 2), combine(combine(0, 2), 1));
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
