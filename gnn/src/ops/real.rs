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

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
    fn from_f32(value: f32) -> Self {
        value
    }
    fn reciprocal(count: u32) -> Self {
        1.0 / count as f32
    }
    fn exp(self) -> Self {
        f32::exp(self)
    }
    fn ln(self) -> Self {
        f32::ln(self)
    }
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
    fn recip(self) -> Self {
        f32::recip(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
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
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;
    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }
    fn reciprocal(count: u32) -> Self {
        1.0 / f64::from(count)
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    fn ln(self) -> Self {
        f64::ln(self)
    }
    fn from_f64(value: f64) -> Self {
        value
    }
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    fn recip(self) -> Self {
        f64::recip(self)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    fn rounded_to_bf16(self) -> Self {
        bf16::from_f64(self).to_f64()
    }
}
