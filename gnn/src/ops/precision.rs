//! Float types in which factors of products and features on GPUs are stored.

use edgecut_settings::words;
use serde::{Deserialize, Serialize};

/// A float type in which a device multiplies numbers, or a GPU copies and stores features. Sums are always accumulated in
/// `f32`.
///
/// The CPU multiplies in `f32` and `bf16`. On AMD's CPUs with AVX-512 BF16 instructions, products in `bf16` are
/// faster; on others, factors are rounded and multiplied in `f32`, which gives the same results except for the order of sums and for subnormal
/// numbers (below 1.2e-38), which the instructions count as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits: 11 bits of precision, values up to 65,504.
    F16,
    /// 16 bits: 8 bits of precision, the range of `f32`.
    Bf16,
}

impl Precision {
    /// Returns the number of bytes per number.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

words!(Precision, "float type", F32 = "f32", F16 = "f16", Bf16 = "bf16");
