//! Dropout whose mask is a function of a key instead of the state of a process-wide generator.

use burn::tensor::Tensor;
use burn::tensor::ops::FloatTensor;
use edgecut_graph::rng::{CounterRng, combine};
use rayon::prelude::*;

use super::gnn_backend::{GnnBackend, compute};
use super::gnn_kernels::GnnKernels;
use super::operation::{Forward, Operation};
use super::real::Real;

/// The number of elements that share one 64-bit draw: 16 bits decide for each.
const LANES: usize = 4;
/// The number of values of 16 bits.
const LEVELS: u32 = 1 << 16;

/// The random key of a dropout mask. The same key drops the same elements for any number of threads and on any backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropoutKey(u64);

// The constants below are the ASCII codes of "RANK", "LAYER" and "TYPE". They keep, for example, the key of rank 1
// apart from the key of layer 1.
impl DropoutKey {
    /// Makes the key of a training step.
    pub fn new(seed: u64, epoch: u64, step: u64) -> Self {
        Self(combine(combine(combine(0xD0, seed), epoch), step))
    }

    /// Derives the key of one rank. Ranks train on different seeds, so they need different masks.
    pub fn for_rank(self, rank: u64) -> Self {
        Self(combine(self.0 ^ 0x5241_4E4B, rank))
    }

    /// Derives the key of one layer.
    pub fn for_layer(self, layer: u64) -> Self {
        Self(combine(self.0 ^ 0x4C41_5945_5200, layer))
    }

    /// Derives the key of one node type or edge type, for layers that have one tensor per type.
    pub fn for_type(self, number: u64) -> Self {
        Self(combine(self.0 ^ 0x5459_5045, number))
    }
}

/// A mask over the elements of a tensor in row-major order. An element of the mask is 0 with probability `p` and
/// `1 / (1 - p)` otherwise (Srivastava et al., "Dropout", JMLR 2014, inverted as in PyTorch).
///
/// The probability is rounded to a multiple of 2⁻¹⁶. The scale is computed from the rounded probability, so
/// expectations are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropoutMask {
    key: DropoutKey,
    threshold: u32,
}

impl DropoutMask {
    /// Makes the mask of `key`. The probability is clamped to `[0, 1]`; NaN counts as 0.
    pub fn new(probability: f64, key: DropoutKey) -> Self {
        Self { key, threshold: (probability.clamp(0.0, 1.0) * f64::from(LEVELS)).round() as u32 }
    }

    /// Returns this mask with the key of one node type or edge type ([`DropoutKey::for_type`]).
    pub fn for_type(self, number: u64) -> Self {
        Self { key: self.key.for_type(number), ..self }
    }

    /// Returns whether the mask keeps every element.
    fn is_identity(&self) -> bool {
        self.threshold == 0
    }

    /// Returns the key of the draws, and the threshold: an element is kept if its 16 bits reach it.
    #[cfg(feature = "cuda")]
    pub(super) fn draws(self) -> (u64, u32) {
        (self.key.0, self.threshold)
    }

    /// Returns the factor of kept elements; 0 if no element is kept.
    pub(super) fn scale(&self) -> f32 {
        if self.threshold == LEVELS { 0.0 } else { LEVELS as f32 / (LEVELS - self.threshold) as f32 }
    }

    /// Returns the factor of the element at the row-major position `element`.
    #[inline(always)]
    pub(super) fn factor<T: Real>(self, element: usize) -> T {
        if self.is_identity() {
            return T::ONE;
        }
        let bits = CounterRng::new(self.key.0).nth((element / LANES) as u64);
        let level = (bits >> (16 * (element % LANES))) as u32 & (LEVELS - 1);
        if level >= self.threshold { T::from_f32(self.scale()) } else { T::ZERO }
    }

    /// Masks the `LANES` elements that start at position `LANES * group`.
    #[inline(always)]
    fn apply_to_group<T: Real>(self, group: u64, scale: T, values: &mut [T; LANES]) {
        let bits = CounterRng::new(self.key.0).nth(group);
        for (lane, value) in values.iter_mut().enumerate() {
            let level = (bits >> (16 * lane)) as u32 & (LEVELS - 1);
            // A selection instead of a product, because 0 times infinity would be NaN.
            *value = if level >= self.threshold { *value * scale } else { T::ZERO };
        }
    }

    /// Multiplies by the mask in place, in parallel. `values` are all elements of a tensor in row-major order.
    pub(super) fn apply<T: Real>(self, values: &mut [T]) {
        const CHUNK: usize = 1 << 14;
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
            pulp::Arch::new().dispatch(|| self.apply_from(chunk * CHUNK, values));
        });
    }

    /// Multiplies by the mask in place, on this thread. `values` are consecutive elements of a tensor in row-major
    /// order; the first one has position `start`.
    ///
    /// # Panics
    /// If `start` is not a multiple of [`LANES`].
    #[inline(always)]
    pub(super) fn apply_from<T: Real>(self, start: usize, values: &mut [T]) {
        assert!(start.is_multiple_of(LANES), "dropout: element {start} is not the start of a group of {LANES}");
        if self.is_identity() {
            return;
        }
        let scale = T::from_f32(self.scale());
        let first_group = (start / LANES) as u64;
        let (groups, rest) = values.as_chunks_mut::<LANES>();
        let num_groups = groups.len() as u64;
        for (group, values) in (first_group..).zip(groups) {
            self.apply_to_group(group, scale, values);
        }
        // The last elements may fill only a part of a group.
        let mut last = [T::ZERO; LANES];
        last[..rest.len()].copy_from_slice(rest);
        self.apply_to_group(first_group + num_groups, scale, &mut last);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// The product with the mask.
impl<K: GnnKernels> Operation<K, 1> for DropoutMask {
    type Saved = ();
    type Extra = ();

    fn forward(&self, [x]: [FloatTensor<K>; 1], _: bool) -> Forward<K, ()> {
        Forward { output: K::dropout_multiply(x, *self), extra: (), saved: () }
    }

    fn backward(self, (): (), grad: FloatTensor<K>, _: [bool; 1]) -> [Option<FloatTensor<K>>; 1] {
        [Some(K::dropout_multiply(grad, self))]
    }
}

/// Drops each element with `probability` and scales up the others.
///
/// # Shapes
/// - `x` and output: any
pub fn dropout<B: GnnBackend, const D: usize>(x: Tensor<B, D>, probability: f64, key: DropoutKey) -> Tensor<B, D> {
    masked(x, DropoutMask::new(probability, key))
}

/// Multiplies the elements of `x` by a mask.
///
/// # Shapes
/// - `x` and output: any
pub fn masked<B: GnnBackend, const D: usize>(x: Tensor<B, D>, mask: DropoutMask) -> Tensor<B, D> {
    if mask.is_identity() {
        return x;
    }
    compute(mask, [x.into_primitive()]).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_their_rate_and_expectation() {
        for probability in [0.1, 0.5, 0.9] {
            let mut values = vec![1.0f64; 400_001];
            DropoutMask::new(probability, DropoutKey::new(3, 1, 4)).apply(&mut values);
            let dropped = values.iter().filter(|value| **value == 0.0).count() as f64 / values.len() as f64;
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((dropped - probability).abs() < 0.004, "dropped {dropped} at {probability}");
            assert!((mean - 1.0).abs() < 0.02, "mean {mean} at {probability}");
        }
    }

    #[test]
    fn the_ends_keep_all_and_nothing() {
        let key = DropoutKey::new(0, 0, 0);
        assert!(DropoutMask::new(0.0, key).is_identity() && DropoutMask::new(f64::NAN, key).is_identity());
        let mut values = vec![f32::INFINITY; 9];
        DropoutMask::new(1.0, key).apply(&mut values);
        assert_eq!(values, [0.0; 9]);
    }

    #[test]
    fn one_factor_is_that_of_the_whole_mask() {
        let mask = DropoutMask::new(0.4, DropoutKey::new(5, 6, 7));
        let mut values = vec![1.0f64; 403];
        mask.apply(&mut values);
        let factors: Vec<f64> = (0..403).map(|element| mask.factor(element)).collect();
        assert_eq!(values, factors);
    }

    #[test]
    fn keys_differ_in_every_part() {
        let base = DropoutKey::new(1, 2, 3);
        let keys = [
            base,
            DropoutKey::new(0, 2, 3),
            DropoutKey::new(1, 3, 2),
            DropoutKey::new(1, 2, 4),
            base.for_rank(0),
            base.for_rank(1),
            base.for_layer(0),
            base.for_layer(1),
            base.for_rank(1).for_layer(0),
            base.for_type(0),
            base.for_type(1),
            base.for_layer(1).for_type(1),
        ];
        for (position, key) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(key), "key {position} repeats");
        }
    }
}
