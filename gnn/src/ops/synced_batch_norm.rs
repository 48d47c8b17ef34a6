//! Batch normalization over the rows of all ranks as one operation.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Shape, Tensor, TensorData, TensorMetadata};

use super::batch_norm::BatchNormalization;
use super::batch_norm_sync::BatchNormSync;
use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};
use super::row_statistics::RowStatistics;

/// A batch normalization over the rows of all ranks.
#[derive(Debug, Clone)]
struct SyncedBatchNorm {
    normalization: BatchNormalization,
    sync: BatchNormSync,
}

/// The rows of this rank with the statistics by which they were normalized.
#[derive(Debug, Clone)]
pub struct NormalizedRows<B: Backend> {
    /// `[rows, channels]`.
    pub x: FloatTensor<B>,
    /// `[channels]`.
    pub gamma: FloatTensor<B>,
    /// The output after the activation, `[rows, channels]`.
    pub output: FloatTensor<B>,
    /// The statistics of the rows of all ranks.
    pub statistics: RowStatistics,
}

/// The tensors that the forward pass keeps for the backward pass.
#[derive(Debug, Clone)]
struct SavedSyncedNorm<B: Backend> {
    rows: NormalizedRows<B>,
    /// The number of the normalization in the step.
    number: usize,
    /// The shape and the type of the fourth input.
    previous: (Shape, DType),
}

/// The inputs are `x`, gamma, beta, and a tensor of the normalization before, which does not change the output.
impl<K: GnnKernels> Operation<K, 4> for SyncedBatchNorm {
    type Saved = SavedSyncedNorm<K>;
    /// The statistics of the rows of all ranks.
    type Extra = RowStatistics;

    fn forward(
        &self,
        [x, gamma, beta, previous]: [FloatTensor<K>; 4],
        _: bool,
    ) -> Forward<K, Self::Saved, Self::Extra> {
        let (number, statistics) = self.sync.forward(&K::row_statistics(x.clone()));
        let output = K::normalize_rows(x.clone(), gamma.clone(), beta, &statistics, self.normalization);
        let rows = NormalizedRows { x, gamma, output: output.clone(), statistics: statistics.clone() };
        let saved = SavedSyncedNorm { rows, number, previous: (previous.shape(), previous.dtype()) };
        Forward { output, extra: statistics, saved }
    }

    fn backward(self, saved: Self::Saved, grad: FloatTensor<K>, wanted: [bool; 4]) -> [Option<FloatTensor<K>>; 4] {
        let SavedSyncedNorm { rows, number, previous } = saved;
        let device = K::float_device(&grad);
        let own = K::gradient_sums(&rows, grad.clone(), self.normalization);
        let mut sums = own.clone();
        self.sync.backward(number, &mut sums);
        // The gradient of `x` depends on the means over all rows. Gradients of gamma and beta are summed over all ranks
        // with the other gradients.
        let num_rows = rows.statistics.num_rows.max(1.0);
        let means: Vec<f64> = sums.iter().map(|sum| sum / num_rows).collect();
        let dtype = rows.gamma.dtype();
        let (of_beta, of_gamma) = own.split_at(own.len() / 2);
        let [of_beta, of_gamma] = [of_beta, of_gamma].map(|sums| parameter::<K>(sums, dtype, &device));
        let mut of_previous = None;
        if wanted[3] {
            let (shape, dtype) = previous;
            of_previous = Some(K::float_zeros(shape, &device, dtype.into()));
        }
        let of_x = K::gradient_of_rows(rows, grad, &means, self.normalization);
        [Some(of_x), Some(of_gamma), Some(of_beta), of_previous]
    }
}

/// Makes the gradient of a parameter.
fn parameter<K: Backend>(values: &[f64], dtype: DType, device: &K::Device) -> FloatTensor<K> {
    K::float_from_data(TensorData::new(values.to_vec(), [values.len()]).convert_dtype(dtype), device)
}

/// Computes [`batch_norm`](fn@super::batch_norm) with the mean and the variance of each column over the rows of all ranks.
/// Also returns these statistics.
///
/// In the backward pass, the gradient of `x` contains the part of the loss of other ranks that depends on the rows of
/// this rank. The gradients of gamma and beta come from this rank's rows.
///
/// # Shapes
/// - `x` and output: `[rows, channels]`, with another number of rows on each rank, which may be 0
/// - `gamma`, `beta`: `[channels]`
///
/// # Panics
/// If the shapes do not match.
pub fn synced_batch_norm<B: GnnBackend>(
    x: Tensor<B, 2>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
    normalization: BatchNormalization,
    sync: &BatchNormSync,
) -> (Tensor<B, 2>, RowStatistics) {
    let [_, channels] = x.dims();
    assert_eq!(
        (gamma.dims(), beta.dims()),
        ([channels], [channels]),
        "synced_batch_norm: columns of x against gamma and beta"
    );
    // Two normalizations that do not depend on each other have no order in the backward pass, and ranks may differ in it.
    // With the output of the normalization before as an input, all ranks have the reverse order of the forward pass.
    let previous = match sync.previous::<B>() {
        Some(output) => output.into_primitive(),
        None => gamma.clone().into_primitive(),
    };
    let operation = SyncedBatchNorm { normalization, sync: sync.clone() };
    let inputs = [x.into_primitive(), gamma.into_primitive(), beta.into_primitive(), previous];
    let (output, statistics) = compute(operation, inputs);
    sync.set_previous(&output);
    (output, statistics)
}
