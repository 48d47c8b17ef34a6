//! The Gaussian distribution of a column by the ranks of its values.

use super::erfinv::erfinv;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The most values of a column that are saved.
const MAX_SAVED: usize = 4096;

/// The output for each value of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankTable {
    /// Distinct values, ascending.
    values: Vec<f64>,
    /// The output for each value.
    outputs: Vec<f64>,
}

impl RankTable {
    /// Fits the values of a column. Equal values share the mean of their ranks, or count once with `uniquify`.
    pub(super) fn fit(mut column: Vec<f64>, epsilon: f64, uniquify: bool) -> Self {
        column.par_sort_unstable_by(f64::total_cmp);
        let mut values: Vec<f64> = Vec::new();
        let mut ranks: Vec<f64> = Vec::new();
        for run in column.chunk_by(|a, b| a == b) {
            let rank = if uniquify { values.len() as f64 } else { ranks_of(&column, run) };
            values.push(run[0]);
            ranks.push(rank);
        }
        let last = if uniquify { values.len() } else { column.len() }.saturating_sub(1) as f64;
        let output = |rank: &f64| {
            if last == 0.0 {
                return 0.0;
            }
            let uniform = (rank / last - 0.5) * 2.0;
            erfinv(uniform.clamp(-1.0 + epsilon, 1.0 - epsilon))
        };
        let outputs = ranks.par_iter().map(output).collect();
        Self { values, outputs }
    }

    /// Returns the output for a value. A value between two others is interpolated, and one beyond all takes the nearest
    /// output.
    pub(super) fn apply(&self, value: f64) -> f64 {
        let after = self.values.partition_point(|&other| other < value);
        if after == self.values.len() {
            return self.outputs[after - 1];
        }
        if after == 0 || self.values[after] == value {
            return self.outputs[after];
        }
        let position = (value - self.values[after - 1]) / (self.values[after] - self.values[after - 1]);
        self.outputs[after - 1] + position * (self.outputs[after] - self.outputs[after - 1])
    }

    /// Returns a table of few values, which are spread evenly over all.
    pub(super) fn reduced(&self) -> Self {
        let num_values = self.values.len();
        if num_values <= MAX_SAVED {
            return self.clone();
        }
        let positions = (0..MAX_SAVED).map(|at| at * (num_values - 1) / (MAX_SAVED - 1));
        let (values, outputs) = positions.map(|at| (self.values[at], self.outputs[at])).unzip();
        Self { values, outputs }
    }

    /// Checks a table that was read from a file.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_ascending = self.values.windows(2).all(|pair| pair[0] < pair[1]);
        let are_finite = self.values.iter().chain(&self.outputs).all(|value| value.is_finite());
        if self.values.is_empty() || self.values.len() != self.outputs.len() || !is_ascending || !are_finite {
            return Err("the values of rank_gauss do not ascend, do not match the outputs, or are not finite".into());
        }
        Ok(())
    }
}

/// Returns the mean rank of the equal values `run`, a part of the sorted `column`.
fn ranks_of(column: &[f64], run: &[f64]) -> f64 {
    let first = column.partition_point(|&value| value < run[0]);
    first as f64 + (run.len() - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_become_gaussian() {
        // GraphStorm's result for distinct values: erfinv of -1 + epsilon, -0.5, 0, 0.5, 1 - epsilon.
        let table = RankTable::fit(vec![30.0, -1.0, 4.0, 7.0, 5.0], 1e-6, false);
        let extreme = 3.458_910_737_279_5;
        for (value, expected) in [(-1.0, -extreme), (4.0, -0.476_936_276_204_47), (5.0, 0.0), (30.0, extreme)] {
            assert!((table.apply(value) - expected).abs() < 1e-9, "{value}: {}", table.apply(value));
        }
        assert!((table.apply(6.0) - 0.476_936_276_204_47 / 2.0).abs() < 1e-9);
        assert_eq!((table.apply(-9.0), table.apply(99.0)), (table.apply(-1.0), table.apply(30.0)));
    }

    #[test]
    fn equal_values_share_a_rank_or_count_once() {
        let column = vec![1.0, 2.0, 2.0, 3.0, 3.0];
        let shared = RankTable::fit(column.clone(), 1e-6, false);
        assert_eq!(shared.apply(2.0), erfinv((1.5 / 4.0 - 0.5) * 2.0));
        let once = RankTable::fit(column, 1e-6, true);
        assert_eq!(once.apply(2.0), 0.0);
        assert_eq!(RankTable::fit(vec![5.0; 3], 1e-6, true).apply(5.0), 0.0);
    }

    #[test]
    fn a_reduced_table_is_close() {
        let table = RankTable::fit((0..100_000).map(f64::from).collect(), 1e-6, false);
        let reduced = table.reduced();
        assert_eq!(reduced.values.len(), MAX_SAVED);
        reduced.check().unwrap();
        for value in (0..100_000).step_by(977).map(f64::from) {
            assert!((table.apply(value) - reduced.apply(value)).abs() < 0.05, "{value}");
        }
    }
}
