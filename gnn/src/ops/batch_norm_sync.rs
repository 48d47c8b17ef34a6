//! The exchange between the batch normalizations of all ranks.

use std::any::Any;
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::row_statistics::RowStatistics;

/// The failure of a sum over ranks.
pub type RowSumsError = Box<dyn Error + Send + Sync>;

/// Sums over all ranks.
pub trait RowSums: Debug + Send + Sync {
    /// Replaces each number by its sum over all ranks, which has the same bits on all ranks. All ranks call this in the
    /// same order, with as many numbers.
    ///
    /// # Errors
    /// A failure of the exchange. All later calls fail too.
    fn sum(&self, values: &mut [f64]) -> Result<(), RowSumsError>;
}

/// The exchange of sums by which the batch normalizations of a model normalize over the rows of all ranks in training, as
/// PyTorch's `SyncBatchNorm`. Clones share the exchange.
///
/// A step is one forward pass or several, then [`end_forward`](Self::end_forward), the backward pass, and
/// [`end_backward`](Self::end_backward). A normalization exchanges one sum in the forward pass and one in the backward pass.
///
/// Invariants:
/// - All ranks run the same normalizations in the same order, also without rows:
///   [`BatchNorm::forward_without_rows`](crate::nn::BatchNorm::forward_without_rows).
/// - Backward passes exchange sums in the reverse order, on all ranks. The passes of a rank depend on each other in this
///   order ([`synced_batch_norm`](fn@super::synced_batch_norm)), and a rank adds zeros for a normalization whose backward
///   pass it does not run.
///
/// After a failed exchange, the passes continue with zeros, and [`end_forward`](Self::end_forward) or
/// [`end_backward`](Self::end_backward) return the error.
#[derive(Debug, Clone)]
pub struct BatchNormSync {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sums: Box<dyn RowSums>,
    step: Mutex<Step>,
}

/// The state of a step.
#[derive(Debug, Default)]
struct Step {
    /// The number of columns of each normalization of the forward pass whose sums of the backward pass were not exchanged.
    channels: Vec<usize>,
    /// The output of the last normalization with rows, a `Tensor<B, 2>`.
    previous: Option<Box<dyn Any + Send>>,
    /// The first failure.
    failure: Option<RowSumsError>,
}

impl BatchNormSync {
    /// Makes an exchange by sums over all ranks.
    pub fn new(sums: impl RowSums + 'static) -> Self {
        Self { shared: Arc::new(Shared { sums: Box::new(sums), step: Mutex::default() }) }
    }

    /// Ends the forward passes of a step.
    ///
    /// # Errors
    /// A failed exchange.
    pub fn end_forward(&self) -> Result<(), RowSumsError> {
        let mut step = self.step();
        // The backward pass frees the graph of its tensors, to which this output belongs.
        step.previous = None;
        step.result()
    }

    /// Ends the backward pass of a step, also on a rank that had none.
    ///
    /// # Errors
    /// A failed exchange.
    pub fn end_backward(&self) -> Result<(), RowSumsError> {
        let mut step = self.step();
        while let Some(channels) = step.channels.pop() {
            self.sum(&mut step, &mut vec![0.0; 2 * channels]);
        }
        step.result()
    }

    /// Sums the statistics of the rows over all ranks. Returns the number of the normalization
    /// in the step, and the statistics of the rows of all ranks.
    pub(crate) fn forward(&self, own: &RowStatistics) -> (usize, RowStatistics) {
        let mut step = self.step();
        let number = step.channels.len();
        step.channels.push(own.means.len());
        let mut sums = own.to_sums();
        self.sum(&mut step, &mut sums);
        (number, RowStatistics::of_sums(&sums))
    }

    /// Replaces the sums of the backward pass of a normalization by those over all ranks.
    pub(super) fn backward(&self, number: usize, sums: &mut [f64]) {
        let mut step = self.step();
        // The loss of this rank does not depend on later normalizations whose passes have not run by now.
        while step.channels.len() > number + 1 {
            let channels = step.channels.pop().unwrap_or_default();
            self.sum(&mut step, &mut vec![0.0; 2 * channels]);
        }
        if step.channels.pop().is_none_or(|channels| 2 * channels != sums.len()) {
            let what = "batch normalization: a backward pass ran twice, or after the end of its step";
            step.failure.get_or_insert_with(|| what.into());
        }
        self.sum(&mut step, sums);
    }

    /// Returns the output of the last normalization with rows in this step.
    pub(super) fn previous<B: Backend>(&self) -> Option<Tensor<B, 2>> {
        self.step().previous.as_ref().and_then(|output| output.downcast_ref().cloned())
    }

    /// Stores the output of a normalization for the next one.
    pub(super) fn set_previous<B: Backend>(&self, output: &Tensor<B, 2>) {
        self.step().previous = Some(Box::new(output.clone()));
    }

    fn step(&self) -> MutexGuard<'_, Step> {
        self.shared.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sum(&self, step: &mut Step, values: &mut [f64]) {
        if step.failure.is_none() {
            step.failure = self.shared.sums.sum(values).err();
        }
        if step.failure.is_some() {
            values.fill(0.0);
        }
    }
}

impl Step {
    fn result(&mut self) -> Result<(), RowSumsError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of values that are summed, and a failure after some of them.
    #[derive(Debug)]
    struct Lengths {
        found: Arc<Mutex<Vec<usize>>>,
        fails_at: usize,
    }

    impl RowSums for Lengths {
        fn sum(&self, values: &mut [f64]) -> Result<(), RowSumsError> {
            let mut found = self.found.lock().expect("no panic");
            found.push(values.len());
            if found.len() > self.fails_at { Err("rank 1 is gone".into()) } else { Ok(()) }
        }
    }

    fn sync(fails_at: usize) -> (BatchNormSync, Arc<Mutex<Vec<usize>>>) {
        let found = Arc::new(Mutex::default());
        (BatchNormSync::new(Lengths { found: Arc::clone(&found), fails_at }), found)
    }

    #[test]
    fn backward_passes_that_a_rank_does_not_run_are_exchanged() {
        let (sync, found) = sync(usize::MAX);
        for _ in 0..2 {
            for channels in [4, 3, 2] {
                sync.forward(&RowStatistics::without_rows(channels));
            }
            sync.end_forward().expect("no failure");
            // Only the backward pass of the second one runs.
            sync.backward(1, &mut [1.0; 6]);
            sync.end_backward().expect("no failure");
        }
        let of_step = [9, 7, 5, 4, 6, 8];
        assert_eq!(*found.lock().expect("no panic"), [of_step, of_step].concat());
    }

    #[test]
    fn a_failure_is_returned_once_and_ends_the_exchange() {
        let (sync, found) = sync(1);
        sync.forward(&RowStatistics::without_rows(1));
        let (_, statistics) = sync.forward(&RowStatistics { num_rows: 2.0, means: vec![1.0], variances: vec![1.0] });
        assert_eq!(statistics, RowStatistics::without_rows(1));
        sync.forward(&RowStatistics::without_rows(1));
        assert_eq!(found.lock().expect("no panic").len(), 2);
        assert_eq!(sync.end_forward().expect_err("a failure").to_string(), "rank 1 is gone");
    }

    #[test]
    fn a_second_backward_pass_is_an_error() {
        let (sync, _) = sync(usize::MAX);
        sync.forward(&RowStatistics::without_rows(1));
        sync.backward(0, &mut [1.0, 2.0]);
        let mut again = [1.0, 2.0];
        sync.backward(0, &mut again);
        assert_eq!(again, [0.0, 0.0]);
        assert!(sync.end_backward().expect_err("a failure").to_string().contains("ran twice"));
    }
}
