//! The elements of float tensors.

use std::ops::{Add, AddAssign, Mul};

/// An element of a float tensor.
pub(super) trait Real:
    Copy
    + Send
    + Sync
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + Mul<Output = Self>
    + AddAssign
    + bytemuck::Zeroable
    + burn::tensor::Element
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    fn from_f32(value: f32) -> Self;
    /// One over a number of neighbors, of which there is at least one.
    fn reciprocal(count: u32) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_f32(value: f32) -> Self {
        value
    }
    fn reciprocal(count: u32) -> Self {
        1.0 / count as f32
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }
    fn reciprocal(count: u32) -> Self {
        1.0 / f64::from(count)
    }
}
