//! Cross entropy of logits and classes as one operation.

use burn::tensor::backend::Backend;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{Int, Tensor};
use edgecut_graph::uninit::vec_from_rows;
use rayon::prelude::*;
use std::mem::MaybeUninit;

use super::gnn_backend::{GnnBackend, compute, constant};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};
use super::real::Real;

/// The number of rows per parallel task.
const ROWS_PER_TASK: usize = 128;

/// The tensors that the forward pass of a cross entropy keeps for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedCrossEntropy<B: Backend> {
    /// `[rows, classes]`.
    pub logits: FloatTensor<B>,
    /// `[rows]`.
    pub classes: IntTensor<B>,
    /// The log-sum-exp of each row, `[rows]`.
    pub log_sums: FloatTensor<B>,
}

/// The sum of the cross entropies of rows with these classes.
#[derive(Debug, Clone)]
struct CrossEntropy<K: Backend> {
    classes: IntTensor<K>,
}

impl<K: GnnKernels> Operation<K, 1> for CrossEntropy<K> {
    type Saved = SavedCrossEntropy<K>;
    /// The sum and the number of correct rows, `[2]`.
    type Extra = FloatTensor<K>;

    fn forward(&self, [logits]: [FloatTensor<K>; 1], _: bool) -> Forward<K, Self::Saved, Self::Extra> {
        let (judged, saved) = K::cross_entropy_forward(logits, self.classes.clone());
        let sum = K::float_slice(judged.clone(), &[(0..1).into()]);
        Forward { output: sum, extra: judged, saved }
    }

    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, _: [bool; 1]) -> [Option<FloatTensor<K>>; 1] {
        [Some(K::cross_entropy_backward(saved, grad))]
    }
}

/// Computes the sum over the rows of `-log softmax(logits)[class]` and counts the correctly classified rows.
///
/// The first output is the sum. The second output holds the same sum and the number of correct rows; it has no
/// gradient. A row is correct if its greatest logit (the first one on ties) belongs to its class. A row whose
/// log-sum-exp is NaN is not correct.
///
/// # Shapes
/// - `logits`: `[rows, classes]`
/// - `classes`: `[rows]`, each below the number of classes, which callers check
/// - output: `[1]` and `[2]`
///
/// # Panics
/// If `logits` and `classes` have different numbers of rows.
pub fn cross_entropy_sum<B: GnnBackend>(
    logits: Tensor<B, 2>,
    classes: Tensor<B, 1, Int>,
) -> (Tensor<B, 1>, Tensor<B, 1>) {
    assert_eq!([logits.dims()[0]], classes.dims(), "cross_entropy_sum: rows against classes");
    let operation = CrossEntropy::<B::Kernels> { classes: classes.into_primitive() };
    let (sum, judged) = compute(operation, [logits.into_primitive()]);
    (sum, constant::<B, 1>(judged))
}

/// Returns the sum of the rows' cross entropies with the number of correct rows, and the log-sum-exp of each row.
pub(super) fn forward<T: Real>(logits: &[T], classes: &[usize]) -> ([T; 2], Vec<T>) {
    let columns = logits.len() / classes.len().max(1);
    let of_row = |(row, &class): (&[T], &usize)| {
        let mut at = 0;
        for (column, &logit) in row.iter().enumerate() {
            if logit > row[at] {
                at = column;
            }
        }
        // Subtracting the greatest logit keeps the exponentials from overflowing.
        let greatest = row[at];
        let total = row.iter().fold(T::ZERO, |total, &logit| total + (logit - greatest).exp());
        let log_sum = greatest + total.ln();
        (log_sum, log_sum - row[class], at == class && !log_sum.is_nan())
    };
    let rows = logits.par_chunks_exact(columns.max(1)).zip(classes).with_min_len(ROWS_PER_TASK);
    let rows: Vec<(T, T, bool)> = rows.map(of_row).collect();
    // A sequential sum, so that the result does not depend on the number of threads.
    let judged = rows.iter().fold([T::ZERO; 2], |[loss, correct], &(_, entropy, is_correct)| {
        [loss + entropy, if is_correct { correct + T::ONE } else { correct }]
    });
    (judged, rows.into_iter().map(|(log_sum, _, _)| log_sum).collect())
}

/// Returns the gradient of the logits, `(softmax(logits) - one_hot(class)) * grad`, where `grad` is the gradient of the
/// sum.
pub(super) fn backward<T: Real>(logits: &[T], classes: &[usize], log_sums: &[T], grad: T) -> Vec<T> {
    let columns = logits.len() / classes.len().max(1);
    let fill = |first: usize, out: &mut [MaybeUninit<T>]| {
        for (row, out) in (first..).zip(out.chunks_exact_mut(columns)) {
            for (column, (out, &logit)) in out.iter_mut().zip(&logits[row * columns..]).enumerate() {
                let target = if classes[row] == column { T::ONE } else { T::ZERO };
                out.write(((logit - log_sums[row]).exp() - target) * grad);
            }
        }
    };
    // SAFETY: `fill` writes every value of every row.
    unsafe { vec_from_rows(classes.len(), columns, ROWS_PER_TASK, fill) }
}
