//! The element types of float tensors.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use half::bf16;

#[cfg(target_arch = "x86_64")]
use super::bf16_kernel::{Bf16Products, Bf16Unit};
use super::products::{Matrix, Plain, Products};

/// The arithmetic that the CPU kernels need of an element of a float tensor.
pub(super) trait Real:
    Copy
    + Send
    + Sync
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + bytemuck::Zeroable
    + burn::tensor::Element
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    fn from_f32(value: f32) -> Self;
    /// Returns `1 / count` for a number of neighbors, which is at least 1.
    fn reciprocal(count: u32) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn from_f64(value: f64) -> Self;
    fn sqrt(self) -> Self;
    fn recip(self) -> Self;
    fn is_nan(self) -> bool;
    /// Returns the value rounded to the nearest `bf16`, ties to even.
    fn rounded_to_bf16(self) -> Self;
    /// Returns products with `right` of factors that are rounded to `bf16`.
    fn bf16_products<'a>(right: Matrix<'a, Self>) -> Box<dyn Products<Self> + 'a> {
        Box::new(Plain::rounded(right))
    }
}

/// Implements [`Real`] for a type by the type's own functions of these names, and by `$own`.
macro_rules! real {
    ($float:ident { $($own:tt)* }) => {
        impl Real for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $float::NEG_INFINITY;
            fn from_f32(value: f32) -> Self {
                value as $float
            }
            fn reciprocal(count: u32) -> Self {
                1.0 / count as $float
            }
            fn exp(self) -> Self {
                $float::exp(self)
            }
            fn ln(self) -> Self {
                $float::ln(self)
            }
            fn from_f64(value: f64) -> Self {
                value as $float
            }
            fn sqrt(self) -> Self {
                $float::sqrt(self)
            }
            fn recip(self) -> Self {
                $float::recip(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $float::is_nan(self)
            }
            $($own)*
        }
    };
}

real!(f32 {
    fn rounded_to_bf16(self) -> Self {
        bf16::from_f32(self).to_f32()
    }
    fn bf16_products<'a>(right: Matrix<'a, Self>) -> Box<dyn Products<Self> + 'a> {
        #[cfg(target_arch = "x86_64")]
        if let Some(unit) = Bf16Unit::detect_fast() {
            return Box::new(Bf16Products::new(unit, right));
        }
        Box::new(Plain::rounded(right))
    }
});

real!(f64 {
    fn rounded_to_bf16(self) -> Self {
        bf16::from_f64(self).to_f64()
    }
});
