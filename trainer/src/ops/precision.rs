//! Float types by name.

use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A float type that a GPU copies, keeps or multiplies numbers in. Sums are always in `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with 11 of precision, up to 65,504.
    F16,
    /// 16 bits with 8 of precision and the range of `f32`.
    Bf16,
}

/// What products of dense layers are computed in on GPUs.
static PRODUCTS: OnceLock<Precision> = OnceLock::new();

/// From now on dense layers of this process multiply in `precision` on GPUs, sums of products rounded to it; all else stays `f32`:
/// mixed-precision training.
/// Only the first call has an effect; it belongs before the first model is computed.
pub fn multiply_in(precision: Precision) {
    PRODUCTS.get_or_init(|| precision);
}

thread_local! {
    static HERE: Cell<Option<Precision>> = const { Cell::new(None) };
}

/// Runs `work`, in which this thread multiplies in `precision` whatever [`multiply_in`] was given.
pub(crate) fn multiplying_in<T>(precision: Precision, work: impl FnOnce() -> T) -> T {
    let before = HERE.replace(Some(precision));
    let result = work();
    HERE.set(before);
    result
}

/// What products are to be computed in.
pub(crate) fn products() -> Precision {
    HERE.get().or_else(|| PRODUCTS.get().copied()).unwrap_or_default()
}

impl Precision {
    /// Bytes of a number.
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
            _ => Err(format!("{text:?} is no float type: give f32, f16 or bf16")),
        }
    }
}
