//! Choices of a round: random ones, and cases in turn.

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

/// Returns the case of a round. Consecutive rounds have all cases, in an order that the seed determines.
pub(crate) fn case_of_round<T: Copy>(cases: &[T], seed: u64, round: u64) -> T {
    let start = Moments::of_round(seed, 0).below(cases.len());
    let step = round as usize % cases.len() * stride(cases.len());
    cases[(start + step) % cases.len()]
}

/// Returns a number that is coprime to the number of cases, so that consecutive rounds differ in more than one choice.
fn stride(num_cases: usize) -> usize {
    (num_cases * 2 / 5 + 1..).find(|&number| are_coprime(number, num_cases)).unwrap_or(1)
}

fn are_coprime(number: usize, other: usize) -> bool {
    (2..=number).all(|divisor| !number.is_multiple_of(divisor) || !other.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_rounds_have_all_cases() {
        for count in 1..200 {
            let cases: Vec<usize> = (0..count).collect();
            let mut seen: Vec<usize> = (0..count as u64).map(|round| case_of_round(&cases, 11, round)).collect();
            seen.sort_unstable();
            assert_eq!(seen, cases, "{count} cases");
        }
    }
}
