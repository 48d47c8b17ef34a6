//! Dropout masks as a function of a key, the same as on the CPU.

use cubecl::prelude::*;

use super::random::nth;

/// The number of values that share a 64-bit draw, which has 16 bits for each.
const LANES: usize = 4;

/// A dropout mask over the values of a tensor in row-major order. Draw `i` of the key has 16 bits for each of the
/// values `4 i` to `4 i + 3`. A value is kept, and multiplied by `scale`, if its bits are at least `threshold`.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// The key of the random draws.
    pub key: u64,
    /// The threshold from 0, which keeps all values, to 65,536, which drops all.
    pub threshold: u32,
    /// The factor of the kept values.
    pub scale: f32,
}

impl Mask {
    /// The mask that keeps all values unchanged.
    pub const KEEP: Self = Self { key: 0, threshold: 0, scale: 1.0 };

    pub(crate) fn arg<R: Runtime>(self) -> DrawsLaunch<R> {
        DrawsLaunch::new(self.key, self.threshold, self.scale, self.threshold == 0)
    }
}

/// A mask in the form that kernels take.
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
    /// Returns the factor of the value with number `at`.
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
                // A selection instead of a product, because a dropped infinity must not become NaN.
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
