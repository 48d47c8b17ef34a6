//! The rows of an embedding that one process holds.

use crate::part::embedding_rows::{EmbeddingRows, RowLayout};
use crate::part::sparse_adam::SparseAdam;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError, RwLock};
use tokio::sync::watch;

/// The number of gradient rows per parallel task.
const ROWS_PER_TASK: usize = 256;

/// Rows of an embedding with their moments, and the gradients for the next steps.
///
/// A row is read at a version, which is the number of steps that it has taken. Gradients are sent for the step after a
/// version.
#[derive(Debug)]
pub(crate) struct Shard {
    dim: usize,
    num_rows: usize,
    rows: RwLock<EmbeddingRows>,
    pending: Mutex<Pending>,
    version: watch::Sender<u64>,
}

/// Gradients that no step has applied yet.
#[derive(Debug, Default)]
struct Pending {
    /// The version whose gradients the next step applies.
    version: u64,
    /// The gradients of this version and of the one after it.
    by_version: BTreeMap<u64, Pieces>,
}

/// The gradients sent for a step, by sender and piece. A piece that is sent twice counts once, and sums have a fixed
/// order.
type Pieces = BTreeMap<(u32, u32), Update>;

/// A function that sets the values of one of a process's rows, `[dim]`.
pub type SetRow<'a> = &'a mut dyn FnMut(usize, &[f32]);

/// Gradients of some rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    pub(crate) rows: Vec<u32>,
    /// `[rows.len(), dim]`.
    pub(crate) gradients: Vec<f32>,
}

impl Shard {
    /// Makes rows and fills them with `init(row, values)`.
    pub(crate) fn new(num_rows: usize, dim: usize, init: impl Fn(usize, &mut [f32]) + Sync) -> Self {
        let rows = RwLock::new(EmbeddingRows::new(num_rows, dim, init));
        let (version, _) = watch::channel(0);
        Self { dim, num_rows, rows, pending: Mutex::default(), version }
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns the number of steps taken.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Waits until `version` steps have been taken. The caller sets the deadline.
    pub(crate) async fn wait_for(&self, version: u64) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.version.subscribe().wait_for(|&current| current >= version).await;
    }

    /// Returns the values of rows, which must be in range, as `[rows.len(), dim]`.
    pub(crate) fn read(&self, wanted: &[u32]) -> Vec<f32> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let mut values = vec![0.0; wanted.len() * self.dim];
        let version = self.version();
        // Sequential, since this may run on a network thread, which must not wait for the worker threads.
        for (values, &row) in values.chunks_exact_mut(self.dim).zip(wanted) {
            rows.read(row as usize, version, values);
        }
        values
    }

    /// Copies the values of consecutive rows, which must be in range, to `values`, `[range.len(), dim]`.
    pub(crate) fn read_range(&self, range: Range<usize>, values: &mut [f32]) {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.read_range(range, self.version(), values);
    }

    /// Averages the rows from now on, as [`RowLayout`] describes.
    pub(crate) fn average(&self, decay: f64) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).average(decay);
    }

    /// Lets reads return averages, or values.
    pub(crate) fn show_averages(&self, shown: bool) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).show_averages(shown);
    }

    /// Sets the values of all rows. Resets moments, averages, steps and pending gradients.
    pub(crate) fn replace(&self, values: &[f32]) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.reset();
        for (row, values) in values.chunks_exact(self.dim).enumerate() {
            rows.set(row, values);
        }
        drop(rows);
        self.start_anew();
    }

    /// Calls `write` to set the values of rows, which must be in range. Resets moments, averages, steps and pending gradients.
    pub(crate) fn fill<E>(&self, write: impl FnOnce(SetRow<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.reset();
        let written = write(&mut |row, values| rows.set(row, values));
        drop(rows);
        self.start_anew();
        written
    }

    /// Returns a copy of all rows with their moments and averages.
    ///
    /// # Shapes
    /// - output: `[num_rows, numbers of a row]`, as [`RowLayout`] describes them
    pub(crate) fn state(&self) -> Vec<f32> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).memory().to_vec()
    }

    /// Returns the length of the state.
    pub(crate) fn state_len(&self) -> usize {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).memory().len()
    }

    /// Replaces all rows, their moments and averages, and continues after step `version`. Gradients of earlier steps are
    /// dropped.
    ///
    /// # Shapes
    /// - `state`: as [`state`](Self::state) returns it
    pub(crate) fn set_state(&self, version: u64, state: &[f32]) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).memory_mut().copy_from_slice(state);
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Pending { version, by_version: BTreeMap::new() };
        self.version.send_replace(version);
    }

    fn start_anew(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Pending::default();
        self.version.send_replace(0);
    }

    /// Stores gradients for the step after `version`. Their rows must be in range.
    ///
    /// A collective of all ranks lies between the pushes for a step and the step. A rank can therefore be one step
    /// ahead of this process, which has not called [`Shard::step`] yet, but never two, and never behind.
    ///
    /// # Errors
    /// A message for gradients that belong to neither the next step nor the one after it.
    pub(crate) fn push(&self, version: u64, from: (u32, u32), update: Update) -> Result<(), String> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock is held throughout, so that no step happens between the check and the insertion.
        let current = pending.version;
        if version != current && version != current.saturating_add(1) {
            let step = version.saturating_add(1);
            return Err(format!(
                "gradients for step {step} of an embedding that has made {current} steps: all ranks must take every \
                 step, with a collective before it"
            ));
        }
        pending.by_version.entry(version).or_default().insert(from, update);
        Ok(())
    }

    /// Applies the gradients that were sent for this step, summed row by row and multiplied by `scale`.
    pub(crate) fn step(&self, optimizer: &SparseAdam, scale: f32) {
        let (step, updates) = self.take_pending();
        let mut touched: Vec<(u32, u32, u32)> = (updates.iter().enumerate())
            .flat_map(|(u, update)| update.rows.iter().enumerate().map(move |(at, &row)| (row, u as u32, at as u32)))
            .collect();
        // The full sort key fixes the order in which gradients of a row are added, so sums have the same bits every
        // time.
        touched.par_sort_unstable();
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let apply = Apply { layout: rows.layout(), updates: &updates, optimizer, scale, step };
        apply.run(&touched, 0, rows.memory_mut());
        drop(rows);
        self.version.send_replace(step);
    }

    /// Takes the gradients of the next step, which count as applied from now on. Returns the number of the step and the
    /// gradients.
    fn take_pending(&self) -> (u64, Vec<Update>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let version = pending.version;
        pending.version += 1;
        let pieces = pending.by_version.remove(&version).unwrap_or_default();
        (version + 1, pieces.into_values().collect())
    }
}

/// The application of one step to the touched rows.
struct Apply<'a> {
    layout: RowLayout,
    updates: &'a [Update],
    optimizer: &'a SparseAdam,
    scale: f32,
    step: u64,
}

impl Apply<'_> {
    /// Applies the gradients in `touched`, which are (row, update, position in the update), sorted. `rows` begins at
    /// row `first`. Splits the work between rows, so that each row is updated by one thread.
    fn run(&self, touched: &[(u32, u32, u32)], first: u32, rows: &mut [f32]) {
        if touched.len() > ROWS_PER_TASK {
            let middle_row = touched[touched.len() / 2].0;
            let middle = touched.partition_point(|&(row, ..)| row < middle_row);
            // A row with most of the gradients cannot be split further.
            if middle > 0 {
                let (head, tail) = rows.split_at_mut((middle_row - first) as usize * self.layout.width());
                rayon::join(
                    || self.run(&touched[..middle], first, head),
                    || self.run(&touched[middle..], middle_row, tail),
                );
                return;
            }
        }
        let RowLayout { dim, .. } = self.layout;
        let width = self.layout.width();
        let mut sum = vec![0.0; dim];
        let mut before = vec![0.0; dim];
        for same in touched.chunk_by(|a, b| a.0 == b.0) {
            sum.fill(0.0);
            for &(_, update, at) in same {
                let gradient = &self.updates[update as usize].gradients[at as usize * dim..][..dim];
                sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
            }
            sum.iter_mut().for_each(|value| *value *= self.scale);
            let row = &mut rows[(same[0].0 - first) as usize * width..][..width];
            self.layout.update(row, &sum, self.optimizer, self.step, &mut before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies Adam to a dense table in f64, skipping rows without a gradient.
    fn slow_step(table: &mut [[f64; 3]], gradients: &[Option<f64>], lr: f64, step: i32) {
        for (row, gradient) in table.iter_mut().zip(gradients) {
            let Some(g) = gradient else { continue };
            row[1] = 0.9 * row[1] + 0.1 * g;
            row[2] = 0.999 * row[2] + 0.001 * g * g;
            let first = row[1] / (1.0 - 0.9_f64.powi(step));
            let second = row[2] / (1.0 - 0.999_f64.powi(step));
            row[0] -= lr * first / (second.sqrt() + 1e-8 / (1.0 - 0.999_f64.powi(step)).sqrt());
        }
    }

    proptest! {
        #[test]
        fn steps_are_those_of_the_slow_version(
            steps in prop::collection::vec(prop::collection::vec((0_u32..40, -2.0_f32..2.0), 0..80), 1..6),
            dim in 1_usize..4,
        ) {
            let shard = Shard::new(40, dim, |row, values| values.fill(row as f32 * 0.1));
            let mut slow: Vec<[f64; 3]> = (0..40).map(|row| [f64::from(row as f32 * 0.1), 0.0, 0.0]).collect();
            for (step, gradients) in steps.iter().enumerate() {
                // Two ranks send in turn, and the second sends one piece twice.
                let mut sums = [None; 40];
                for rank in 0..2 {
                    let mine: Vec<_> = gradients.iter().skip(rank).step_by(2).collect();
                    let rows = mine.iter().map(|(row, _)| *row).collect();
                    let gradients = mine.iter().flat_map(|(_, g)| vec![*g; dim]).collect();
                    let update = Update { rows, gradients };
                    shard.push(step as u64, (rank as u32, 0), update.clone()).expect("the next step");
                    let again = if rank == 1 { update } else { Update::default() };
                    shard.push(step as u64, (1, 0), again).expect("the next step");
                    mine.iter().for_each(|(row, g)| *sums[*row as usize].get_or_insert(0.0) += f64::from(*g) * 0.5);
                }
                shard.step(&SparseAdam::new(0.05), 0.5);
                slow_step(&mut slow, &sums, 0.05, step as i32 + 1);
            }
            prop_assert_eq!(shard.version(), steps.len() as u64);
            let found = shard.read(&(0..40).collect::<Vec<_>>());
            for (row, expected) in slow.iter().enumerate() {
                for column in 0..dim {
                    let found = f64::from(found[row * dim + column]);
                    // Near a gradient of zero Adam divides one rounding error by another.
                    prop_assert!((found - expected[0]).abs() < 2e-3, "row {}: {} for {}", row, found, expected[0]);
                }
            }
        }
    }

    /// The average of a dense table in f64 after each step, which counts rows without gradients as well.
    #[test]
    fn averages_are_those_of_the_slow_version() {
        for decay in [0.0, 0.9, 0.9999] {
            let shard = Shard::new(4, 2, |row, values| values.fill(row as f32));
            shard.average(decay);
            let all: Vec<u32> = (0..4).collect();
            let mut slow: Vec<f64> = Vec::new();
            // Row 3 has no gradients, row 2 none in the first step, and steps 2 and 3 have none at all.
            for (step, rows) in [&[0, 1][..], &[1, 2], &[], &[], &[2], &[0, 1, 2]].into_iter().enumerate() {
                let gradients = (0..rows.len() * 2).map(|i| (step as f32 + i as f32).cos()).collect();
                shard.push(step as u64, (0, 0), Update { rows: rows.to_vec(), gradients }).expect("the next step");
                shard.step(&SparseAdam::new(0.1), 1.0);
                let values: Vec<f64> = shard.read(&all).into_iter().map(f64::from).collect();
                if slow.is_empty() {
                    slow.clone_from(&values);
                }
                slow.iter_mut().zip(values).for_each(|(slow, value)| *slow += (1.0 - decay) * (value - *slow));
                shard.show_averages(true);
                let found = shard.read(&all);
                let mut range = vec![0.0; 8];
                shard.read_range(0..4, &mut range);
                assert_eq!(found, range);
                shard.show_averages(false);
                let far = found.iter().zip(&slow).find(|(found, slow)| (f64::from(**found) - **slow).abs() > 1e-6);
                assert!(far.is_none(), "decay {decay}, step {step}: {far:?}");
            }
            assert_eq!(shard.read(&[3]), [3.0; 2]);
            // Another shard continues with the same bits.
            let other = Shard::new(4, 2, |_, _| ());
            other.average(decay);
            assert_eq!(other.state_len(), shard.state_len());
            other.set_state(shard.version(), &shard.state());
            for shard in [&shard, &other] {
                let update = Update { rows: vec![1], gradients: vec![0.5, -0.5] };
                shard.push(shard.version(), (0, 0), update).expect("the next step");
                shard.step(&SparseAdam::new(0.1), 1.0);
                shard.show_averages(true);
            }
            assert_eq!(shard.read(&all), other.read(&all));
            shard.replace(&[7.0; 8]);
            assert_eq!(shard.read(&all), [7.0; 8], "averages of replaced rows are the rows");
        }
    }

    #[test]
    fn many_rows_are_updated_once_each_whatever_the_threads() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| {
                let shard = Shard::new(5000, 3, |row, values| values.fill(row as f32));
                let rows: Vec<u32> = (0..5000).rev().chain(std::iter::repeat_n(7, 3000)).collect();
                let gradients = (0..rows.len() * 3).map(|i| (i as f32 * 0.37 + 1.0).sin()).collect();
                shard.push(0, (0, 0), Update { rows, gradients }).expect("the next step");
                shard.step(&SparseAdam::new(0.1), 1.0);
                shard.read(&(0..5000).collect::<Vec<_>>())
            })
        };
        let one = run(1);
        assert_eq!(one, run(4));
        assert!(one.iter().enumerate().all(|(i, value)| ((value - (i / 3) as f32).abs() - 0.1).abs() < 1e-3));
    }

    #[test]
    fn gradients_are_taken_for_the_next_step_and_the_one_after_it_alone() {
        let shard = Shard::new(4, 1, |_, values| values.fill(0.0));
        let update = |value: f32| Update { rows: vec![2], gradients: vec![value] };
        for step in 0..3 {
            for allowed in [step, step + 1] {
                shard.push(allowed, (allowed as u32, 0), update(1.0)).expect("a version that the protocol allows");
            }
            for refused in [step + 2, step + 1000, u64::MAX] {
                let why = shard.push(refused, (0, 1), update(1.0)).expect_err("a version in the future");
                assert!(why.contains(&format!("has made {step} steps")), "{why}");
            }
            if let Some(past) = step.checked_sub(1) {
                shard.push(past, (0, 1), update(1.0)).expect_err("a version of the past");
            }
            shard.step(&SparseAdam::new(0.1), 1.0);
            let kept: Vec<u64> = shard.pending.lock().unwrap().by_version.keys().copied().collect();
            assert_eq!(kept, [step + 1], "gradients of the step are gone, those of the next one stay");
        }
        shard.replace(&[0.0; 4]);
        assert!(shard.pending.lock().unwrap().by_version.is_empty());
        shard.push(0, (0, 0), update(1.0)).expect("the first step again");
    }
}
