//! Products of matrices that fit into the caches: the limit of dense layers.

use super::on_threads::on_threads;
use super::{Limit, plural};
use crate::measure::timing::Timing;
use std::time::Instant;

/// The rows, columns and depth of each product.
const SIZE: usize = 256;
/// The target time of a repetition in seconds: long enough that starting threads does not matter.
const REPETITION_S: f64 = 0.05;

/// Times products of `f32` matrices on `threads` threads, each with its own matrices.
pub(crate) fn sgemm(threads: usize, reps: usize) -> anyhow::Result<Limit> {
    let mut products: Vec<Product> = (0..threads).map(|_| Product::new()).collect();
    let products_per_thread = calibrate(&mut products[0]);
    let timing = Timing::measure(reps, |stopwatch| {
        let (wall, cpu) = on_threads(products.iter_mut().collect(), |product: &mut Product| {
            for _ in 0..products_per_thread {
                product.compute();
            }
        });
        stopwatch.add(wall, cpu);
        Ok(())
    })?;
    let flops = 2.0 * (SIZE * SIZE * SIZE) as f64;
    let name = format!("sgemm {SIZE} x {SIZE} x {SIZE}, {}", plural(threads));
    Ok(Limit { timing: timing.per(products_per_thread), amount: flops * threads as f64, name })
}

/// Returns the number of products that take about [`REPETITION_S`].
fn calibrate(product: &mut Product) -> usize {
    // The first product warms up the caches.
    product.compute();
    let start = Instant::now();
    product.compute();
    (REPETITION_S / start.elapsed().as_secs_f64().max(1e-9)).ceil() as usize
}

/// Two square matrices, and the buffer for their product.
struct Product {
    left: Vec<f32>,
    right: Vec<f32>,
    result: Vec<f32>,
}

impl Product {
    fn new() -> Self {
        let filled = |value: f32| vec![value; SIZE * SIZE];
        Self { left: filled(0.5), right: filled(2.0), result: filled(0.0) }
    }

    fn compute(&mut self) {
        // The matrices are row-major: the next column is 1 element away, and the next row SIZE elements.
        let rows = 1;
        let columns = SIZE as isize;
        // SAFETY: all three matrices have SIZE x SIZE elements, the strides stay within them, and the result is
        // borrowed mutably and does not overlap the others.
        unsafe {
            gemm::gemm(
                SIZE,
                SIZE,
                SIZE,
                self.result.as_mut_ptr(),
                columns,
                rows,
                false,
                self.left.as_ptr(),
                columns,
                rows,
                self.right.as_ptr(),
                columns,
                rows,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        std::hint::black_box(&mut self.result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_one() {
        let mut product = Product::new();
        product.compute();
        assert!(product.result.iter().all(|&value| value == SIZE as f32));
    }
}
