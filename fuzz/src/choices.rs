//! The random choices of one input.

use edgecut_graph::rng::{CounterRng, combine};

/// A sequence of choices that a few numbers determine.
pub(crate) struct Choices(CounterRng);

impl Choices {
    /// The choices of the input with this number.
    pub(crate) fn new(seed: u64, target: &str, number: u64) -> Self {
        let name = target.bytes().fold(0, |key, byte| combine(key, u64::from(byte)));
        Self(CounterRng::new(combine(combine(seed, name), number)))
    }

    /// Returns a number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// Returns true once in `n` calls on average.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    /// Returns one of `choices`, which is not empty.
    pub(crate) fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
