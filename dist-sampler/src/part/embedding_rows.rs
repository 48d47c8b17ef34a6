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
