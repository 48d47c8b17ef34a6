//! The element types of float tensors.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

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
}
