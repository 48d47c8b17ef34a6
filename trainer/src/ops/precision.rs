//! Float types that GPUs store features in and multiply in.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A float type in which a GPU copies, stores or multiplies numbers. Sums are always accumulated in `f32`.
///
/// ```
/// use edgecut_trainer::ops::Precision;
/// assert_eq!("bf16".parse(), Ok(Precision::Bf16));
/// assert_eq!(Precision::F16.size(), 2);
/// ```
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

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err(format!("unknown float type {text:?}: use f32, f16 or bf16")),
        }
    }
}
