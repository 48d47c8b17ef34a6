//! Feature rows on their way to a device.

use burn::tensor::Tensor;
use edgecut_gnn::ops::{GnnBackend, GnnKernels, Precision, constant};
use rayon::prelude::*;

/// Returns a batch's features on `device`: the given rows, copied in `precision`, combined with the cached rows that
/// `kept` selects by slot.
pub(crate) fn place_rows<B: GnnBackend>(
    values: Vec<f32>,
    (shape, precision): ([usize; 2], Precision),
    kept: Option<(&Tensor<B, 2>, &[u32])>,
    device: &B::Device,
) -> Tensor<B, 2> {
    let rows = B::Kernels::place(values, shape, precision, device);
    let kept = kept.map(|(table, slots)| (B::into_plain(table.clone().into_primitive().tensor()), slots));
    constant::<B, 2>(B::Kernels::assemble(rows, kept))
}

/// Divides each row by its sum, or by 1 if the sum is less.
pub(crate) fn normalize_rows(features: &mut [f32], dim: usize) {
    features.par_chunks_exact_mut(dim.max(1)).with_min_len(64).for_each(|row| {
        let sum = row.iter().sum::<f32>().max(1.0);
        row.iter_mut().for_each(|value| *value /= sum);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_by_their_sums_or_by_1() {
        // The sums are 4, 0.5, 0 and -2.
        let mut rows = [1.0, 3.0, 0.25, 0.25, 0.0, 0.0, -3.0, 1.0];
        normalize_rows(&mut rows, 2);
        assert_eq!(rows, [0.25, 0.75, 0.25, 0.25, 0.0, 0.0, -3.0, 1.0]);
    }
}
