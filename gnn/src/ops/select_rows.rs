//! Selection of rows.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorPrimitive};

/// Returns the rows with the numbers `wanted`, in their order.
///
/// `Tensor::select` computes the same, but is also compiled for quantized tensors: in burn-ndarray for each pair of number
/// types.
///
/// # Shapes
/// - `rows`: `[num, columns]`
/// - output: `[num_wanted, columns]`
pub fn select_rows<B: Backend, N: Copy + Into<i64>>(rows: &Tensor<B, 2>, wanted: &[N]) -> Tensor<B, 2> {
    let wanted: Vec<i64> = wanted.iter().map(|&row| row.into()).collect();
    let wanted = Tensor::<B, 1, Int>::from_data(&wanted[..], &rows.device());
    let selected = B::float_select(rows.clone().into_primitive().tensor(), 0, wanted.into_primitive());
    Tensor::from_primitive(TensorPrimitive::Float(selected))
}
