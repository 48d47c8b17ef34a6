//! The parts of a batch normalization over all ranks by the operations of any backend.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Tensor, TensorData, TensorMetadata, TensorPrimitive};

use super::batch_norm::BatchNormalization;
use super::gnn_kernels::GnnKernels;
use super::host_values::host_values;
use super::linear::Activation;
use super::row_statistics::RowStatistics;
use super::synced_batch_norm::NormalizedRows;

/// Returns the statistics of rows.
pub(super) fn row_statistics<K: Backend>(x: FloatTensor<K>) -> RowStatistics {
    let rows = in_f32::<K>(x);
    let [num_rows, channels] = rows.dims();
    if num_rows == 0 {
        return RowStatistics::without_rows(channels);
    }
    // Two passes, because a difference of squares would lose the variance of columns far from zero.
    let means = rows.clone().mean_dim(0);
    let variances = (rows - means.clone()).powi_scalar(2).mean_dim(0);
    RowStatistics::from_values(num_rows, on_host(vec![means, variances]))
}

/// Normalizes rows, and applies the activation.
pub(super) fn normalize_rows<K: GnnKernels>(
    x: FloatTensor<K>,
    gamma: FloatTensor<K>,
    beta: FloatTensor<K>,
    statistics: &RowStatistics,
    normalization: BatchNormalization,
) -> FloatTensor<K> {
    let dtype = x.dtype();
    let scale = as_row::<K>(gamma) * inverse_deviations::<K>(statistics, normalization, &K::float_device(&x));
    let rows = deviations::<K>(x, statistics) * scale + as_row::<K>(beta);
    let output = in_type(rows, dtype);
    match normalization.activation {
        Activation::Identity => output,
        Activation::Relu(mask) => K::relu_forward(output, mask),
    }
}

/// Returns the sums of the gradients before the activation over the rows: the gradient of beta, then the gradient of
/// gamma.
pub(super) fn gradient_sums<K: GnnKernels>(
    rows: &NormalizedRows<K>,
    grad: FloatTensor<K>,
    normalization: BatchNormalization,
) -> Vec<f64> {
    let device = K::float_device(&grad);
    let grad = before_activation(rows, grad, normalization);
    let inverses = inverse_deviations::<K>(&rows.statistics, normalization, &device);
    let normalized = deviations::<K>(rows.x.clone(), &rows.statistics) * inverses;
    on_host(vec![grad.clone().sum_dim(0), (grad * normalized).sum_dim(0)])
}

/// Returns the gradient of rows from the means of [`gradient_sums`] over the rows of all ranks:
/// `gamma / deviation * (grad - mean(grad) - normalized * mean(grad * normalized))`.
pub(super) fn gradient_of_rows<K: GnnKernels>(
    rows: NormalizedRows<K>,
    grad: FloatTensor<K>,
    means: &[f64],
    normalization: BatchNormalization,
) -> FloatTensor<K> {
    let device = K::float_device(&grad);
    let dtype = rows.x.dtype();
    let grad = before_activation(&rows, grad, normalization);
    let inverses = inverse_deviations::<K>(&rows.statistics, normalization, &device);
    let normalized = deviations::<K>(rows.x, &rows.statistics) * inverses.clone();
    let (of_beta, of_gamma) = means.split_at(means.len() / 2);
    let rest = grad - row_of::<K>(of_beta, &device) - normalized * row_of::<K>(of_gamma, &device);
    in_type(rest * (as_row::<K>(rows.gamma) * inverses), dtype)
}

/// Returns the gradient before the activation.
fn before_activation<K: GnnKernels>(
    rows: &NormalizedRows<K>,
    grad: FloatTensor<K>,
    normalization: BatchNormalization,
) -> Tensor<K, 2> {
    in_f32::<K>(match normalization.activation {
        Activation::Identity => grad,
        Activation::Relu(mask) => <K as GnnKernels>::relu_backward(rows.output.clone(), grad, mask),
    })
}

fn deviations<K: Backend>(x: FloatTensor<K>, statistics: &RowStatistics) -> Tensor<K, 2> {
    let device = K::float_device(&x);
    in_f32::<K>(x) - row_of::<K>(&statistics.means, &device)
}

/// Returns `1 / sqrt(variance + epsilon)` of each column, `[1, channels]`.
fn inverse_deviations<K: Backend>(
    statistics: &RowStatistics,
    normalization: BatchNormalization,
    device: &K::Device,
) -> Tensor<K, 2> {
    let variances = &statistics.variances;
    let inverses: Vec<f64> =
        variances.iter().map(|variance| (variance + normalization.epsilon).sqrt().recip()).collect();
    row_of::<K>(&inverses, device)
}

/// Returns values as a row, `[1, values]`.
fn row_of<K: Backend>(values: &[f64], device: &K::Device) -> Tensor<K, 2> {
    let data = TensorData::new(values.to_vec(), [1, values.len()]).convert_dtype(DType::F32);
    of_primitive(K::float_from_data(data, device))
}

/// Returns a parameter as a row, `[1, channels]`.
fn as_row<K: Backend>(parameter: FloatTensor<K>) -> Tensor<K, 2> {
    Tensor::<K, 1>::from_primitive(TensorPrimitive::Float(K::float_cast(parameter, DType::F32.into()))).unsqueeze()
}

/// Returns a matrix with elements of type `f32`, in which statistics are computed.
fn in_f32<K: Backend>(x: FloatTensor<K>) -> Tensor<K, 2> {
    of_primitive(K::float_cast(x, DType::F32.into()))
}

fn in_type<K: Backend>(rows: Tensor<K, 2>, dtype: DType) -> FloatTensor<K> {
    K::float_cast(rows.into_primitive().tensor(), dtype.into())
}

fn of_primitive<K: Backend>(x: FloatTensor<K>) -> Tensor<K, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

/// Reads rows, one after the other. Waits for their device once.
fn on_host<K: Backend>(rows: Vec<Tensor<K, 2>>) -> Vec<f64> {
    host_values(Tensor::cat(rows, 0)).into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{DropoutKey, DropoutMask};
    use burn::tensor::ops::FloatTensorOps;

    type Cpu = burn_ndarray::NdArray;

    fn tensor(shape: &[usize], seed: usize) -> FloatTensor<Cpu> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 25.0 - 1.5).collect();
        Cpu::float_from_data(TensorData::new(values, shape.to_vec()), &Default::default())
    }

    fn assert_close(found: &[f64], expected: &[f64], what: &str) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
        }
    }

    fn host(x: FloatTensor<Cpu>) -> Vec<f64> {
        host_values(of_primitive::<Cpu>(x)).into_iter().map(f64::from).collect()
    }

    /// The kernels of the CPU are the faster implementation of the same functions.
    #[test]
    fn operations_of_any_backend_equal_the_kernels_of_the_cpu() {
        let relu = Activation::Relu(DropoutMask::new(0.3, DropoutKey::new(4, 5, 6)));
        for activation in [Activation::Identity, relu] {
            let normalization = BatchNormalization { epsilon: 1e-5, activation };
            let [x, grad] = [1, 2].map(|seed| tensor(&[300, 5], seed));
            let [gamma, beta] = [3, 4].map(|seed| tensor(&[5], seed));
            let own = Cpu::row_statistics(x.clone());
            let found = row_statistics::<Cpu>(x.clone());
            assert_eq!(found.num_rows, own.num_rows);
            let [found, expected] = [&found, &own].map(|statistics| statistics.values().collect::<Vec<_>>());
            assert_close(&found, &expected, "statistics");
            // The statistics of other rows as well.
            let variances = own.variances.iter().map(|variance| variance * 1.5).collect();
            let statistics = RowStatistics { num_rows: 450.0, means: vec![0.1; 5], variances };
            let [found, expected] = [normalize_rows::<Cpu>, <Cpu as GnnKernels>::normalize_rows]
                .map(|normalize| normalize(x.clone(), gamma.clone(), beta.clone(), &statistics, normalization));
            assert_close(&host(found), &host(expected.clone()), "output");
            let rows = NormalizedRows { x, gamma, output: expected, statistics };
            let expected = Cpu::gradient_sums(&rows, grad.clone(), normalization);
            assert_close(&gradient_sums(&rows, grad.clone(), normalization), &expected, "sums");
            let means: Vec<f64> = expected.iter().map(|sum| sum / 450.0).collect();
            let found = gradient_of_rows(rows.clone(), grad.clone(), &means, normalization);
            assert_close(&host(found), &host(Cpu::gradient_of_rows(rows, grad, &means, normalization)), "gradient");
        }
    }
}
