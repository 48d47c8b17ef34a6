//! The memory of an embedding's rows: values, moments of the optimizer, and moving averages.

use crate::part::sparse_adam::SparseAdam;
use rayon::prelude::*;
use std::ops::Range;

/// The layout of a row. A step touches one stretch of memory per row: its values, both moments, and with averages what the
/// values lack to their average and the step of the last update, as bits.
///
/// The average of a row is `average = decay * average + (1 - decay) * value` after each step, from the values after the first
/// step on. A step reads and writes only the rows that have gradients. While a row keeps its values, each step multiplies the
/// difference between average and values by `decay`, so that the difference after the last update and the number of steps since
/// then give the average at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayout {
    pub(crate) dim: usize,
    /// The decay of the averages, if there are some.
    pub(crate) decay: Option<f64>,
}

/// The rows of an embedding that a process holds.
#[derive(Debug)]
pub(crate) struct EmbeddingRows {
    layout: RowLayout,
    /// Row by row.
    memory: Vec<f32>,
    /// True if reads return averages instead of values.
    shows_averages: bool,
}

impl RowLayout {
    /// Returns the numbers per row.
    pub(crate) fn width(self) -> usize {
        match self.decay {
            None => 3 * self.dim,
            Some(_) => 4 * self.dim + 1,
        }
    }

    /// Updates a row by its gradient in step `step`, counted from 1. `before` is memory for its values.
    pub(crate) fn update(
        self,
        row: &mut [f32],
        gradient: &[f32],
        optimizer: &SparseAdam,
        step: u64,
        before: &mut [f32],
    ) {
        let (value, rest) = row.split_at_mut(self.dim);
        let (first, rest) = rest.split_at_mut(self.dim);
        let (second, average) = rest.split_at_mut(self.dim);
        let Some(decay) = self.decay else {
            optimizer.apply(step, gradient, value, first, second);
            return;
        };
        before.copy_from_slice(value);
        optimizer.apply(step, gradient, value, first, second);
        let (gaps, last_update) = average.split_at_mut(self.dim);
        let kept = kept_share(decay, last_update[0], step - 1);
        for ((gap, before), value) in gaps.iter_mut().zip(before).zip(value) {
            let gap_before = f64::from(*gap) * kept;
            let moved = f64::from(*before) - f64::from(*value);
            // The average starts with the values after the first step.
            *gap = if step == 1 { 0.0 } else { (decay * (gap_before + moved)) as f32 };
        }
        last_update[0] = f32::from_bits(u32::try_from(step).unwrap_or(u32::MAX));
    }

    /// Copies the average of a row after `version` steps.
    fn read_average(self, row: &[f32], version: u64, values: &mut [f32]) {
        let Some(decay) = self.decay else { return };
        let (gaps, last_update) = row[3 * self.dim..].split_at(self.dim);
        let kept = kept_share(decay, last_update[0], version);
        for (value, gap) in values.iter_mut().zip(gaps) {
            *value = (f64::from(*value) + f64::from(*gap) * kept) as f32;
        }
    }
}

/// Returns the share of the difference between the average and the values of a row that is left after `version` steps, if the
/// row had its last update in this step, which is given as bits.
fn kept_share(decay: f64, last_update: f32, version: u64) -> f64 {
    let steps = version.saturating_sub(u64::from(last_update.to_bits()));
    decay.powi(i32::try_from(steps).unwrap_or(i32::MAX))
}

impl EmbeddingRows {
    /// Makes rows without averages and fills them with `init(row, values)`.
    pub(crate) fn new(num_rows: usize, dim: usize, init: impl Fn(usize, &mut [f32]) + Sync) -> Self {
        let layout = RowLayout { dim, decay: None };
        let mut memory = vec![0.0; num_rows * layout.width()];
        let all = memory.par_chunks_exact_mut(layout.width()).enumerate();
        all.for_each(|(row, numbers)| init(row, &mut numbers[..dim]));
        Self { layout, memory, shows_averages: false }
    }

    pub(crate) fn layout(&self) -> RowLayout {
        self.layout
    }

    pub(crate) fn memory(&self) -> &[f32] {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut [f32] {
        &mut self.memory
    }

    /// Averages the rows from now on. The averages are the values until a step.
    pub(crate) fn average(&mut self, decay: f64) {
        let old = self.layout.width();
        self.layout.decay = Some(decay);
        let new = self.layout.width();
        let num_rows = self.memory.len() / old;
        self.memory.resize(num_rows * new, 0.0);
        if new == old {
            return;
        }
        // From the last row on, so that no row is overwritten before it has moved.
        for row in (0..num_rows).rev() {
            self.memory.copy_within(row * old..(row + 1) * old, row * new);
            self.memory[row * new + old..(row + 1) * new].fill(0.0);
        }
    }

    /// Lets reads return averages, or values. Without averages, both are the same.
    pub(crate) fn show_averages(&mut self, shown: bool) {
        self.shows_averages = shown && self.layout.decay.is_some();
    }

    /// Copies a row after `version` steps to `values`, `[dim]`.
    pub(crate) fn read(&self, row: usize, version: u64, values: &mut [f32]) {
        let width = self.layout.width();
        self.copy(&self.memory[row * width..(row + 1) * width], version, values);
    }

    /// Copies consecutive rows after `version` steps to `values`, `[range.len(), dim]`.
    pub(crate) fn read_range(&self, range: Range<usize>, version: u64, values: &mut [f32]) {
        let width = self.layout.width();
        let rows = self.memory[range.start * width..range.end * width].par_chunks_exact(width);
        let read = values.par_chunks_exact_mut(self.layout.dim).zip(rows);
        read.for_each(|(values, row)| self.copy(row, version, values));
    }

    fn copy(&self, row: &[f32], version: u64, values: &mut [f32]) {
        values.copy_from_slice(&row[..self.layout.dim]);
        if self.shows_averages {
            self.layout.read_average(row, version, values);
        }
    }

    /// Sets the values of a row, whose moments and average must be reset.
    pub(crate) fn set(&mut self, row: usize, values: &[f32]) {
        let width = self.layout.width();
        self.memory[row * width..][..self.layout.dim].copy_from_slice(values);
    }

    /// Resets the moments and averages of all rows.
    pub(crate) fn reset(&mut self) {
        let dim = self.layout.dim;
        self.memory.par_chunks_exact_mut(self.layout.width()).for_each(|row| row[dim..].fill(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 2;

    /// Updates a row by gradients that depend on the step.
    fn update(rows: &mut EmbeddingRows, row: usize, step: u64) {
        let layout = rows.layout();
        let width = layout.width();
        let gradient = [0.0, 1.0].map(|column| (step as f32 * 0.7 + row as f32 + column).cos() + 0.1);
        let row = &mut rows.memory_mut()[row * width..][..width];
        layout.update(row, &gradient, &SparseAdam::new(0.01), step, &mut [0.0; DIM]);
    }

    /// Returns the values, or the averages, of all four rows.
    fn read(rows: &mut EmbeddingRows, version: u64, averages: bool) -> Vec<f64> {
        let mut found = [0.0; 4 * DIM];
        rows.show_averages(averages);
        rows.read_range(0..4, version, &mut found);
        found.map(f64::from).to_vec()
    }

    /// Rows have gradients in each step, in some, rarely and never. Then follow more steps without gradients than an `i32`
    /// counts.
    #[test]
    fn averages_of_many_steps_are_those_of_the_slow_version() {
        for decay in [0.9, 0.999, 0.9999] {
            let mut rows = EmbeddingRows::new(4, DIM, |row, values| values.fill(row as f32));
            rows.average(decay);
            let mut slow: Vec<f64> = Vec::new();
            for step in 1..=20_000 {
                for (row, every) in [1, 7, 2500].into_iter().enumerate() {
                    if step % every == 0 {
                        update(&mut rows, row, step);
                    }
                }
                let values = read(&mut rows, step, false);
                if slow.is_empty() {
                    slow.clone_from(&values);
                }
                slow.iter_mut().zip(&values).for_each(|(slow, value)| *slow += (1.0 - decay) * (value - *slow));
                let found = read(&mut rows, step, true);
                // Values and their differences to the averages have 24 bits, and the errors of many steps add up.
                let far = found.iter().zip(&slow).find(|(found, slow)| (*found - *slow).abs() > 2e-4);
                assert!(far.is_none(), "decay {decay}, step {step}: {far:?}");
            }
            let values = read(&mut rows, 20_000, false);
            assert_ne!(read(&mut rows, 20_000, true)[..DIM], values[..DIM], "decay {decay}");
            let late = 3_000_000_000;
            assert_eq!(read(&mut rows, late, true), values, "decay {decay}");
            // The average takes its share of one more update.
            update(&mut rows, 2, late + 1);
            let now = read(&mut rows, late + 1, false);
            for (at, found) in read(&mut rows, late + 1, true).into_iter().enumerate() {
                let expected = values[at] + (1.0 - decay) * (now[at] - values[at]);
                assert!((found - expected).abs() < 1e-6, "decay {decay}, {at}: {found} for {expected}");
            }
        }
    }
}
