//! Float types that GPUs store features in and multiply in.

use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A float type in which a GPU copies, stores or multiplies numbers. Sums are always accumulated in `f32`.
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

/// The process-wide precision of dense layers' products on GPUs.
static PRODUCTS: OnceLock<Precision> = OnceLock::new();

/// Makes the dense layers of this process multiply in `precision` on GPUs (mixed-precision training).
///
/// The sums of products are rounded to `precision`; all other operations stay in `f32`. Only the first call has an
/// effect. Call it before the first model is computed.
pub fn multiply_in(precision: Precision) {
    PRODUCTS.get_or_init(|| precision);
}

thread_local! {
    /// The precision that [`multiplying_in`] sets for this thread.
    static HERE: Cell<Option<Precision>> = const { Cell::new(None) };
}

/// Runs `work` with products of this thread in `precision`, overriding [`multiply_in`].
pub(crate) fn multiplying_in<T>(precision: Precision, work: impl FnOnce() -> T) -> T {
    let before = HERE.replace(Some(precision));
    let result = work();
    HERE.set(before);
    result
}

/// Returns the precision of products on this thread.
pub(crate) fn products() -> Precision {
    HERE.get().or_else(|| PRODUCTS.get().copied()).unwrap_or_default()
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
