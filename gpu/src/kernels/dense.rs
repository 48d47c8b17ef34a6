//! The operations of dense layers after the matrix product: bias, ReLU and dropout, and their backward passes.

use cubecl::prelude::*;

use super::dropout::{Draws, Mask};
use super::grid::{addresses, row_number, rows};
use super::matrix::{Matrix, Rows, vector_size, with_element};

/// The operation on each value after the bias.
#[derive(Clone, Copy, Debug)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// The positive part, which keeps NaN, followed by a mask.
    Relu(Mask),
}

impl Activation {
    pub(crate) fn mask(self) -> Mask {
        match self {
            Self::Identity => Mask::KEEP,
            Self::Relu(mask) => mask,
        }
    }

    pub(crate) fn is_relu(self) -> bool {
        matches!(self, Self::Relu(_))
    }
}

/// Returns the positive part. A comparison with NaN is false, so NaN is kept.
#[cube]
pub(crate) fn rectify<N: Size>(values: Vector<f32, N>) -> Vector<f32, N> {
    let mut positive = values;
    let size = N::value();
    #[unroll]
    for i in 0..size {
        positive[i] = select(values[i] < 0.0, 0.0, values[i]);
    }
    positive
}

/// Returns `grad * scale` where the output is positive, else zero. A positive output was positive before the
/// activation, and was not dropped.
#[cube]
pub(crate) fn passed<N: Size>(grad: Vector<f32, N>, output: Vector<f32, N>, scale: f32) -> Vector<f32, N> {
    let mut passed = grad;
    let size = N::value();
    #[unroll]
    for i in 0..size {
        passed[i] = select(output[i] > 0.0, grad[i] * scale, 0.0);
    }
    passed
}

/// Adds the bias, and applies ReLU and the mask, in place.
#[cube(launch_unchecked, address_type = "dynamic")]
fn activate_in_place<E: Float, B: Float, N: Size>(
    values: &mut Rows<E, N>,
    bias: &Rows<B, N>,
    draws: &Draws,
    num_rows: usize,
    lanes: usize,
    #[comptime] relu: bool,
) {
    let row = row_number();
    if row < num_rows {
        let size = N::value();
        let mut lane = UNIT_POS_X as usize;
        while lane < lanes {
            let mut value = values.get(row, lane) + bias.get(0, lane);
            if relu {
                value = draws.apply((row * lanes + lane) * size, rectify(value));
            }
            values.set(row, lane, value);
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Computes `activation(values + bias)` in place of `values`, whose rows must be contiguous. `bias` is `[1, columns]`.
pub fn activate<R: Runtime>(client: &ComputeClient<R>, values: &Matrix, bias: &Matrix, activation: Activation) {
    if values.rows == 0 || values.columns == 0 {
        return;
    }
    let vector = vector_size(&[values, bias]);
    let lanes = values.columns / vector;
    let (count, dim) = rows(values.rows, lanes);
    with_element!(values.element, E => with_element!(bias.element, B => {
        // SAFETY: threads beyond the rows and lanes do nothing.
        unsafe {
            activate_in_place::launch_unchecked::<E, B, R>(
                client, count, dim, addresses(&[values.span()]), vector,
                values.arg(vector), bias.arg(vector), activation.mask().arg(), values.rows, lanes, activation.is_relu(),
            );
        }
    }));
}

/// Applies [`passed`] to each value.
#[cube(launch_unchecked, address_type = "dynamic")]
fn pass_back<E: Float, N: Size>(
    grad: &Rows<E, N>,
    output: &Rows<E, N>,
    out: &mut Rows<E, N>,
    scale: f32,
    num_rows: usize,
    lanes: usize,
) {
    let row = row_number();
    if row < num_rows {
        let mut lane = UNIT_POS_X as usize;
        while lane < lanes {
            out.set(row, lane, passed(grad.get(row, lane), output.get(row, lane), scale));
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Returns the gradient before ReLU and a mask, from the gradient after them and their output.
///
/// # Panics
/// Panics if the gradient and the output have different element types.
pub fn before_relu<R: Runtime>(client: &ComputeClient<R>, grad: &Matrix, output: &Matrix, mask: Mask) -> Matrix {
    assert_eq!(grad.element, output.element, "element types of a gradient and its output");
    let out = Matrix::empty(client, [grad.rows, grad.columns], grad.element);
    if grad.rows == 0 || grad.columns == 0 {
        return out;
    }
    let vector = vector_size(&[grad, output]);
    let lanes = grad.columns / vector;
    let (count, dim) = rows(grad.rows, lanes);
    with_element!(grad.element, E => {
        // SAFETY: threads beyond the rows and lanes do nothing.
        unsafe {
            pass_back::launch_unchecked::<E, R>(
                client, count, dim, addresses(&[grad.span(), output.span()]), vector,
                grad.arg(vector), output.arg(vector), out.arg(vector), mask.scale, grad.rows, lanes,
            );
        }
    });
    out
}

/// Applies a mask to each value.
#[cube(launch_unchecked, address_type = "dynamic")]
fn apply_mask<E: Float, N: Size>(x: &Rows<E, N>, draws: &Draws, out: &mut Rows<E, N>, num_rows: usize, lanes: usize) {
    let row = row_number();
    if row < num_rows {
        let size = N::value();
        let mut lane = UNIT_POS_X as usize;
        while lane < lanes {
            out.set(row, lane, draws.apply((row * lanes + lane) * size, x.get(row, lane)));
            lane += CUBE_DIM_X as usize;
        }
    }
}

/// Returns `x` times a mask over its values in row-major order.
pub fn masked<R: Runtime>(client: &ComputeClient<R>, x: &Matrix, mask: Mask) -> Matrix {
    let out = Matrix::empty(client, [x.rows, x.columns], x.element);
    if x.rows == 0 || x.columns == 0 {
        return out;
    }
    let vector = vector_size(&[x]);
    let lanes = x.columns / vector;
    let (count, dim) = rows(x.rows, lanes);
    with_element!(x.element, E => {
        // SAFETY: threads beyond the rows and lanes do nothing.
        unsafe {
            apply_mask::launch_unchecked::<E, R>(
                client, count, dim, addresses(&[x.span()]), vector, x.arg(vector), mask.arg(), out.arg(vector), x.rows, lanes,
            );
        }
    });
    out
}
