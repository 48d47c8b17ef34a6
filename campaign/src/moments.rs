//! Random choices of a round.

use edgecut_graph::rng::{CounterRng, combine};
use std::time::Duration;

/// The random choices of one round.
pub(crate) struct Moments {
    rng: CounterRng,
}

impl Moments {
    pub(crate) fn of_round(seed: u64, round: u64) -> Self {
        Self { rng: CounterRng::new(combine(seed, round)) }
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// Returns one of `choices`.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a moment before `limit`.
    pub(crate) fn before(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.below(limit.as_micros() as usize) as u64)
    }
}
