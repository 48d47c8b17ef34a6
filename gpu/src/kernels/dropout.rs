//! Masks that are a function of a key, the same ones as on the CPU.

use cubecl::prelude::*;

use super::random::nth;

/// Values that share one 64-bit draw: 16 bits decide about each.
const LANES: usize = 4;

/// A dropout mask over the values of a tensor, in row-major order: of every four, the draw of their number gives 16 bits to
/// each; a value is kept, and multiplied by `scale`, if its bits are at least `threshold`.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// Names the draws.
    pub key: u64,
    /// From 0, which keeps all, to 65,536, which keeps none.
    pub threshold: u32,
    /// What is kept is multiplied by it.
    pub scale: f32,
}

impl Mask {
    /// The mask that keeps everything as it is.
    pub const KEEP: Self = Self { key: 0, threshold: 0, scale: 1.0 };

    pub(crate) fn arg<R: Runtime>(self) -> DrawsLaunch<R> {
        DrawsLaunch::new(self.key, self.threshold, self.scale, self.threshold == 0)
    }
}

/// A mask as kernels see it.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Draws {
    key: u64,
    threshold: u32,
    scale: f32,
    #[cube(comptime)]
    keeps_all: bool,
}

#[cube]
impl Draws {
    /// What value number `at` is multiplied by.
    pub(crate) fn factor(&self, at: usize) -> f32 {
        let mut factor = 1.0f32;
        if comptime!(!self.keeps_all) {
            factor = self.of_lane(nth(self.key, (at / LANES) as u64), at % LANES);
        }
        factor
    }

    /// Masks a vector whose first value has the number `at`.
    pub(crate) fn apply<N: Size>(&self, at: usize, values: Vector<f32, N>) -> Vector<f32, N> {
        let mut masked = values;
        if comptime!(!self.keeps_all) {
            let size = N::value();
            #[unroll]
            for i in 0..size {
                let factor = self.factor(at + i);
                // A choice and not a product: a dropped infinity must not become NaN.
                masked[i] = select(factor == 0.0, 0.0, values[i] * factor);
            }
        }
        masked
    }

    fn of_lane(&self, bits: u64, lane: usize) -> f32 {
        let level = (bits >> (16 * lane as u64)) as u32 & 0xffff;
        select(level >= self.threshold, self.scale, 0.0)
    }
}
