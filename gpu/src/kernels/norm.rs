//! Batch normalization with activation and dropout, and its backward pass.

use cubecl::prelude::*;

use super::columns::{column_sums, deviation_products, squared_deviations};
use super::dense::{Activation, before_relu, rectify};
use super::dropout::Draws;
use super::grid::{addresses, row_number, rows, threads, unit_number};
use super::matrix::{Element, Matrix, Rows, array, vector_size, with_element};

/// Writes `sums / rows` to one of the rows of the statistics.
#[cube(launch_unchecked)]
fn place_means(sums: &Array<f32>, statistics: &mut Array<f32>, first: usize, columns: usize, rows: f32) {
    let column = unit_number();
    if column < columns {
        statistics[first + column] = sums[column] / rows;
    }
}

/// Returns `gamma * (x - mean) / sqrt(variance + epsilon) + beta` with the activation applied (Ioffe & Szegedy 2015),
/// and the statistics: the mean and the biased variance of each column of `x`.
///
/// # Shapes
/// - `x` and output: `[rows, channels]`, of one element type
/// - `gamma`, `beta`: `[1, channels]`, of one element type
/// - statistics: `[2, channels]`, means followed by variances, `f32`
pub fn batch_norm<R: Runtime>(
    client: &ComputeClient<R>,
    x: &Matrix,
    [gamma, beta]: [&Matrix; 2],
    epsilon: f32,
    activation: Activation,
) -> (Matrix, Matrix) {
    let columns = x.columns;
    let out = Matrix::empty(client, [x.rows, columns], x.element);
    if x.rows == 0 || columns == 0 {
        return (out, Matrix::zeros(client, [2, columns], Element::F32));
    }
    let statistics = Matrix::empty(client, [2, columns], Element::F32);
    // Two passes, because a difference of squares would lose the variance of columns far from zero.
    let place = |sums: &Matrix, first: usize| {
        let (count, dim) = threads(columns);
        // SAFETY: threads beyond the columns do nothing.
        unsafe {
            place_means::launch_unchecked::<R>(
                client,
                count,
                dim,
                array(&sums.handle, columns),
                array(&statistics.handle, 2 * columns),
                first,
                columns,
                x.rows as f32,
            );
        }
    };
    place(&column_sums(client, x, Element::F32), 0);
    place(&squared_deviations(client, x, &statistics), columns);
    let vector = vector_size(&[x, gamma, beta]);
    let lanes = columns / vector;
    let (count, dim) = rows(x.rows, lanes);
    with_element!(x.element, E => with_element!(gamma.element, P => {
        let scale = NormLaunch::new(statistics.arg(vector), gamma.arg(vector), epsilon);
        // SAFETY: threads beyond the rows and lanes do nothing.
        unsafe {
            normalize::launch_unchecked::<E, P, R>(
                client, count, dim, addresses(&[x.span()]), vector,
                x.arg(vector), scale, beta.arg(vector), activation.mask().arg(), out.arg(vector), x.rows, lanes,
                activation.is_relu(),
            );
        }
    }));
    (out, statistics)
}

/// The statistics and scales by which columns are normalized.
#[derive(CubeType, CubeLaunch)]
struct Norm<P: Float, N: Size> {
    /// Means, followed by variances.
    statistics: Rows<f32, N>,
    gamma: Rows<P, N>,
    epsilon: f32,
}

#[cube]
impl<P: Float, N: Size> Norm<P, N> {
    fn inverse_deviation(&self, lane: usize) -> Vector<f32, N> {
        let variance = self.statistics.get(1, lane) + Vector::new(self.epsilon);
        Vector::new(1.0) / Vector::sqrt(variance)
    }

    fn deviation(&self, value: Vector<f32, N>, lane: usize) -> Vector<f32, N> {
        value - self.statistics.get(0, lane)
    }
}

/// Normalizes, scales and shifts each value, and applies the activation.
#[cube(launch_unchecked, address_type = "dynamic")]
fn normalize<E: Float, P: Float, N: Size>(
    x: &Rows<E, N>,
    norm: &Norm<P, N>,
    beta: &Rows<P, N>,
    draws: &Draws,
    out: &mut Rows<E, N>,
    num_rows: usize,
    lanes: usize,
    #[comptime] relu: bool,
) {
    let row = row_number();
    if row < num_rows {
        let size = N::value();
        let mut lane = UNIT_POS_X as usize;
        while lane < lanes {
            let scale = norm.gamma.get(0, lane) * norm.inverse_deviation(lane);
            let mut value = norm.deviation(x.get(row, lane), lane) * scale + beta.get(0, lane);
            if relu {
                value = draws.apply((row * lanes + lane) * size, rectify(value));
            }
            out.set(row, lane, value);
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Computes the gradient of gamma: the sum of `grad * (x - mean)`, times the inverse deviation.
#[cube(launch_unchecked)]
fn gamma_of_products<P: Float, N: Size>(
    products: &Rows<f32, N>,
    norm: &Norm<P, N>,
    out: &mut Rows<f32, N>,
    lanes: usize,
) {
    let lane = unit_number();
    if lane < lanes {
        out.set(0, lane, products.get(0, lane) * norm.inverse_deviation(lane));
    }
}

/// Computes the gradient of the input:
/// `gamma / deviation * (grad - mean(grad) - normalized * mean(grad * normalized))`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn to_input<E: Float, P: Float, N: Size>(
    grad: &Rows<E, N>,
    x: &Rows<E, N>,
    norm: &Norm<P, N>,
    of_gamma: &Rows<f32, N>,
    of_beta: &Rows<f32, N>,
    out: &mut Rows<E, N>,
    num_rows: usize,
    lanes: usize,
) {
    let row = row_number();
    if row < num_rows {
        let per_row = Vector::<f32, N>::new(1.0 / f32::cast_from(num_rows));
        let mut lane = UNIT_POS_X as usize;
        while lane < lanes {
            let inverse = norm.inverse_deviation(lane);
            let normalized = norm.deviation(x.get(row, lane), lane) * inverse;
            let rest =
                grad.get(row, lane) - of_beta.get(0, lane) * per_row - normalized * of_gamma.get(0, lane) * per_row;
            out.set(row, lane, norm.gamma.get(0, lane) * inverse * rest);
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// The tensors that the forward pass of a batch normalization saves for the backward pass.
#[derive(Clone, Copy, Debug)]
pub struct SavedNorm<'a> {
    /// `[rows, channels]`.
    pub x: &'a Matrix,
    /// `[1, channels]`.
    pub gamma: &'a Matrix,
    /// The output after the activation, `[rows, channels]`.
    pub output: &'a Matrix,
    /// Means, followed by variances, `[2, channels]`, `f32`.
    pub statistics: &'a Matrix,
}

/// Returns the gradients of `x`, gamma and beta from that of the output. The latter two are `[1, channels]` in `f32`.
pub fn batch_norm_backward<R: Runtime>(
    client: &ComputeClient<R>,
    saved: SavedNorm<'_>,
    grad: &Matrix,
    epsilon: f32,
    activation: Activation,
) -> [Matrix; 3] {
    let SavedNorm { x, gamma, output, statistics } = saved;
    let columns = x.columns;
    let out = Matrix::empty(client, [x.rows, columns], x.element);
    if x.rows == 0 || columns == 0 {
        return [
            out,
            Matrix::zeros(client, [1, columns], Element::F32),
            Matrix::zeros(client, [1, columns], Element::F32),
        ];
    }
    let before;
    let grad = match activation {
        Activation::Identity => grad,
        Activation::Relu(mask) => {
            before = before_relu(client, grad, output, mask);
            &before
        }
    };
    let of_beta = column_sums(client, grad, Element::F32);
    let products = deviation_products(client, grad, x, statistics);
    let of_gamma = Matrix::empty(client, [1, columns], Element::F32);
    let vector = vector_size(&[x, gamma, grad]);
    let lanes = columns / vector;
    let (count, dim) = rows(x.rows, lanes);
    with_element!(x.element, E => with_element!(gamma.element, P => {
        let (few, small) = threads(lanes);
        let norm = NormLaunch::new(statistics.arg(vector), gamma.arg(vector), epsilon);
        // SAFETY: threads beyond the lanes do nothing.
        unsafe {
            gamma_of_products::launch_unchecked::<P, R>(
                client, few, small, vector, products.arg(vector), norm, of_gamma.arg(vector), lanes,
            );
        }
        let norm = NormLaunch::new(statistics.arg(vector), gamma.arg(vector), epsilon);
        // SAFETY: threads beyond the rows and lanes do nothing.
        unsafe {
            to_input::launch_unchecked::<E, P, R>(
                client, count, dim, addresses(&[x.span(), grad.span()]), vector,
                grad.arg(vector), x.arg(vector), norm, of_gamma.arg(vector), of_beta.arg(vector), out.arg(vector), x.rows, lanes,
            );
        }
    }));
    [out, of_gamma, of_beta]
}
