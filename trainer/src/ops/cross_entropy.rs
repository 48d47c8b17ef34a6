//! Cross entropy of logits and classes as one operation.

use burn::tensor::backend::Backend;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{Int, Tensor, TensorPrimitive};
use edgecut_graph::uninit::vec_from_rows;
use rayon::prelude::*;
use std::mem::MaybeUninit;

use super::aggregate::GnnBackend;
use super::real::Real;

/// Rows of one task.
const ROWS_PER_TASK: usize = 128;

/// What the forward pass of a cross entropy leaves for the backward pass.
#[derive(Debug, Clone)]
pub struct SavedCrossEntropy<B: Backend> {
    /// `[rows, classes]`.
    pub logits: FloatTensor<B>,
    /// `[rows]`.
    pub classes: IntTensor<B>,
    /// The logarithm of the sum of a row's exponentials, `[rows]`.
    pub log_sums: FloatTensor<B>,
}

/// The sum over the rows of `-log softmax(logits)[class]`; and it again, with the number of rows whose greatest logit, the
/// first if there are several, is their class's. A row whose entropy is no number, as one with a NaN, is not correct. What
/// comes second has no gradient.
///
/// # Shapes
/// - `logits`: `[rows, classes]`
/// - `classes`: `[rows]`, each from 0 to the number of classes less one, which callers check
/// - output: `[1]` and `[2]`
///
/// # Panics
/// If there is not one class per row.
pub fn cross_entropy_sum<B: GnnBackend>(
    logits: Tensor<B, 2>,
    classes: Tensor<B, 1, Int>,
) -> (Tensor<B, 1>, Tensor<B, 1>) {
    assert_eq!([logits.dims()[0]], classes.dims(), "cross_entropy_sum: rows against classes");
    let (sum, judged) = B::gnn_cross_entropy(logits.into_primitive().tensor(), classes.into_primitive());
    let tensor = |primitive| Tensor::from_primitive(TensorPrimitive::Float(primitive));
    (tensor(sum), tensor(judged))
}

/// The sum of the rows' entropies and the number of correct rows, and the logarithms of the rows' sums.
pub(super) fn forward<T: Real>(logits: &[T], classes: &[usize]) -> ([T; 2], Vec<T>) {
    let columns = logits.len() / classes.len().max(1);
    let of_row = |(row, &class): (&[T], &usize)| {
        let mut at = 0;
        for (column, &logit) in row.iter().enumerate() {
            if logit > row[at] {
                at = column;
            }
        }
        let greatest = row[at];
        let total = row.iter().fold(T::ZERO, |total, &logit| total + (logit - greatest).exp());
        let log_sum = greatest + total.ln();
        (log_sum, log_sum - row[class], at == class && !log_sum.is_nan())
    };
    let rows = logits.par_chunks_exact(columns.max(1)).zip(classes).with_min_len(ROWS_PER_TASK);
    let rows: Vec<(T, T, bool)> = rows.map(of_row).collect();
    let judged = rows.iter().fold([T::ZERO; 2], |[loss, correct], &(_, entropy, is_correct)| {
        [loss + entropy, if is_correct { correct + T::ONE } else { correct }]
    });
    (judged, rows.into_iter().map(|(log_sum, _, _)| log_sum).collect())
}

/// The gradient of the logits for that of the sum.
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
    // SAFETY: every value of every row is written.
    unsafe { vec_from_rows(classes.len(), columns, ROWS_PER_TASK, fill) }
}
